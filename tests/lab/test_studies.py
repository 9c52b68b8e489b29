"""Every study as it stands in the table: arms that can be run, claims about what they measure, one thing changed."""

import pytest

from spicejax import configs
from spicejax.lab import runs, studies, tables
from spicejax.lab.studies import STUDIES
from spicejax.run import chain


@pytest.mark.parametrize("name", STUDIES)
def test_its_arms_can_be_run(name, tmp_path):
    planned = runs.planned(STUDIES[name], tmp_path, 2, [])
    assert len(planned) == 2 * len(STUDIES[name].arms) == len({run.folder for run in planned})
    for arm in STUDIES[name].arms.values():
        stages = chain.override(configs.stages(arm.recipe), arm.fields)
        assert all(stage.nano or name.endswith("smollm2") for stage in stages), "a study runs on a laptop"


@pytest.mark.parametrize("name", STUDIES)
def test_its_claims_are_about_its_arms(name):
    places = [place for claim in STUDIES[name].claims for place in (claim.more, claim.less)]
    assert places and {place.arm for place in places} <= set(STUDIES[name].arms)
    assert {place.quantity for place in places} <= set(tables.QUANTITIES)


def test_the_issue_of_a_shared_run(tmp_path):
    """SPICE's own runs are those of three studies: made once."""
    folders = {
        run.folder
        for name in ("roles", "baselines", "coevolution")
        for run in runs.planned(STUDIES[name], tmp_path, 1, [])
    }
    assert len(folders) == 4 + 4 + 1 - 2


def test_other_fields_make_other_runs(tmp_path):
    """A finished run is never taken for one with other fields; where models are kept makes no difference."""

    def folders(*fields):
        return {run.folder for run in runs.planned(STUDIES["rewards"], tmp_path, 1, fields)}

    assert not folders() & folders("iterations=2")
    assert folders("nano.cache=here") == folders()


def test_a_field_that_no_arm_has_is_refused(tmp_path):
    with pytest.raises(ValueError, match="learner.learning_rat"):
        runs.planned(STUDIES["rewards"], tmp_path, 1, ["learner.learning_rat=1e-4"])


def test_numbers_of_the_paper_point_where_the_claim_says():
    """Each claim with two numbers has the larger one first."""
    for study in STUDIES.values():
        for claim in study.claims:
            if ">" in claim.paper:
                more, less = (float(part.split()[0]) for part in claim.paper.split(" > "))
                assert more > less, claim
    assert studies.above("a", {"b": "1"}, "2")[0].paper == "2 > 1"

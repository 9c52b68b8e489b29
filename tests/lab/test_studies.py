"""Every study as it stands in the table: arms that can be run, claims about what they measure, one thing changed."""

import pytest

from spicejax import config as configuration
from spicejax.games import catalogue
from spicejax.lab import runs, tables
from spicejax.lab.studies import STUDIES
from spicejax.report import glossary
from spicejax.worlds.nano import linked

WORLD = linked.facts(0)
NAME, (RELATION, ANSWER) = next((name, next(iter(facts.items()))) for name, facts in WORLD.leads.items())
EVERY_KIND = [(f"{RELATION} of {NAME}?", answer, "") for answer in (ANSWER, "nobody")]


@pytest.mark.parametrize("name", STUDIES)
def test_its_arms_can_be_run(name, tmp_path):
    planned = runs.planned(STUDIES[name], tmp_path, 2, [])
    assert len(planned) == 2 * len(STUDIES[name].arms) == len({run.folder for run in planned})
    stages = [stage for run in planned for stage in run.configured]
    small = ("smollm2", "qwen0p5b")
    assert all(stage.nano or stage.name.endswith(small) for stage in stages), "a study runs on a laptop"


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


def test_an_arm_of_the_same_recipe_changes_its_own_fields_alone(tmp_path):
    """What an arm says is all that differs from the first one."""
    for name in ("rewards", "ssp_opponents", "ssp_buffers", "ssp_noise", "r1_rewards", "ace_algorithms"):
        first, *others = runs.planned(STUDIES[name], tmp_path, 1, [])
        for run in others:
            if run.arm.recipe != first.arm.recipe:
                continue
            given = {field.partition("=")[0].lstrip("0123456789.") for field in run.arm.fields}
            pairs = zip(first.configured, run.configured, strict=True)
            changed = {path for a, b in pairs for path, *_ in configuration.diff(a, b)}
            assert changed == given, (name, run.name)


@pytest.mark.parametrize("quantity", tables.QUANTITIES)
def test_a_quantity_is_one_that_games_measure(quantity):
    known = [glossary.meaning(quantity, catalogue.game(name).game.about) for name in catalogue.GAMES]
    assert any(known) or quantity in linked.measured(WORLD, EVERY_KIND)


def test_what_a_study_sets_itself_is_refused(tmp_path):
    with pytest.raises(ValueError, match="seed=3.*--seeds"):
        runs.planned(STUDIES["rewards"], tmp_path, 1, ["seed=3"])
    with pytest.raises(ValueError, match=r"eval\.tasks=none"):
        runs.planned(STUDIES["rewards"], tmp_path, 1, ["eval.tasks=none"])


def test_numbers_of_the_paper_have_the_larger_one_first():
    """A claim with two numbers says that the first is more."""
    for study in STUDIES.values():
        for claim in study.claims:
            if ">" in claim.paper:
                more, less = (float(part.split()[0]) for part in claim.paper.split(" > "))
                assert more > less, claim

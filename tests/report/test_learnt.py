"""What a run learnt from, and what is said where that was nothing."""

import re

import pytest

from spicejax import config as configuration
from spicejax import configs
from spicejax.games import catalogue
from spicejax.report.learnt import learnt, still

BY_NAME = {name: catalogue.game(name).game.about for name in catalogue.GAMES}
STEP, NONE = {"learner/steps": 1.0}, {"learner/steps": 0.0}


@pytest.mark.parametrize(
    ("game", "row", "why"),
    [
        ("spice", {"challenger/valid_fraction": 0.5, "rejected/ungrounded": 9} | STEP, ""),
        (
            "spice", {"challenger/valid_fraction": 0.0, "rejected/ungrounded": 5, "rejected/truncated": 3} | NONE,
            r"no reply is a valid task; commonest reason: ungrounded \(5 of 8\): spice.grounding=none takes .*",
        ),
        ("spice", {"challenger/valid_fraction": 0.0, "rejected/reply_too_long": 1} | NONE, ".*tasks in the report.*"),
        ("ssp", {"proposer/valid": 0.0, "rejected/short": 2} | STEP, r".*short \(2 of 2\): lower ssp.rules.min_words"),
        ("acesearcher", {"decomposer/valid": 0.0, "rejected/cut_off": 2} | NONE, ".*raise acesearcher.plan_max_new"),
        (
            "acesearcher", {"decomposer/valid": 1.0, "fault/sub_answer": 2, "fault/too_long": None} | NONE,
            r"there was nothing to .* reason: sub answer \(2 of 2\): raise acesearcher.answer_max_new",
        ),
        (
            "rlvr", {"reasoner/mean_reward": 0.0, "reasoner/truncated": 0.9} | NONE,
            r"all answers .*: reasoner 0.00\); .* 90% of the reasoner's replies are cut off: raise rlvr.max_new",
        ),
        ("rlvr", {"reasoner/mean_reward": 1.0, "reasoner/truncated": 0.0} | NONE, ".*neither too easy nor too hard.*"),
        ("rlvr", {"reasoner/too_long": 64.0} | NONE, r".*reasoner too long \(64 of 64\): raise .*buckets.prompt"),
        ("supervised", {"reasoner/too_long": 0.0} | STEP, ""),
        ("supervised", {"learner/steps_at_rate_0": 0.0} | STEP, ""),
        ("supervised", {"learner/steps_at_rate_0": 1.0} | STEP, "the learning rate has fallen to 0, .*decay_steps=0"),
    ],
)  # fmt: skip
def test_an_iteration_that_teaches_nothing_says_why(game, row, why):
    found = learnt([row], BY_NAME[game])
    assert re.fullmatch(why, found.why), found.why
    assert found.idle == bool(why) and found.steps == row["learner/steps"]


def test_a_run_is_summed_and_warns_only_where_all_of_it_was_idle():
    idle = {"challenger/valid_fraction": 0.0, "rejected/ungrounded": 5} | NONE
    good = {"challenger/valid_fraction": 0.5} | STEP
    assert learnt([idle, good, idle], BY_NAME["spice"]) == (1, pytest.approx(0.5 / 3), 2, "", 0)
    assert "(10 of 10)" in learnt([idle, idle], BY_NAME["spice"]).why
    ended = good | {"learner/steps_at_rate_0": 1.0}
    assert (half := learnt([good, ended, ended], BY_NAME["spice"])) == (3, 0.5, 2, "", 2)
    assert half.rate.startswith(", 2 at a learning rate of 0") and not learnt([good], BY_NAME["spice"]).rate
    assert learnt([idle], None)[:3] == (0, None, 1), "a run whose game is not known"
    assert learnt([{"iteration": 0}], BY_NAME["spice"]) == learnt([], BY_NAME["spice"]) == (0, None, 0, "", 0)


def test_a_role_whose_groups_are_always_equal_is_named_after_many_iterations():
    row = {"judge/equal_groups": 1.0, "solver/equal_groups": 0.5} | STEP
    assert not still([row] * 9, "judge") and not still([row] * 10, "solver") and not still([row] * 10, "writer")
    assert still([row] * 10, "judge").startswith("the judge learnt nothing in 10 iterations: what is compared earned ")
    assert not still([row] * 10 + [row | {"judge/equal_groups": 0.9}], "judge")


@pytest.mark.parametrize("name", catalogue.GAMES)
def test_fixes_name_fields_that_there_are(name):
    cls = catalogue.game(name)
    cfg = next(c for recipe in configs.names() for c in configs.stages(recipe) if isinstance(c.game, cls))
    fields = {path for path, _ in configuration.leaves(cfg)}
    sections = "|".join({path.partition(".")[0] for path in fields if "." in path})
    named = re.findall(rf"\b(?:{sections})\.[a-z_.]*[a-z_]", " ".join(cls.game.about.fixes.values()))
    assert named and set(named) <= fields | {path.rpartition(".")[0] for path in fields}, set(named) - fields

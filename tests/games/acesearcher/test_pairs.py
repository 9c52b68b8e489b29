"""Which replies are paired: the best and the worst."""

import functools
import itertools
import operator
from fractions import Fraction

import numpy as np
from scripted import written

from spicejax.games.acesearcher import pairs, rewards
from spicejax.games.acesearcher.paths import Path
from spicejax.games.acesearcher.plans import Plan
from spicejax.types import Task

PLAN = Plan(("a?", "b of #1?", "c?"))


def path(*answers: str, final: str | None = "x", plan: Plan = PLAN) -> Path:
    made = Path(Task("q?", "a", "String"), plan, 0)
    for k, answer in enumerate(answers):
        made.answers[k], made.replies[k] = answer, written(answer, prompt=f"{k} {answers[:k]}")
    made.final = written(final, prompt=f"final {answers}") if final else None
    return made


def worth(*numbers) -> list[Fraction]:
    return [Fraction(str(number)) for number in numbers]


def plan_pairs(*means):
    replies = [written(str(k)) for k in range(len(means))]
    return [(good.text, bad.text) for good, bad in pairs.of_plans(replies, [worth(mean) for mean in means])]


def test_the_best_plan_against_the_worst():
    assert plan_pairs(0.5, 0.75, 0.25) == [("1", "2")]
    assert plan_pairs(0.0, 0.5, 0.5) == [("1", "0")], "of equal ones the first"
    assert plan_pairs(0.5, 0.5, 0.5) == [], "ties teach nothing"


def test_plans_of_the_same_worth_are_no_pair_whatever_the_order_of_their_paths():
    """Sums of floats depend on it (`sum` itself hides that from Python 3.12 on)."""
    right, said = (
        "blue river Danube",
        ["Danube", "river Danube", "old river", "blue old river", "Rhine", "blue river Danube"],
    )
    worths = [rewards.reward(each, [right], formed=True, kind="summed") for each in said]
    apart = 0
    for own in itertools.combinations_with_replacement(worths, 4):
        orders = list(itertools.permutations(own))
        apart += len({functools.reduce(operator.add, map(float, order)) for order in orders}) > 1
        assert all(pairs.of_plans([written("a"), written("b")], [own, o]) == [] for o in orders)
    assert apart, "or floats would have done"


def test_plans_of_one_text_differ_by_luck_alone():
    assert pairs.of_plans([written("a"), written("a")], [worth(3), []]) == []


def test_the_best_path_against_the_worst():
    paths = [path(str(k)) for k in range(4)]
    assert pairs.of_paths(paths, worth(0, 1, 1, 0)) == [(paths[1], paths[0])]
    assert pairs.of_paths(paths, worth(1, 1, 1, 1)) == pairs.of_paths([], []) == []


def test_sub_answers_that_differ_are_paired_under_the_better_ones_prompt():
    good, bad = path("a", "b", "c"), path("a", "x", "y")
    found = pairs.sub_answers(good, bad)
    assert [(b.text, w.text) for b, w in found] == [("b", "x"), ("c", "y")]
    assert all(np.array_equal(b.prompt_ids, w.prompt_ids) for b, w in found)
    assert [w.text for _, w in pairs.sub_answers(good, path("x"))] == ["x"], "a path that broke off"


def test_final_replies_are_paired_if_both_are_there_and_differ():
    good = path("a", final="<answer>1</answer>")
    ((better, worse),) = pairs.finals(good, path("b", final="<answer>2</answer>"))
    assert worse.text == "<answer>2</answer>" and np.array_equal(better.prompt_ids, worse.prompt_ids)
    assert pairs.finals(good, path("a", final=None)) == pairs.finals(good, path("b", final=good.final.text)) == []

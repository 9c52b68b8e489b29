"""Which replies are paired: the paper's best and worst, and the public code's thresholds at their edges."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scripted import written

from spicejax.games.acesearcher import pairs, rewards
from spicejax.games.acesearcher.paths import Path
from spicejax.games.acesearcher.plans import Plan
from spicejax.types import Rejection, Task

PLAN = Plan(("a?", "b of #1?", "c?"))


def path(*answers: str, final: str | None = "x", plan: Plan = PLAN) -> Path:
    made = Path(Task("q?", "a", "String"), plan, 0)
    for k, answer in enumerate(answers):
        made.answers[k], made.replies[k] = answer, written(answer, prompt=f"{k} {answers[:k]}")
    made.final = written(final, prompt=f"final {answers}") if final else None
    return made


def worth(*numbers) -> list[Fraction]:
    return [Fraction(str(number)) for number in numbers]


def plan_pairs(means, read=None, rule="paper"):
    replies = [written(str(k)) for k in range(len(means))]
    found = pairs.of_plans(replies, read or [PLAN] * len(means), [worth(mean) for mean in means], rule)
    return [(good.text, bad.text) for good, bad in found]


def test_the_best_plan_against_the_worst():
    assert plan_pairs([0.5, 0.75, 0.25]) == [("1", "2")]
    assert plan_pairs([0.0, 0.5, 0.5]) == [("1", "0")], "of equal ones the first"
    assert plan_pairs([0.5, 0.5, 0.5]) == [], "ties teach nothing"


def test_plans_of_the_same_worth_are_no_pair_whatever_the_order_of_their_paths():
    """Sums of floats depend on it."""
    right, said = (
        "blue river Danube",
        ["Danube", "river Danube", "old river", "blue old river", "Rhine", "blue river Danube"],
    )
    worths = [rewards.reward(each, [right], formed=True, kind="summed") for each in said]
    apart = 0
    for own in itertools.combinations_with_replacement(worths, 4):
        orders = list(itertools.permutations(own))
        apart += len({sum(map(float, order)) for order in orders}) > 1
        assert all(pairs.of_plans([written("a"), written("b")], [PLAN] * 2, [own, o], "paper") == [] for o in orders)
    assert apart, "or floats would have done"


@pytest.mark.parametrize("rule", ["paper", "code"])
def test_plans_of_one_text_differ_by_luck_alone(rule):
    three, half = worth(3), worth(0.5)
    assert pairs.of_plans([written("a"), written("a")], [PLAN] * 2, [three, []], rule) == []
    kept = pairs.of_plans([written("a"), written("b"), written("a")], [PLAN] * 3, [three, [], half], rule)
    assert [(good.text, bad.text) for good, bad in kept] == [("a", "b")]


@pytest.mark.parametrize(
    ("means", "found"),
    [
        ([1.33, 0.0, 0.5], [("0", "1")]),  # a gap of 1.33 is enough
        ([1.3299, 0.0, 0.5], []),
        ([2.33, 1.0, 2.0], [("0", "1")]),  # the worst may have 1
        ([2.34, 1.01, 2.0], []),
        ([2.0, 2.0, 0.0], [("0", "2"), ("1", "2")]),  # all that tie
        ([2.0, 0.0, 0.0], [("0", "1"), ("0", "2")]),
    ],
)
def test_thresholds_of_the_public_code_for_plans(means, found):
    assert plan_pairs(means, rule="code") == found


def test_winners_of_the_code_that_are_too_long_lose():
    long, own = Plan(("?",) * 7), Plan(("the subquestion?",))
    assert plan_pairs([2.0, 2.0, 0.0], [PLAN, long, PLAN], "code") == [("0", "2"), ("0", "1")]
    assert plan_pairs([2.0, 2.0, 0.0], [own, PLAN, Rejection("cut_off")], "code") == [("1", "2"), ("1", "0")]
    assert plan_pairs([2.0, 0.0], [Plan(("?",) * 6), PLAN], "code") == [("0", "1")]


def test_the_best_path_against_the_worst():
    paths = [path(str(k)) for k in range(4)]
    assert pairs.of_paths(paths, worth(0, 1, 1, 0), "paper") == [(paths[1], paths[0])]
    assert pairs.of_paths(paths, worth(1, 1, 1, 1), "paper") == pairs.of_paths([], [], "paper") == []


@pytest.mark.parametrize(
    ("numbers", "count"),
    [
        ([1.34, 0.0, 0.0, 0.0], 1),
        ([1.33, 0.0, 0.0, 0.0], 0),  # more than 1.33
        ([3.0, 1.2, 3.0, 3.0], 2),  # the worst may have 1.2; the two best
        ([3.0, 1.21, 3.0, 3.0], 0),
        ([3.0, 2.0, 0.0, 0.0], 2),
    ],
)
def test_thresholds_of_the_public_code_for_paths(numbers, count):
    paths = [path("a", "b", "c") for _ in numbers]
    found = pairs.of_paths(paths, worth(*numbers), "code")
    assert len(found) == count
    of = {id(path): number for path, number in zip(paths, numbers, strict=True)}
    assert all(of[id(good)] > of[id(bad)] for good, bad in found)


def test_the_code_pairs_paths_that_share_two_thirds_of_their_sub_answers():
    good, near, far = path("a", "b", "c"), path("a", "b", "x"), path("a", "y", "x")
    assert pairs.of_paths([good, far, near], worth(3, 0, 0), "code") == [(good, near)]
    assert pairs.of_paths([good, far], worth(3, 0), "code") == []


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

"""Plans: what counts as one, and that an answer is put only where it is referred to."""

import pytest

from spicejax.games.acesearcher import plans
from spicejax.games.acesearcher.plans import Plan
from spicejax.types import Rejection


@pytest.mark.parametrize(
    "text",
    [
        "### Who wrote Hamlet?\n### When was #1 born?",
        "### Q1: Who wrote Hamlet?\n### Q2: When was #1 born?",
        "Sure:\n\n###Who wrote Hamlet?\n  ### 2. When was #1 born?  \n\nThat is all.",
        "#### Question 1: Who wrote Hamlet?\n### Sub-question 2) When was #1 born?",
    ],
)
def test_a_plan_is_read_whatever_stands_around_it(text):
    assert plans.parse(text, 6) == Plan(("Who wrote Hamlet?", "When was #1 born?"))


@pytest.mark.parametrize(("line", "question"), [
    ("### 3.5 percent of what?", "3.5 percent of what?"),
    ("### 2.5 million divided by 3?", "2.5 million divided by 3?"), ("### 1984: who wrote it?", "1984: who wrote it?"),
    ("### Step 2 of what?", "Step 2 of what?"), ("### #2: Who?", "Who?"), ("### 2. Who?", "Who?"),
    ("### 2: Who?", "Who?"), ("### Claim 2: It is so.", "It is so."), ("####1's child?", "#1's child?"),
    ("### #1: who is it?", "#1: who is it?"),
])  # fmt: skip
def test_a_label_is_taken_off_and_nothing_else(line, question):
    assert plans.parse(f"### Who?\n{line}", 2) == Plan(("Who?", question))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Who wrote Hamlet?", "no_subquestion"),
        ("", "no_subquestion"),
        ("### Who?\n### Q2:", "empty_subquestion"),
        ("\n".join(["### Who?"] * 4), "too_many"),
        ("### When was #1 born?", "bad_reference"),
        ("### Who?\n### When was #3 born?\n### Where?", "bad_reference"),
        ("### Who?\n### When was #0 born?", "bad_reference"),
    ],
)
def test_what_is_no_plan_is_named(text, reason):
    found = plans.parse(text, 3)
    assert isinstance(found, Rejection) and found.reason == reason


def test_bad_references_may_stay_as_they_are_written():
    plan = plans.parse("### When was #1 born?\n### Who is #1 of #2, #3 or #0?\n### Where?", 3, as_written=True)
    assert isinstance(plan, Plan) and plan.refers and plan.ready({}) == [0, 2] and plan.ready({0: "A", 2: "C"}) == [1]
    assert [plan.filled(k, {0: "A", 2: "C"}) for k in (0, 1)] == ["When was #1 born?", "Who is A of #2, #3 or #0?"]
    assert not Plan(("Who is #1?", "Who?")).refers


def test_references_never_eat_longer_ones_and_answers_are_not_read_again():
    plan = Plan((*(f"q{k}" for k in range(1, 11)), "is #1 older than #10, or #1's son?"))
    answers = {0: "#10", 9: "Bo"} | {k: "x" for k in range(1, 9)}
    assert plan.filled(10, answers) == "is #10 older than Bo, or #10's son?"


def test_sub_questions_are_ready_as_soon_as_what_they_refer_to_is_answered():
    plan = Plan(("a?", "b of #1?", "c?", "#2 and #3?"))
    assert plan.ready({}) == [0, 2]
    assert plan.ready({0: "A", 2: "C"}) == [1]
    assert plan.ready({0: "A", 1: "B"}) == [2]
    assert plan.ready({0: "A", 1: "B", 2: "C"}) == [3]
    assert plan.ready(dict.fromkeys(range(4), "")) == []


@pytest.mark.parametrize(("count", "each"), [(1, 15), (2, 7), (4, 3), (6, 2), (20, 1)])
def test_passages_are_shared_among_sub_questions(count, each):
    assert plans.shares(15, count) == each


def test_steps_are_listed_with_their_answers():
    assert plans.listed(Plan(("Who?", "When was #1 born?")), ["Bo", "1900"]) == (
        "#1: Who?\nAnswer: Bo\n#2: When was #1 born?\nAnswer: 1900"
    )

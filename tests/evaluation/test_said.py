"""An answer that stands anywhere in a text, and sets of questions that are scored by it."""

import jsonl
import pytest
from scripted import Scripted

from spicejax.data import questions
from spicejax.evaluation.said import said
from spicejax.evaluation.scores import held_out
from spicejax.games import reasoner
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.score.verifiers import Verifier
from spicejax.types import Task

OPTIONS = ("Paris", "Rome", "New York", "Oslo")


@pytest.mark.parametrize(("text", "answer", "kind", "right"), [
    ("The capital is **New  York**.", "New York", "String", True),
    ("It is newer than York.", "New York", "String", False), ("The Parisian way", "Paris", "String", False),
    ("It is \\boxed{\\text{Paris}}", "Paris", "String", True),
    ("That is USA, of course", "United States", "String", True),
    ("It has 1,200 members, in 1999", "1200", "Integer", True), ("It has 12000 members", "1200", "Integer", False),
    ("Yes, it is.", "true", "Boolean", True), ("No. Yes would be wrong.", "false", "Boolean", True),
    ("It is not true.", "true", "Boolean", False), ("Nobody knows", "false", "Boolean", False),
    ("The answer is C) New York", "C", "MCQ", True), ("C", "C", "MCQ", True),
    ("Paris or New York? C)", "C", "MCQ", True), ("B) it is", "C", "MCQ", False), ("A) Rome", "B", "MCQ", True),
    ("", "Paris", "String", False),
])  # fmt: skip
def test_said(text, answer, kind, right):
    task = Task("?", answer, kind, options=OPTIONS if kind == "MCQ" else (), aliases=("USA",) * (kind == "String"))
    assert said(text, task) == right


def test_an_answer_of_the_question_counts_in_its_own_case():
    task = Task("Write the word river in capital letters.", "RIVER", "String")
    assert said("It is RIVER.", task) and not said("river", task)


def test_suites_are_scored_apart(tmp_path):
    first = [{"question": q, "answer": a, "category": c} for q, a, c in (("capital?", "Rome", "a"), ("2+2?", "4", "b"))]
    plain = [{"question": "Write red.", "answer": "red", "boxed": False}] * 3
    for name, rows in (("first", first), ("plain", plain)):
        jsonl.write(tmp_path / f"{name}.jsonl", rows)
    items = questions.load_suites(f"{tmp_path}/first.jsonl, {tmp_path}/plain.jsonl", limit=2)
    assert [(item.suite, item.boxed) for item in items] == [("", True), ("", True), ("plain", False), ("plain", False)]
    assert questions.load_suites("") == []

    def answers(prompt, row):
        if "capital" in prompt:
            return "Rome it is"
        return "\\boxed{4}" if "2+2" in prompt else "red" if row == 2 else "blue"

    player = Scripted(answers)
    with Verifier() as verifier:
        world = World({"reasoner": player}, verifier.check, SamplerConfig(), seed=0, iteration=0)
        found, answered = held_out(world, items, reasoner.exam("full", 9))
    assert player.asked[2][0] == "Write red." and "boxed" in player.asked[0][0]
    assert found == {
        "eval/accuracy": 0.5, "eval/accuracy/a": 0.0, "eval/accuracy/b": 1.0,
        "eval/said": 1.0, "eval/said/a": 1.0, "eval/said/b": 1.0,
        "eval/truncated": 0.0, "eval/plain/said": 0.5, "eval/plain/truncated": 0.0,
    }  # fmt: skip
    assert [item.get("suite") for item in answered] == [None, None, "plain", "plain"]
    assert [(item["prediction"], item["scores"]["exact"]) for item in answered[:2]] == [(None, 0), ("4", 1)]
    assert "text" not in answered[0] and [item["scores"]["said"] for item in answered] == [1, 1, 1, 0]

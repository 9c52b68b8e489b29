"""The coded world: its answers are what Python says, the game reads its forms, nothing held out is trained on."""

import hashlib
import re

import pytest

from spicejax.games.absolute_zero import tasks
from spicejax.worlds.nano import coded

ITEMS = coded.items(3, 200, 100)
EXAMPLES = coded.warm_start_examples(3, 900)
ASKED = re.compile(r"(.+) \| (\d+|\?) = (-?\d+|\?)")


@pytest.mark.parametrize("name", ["questions", "held_out"])
def test_answers_are_what_python_says(name):
    for row in ITEMS[name]:
        text, given, made = ASKED.fullmatch(row["question"]).groups()
        x, value = (given, row["answer"]) if made == "?" else (row["answer"], made)
        assert eval(text, {"x": int(x)}) == int(value) and row["category"] == ("output" if made == "?" else "input")
        fits = [x for x in range(-500, 500) if eval(text, {"x": x}) == int(value)]
        assert made == "?" or len(fits) == 1, "only one input leads there"
    assert len({row["question"] for row in ITEMS[name]}) == len(ITEMS[name]) in (200, 100)


def test_the_game_reads_and_asks_what_the_warm_start_has_seen():
    kinds = set()
    for example in EXAMPLES:
        prompt, reply = example.prompt, example.parts[0].text
        if example.role == "proposer":
            kind = {"output": "deduction", "input": "abduction"}.get(prompt.split()[-1], "induction")
            program = f"def f(x):\n    return {prompt.splitlines()[0]}"
            task = tasks.read_proposal(kind, reply, "nano", program)
            assert task and len(task.inputs) == (coded.INPUTS if kind == "induction" else 1)
        else:
            kind = "induction" if prompt.endswith("\n?") else "deduction" if prompt.endswith(" = ?") else "abduction"
            assert tasks.read_answer(kind, reply, "nano")
        kinds.add((example.role, kind))
        if (example.role, kind) == ("solver", "deduction"):
            text, x, _ = ASKED.fullmatch(prompt).groups()
            made = tasks.Task(f"def f(x):\n    return {text}", (x,), ("0",))
            assert tasks.messages("solve_deduction", "nano", {}, [made])[0]["content"] == prompt
    assert len(kinds) == 6


def test_held_out_functions_are_not_in_the_warm_start():
    held_out = {row["question"].partition(" | ")[0] for row in ITEMS["held_out"]}
    told = {part for e in EXAMPLES for line in e.prompt.splitlines() for part in [line.partition(" | ")[0]]}
    assert len(held_out) > 30 and not held_out & told


def test_a_world_does_not_change():
    """Another one is another benchmark, whose numbers do not compare with those before."""
    assert hashlib.sha256(repr((ITEMS, EXAMPLES)).encode()).hexdigest()[:16] == "6938b395a90dbf7e"

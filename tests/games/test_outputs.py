"""Whatever a model writes, every reader and every rule of the verifier says something of it, and soon.

SPICEJAX_OUTPUTS=1000000 SPICEJAX_SEED=1 pytest tests/games/test_outputs.py tries so many; what fails is told with its
number and seed, and comes again by them.
"""

import os
import random
import time

import outputs
import pytest

from spicejax.evaluation.said import said
from spicejax.games import solver
from spicejax.games.absolute_zero import tasks as programs
from spicejax.games.acesearcher import plans
from spicejax.games.r_zero import game as r_zero
from spicejax.games.spice import formats
from spicejax.games.spice.formats import Rejection
from spicejax.score import answers, functions, judge, qa, verifiers
from spicejax.text import vocabulary
from spicejax.types import ANSWER_TYPES, Document, Task

SEED = int(os.environ.get("SPICEJAX_SEED", "0"))
LONG = 20.0  # seconds of processor time for one text: a hang, on any machine
DOCUMENT = Document("d", "Paris is the capital of France, at 48.85 degrees north.")
GOLDS = {"String": "Paris", "Integer": "42", "Float": "48.85", "Boolean": "yes", "List": "Paris, Rome", "MCQ": "B"}


def readers():
    """Every function that reads what a model wrote, by name."""
    found = {"task type": formats.parse_task_type}
    for kind in ANSWER_TYPES:
        for style in ("full", "simple", "nano"):
            found[f"task {kind} {style}"] = lambda text, kind=kind, style=style: formats.parse_task(
                text, kind=kind, document=DOCUMENT, style=style, grounding="answer"
            )
        gold = GOLDS.get(kind, "x^2 + 1")
        task = Task("Which?", gold, kind, options=("Rome", "Paris", "Oslo", "Bern") if kind == "MCQ" else ())
        found[f"verifier {kind}"] = lambda text, task=task: verifiers.check_text(text[:4000], task)
        found[f"said {kind}"] = lambda text, task=task: said(text, task)
    for kind in ("deduction", "abduction", "induction"):
        for style in ("full", "nano"):
            found[f"program {kind} {style}"] = lambda text, kind=kind, style=style: _allowed(
                programs.read_proposal(kind, text, style, "def f(x):\n    return x")
            )
            found[f"value {kind} {style}"] = lambda text, kind=kind, style=style: programs.read_answer(
                kind, text, style
            )
    for style in ("full", "simple", "nano"):
        found[f"question {style}"] = lambda text, style=style: r_zero.read(text, style)
    return found | {
        "plan": lambda text: plans.parse(text, 8),
        "reply with searches": lambda text: [solver.last_pair(text, ("<search>", "</search>")), solver.answer_in(text)],
        "box": lambda text: [answers.extract_answer(text), answers.after_thinking(text)],
        "judge": judge.agrees,
        "scores": lambda text: [qa.exact(text, ["Paris"]), qa.near(text, ["42"]), qa.f1(text, ["the Paris"]),
                                *(qa.covers(text, ["Paris"], kind) for kind in ("substring", "words", "either"))],
        "program": lambda text: [functions.forbidden(text), functions.literal(text)],
        "well formed": lambda text: vocabulary.well_formed(text).encode(),
    }  # fmt: skip


def _allowed(task):
    return task and programs.allowed(task)


@pytest.mark.parametrize(
    ("piece", "only"),
    [("\n", "reply with searches"), ("<question>", "question full"), pytest.param(None, "", marks=pytest.mark.slow)],
)
def test_no_piece_again_and_again_keeps_a_reader_for_long(piece, only):
    """The first two did: two minutes for as long a text."""
    assert any(only in name for name in readers())
    for each in outputs.PIECES if piece is None else [piece]:
        text = (each * 500_000)[: 50_000 if piece is None else 500_000]
        for name, read in readers().items():
            began = time.process_time()
            if only in name:
                read(text)
            assert time.process_time() - began < LONG, (name, each)


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_output_stops_a_reader_or_keeps_it_for_long(count):
    wrong, all_readers = [], readers()
    for number in range(int(os.environ.get("SPICEJAX_OUTPUTS", count))):
        text = outputs.output(random.Random(f"{SEED}/{number}"))
        for name, read in all_readers.items():
            began, told = time.process_time(), f"{name}, number {number} of seed {SEED}"
            try:
                found = read(text)
            except Exception as error:
                wrong.append(f"{told}: {type(error).__name__}: {error}")
                continue
            if isinstance(found, Rejection) and len(found.detail) > 1000:
                wrong.append(f"{told}: {len(found.detail)} characters of detail")
            if (took := time.process_time() - began) > LONG:
                wrong.append(f"{told}: {took:.0f} s for {len(text)} characters")
    assert not wrong, "\n".join([f"{len(wrong)} of them, such as", *wrong[:9]])

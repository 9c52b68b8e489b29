"""Replies of a Challenger and a Reasoner, made by rule from questions whose documents are known.

A supervised run learns them before SPICE where a model is too small to do what a request says: the form of a task,
that its answer is the document's, and short replies with a box. What is no valid task by the game's own rules is left
out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spicejax.data import problems, questions
from spicejax.games import reasoner
from spicejax.games.hops import Question, part
from spicejax.games.spice import formats
from spicejax.games.spice.game import SpiceConfig
from spicejax.score.answers import canonical_number
from spicejax.types import AnswerType, Document, Messages, Task

Row = dict[str, Any]  # of a jsonl of examples, see data/examples.py
EVERYDAY = "facts:everyday"  # what a Reasoner's form is shown on


@dataclasses.dataclass(frozen=True)
class Told:
    """A question with the document that tells its answer."""

    document: Document
    question: str
    answer: str


def examples(of: Sequence[Question], cfg: SpiceConfig, words: int, rng: np.random.Generator) -> Iterator[Row]:
    """The Challenger's, of questions of one hop and of half as many word problems; then the Reasoner's."""
    hops = [(q, q.hops[0]) for q in of if len(q.hops) == 1]
    told = [Told(Document("", part(hop.passage, hop.answer, words).text), q.question, hop.answer) for q, hop in hops]
    worked = problems.others(len(told) // 2)
    told += [Told(problem.document, problem.question, problem.answer) for problem in worked]
    yield from filter(None, (_challenger(each, told, cfg, rng) for each in told))
    for item in questions.load_items(EVERYDAY)[::3]:
        yield _reasoner(item.task.question, f"\\boxed{{{item.task.answer}}}", cfg)
    for problem in worked:
        yield _reasoner(problem.question, f"{problem.works} \\boxed{{{problem.answer}}}", cfg)


def _challenger(told: Told, all_told: Sequence[Told], cfg: SpiceConfig, rng: np.random.Generator) -> Row | None:
    """A task on the document; None where it is none by the game's rules.

    Where the game asks for multiple choice at all it is every second one, since its form is the harder one.
    """
    kind: AnswerType = "Integer" if canonical_number(told.answer) else "String"
    fields = {"question": told.question, "answer": told.answer}
    if cfg.mcq_fraction and rng.random() < 0.5:
        alike = {other.answer for other in all_told if _kind(other) == _kind(told)} - {told.answer}
        if len(alike) < 3:
            return None
        options = [told.answer, *(str(answer) for answer in rng.choice(sorted(alike), 3, replace=False))]
        order, kind = rng.permutation(4), "MCQ"
        lines = [f"{letter}) {options[i]}" for letter, i in zip(formats.LETTERS, order, strict=True)]
        right = formats.LETTERS[list(order).index(0)]
        fields = {"multiple_choice_question": "\n".join([told.question, *lines]), "multiple_choice_correct": right}
    reply = json.dumps(fields, ensure_ascii=False)
    task = formats.parse_task(
        reply, kind=kind, document=told.document, style=cfg.style, rules=cfg.validity,
        max_string_words=cfg.max_string_words, grounding=cfg.grounding,
    )  # fmt: skip
    messages = formats.challenger_messages(told.document, kind, cfg.style, cfg.templates)
    return _row("challenger", messages, reply) if isinstance(task, Task) else None


def _kind(told: Told) -> str:
    """What options of a multiple choice have in common."""
    return "number" if canonical_number(told.answer) else told.question.split()[0].lower()


def _reasoner(question: str, reply: str, cfg: SpiceConfig) -> Row:
    return _row("reasoner", reasoner.messages(question, cfg.style, cfg.templates), reply)


def _row(source: str, messages: Messages, reply: str) -> Row:
    return {"source": source, "messages": [*messages, {"role": "assistant", "content": reply}]}

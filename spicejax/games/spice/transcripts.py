"""Replies of a Challenger and a Reasoner, made by rule from questions whose documents are known.

A supervised run learns them before SPICE where a model is too small to do what a request says: the form of a task, an
answer that stands in the document, short replies with a box. What is no valid task by the game's own rules is left out.
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from spicejax.data import problems, questions
from spicejax.games import hops, reasoner
from spicejax.games.hops import Example, Question
from spicejax.games.spice import formats
from spicejax.games.spice.game import SpiceConfig, kinds_of
from spicejax.games.spice.validity import grounded
from spicejax.score.answers import canonical_number
from spicejax.types import AnswerType, Document, Task

EVERYDAY = "facts:everyday"  # what a Reasoner's form is shown on, every third of them


@dataclasses.dataclass(frozen=True)
class Fact:
    """A question with the document that contains its answer."""

    document: Document
    question: str
    answer: str

    @property
    def kind(self) -> AnswerType:
        """What is asked for."""
        return "Integer" if canonical_number(self.answer) else "String"

    @property
    def alike(self) -> str:
        """What the options of a multiple choice have in common: numbers, or answers to who, where, ..."""
        return self.kind if self.kind == "Integer" else self.question.split()[0].lower()


def examples(of: Sequence[Question], cfg: SpiceConfig, words: int, rng: np.random.Generator) -> Iterator[Example]:
    """The Challenger's, of questions of one hop and of half as many word problems; then the Reasoner's."""
    single = [(q, q.hops[0]) for q in of if len(q.hops) == 1]
    documents = [Document("", hops.segment(hop.passage, hop.answer, words).text) for _, hop in single]
    facts = [Fact(document, q.question, hop.answer) for document, (q, hop) in zip(documents, single, strict=True)]
    worked = problems.others(len(facts) // 2)
    facts += [Fact(problem.document, problem.question, problem.answer) for problem in worked]
    options: dict[str, set[str]] = collections.defaultdict(set)
    for fact in facts:
        options[fact.alike].add(fact.answer)
    yield from filter(None, (_challenger(fact, options, cfg, rng) for fact in facts))
    for item in questions.load_items(EVERYDAY)[::3]:
        yield _reasoner(item.task.question, f"\\boxed{{{item.task.answer}}}", cfg)
    for problem in worked:
        yield _reasoner(problem.question, f"{problem.works} \\boxed{{{problem.answer}}}", cfg)


def _challenger(
    fact: Fact, options: Mapping[str, set[str]], cfg: SpiceConfig, rng: np.random.Generator
) -> Example | None:
    """A task on the document; None where it is none by the game's rules, or of a kind that it does not ask for.

    Where the game asks for multiple choice beside others it is every second one, since its form is the harder one.
    """
    kinds, kind = kinds_of(cfg), fact.kind
    fields = {"question": fact.question, "answer": fact.answer}
    if "MCQ" in kinds and (len(kinds) == 1 or rng.random() < 0.5):
        wrong = sorted(options[fact.alike] - {fact.answer})
        if len(wrong) < 3:
            return None
        choice = [fact.answer, *(str(answer) for answer in rng.choice(wrong, 3, replace=False))]
        order, kind = rng.permutation(4), "MCQ"
        lines = [f"{letter}) {choice[i]}" for letter, i in zip(formats.LETTERS, order, strict=True)]
        right = formats.LETTERS[list(order).index(0)]
        fields = {"multiple_choice_question": "\n".join([fact.question, *lines]), "multiple_choice_correct": right}
    reply = json.dumps(fields, ensure_ascii=False)
    task = formats.parse_task(
        reply, kind=kind, document=fact.document, style=cfg.style, rules=cfg.validity,
        max_string_words=cfg.max_string_words, grounding=cfg.grounding,
    )  # fmt: skip
    if kind not in kinds or not isinstance(task, Task) or not grounded(fact.document.text, fact.answer, fact.kind):
        return None
    messages = formats.challenger_messages(fact.document, kind, cfg.style, cfg.templates)
    return hops.example("challenger", messages, reply)


def _reasoner(question: str, reply: str, cfg: SpiceConfig) -> Example:
    return hops.example("reasoner", reasoner.messages(question, cfg.style, cfg.templates), reply)

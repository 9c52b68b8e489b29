"""Replies of AceSearcher's roles, made by rule from questions whose way is known: a small mixture to begin with.

The paper's own mixture is `spicejax mix`; this one teaches a small model the form of a plan, of an answer from passages
and of a final answer, on the questions that a search game is played with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spicejax.games.acesearcher import paths, plans
from spicejax.games.acesearcher.config import AceSearcherConfig
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.hops import Question, drawn, part
from spicejax.games.solver import ANSWER
from spicejax.types import Messages, Passage, Task

Row = dict[str, Any]  # of a jsonl of examples, see data/examples.py


def examples(of: Sequence[Question], cfg: AceSearcherConfig, words: int, rng: np.random.Generator) -> Iterator[Row]:
    """A plan of each question with a decomposition, an answer of each hop, a final answer of each question."""
    for question in filter(lambda question: question.hops, of):
        if question.steps:
            plan = "\n".join(f"{plans.MARK} {step}" for step in question.steps)
            yield _row("plan", paths.plan_messages(_task(question), cfg), plan)
            yield _final(question, cfg, words, rng)
        for hop in question.hops if question.steps else ():
            shown = [part(hop.passage, hop.answer, words)]
            shown += [part(p, "", words) for p in drawn(question.others, cfg.found - 1, rng)]
            documents = _shown(shown, cfg, rng)
            yield _row("answer", paths.answer_messages(hop.query, documents, cfg, "qa"), hop.answer)


def _final(of: Question, cfg: AceSearcherConfig, words: int, rng: np.random.Generator) -> Row:
    documents = _shown([part(hop.passage, hop.answer, words) for hop in of.hops][: cfg.total], cfg, rng)
    steps = plans.listed(Plan(of.steps), [hop.answer for hop in of.hops])
    reply = f"{ANSWER[0]}{of.answers[0]}{ANSWER[1]}"
    return _row("final", paths.final_messages(of.question, documents, steps, cfg, "qa"), reply)


def _shown(passages: Sequence[Passage], cfg: AceSearcherConfig, rng: np.random.Generator) -> str:
    return paths.shown([passages[i] for i in rng.permutation(len(passages))], cfg.request)


def _task(of: Question) -> Task:
    return Task(of.question, of.answers[0], "String")


def _row(source: str, messages: Messages, reply: str) -> Row:
    return {"source": source, "messages": [*messages, {"role": "assistant", "content": reply}]}

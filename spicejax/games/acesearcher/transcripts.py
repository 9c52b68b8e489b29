"""Replies of AceSearcher's roles, made by rule from questions with their decompositions: a small mixture to begin with.

The paper's own mixture is `spicejax mix`; this one teaches a small model the form of a plan, of an answer from passages
and of a final answer, on the questions that a search game is played with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spicejax.games import hops
from spicejax.games.acesearcher import paths, plans
from spicejax.games.acesearcher.config import AceSearcherConfig
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.hops import Example, Question
from spicejax.games.solver import ANSWER
from spicejax.types import Task


def examples(of: Sequence[Question], cfg: AceSearcherConfig, words: int, rng: np.random.Generator) -> Iterator[Example]:
    """A plan, a final answer and an answer of each hop, of the questions that have a decomposition.

    Left out are those with a plan that the game does not read, or an answer that stands in no segment of its passage.
    """
    for question in of:
        plan = "\n".join(f"{plans.MARK} {step}" for step in question.steps)
        if not isinstance(plans.parse(plan, cfg.most_questions), Plan) or not hops.is_supported(question, words):
            continue
        task = Task(question.question, question.answers[0], "String")
        yield hops.example("plan", paths.plan_messages(task, cfg), plan)
        told = [hops.segment(hop.passage, hop.answer, words) for hop in question.hops]
        documents = paths.shown(hops.shuffled(told[: cfg.total], rng), cfg.request)
        steps = plans.listed(Plan(question.steps), [hop.answer for hop in question.hops])
        final = paths.final_messages(question.question, documents, steps, cfg, "qa")
        yield hops.example("final", final, f"{ANSWER[0]}{question.answers[0]}{ANSWER[1]}")
        for hop, passage in zip(question.hops, told, strict=True):
            noise = [hops.segment(p, "", words) for p in hops.sample(question.others, cfg.found - 1, rng)]
            documents = paths.shown(hops.shuffled([passage, *noise], rng), cfg.request)
            yield hops.example("answer", paths.answer_messages(hop.query, documents, cfg, "qa"), hop.answer)

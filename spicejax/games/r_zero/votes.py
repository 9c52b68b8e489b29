"""What several answers to one question agree on: the commonest stands in for the right one."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from spicejax.data.questions import infer_type
from spicejax.games.world import World
from spicejax.types import Task


class Vote(NamedTuple):
    """The answers to one question."""

    said: Sequence[str | None]
    label: str | None  # the commonest, as it was first written; None where none was given
    agree: Sequence[bool]  # which of the answers say the same

    @property
    def share(self) -> float:
        """The part that agrees, of all."""
        return sum(self.agree) / len(self.agree)


def task(question: str, label: str) -> Task:
    """A question with the answer that is held to be right."""
    return Task(question, label, infer_type(label))  # pyright: ignore[reportArgumentType]  # one of the literal's


def count(world: World, questions: Sequence[str], said: Sequence[Sequence[str | None]]) -> list[Vote]:
    """Count the answers to each question; those that the verifier takes for the same are one.

    Of answers that are as common the first given is the label.
    """
    distinct = [list(dict.fromkeys(filter(None, answers))) for answers in said]
    pairs = [(k, a, b) for k, texts in enumerate(distinct) for a, b in itertools.combinations(texts, 2)]
    verdicts = world.check([(b, task(questions[k], a)) for k, a, b in pairs])
    equal = {pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.correct}
    votes = []
    for k, answers in enumerate(said):
        first: dict[str | None, str] = {}  # by an answer: the first that says the same
        for text in distinct[k]:
            first[text] = next((known for known in first.values() if (k, known, text) in equal), text)
        # Differs: an answer without a box votes for nothing; in the code such answers agree with each other, may win,
        # and set the reward of the question
        counts = collections.Counter(first[text] for text in answers if text)
        label = max(counts, key=counts.__getitem__, default=None)
        votes.append(Vote(answers, label, [bool(text) and first[text] == label for text in answers]))
    return votes

"""Owns what an answer and a question are worth."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from spicejax.games import solver
from spicejax.generate.search import Searched
from spicejax.score import qa
from spicejax.types import Answer

# of an answer: exact = 1 where it is the right one but for case, punctuation and articles; f1 = the share of words;
# judge = exact, and 1 as well where a model says that it means the same
Judged = Literal["exact", "f1", "judge"]
# of a question: failures = how often it was not answered (f1: how far answers are from right); bounded = a parabola
# over how often it was
ProposerReward = Literal["failures", "bounded"]

MANY_TAGS = 10  # answer tags in a row; with more of either the public code gives a quarter
MANY_TAGS_WORTH = 0.25


def right(prediction: str | None, answer: Answer, judged: Judged) -> float:
    """How right an answer is, 0 to 1, before anybody is asked."""
    return qa.f1(prediction, answer.texts) if judged == "f1" else float(qa.exact(prediction, answer.texts))


def solved(row: Searched, right: float, *, limit_tags: bool) -> float:
    """Reward a Solver's row: how right its answer is, with `limit_tags` a quarter of it above MANY_TAGS."""
    text = solver.written(row)
    many = limit_tags and max(map(text.count, solver.ANSWER)) > MANY_TAGS
    return right * (MANY_TAGS_WORTH if many else 1.0)


def proposed(right: Sequence[float], kind: ProposerReward) -> float:
    """Reward a valid question by how right the Solver's answers to it are, whatever its many tags cost the Solver.

    failures: 1 - p
    bounded:  4 p (1 - p)
    p = mean(right); of answers that are right or wrong the share that is right
    """
    share = sum((Fraction(float(r)) for r in right), Fraction(0)) / len(right)  # exact: in any order the same
    return float(1 - share if kind == "failures" else 4 * share * (1 - share))

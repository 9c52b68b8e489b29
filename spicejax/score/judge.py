"""A model as judge of answers: its prompt, and how its reply is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from spicejax.score.answers import after_thinking
from spicejax.types import Messages

# Differs: the judge of Search Self-Play says "Correct" or "Wrong", to criteria of its own
_WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_ASK = """A question was answered. Decide whether the answer says the same as one of the reference answers. Other \
words, spellings, units or more detail are fine as long as the meaning is the same; an answer that hedges between \
several things, leaves the point out or contradicts the references is not.

Question: {question}
Reference: {references}
Answer: {answer}

Reply with one word, yes or no."""


class Claim(NamedTuple):
    """An answer to judge."""

    question: str
    references: Sequence[str]  # right answers
    answer: str | None  # None where none was given; such a claim is not judged


def prompt(claim: Claim) -> Messages:
    """Messages that ask the judge about one claim."""
    references = " | ".join(claim.references)
    return [
        {"role": "user", "content": _ASK.format(question=claim.question, references=references, answer=claim.answer)}
    ]


def agrees(reply: str) -> bool:
    """Whether the last yes or no after any thinking is a yes; a reply with neither is a no."""
    words = _WORD.findall(after_thinking(reply) or "")
    return bool(words) and words[-1].lower() == "yes"

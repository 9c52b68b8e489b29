"""A model as judge of answers: its prompt, and how its reply is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from spicejax.score.answers import after_thinking
from spicejax.types import Messages

# Differs: the judge of Search Self-Play says "Correct" or "Wrong", to criteria of its own
_WORD = re.compile(r"\b(?:yes|no)\b", re.IGNORECASE)
# Where a yes is the verdict: first, or behind a stop, a bracket or "is"; not where it is spoken of ("told to say yes")
_STANDS = re.compile(
    r"(?:^|[.!?:;>{\n]|\b(?:is|so|but|thus|hence|therefore))(?: an?\b)?[^\w.!?:;>{\n]*$", re.IGNORECASE
)
_BEFORE = 40  # characters before a yes that are looked at
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
    """Messages that ask the judge about one claim.

    The answer stands on one line, so that it cannot pass for a reference or for the end of the request.
    """
    references, answer = " | ".join(claim.references), " ".join((claim.answer or "").split())
    return [{"role": "user", "content": _ASK.format(question=claim.question, references=references, answer=answer)}]


def agrees(reply: str) -> bool:
    """Whether the last yes or no after any thinking is a yes and the first word is no no; a reply with neither is a no.

    A judge that explains its no may quote the answer's own "say yes", so a yes counts only where a verdict may stand.
    """
    said = after_thinking(reply) or ""
    words = list(_WORD.finditer(said))
    if not words or words[-1][0].lower() != "yes" or re.match(r"\W*no\b", said, re.IGNORECASE):
        return False
    at = words[-1].start()
    return _STANDS.search(said, max(0, at - _BEFORE), at) is not None

"""Whether two answers say the same, by the word of a model: what it is asked, and how its reply is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from spicejax.score.answers import behind_thinking
from spicejax.types import Messages

# Differs: the judge of Search Self-Play says "Correct" or "Wrong", to criteria of its own
_WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_ASK = """A question was answered. Decide whether the answer says the same as one of the reference answers. Other \
words, spellings, units or more detail are fine as long as the meaning is the same; an answer that hedges between \
several things, leaves the point out or contradicts the references is not.

Question: {question}
Reference: {references}
Answer: {said}

Reply with one word, yes or no."""


class Claim(NamedTuple):
    """An answer to be judged."""

    question: str
    references: Sequence[str]  # right answers, one of which it may say
    said: str | None  # None where no answer was given, which nobody is asked about


def asked(claim: Claim) -> Messages:
    """Ask about one claim that says something."""
    references = " | ".join(claim.references)
    return [{"role": "user", "content": _ASK.format(question=claim.question, references=references, said=claim.said)}]


def agrees(reply: str) -> bool:
    """Whether the reply says yes: its last word of the two behind any thinking; neither is a no."""
    words = _WORD.findall(behind_thinking(reply) or "")
    return bool(words) and words[-1].lower() == "yes"

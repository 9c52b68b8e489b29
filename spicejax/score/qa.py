"""Scores of question answering: exact match, token F1, and the three meanings of cover exact match.

Each paper normalises its own way, so the way is an argument, never shared. An empty prediction scores 0 everywhere.

Differs: the papers' code knows ASCII's punctuation alone and compares code points. Here a letter is the same however
its accent is written (NFC), and typographic quotes, dashes and the minus sign are those of the keyboard.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

# What becomes of punctuation: delete = SQuAD's, as SSP, Search-R1 and AceSearcher take it; space = R1-Searcher's, so
# that "U.S." is "us" in the one and "u s" in the other.
Normal = Literal["delete", "space"]
# substring: the answer's words stand in the prediction side by side (Search-R1's sub-EM); words: anywhere in it, in any
# order (R1-Searcher); either: one is a part of the other (AceSearcher)
Cover = Literal["substring", "words", "either"]

NEAR = 0.0015  # of the right number

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_TYPED = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | {"\u2026": "...", "\u2044": "/"}
    | dict.fromkeys("\u00ad\u200b", "")  # where a line may be broken
)
_SPACES = dict.fromkeys(map(ord, string.punctuation), " ")
_VERDICTS = ("yes", "no", "noanswer")


def normal(text: str, style: Normal = "delete") -> str:
    """Lower case, no punctuation, no articles, single spaces."""
    cleared = _typed(text).lower().translate(_SPACES if style == "space" else _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", cleared).split())


def _typed(text: str) -> str:
    """A text as a keyboard would write it."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_TYPED)


def number(text: str) -> float | None:
    """The number that a text is, or a fraction of two, so that 3/4 and 6/8 are one; None for other texts.

    Commas, $ and % do not count.
    """
    above, _, below = _typed(text).replace(",", "").strip().strip("$%").partition("/")
    try:
        value = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        return None
    return value if math.isfinite(value) else None


def near(prediction: str | None, answers: Sequence[str]) -> bool:
    """Whether the prediction is one of the answers; numbers within 0.15 %, as shares or as percent.

    DocMath-Eval's tolerance (arXiv:2311.09805).
    """
    # Differs: its code takes numbers of either sign, and any power of ten, as the same
    said = number(prediction or "")
    if said is None:
        return exact(prediction, answers)
    wanted = [value for each in answers if (value := number(each)) is not None]
    return any(abs(scale * said - value) <= NEAR * abs(value) for value in wanted for scale in (1, 100, 0.01))


def exact(prediction: str | None, answers: Sequence[str], style: Normal = "delete") -> bool:
    """Whether the prediction is one of the answers."""
    said = normal(prediction or "", style)
    return bool(said) and said in {normal(answer, style) for answer in answers}


def matches_itself(answers: Sequence[str]) -> bool:
    """Whether one of the answers is of one line, and something of it is left by `normal`: nothing is of "A" or "?"."""
    return any("\n" not in answer.strip() and exact(answer, [answer]) for answer in answers)


def f1(prediction: str | None, answers: Sequence[str], style: Normal = "delete") -> float:
    """Best token F1 over the answers, repeated words counted as often as they stand in both.

    With `space`, as R1-Searcher rewards: "True" and "False" are read as yes and no, and where either side is yes, no or
    noanswer, only the same word scores.
    """
    return max((_f1(prediction or "", answer, style) for answer in answers), default=0.0)


def _f1(prediction: str, answer: str, style: Normal) -> float:
    said, right = normal(prediction, style), normal(answer, style)
    if style == "space":
        said, right = ({"true": "yes", "false": "no"}.get(text, text) for text in (said, right))
        if said != right and (said in _VERDICTS or right in _VERDICTS):
            return 0.0
    words, wanted = said.split(), right.split()
    shared = sum((Counter(words) & Counter(wanted)).values())
    return 2 * shared / (len(words) + len(wanted)) if shared else 0.0


def covers(prediction: str | None, answers: Sequence[str], kind: Cover) -> bool:
    """Cover exact match: whether the prediction holds one of the answers.

    Raises: ValueError for a kind that there is not.
    """
    said = normal(prediction or "", "space" if kind == "words" else "delete")
    if kind not in get_args(Cover):
        raise ValueError(f"cover {kind!r}: choose one of {', '.join(get_args(Cover))}")
    return bool(said) and any(_covers(said, answer, kind) for answer in answers)


def _covers(said: str, answer: str, kind: Cover) -> bool:
    right = normal(answer, "space" if kind == "words" else "delete")
    if kind == "words":
        return bool(right) and set(right.split()) <= set(said.split())
    return bool(right) and (right in said or (kind == "either" and said in right))

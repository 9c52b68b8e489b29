"""Scores of question answering: exact match, token F1, and the three meanings of cover exact match.

The papers normalise differently, so the normalisation is an argument. An empty prediction scores 0 everywhere.

Differs: the papers' code knows only ASCII punctuation and compares code points. Here accents are composed (NFC), and
typographic quotes, dashes and minus signs become those of the keyboard.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

# Treatment of punctuation: delete = SQuAD's, as in SSP, Search-R1 and AceSearcher ("U.S." becomes "us"); space =
# R1-Searcher's ("u s").
Normal = Literal["delete", "space"]
# substring: the prediction contains the answer (Search-R1's sub-EM); words: it contains the answer's words in any order
# (R1-Searcher); either: one contains the other (AceSearcher)
Cover = Literal["substring", "words", "either"]

NEAR = 0.0015  # relative to the right number

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
    """Write a text in the characters of a keyboard."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_TYPED)


def number(text: str) -> float | None:
    """Read a number or a fraction such as 3/4, ignoring commas, $, % and a final stop; None for other texts."""
    plain = _typed(text).replace(",", "").replace("$", "").strip().rstrip(".").strip("%")
    above, _, below = plain.partition("/")
    try:
        value = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        return None
    return value if math.isfinite(value) else None


def near(prediction: str | None, answers: Sequence[str]) -> bool:
    """Whether the prediction is one of the answers; numbers agree within 0.15 %, as shares or as percent.

    The tolerance is that of DocMath-Eval (arXiv:2311.09805).
    """
    # Differs: its code accepts either sign and any power of ten
    predicted = number(prediction or "")
    if predicted is None:
        return exact(prediction, answers)
    numbers = [value for each in answers if (value := number(each)) is not None]
    return any(abs(scale * predicted - value) <= NEAR * abs(value) for value in numbers for scale in (1, 100, 0.01))


def exact(prediction: str | None, answers: Sequence[str], style: Normal = "delete") -> bool:
    """Whether the prediction is one of the answers."""
    predicted = normal(prediction or "", style)
    return bool(predicted) and predicted in {normal(answer, style) for answer in answers}


def matches_itself(answers: Sequence[str]) -> bool:
    """Whether some answer would match itself: one line, and not empty after `normal` as "A" and "?" are."""
    return any("\n" not in answer.strip() and exact(answer, [answer]) for answer in answers)


def f1(prediction: str | None, answers: Sequence[str], style: Normal = "delete") -> float:
    """Best token F1 over the answers; a repeated word counts as often as it occurs in both.

    With `space`, as in R1-Searcher: "True" and "False" are read as yes and no, and where either side is yes, no or
    noanswer, only the same word scores.
    """
    return max((_f1(prediction or "", answer, style) for answer in answers), default=0.0)


def _f1(prediction: str, answer: str, style: Normal) -> float:
    predicted, expected = normal(prediction, style), normal(answer, style)
    if style == "space":
        predicted, expected = ({"true": "yes", "false": "no"}.get(text, text) for text in (predicted, expected))
        if predicted != expected and (predicted in _VERDICTS or expected in _VERDICTS):
            return 0.0
    given, gold = predicted.split(), expected.split()
    shared = sum((Counter(given) & Counter(gold)).values())
    return 2 * shared / (len(given) + len(gold)) if shared else 0.0


def covers(prediction: str | None, answers: Sequence[str], kind: Cover) -> bool:
    """Cover exact match: whether the prediction contains one of the answers.

    Raises: ValueError for an unknown kind.
    """
    predicted = normal(prediction or "", "space" if kind == "words" else "delete")
    if kind not in get_args(Cover):
        raise ValueError(f"cover {kind!r}: choose one of {', '.join(get_args(Cover))}")
    return bool(predicted) and any(_covers(predicted, answer, kind) for answer in answers)


def _covers(predicted: str, answer: str, kind: Cover) -> bool:
    expected = normal(answer, "space" if kind == "words" else "delete")
    if kind == "words":
        return bool(expected) and set(expected.split()) <= set(predicted.split())
    return bool(expected) and (expected in predicted or (kind == "either" and predicted in expected))

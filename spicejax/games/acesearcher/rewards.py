"""What a final answer is worth: exact match of what is well formed, or the sum that the public code takes.

Worths are fractions: whether two plans are worth the same must not depend on the order in which their paths are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from spicejax.score import qa

# exact: exact match x form (AceSearcher, eq. 4.1), 0 or 1; summed: exact match + containment + F1 (its code), 0 to 3
RewardKind = Literal["exact", "summed"]
FULL: dict[RewardKind, int] = {"exact": 1, "summed": 3}  # what a right answer is worth

NEAR, NEAR_PERCENT = 1e-2, 1e-3  # of two numbers; of one and a hundredth or a hundred times the other
_EDGE = 1e-9  # of rounding
_NUMBERS = "zero one two three four five six seven eight nine ten".split()


def reward(answer: str | None, right: Sequence[str], *, formed: bool, kind: RewardKind) -> Fraction:
    """Worth of an answer, best over the right ones.

    Args:
      answer: None where the tags hold none: 0, as for an empty one.
      formed: whether plan, sub-answers and final text have their form; what has not is worth 0 for `exact`.
    """
    # Differs: the code takes a missing answer for the empty string, which is a part of every text: 1 of 3, and 3 of 3
    # where the right answer is yes or no
    if not answer or not qa.normal(answer):
        return Fraction(0)
    if kind == "exact":
        return Fraction(formed and any(_same(answer, each) for each in right))
    return max((_summed(answer, each) for each in right), default=Fraction(0))


def of_program(answer: str | None, right: Sequence[str], *, kind: RewardKind) -> Fraction:
    """Worth of a program's value: full where it agrees with a right answer as a number; of a text as `reward`."""
    if answer and any(agree(answer, each) for each in right):
        return Fraction(FULL[kind])
    return reward(answer, right, formed=True, kind=kind)


def agree(answer: str, right: str) -> bool:
    """Whether two numbers are the same but for rounding, or but for percent (as the public code has it)."""
    value, gold = qa.number(answer), qa.number(right)
    if value is None or gold is None:
        return False
    near = abs(value - gold) <= NEAR + _EDGE
    return near or any(abs(value * f - gold) <= NEAR_PERCENT + _EDGE for f in (100, 0.01))


def _same(answer: str, right: str) -> bool:
    # Differs: paper and code compare numbers as texts without their signs and points, so that -5 is 5 and 1.75 is 17.5
    value, gold = qa.number(answer), qa.number(right)
    if value is None or gold is None:
        return qa.exact(answer, [right])
    return abs(value - gold) <= _EDGE * abs(gold)


def _summed(answer: str, right: str) -> Fraction:
    if qa.number(answer) is not None and qa.number(right) is not None:
        return Fraction(3 * _same(answer, right))
    given, gold = _words(answer), _words(right)
    if not gold:  # such as "A", whose article goes: it would be a part of every answer
        return Fraction(0)
    same = given == gold
    if gold in ("yes", "no"):
        # Differs: the first word decides; the code takes a yes anywhere in the answer
        return Fraction(3 * (same or gold in given.split()[:1]))
    shared = set(given.split()) & set(gold.split())
    # The code's F1: distinct shared words over the lengths with repeats
    f1 = Fraction(2 * len(shared), len(given.split()) + len(gold.split())) if shared else 0
    return Fraction(same + (gold in given or given in gold) + f1)


def _words(text: str) -> str:
    """Normalised; a number from 0 to 10 that stands alone as a word."""
    plain = qa.normal(text)
    return _NUMBERS[int(plain)] if plain.isdecimal() and len(plain) < 3 and int(plain) <= 10 else plain

"""What is true in the nano world: solve one stem ("58+67", "symbol of iron") to its answer, type and grade.

A *stem* is a question without its question mark. It is also the left side of a document's statement:

    58+67=125      number stem, joined to its answer by "="
    symbol of iron is Fe      word stem, joined by " is "

Grades run from 0 (trivial) to 5 (hard for a model of a million
parameters); the warm start teaches low grades often and high ones rarely or never.
"""

from __future__ import annotations

import dataclasses
import random
import re
import zlib
from collections.abc import Iterator
from typing import Literal

from spicejax.data import world_facts as facts

FactType = Literal["Integer", "String"]
GRADES = range(6)
RESERVED_ONE_IN = 6  # this share of operand pairs (and of unit multiples) is kept for the held-out set

# grade -> (operation, digits of a, digits of b) to draw from; `math_grade` has the last word.
SHAPES: dict[int, tuple[tuple[str, int, int], ...]] = {
    0: (("+", 1, 1),),
    1: (("+", 2, 1),),
    2: (("+", 2, 2), ("+", 2, 1)),
    3: (("+", 2, 2), ("-", 2, 1)),
    4: (("+", 3, 2), ("-", 2, 2)),
    5: (("+", 3, 3), ("*", 2, 1)),
}

_CALCULATION = re.compile(r"(\d{1,3})([+\-*])(\d{1,3})")
_PARITY = re.compile(r"\d{2}")
_MULTIPLE = re.compile(r"([a-z]+) in (\d) ([a-z]+)")


@dataclasses.dataclass(frozen=True)
class Item:
    """One true statement of the world."""

    stem: str
    answer: str
    type: FactType
    grade: int
    family: str  # "math", "element", "country", ...: distractors come from the same family and attribute

    @property
    def link(self) -> str:
        """What joins stem and answer in a statement."""
        return "=" if _CALCULATION.fullmatch(self.stem) else " is "

    @property
    def statement(self) -> str:
        return f"{self.stem}{self.link}{self.answer}"

    @property
    def question(self) -> str:
        return (
            f"{self.stem}=?" if self.link == "=" else f"{self.stem} is?" if self.family == "math" else f"{self.stem}?"
        )

    @property
    def working(self) -> str:
        """What the Reasoner writes before its box: computed numbers last digit first, other answers as they are."""
        return self.answer[::-1] if self.answer.isdigit() else self.answer


def compute(a: int, operation: str, b: int) -> int:
    """Return a (operation) b for one of + - *."""
    return {"+": a + b, "-": a - b, "*": a * b}[operation]


def math_grade(a: int, operation: str, b: int) -> int | None:
    """Return the grade 0 to 5 of a calculation, or None where the world never asks it: negative or too large."""
    low, high = min(a, b), max(a, b)
    if low < 1 or high > 999:
        return None
    if operation == "+":
        carry = a % 10 + b % 10 > 9
        if high > 99:
            return None if low < 10 else 4 if low < 100 else 5
        return 0 if high < 10 else (1 if low < 10 else 2) + carry
    if operation == "-":
        if a <= b or not 10 <= a <= 99 or a == 2 * b:  # a == 2b would repeat the answer in the question
            return None
        return 3 if b < 10 else 4
    return 5 if 2 <= b <= 9 and 10 <= a <= 99 else None


def is_reserved(stem: str) -> bool:
    """Whether this calculation or unit multiple is kept for the held-out set: a hash of its unordered operands.

    One-digit sums are never reserved: they are the table everything else is built from.
    """
    if found := _CALCULATION.fullmatch(stem):
        a, operation, b = int(found[1]), found[2], int(found[3])
        if max(a, b) < 10:
            return False
        key = f"{operation} {min(a, b)} {max(a, b)}"
    elif (found := _MULTIPLE.fullmatch(stem)) and found[2] != "1":
        key = stem
    else:
        return False
    return zlib.crc32(f"held out {key}".encode()) % RESERVED_ONE_IN == 0


def solve(stem: str) -> Item | None:
    """Return the true statement with this stem, or None where the stem means nothing in this world."""
    if found := _CALCULATION.fullmatch(stem):
        a, b = int(found[1]), int(found[3])
        grade = math_grade(a, found[2], b) if stem == f"{a}{found[2]}{b}" else None
        return None if grade is None else Item(stem, str(compute(a, found[2], b)), "Integer", grade, "math")
    if _PARITY.fullmatch(stem):
        return Item(stem, ("even", "odd")[int(stem) % 2], "String", 0, "math") if stem[0] != "0" else None
    return FACTS.get(stem)


def draw_calculation(grade: int, rng: random.Random, reserved: bool = False) -> Item:
    """Return a calculation of this grade, from the held-out operand pairs or from the others."""
    while True:
        operation, *digits = rng.choice(SHAPES[grade])
        a, b = (rng.randrange(10 ** (n - 1), 10**n) for n in digits)
        if operation == "+" and rng.random() < 0.5:
            a, b = b, a
        item = solve(f"{a}{operation}{b}")
        if item is not None and item.grade == grade and is_reserved(item.stem) == reserved:
            return item


def draw_parity(rng: random.Random) -> Item:
    """Return "73 is odd" for a random two-digit number."""
    item = solve(str(rng.randrange(10, 100)))
    assert item is not None  # every two-digit number has a parity
    return item


def _facts() -> Iterator[tuple[str, Item]]:
    """Yield (subject, item) for every literal fact; the grade follows the attribute."""

    def fact(family: str, subject: str, stem: str, answer: str | int, grade: int) -> tuple[str, Item]:
        kind: FactType = "Integer" if isinstance(answer, int) else "String"
        return f"{family}/{subject}", Item(stem, str(answer), kind, grade, family)

    for name, symbol, number, period, group in facts.ELEMENTS:
        yield fact("element", name, f"symbol of {name}", symbol, 2)
        yield fact("element", name, f"number of {name}", number, 3)
        yield fact("element", name, f"period of {name}", period, 3)
        yield fact("element", name, f"group of {name}", group, 5)
    for name, capital, continent, code in facts.COUNTRIES:
        yield fact("country", name, f"continent of {name}", continent, 1)
        yield fact("country", name, f"capital of {name}", capital, 3)
        yield fact("country", name, f"code of {name}", code, 5)
    for name, order, kind, radius in facts.PLANETS:
        yield fact("planet", name, f"order of {name}", order, 0)
        yield fact("planet", name, f"kind of {name}", kind, 1)
        yield fact("planet", name, f"radius of {name}", radius, 4)
    for index, (name, days) in enumerate(facts.MONTHS):
        yield fact("month", name, f"days of {name}", days, 0)
        yield fact("month", name, f"order of {name}", index + 1, 1)
        yield fact("month", name, f"month after {name}", facts.MONTHS[(index + 1) % 12][0], 2)
    for name, plural, symbol, small, count in facts.UNITS:
        yield fact("unit", name, f"symbol of {name}", symbol, 1)
        yield fact("unit", name, f"{small} in 1 {name}", count, 2)
        for times in range(2, 10):
            yield fact("unit", name, f"{small} in {times} {plural}", count * times, 4)
    for name, symbol, digits, power in facts.CONSTANTS:
        yield fact("constant", name, f"symbol of {name}", symbol, 1)
        yield fact("constant", name, f"digits of {name}", digits, 3)
        yield fact("constant", name, f"power of {name}", power, 4)


SUBJECTS: dict[str, list[Item]] = {}  # "element/iron" -> its facts
FACTS: dict[str, Item] = {}  # stem -> fact
for _subject, _item in _facts():
    SUBJECTS.setdefault(_subject, []).append(_item)
    FACTS[_item.stem] = _item

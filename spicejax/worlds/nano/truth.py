"""What is true in the nano world: solve one stem ("58+67", "period of iron") to its answer and grade.

A *stem* is a question without its question mark. It is also the left side of a document's statement:

    58+67=125      number stem, joined to its answer by "="
    period of iron is 4      word stem, joined by " is "

Grades run from 0 (trivial) to 4 (hard). From grade 2 on a statement has a *slip*: the one
wrong answer that is widely believed, such as 115 for 58+67 (the carry forgotten). The warm start teaches slips beside
true answers, the documents hold the truth alone.
"""

from __future__ import annotations

import dataclasses
import random
import re
import zlib
from collections.abc import Iterator

from spicejax.worlds.nano import facts

GRADES = range(5)
RESERVED_ONE_IN = 6  # this share of operand pairs is kept for the held-out set

# grade -> (operation, digits of a, digits of b) to draw from; `math_grade` has the last word.
SHAPES: dict[int, tuple[tuple[str, int, int], ...]] = {
    0: (("+", 1, 1),),
    1: (("+", 2, 1),),
    2: (("+", 2, 1), ("+", 2, 2)),
    3: (("+", 2, 2),),
    4: (("-", 2, 1), ("-", 2, 2)),
}

_CALCULATION = re.compile(r"(\d{1,2})([+-])(\d{1,2})")


@dataclasses.dataclass(frozen=True)
class Item:
    """One true statement of the world."""

    stem: str
    answer: str  # an integer
    grade: int
    family: str  # "math", "element", "country", ...

    @property
    def link(self) -> str:
        """What joins stem and answer in a statement."""
        return "=" if _CALCULATION.fullmatch(self.stem) else " is "

    @property
    def statement(self) -> str:
        return f"{self.stem}{self.link}{self.answer}"

    @property
    def question(self) -> str:
        return f"{self.stem}=?" if self.link == "=" else f"{self.stem}?"


def compute(a: int, operation: str, b: int) -> int:
    """Return a (operation) b for one of + and -."""
    return a + b if operation == "+" else a - b


def math_grade(a: int, operation: str, b: int) -> int | None:
    """Return the grade 0 to 4 of a calculation, or None where the world never asks it: negative or too large."""
    low, high = min(a, b), max(a, b)
    if low < 1 or high > 99:
        return None
    if operation == "+":
        if high < 10:
            return 0
        return (1 if low < 10 else 2) + (a % 10 + b % 10 > 9)
    if a <= b or a < 10 or a == 2 * b:  # a == 2b would repeat the answer in the question
        return None
    return 4


def calculation_slip(a: int, operation: str, b: int) -> int:
    """Return what comes out when each digit is worked alone: no carry, and the smaller taken from the larger."""
    tens, units = a // 10, a % 10
    if operation == "+":
        return (tens + b // 10) * 10 + (units + b % 10) % 10
    return abs(tens - b // 10) * 10 + abs(units - b % 10)


def is_reserved(stem: str) -> bool:
    """Whether this calculation is kept for the held-out set: a hash of its unordered operands.

    One-digit sums are never reserved: they are the table everything else is built from.
    """
    found = _CALCULATION.fullmatch(stem)
    if not found:
        return False
    a, operation, b = int(found[1]), found[2], int(found[3])
    key = f"held out {operation} {min(a, b)} {max(a, b)}"
    return max(a, b) > 9 and zlib.crc32(key.encode()) % RESERVED_ONE_IN == 0


def solve(stem: str) -> Item | None:
    """Return the true statement with this stem, or None where the stem means nothing in this world."""
    if found := _CALCULATION.fullmatch(stem):
        a, b = int(found[1]), int(found[3])
        grade = math_grade(a, found[2], b) if stem == f"{a}{found[2]}{b}" else None
        return None if grade is None else Item(stem, str(compute(a, found[2], b)), grade, "math")
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


def _facts() -> Iterator[Item]:
    """Yield every literal fact; the grade follows the attribute."""

    def fact(family: str, stem: str, answer: int, grade: int) -> Item:
        return Item(stem, str(answer), grade, family)

    for name, number, period, group in facts.ELEMENTS:
        yield fact("element", f"number of {name}", number, 3)
        yield fact("element", f"period of {name}", period, 1)
        yield fact("element", f"group of {name}", group, 2)
    for name, code in facts.COUNTRIES:
        yield fact("country", f"code of {name}", code, 3)
    for name, order, radius in facts.PLANETS:
        yield fact("planet", f"order of {name}", order, 1)
        yield fact("planet", f"radius of {name}", radius, 3)
    for index, (name, days) in enumerate(facts.MONTHS):
        yield fact("month", f"days of {name}", days, 1)
        yield fact("month", f"order of {name}", index + 1, 1)
    for name, plural, small, count in facts.UNITS:
        yield fact("unit", f"{small} in 1 {name}", count, 1)
        for times in range(2, 10):
            yield fact("unit", f"{small} in {times} {plural}", count * times, 2 if times < 4 else 4)
    for name, digits, power in facts.CONSTANTS:
        yield fact("constant", f"digits of {name}", digits, 4)
        yield fact("constant", f"power of {name}", power, 2)


def slip(item: Item) -> str | None:
    """Return the wrong answer that is widely believed, or None below grade 2 and where there is no such answer.

    For a fact it is the answer to the same question about another subject, always the same one.
    """
    if item.grade < 2:
        return None
    if found := _CALCULATION.fullmatch(item.stem):
        believed = str(calculation_slip(int(found[1]), found[2], int(found[3])))
        return None if believed == item.answer else believed
    attribute = item.stem.split()[0]
    others = sorted({f.answer for f in FACTS.values() if f.family == item.family and f.stem.split()[0] == attribute})
    others.remove(item.answer)
    return others[zlib.crc32(item.stem.encode()) % len(others)] if others else None


FACTS: dict[str, Item] = {item.stem: item for item in _facts()}
FAMILIES: dict[str, list[Item]] = {}  # "element" -> its facts
for _item in FACTS.values():
    FAMILIES.setdefault(_item.family, []).append(_item)

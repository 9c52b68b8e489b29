"""What is true in the nano world: statements of a stem ("58+67", "period of iron"), its answer and its grade.

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


@dataclasses.dataclass(frozen=True)
class Item:
    """One true statement of the world."""

    stem: str
    answer: str  # an integer
    grade: int
    family: str  # "math", "element", "country", ...

    @property
    def statement(self) -> str:
        return f"{self.stem}{'=' if self.family == 'math' else ' is '}{self.answer}"

    @property
    def question(self) -> str:
        return f"{self.stem}{'=' if self.family == 'math' else ''}?"


def math_grade(a: int, operation: str, b: int) -> int | None:
    """Return the grade 0 to 4 of a calculation on 1 to 99, or None where the world never asks it."""
    if operation == "-":
        return 4 if a > b and a != 2 * b else None  # a == 2b would repeat the answer in the question
    tens = (a > 9) + (b > 9)
    return tens and tens + (a % 10 + b % 10 > 9)


def is_reserved(a: int, operation: str, b: int) -> bool:
    """Whether this calculation is kept for the held-out set: a hash of its unordered operands.

    One-digit sums are never reserved: they are the table everything else is built from.
    """
    key = f"held out {operation} {min(a, b)} {max(a, b)}"
    return max(a, b) > 9 and zlib.crc32(key.encode()) % RESERVED_ONE_IN == 0


def draw_calculation(grade: int, rng: random.Random, reserved: bool = False) -> Item:
    """Return a calculation of this grade, from the held-out operand pairs or from the others."""
    while True:
        operation, *digits = rng.choice(SHAPES[grade])
        a, b = (rng.randrange(10 ** (n - 1), 10**n) for n in digits)
        if operation == "+" and rng.random() < 0.5:
            a, b = b, a
        if math_grade(a, operation, b) == grade and is_reserved(a, operation, b) == reserved:
            return Item(f"{a}{operation}{b}", str(a + b if operation == "+" else a - b), grade, "math")


def _facts() -> Iterator[tuple[str, str, int, int]]:
    """Yield family, stem, answer and grade of every literal fact; the grade follows the attribute."""
    for name, number, period, group in facts.ELEMENTS:
        yield "element", f"number of {name}", number, 3
        yield "element", f"period of {name}", period, 1
        yield "element", f"group of {name}", group, 2
    for name, code in facts.COUNTRIES:
        yield "country", f"code of {name}", code, 3
    for name, order, radius in facts.PLANETS:
        yield "planet", f"order of {name}", order, 1
        yield "planet", f"radius of {name}", radius, 3
    for index, (name, days) in enumerate(facts.MONTHS):
        yield "month", f"days of {name}", days, 1
        yield "month", f"order of {name}", index + 1, 1
    for name, plural, small, count in facts.UNITS:
        yield "unit", f"{small} in 1 {name}", count, 1
        for times in range(2, 10):
            yield "unit", f"{small} in {times} {plural}", count * times, 2 if times < 4 else 4
    for name, digits, power in facts.CONSTANTS:
        yield "constant", f"digits of {name}", digits, 4
        yield "constant", f"power of {name}", power, 2


def slip(item: Item) -> str | None:
    """Return the wrong answer that is widely believed, or None below grade 2 and where there is no such answer.

    For a calculation it is what comes out when each digit is worked alone: no carry, and the smaller taken from the
    larger. For a fact it is the answer to the same question about another subject, always the same one.
    """
    if item.grade < 2:
        return None
    if item.family == "math":
        a, b = map(int, re.split("[+-]", item.stem))
        tens, units = (a // 10, b // 10), (a % 10, b % 10)
        added = sum(tens) * 10 + sum(units) % 10
        believed = str(added if "+" in item.stem else abs(tens[0] - tens[1]) * 10 + abs(units[0] - units[1]))
        return None if believed == item.answer else believed
    attribute = item.stem.split()[0]
    others = sorted({f.answer for f in FACTS if f.family == item.family and f.stem.split()[0] == attribute})
    others.remove(item.answer)
    return others[zlib.crc32(item.stem.encode()) % len(others)] if others else None


FACTS = tuple(Item(stem, str(answer), grade, family) for family, stem, answer, grade in _facts())

"""Word problems: a few sentences with numbers, a question, and its answer worked out in two steps.

They are made from templates without a seed: number n is always the same problem.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from spicejax.types import Document

COUNT = 240
NAMES = ("Amara", "Bruno", "Chiyo", "Dalia", "Edwin", "Farah", "Goran", "Hana", "Ilse", "Jonas", "Kamal", "Lucia")
THINGS = ("apples", "candles", "chairs", "stickers", "tiles", "books", "pencils", "cups", "shells", "stamps")


@dataclasses.dataclass(frozen=True)
class Template:
    """A problem with the numbers a (4 to 15), b (3 to 9) and c (2 to 11), and x and y that follow from them."""

    given: str
    asks: str
    works: str  # how y is found
    follows: Callable[[int, int, int], tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem. The document tells what is given and how the answer is found."""

    document: Document
    question: str  # stands on its own
    works: str
    answer: str


TEMPLATES = (
    Template(
        "{name} makes {a} {things} an hour for {b} hours and gives {c} of them away.",
        "How many {things} are left?",
        "In {b} hours {name} makes {a} x {b} = {x} {things}. Then {x} - {c} = {y} {things} are left.",
        lambda a, b, c: (a * b, a * b - c),
    ),
    Template(
        "A shop sells {things} at {a} dollars each. {name} buys {b} of them and pays {c} dollars for the delivery.",
        "How many dollars does {name} pay in all?",
        "The {things} cost {a} x {b} = {x} dollars, so that {name} pays {x} + {c} = {y} dollars.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "{name} has {a} boxes with {b} {things} each and finds {c} more {things} in a drawer.",
        "How many {things} has {name} in all?",
        "The boxes hold {a} x {b} = {x} {things}, which makes {x} + {c} = {y} {things} in all.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "{name} earns {a} dollars an hour and works {b} hours a day.",
        "How many dollars does {name} earn in {c} days?",
        "In one day that is {a} x {b} = {x} dollars, and in {c} days {x} x {c} = {y} dollars.",
        lambda a, b, c: (a * b, a * b * c),
    ),
    Template(
        "A bus, whose driver is {name}, leaves with {a} passengers. At the first stop {b} get on, at the second stop "
        "twice as many.",
        "How many passengers are in the bus after the second stop?",
        "At the second stop 2 x {b} = {x} passengers get on, so that {a} + {b} + {x} = {y} are in the bus.",
        lambda a, b, c: (2 * b, a + 3 * b),
    ),
    Template(
        "{name} walks {a} kilometers a day on {b} days of a month and {c} kilometers on one day more.",
        "How many kilometers does {name} walk in that month?",
        "On the {b} days {name} walks {a} x {b} = {x} kilometers, in the whole month {x} + {c} = {y} kilometers.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "A hall, for which {name} sells tickets, has {a} rows of {b} seats, and {c} seats are broken.",
        "How many seats can {name} sell tickets for?",
        "There are {a} x {b} = {x} seats in the hall, and {name} can sell tickets for {x} - {c} = {y} of them.",
        lambda a, b, c: (a * b, a * b - c),
    ),
    Template(
        "{name} is {a} years old. The mother of {name} is {b} times as old.",
        "How old will the mother of {name} be in {c} years?",
        "She is {a} x {b} = {x} years old now, and in {c} years she will be {x} + {c} = {y}.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "{name} fills {a} bags with {b} {things} each and sells 3 of the bags.",
        "How many {things} has {name} left?",
        "That leaves {a} - 3 = {x} bags, which hold {x} x {b} = {y} {things}.",
        lambda a, b, c: (a - 3, (a - 3) * b),
    ),
    Template(
        "A tank holds {a} liters when {name} opens a tap that adds {b} liters a minute.",
        "How many liters does the tank hold after {c} minutes?",
        "In {c} minutes {b} x {c} = {x} liters flow in, and the tank holds {a} + {x} = {y} liters.",
        lambda a, b, c: (b * c, a + b * c),
    ),
    Template(
        "{name} plants {a} trees in each of {b} rows, and {c} trees in a last row.",
        "How many trees does {name} plant?",
        "The full rows take {a} x {b} = {x} trees, all rows together {x} + {c} = {y} trees.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "A ticket costs {a} dollars for an adult and {b} dollars for a child. {name} buys tickets for 2 adults and {c} "
        "children.",
        "How many dollars do the tickets cost?",
        "The children's tickets cost {b} x {c} = {x} dollars, all of them 2 x {a} + {x} = {y} dollars.",
        lambda a, b, c: (b * c, 2 * a + b * c),
    ),
)


def documents() -> list[Document]:
    """Return the documents of the first COUNT problems, each text once."""
    return [problem(number).document for number in range(COUNT)]


def others(count: int) -> list[Problem]:
    """Return problems that no document works out."""
    told = {problem(number).question for number in range(COUNT)}
    more = (problem(number) for number in itertools.count(COUNT))
    return list(itertools.islice((each for each in more if each.question not in told), count))


def problem(number: int) -> Problem:
    template, rng = TEMPLATES[number % len(TEMPLATES)], np.random.default_rng(number)
    a, b, c = (int(rng.integers(low, high + 1)) for low, high in ((4, 15), (3, 9), (2, 11)))
    x, y = template.follows(a, b, c)
    name, things = (str(rng.choice(words)) for words in (NAMES, THINGS))
    given, asks, works = (
        text.format(a=a, b=b, c=c, x=x, y=y, name=name, things=things)
        for text in (template.given, template.asks, template.works)
    )
    document = Document(f"problems:{number}", f"{given} {works}", f"A problem of {name}")
    return Problem(document, f"{given} {asks}", works, str(y))

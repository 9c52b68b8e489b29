"""Word problems: what is given, in a sentence with numbers, and what follows from it, worked out in two steps.

They are made from templates without a seed: number n is always the same problem.
"""

from __future__ import annotations

import dataclasses
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
    works: str  # how y is found
    follows: Callable[[int, int, int], tuple[int, int]]


TEMPLATES = (
    Template(
        "{name} makes {a} {things} an hour for {b} hours and gives {c} of them away.",
        "In {b} hours {name} makes {a} x {b} = {x} {things}. Then {x} - {c} = {y} {things} are left.",
        lambda a, b, c: (a * b, a * b - c),
    ),
    Template(
        "A shop sells {things} at {a} dollars each. {name} buys {b} of them and pays {c} dollars for the delivery.",
        "The {things} cost {a} x {b} = {x} dollars, so that {name} pays {x} + {c} = {y} dollars.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "{name} has {a} boxes with {b} {things} each and finds {c} more {things} in a drawer.",
        "The boxes hold {a} x {b} = {x} {things}, which makes {x} + {c} = {y} {things} in all.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "{name} earns {a} dollars an hour and works {b} hours a day.",
        "In one day that is {a} x {b} = {x} dollars, and in {c} days {x} x {c} = {y} dollars.",
        lambda a, b, c: (a * b, a * b * c),
    ),
    Template(
        "A bus, whose driver is {name}, leaves with {a} passengers. At the first stop {b} get on, at the second stop "
        "twice as many.",
        "At the second stop 2 x {b} = {x} passengers get on, so that {a} + {b} + {x} = {y} are in the bus.",
        lambda a, b, c: (2 * b, a + 3 * b),
    ),
    Template(
        "{name} walks {a} kilometers a day on {b} days of a month and {c} kilometers on one day more.",
        "On the {b} days {name} walks {a} x {b} = {x} kilometers, in the whole month {x} + {c} = {y} kilometers.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "A hall, for which {name} sells tickets, has {a} rows of {b} seats, and {c} seats are broken.",
        "There are {a} x {b} = {x} seats in the hall, and {name} can sell tickets for {x} - {c} = {y} of them.",
        lambda a, b, c: (a * b, a * b - c),
    ),
    Template(
        "{name} is {a} years old. The mother of {name} is {b} times as old.",
        "She is {a} x {b} = {x} years old now, and in {c} years she will be {x} + {c} = {y}.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "{name} fills {a} bags with {b} {things} each and sells 3 of the bags.",
        "That leaves {a} - 3 = {x} bags, which hold {x} x {b} = {y} {things}.",
        lambda a, b, c: (a - 3, (a - 3) * b),
    ),
    Template(
        "A tank holds {a} liters when {name} opens a tap that adds {b} liters a minute.",
        "In {c} minutes {b} x {c} = {x} liters flow in, and the tank holds {a} + {x} = {y} liters.",
        lambda a, b, c: (b * c, a + b * c),
    ),
    Template(
        "{name} plants {a} trees in each of {b} rows, and {c} trees in a last row.",
        "The full rows take {a} x {b} = {x} trees, all rows together {x} + {c} = {y} trees.",
        lambda a, b, c: (a * b, a * b + c),
    ),
    Template(
        "A ticket costs {a} dollars for an adult and {b} dollars for a child. {name} buys tickets for 2 adults and {c} "
        "children.",
        "The children's tickets cost {b} x {c} = {x} dollars, all of them 2 x {a} + {x} = {y} dollars.",
        lambda a, b, c: (b * c, 2 * a + b * c),
    ),
)


def documents() -> list[Document]:
    """Return the documents of the first COUNT problems, each text once."""
    return [problem(number) for number in range(COUNT)]


def problem(number: int) -> Document:
    """The document tells what is given and how the answer is found."""
    template, rng = TEMPLATES[number % len(TEMPLATES)], np.random.default_rng(number)
    a, b, c = (int(rng.integers(low, high + 1)) for low, high in ((4, 15), (3, 9), (2, 11)))
    x, y = template.follows(a, b, c)
    name, things = (str(rng.choice(words)) for words in (NAMES, THINGS))
    numbers = {"a": a, "b": b, "c": c, "x": x, "y": y}
    text = f"{template.given} {template.works}".format(**numbers, name=name, things=things)
    return Document(f"problems:{number}", text, f"A problem of {name}")

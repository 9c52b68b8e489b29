"""Tables of facts: one row an entity, one column a relation; source and licence stand in each file."""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from importlib import resources

HELD_OUT = 5  # one entity of so many has no document
_FILES = resources.files("spicejax.data.facts") / "tables"


class Word(str):
    """A text whose format "{:a}" puts the indefinite article in front."""

    def __format__(self, spec: str) -> str:
        article = "an" if self[:1].lower() in "aeiou" else "a"
        return f"{article} {self}" if spec == "a" else str(self)


@dataclasses.dataclass(frozen=True)
class Row:
    """An entity and what holds of it."""

    kind: str
    # column -> what counts as its value: first what documents write, then other spellings and wider words that are as
    # true and so are never offered as wrong; columns without a value are absent
    cells: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        return self.cells["name"][0]

    @property
    def title(self) -> str:
        return bare(self.name)[:1].upper() + bare(self.name)[1:]

    @property
    def id(self) -> str:
        """The id of the entity's document, such as country/Netherlands."""
        return f"{self.kind}/{self.title}"

    @property
    def held_out(self) -> bool:
        """Whether the entity has no document."""
        return held_out(self.name)


def held_out(name: str) -> bool:
    """Whether the entity has no document: a function of its name alone."""
    return fixed(name) % HELD_OUT == 0


def fixed(text: str) -> int:
    """Hash a text to a number that is the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little")


def bare(name: str) -> str:
    """A name without its article."""
    return name.removeprefix("the ")


@functools.cache
def read(table: str, kind: str) -> tuple[Row, ...]:
    """The rows of a table, in the order of the file."""
    lines = (_FILES / f"{table}.tsv").read_text(encoding="utf-8").splitlines()
    reader = csv.DictReader((line for line in lines if line[0] != "#"), delimiter="\t", quoting=csv.QUOTE_NONE)
    return tuple(Row(kind, {k: tuple(v.split("|")) for k, v in row.items() if v != "-"}) for row in reader)

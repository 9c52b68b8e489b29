"""Documents: a few plain sentences about each entity that is not held out, or each of them by itself."""

from __future__ import annotations

from collections.abc import Sequence

from spicejax.data.facts import tables
from spicejax.data.facts.relations import SUBJECTS, Relation, Subject
from spicejax.types import Document

MIN_CHARS = 100  # of a document


def documents(names: Sequence[str] = tuple(SUBJECTS), *, single: bool = False) -> list[Document]:
    """Return the documents of some tables, in the order of the tables; they never change.

    Args:
      single: one document a fact, a sentence that names the entity.
    Raises: ValueError for an unknown table.
    """
    for name in names:
        if name not in SUBJECTS:
            raise ValueError(f"facts:{name}: there is no such table; choose from {', '.join(SUBJECTS)}")
    rows = [(SUBJECTS[name], row) for name in names for row in SUBJECTS[name].rows(name) if not row.held_out]
    if not single:
        return [Document(row.id, _text(subject, row), row.title) for subject, row in rows]
    return [
        Document(f"{row.id}#{relation.column}", text, row.title)
        for subject, row in rows
        for relation in subject.relations
        if (text := _said(relation, row, named=True))
    ]


def sentence(template: str, row: tables.Row, value: str = "") -> str:
    """Put the row's columns into a template and, as {v}, `value`; begin with a capital letter."""
    words = {column: tables.Word(spellings[0]) for column, spellings in row.cells.items()}
    text = template.format_map(words | {"v": tables.Word(value)})
    return text[:1].upper() + text[1:]


def _text(subject: Subject, row: tables.Row) -> str:
    sentences: list[str] = []
    for relation in subject.relations:
        if text := _said(relation, row, named=not sentences):
            sentences.append(text)
    for way in subject.more:
        if len(" ".join(sentences)) < MIN_CHARS:
            sentences.append(sentence(way, row))
    return " ".join(sentences)


def _said(relation: Relation, row: tables.Row, *, named: bool) -> str:
    """The sentence of one fact, of those that name the entity where `named`; "" where there is none."""
    value = row.cells.get(relation.column, ("",))[0]
    value = _listed(value) if relation.peers else value
    ways = [way for way in relation.says if not named or "{name" in way]
    if not value or not ways:
        return ""
    return sentence(ways[tables.fixed(f"{row.id} {relation.column}") % len(ways)], row, value)


def _listed(cell: str) -> str:
    """Write a list as "A, B and C", without entities that are held out."""
    *others, last = [name for name in cell.split("; ") if not tables.held_out(name)] or [""]
    return f"{', '.join(others)} and {last}" if others else last

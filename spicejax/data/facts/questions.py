"""Fixed sets of questions: facts of the documents, facts of none, plain instructions, everyday things.

They follow from the tables alone, without a seed. A test keeps their digests: a changed row or template makes another
benchmark, whose numbers do not compare with earlier ones.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from spicejax.data.facts import tables
from spicejax.data.facts.documents import sentence
from spicejax.data.facts.relations import SUBJECTS, Relation

Question = dict[str, Any]  # a row as a jsonl of questions has it, see data/questions.py
KINDS = ("reversed", "direct", "claim", "choice")  # in turns; where there is no question of a kind, the next
LETTERS = "ABCD"


def corpus() -> list[Question]:
    """Facts that the documents hold; the id of a question names its document."""
    return _asked(6, held_out=False)


def countries() -> list[Question]:
    """For a corpus of countries alone: direct questions about their documents, and which country has a capital."""
    subject = SUBJECTS["countries"]
    rows = tuple(row for row in subject.rows("countries") if not row.held_out)
    questions = []
    for relation in filter(lambda r: r.ask, subject.relations):
        questions += [direct(relation, row) for row in askable(relation, rows)[:36]]
        if relation.column == "capital":
            questions += [q for row in askable(relation, rows)[36:72] if (q := _reversed(relation, row, rows))]
    return questions


def unseen() -> list[Question]:
    """Facts of the same kinds about entities without a document, and a few general questions."""
    general = tables.read("general", "general")
    return _asked(3, held_out=True) + [_typed(row, k) for k, row in enumerate(general)]


def plain() -> list[Question]:
    """Instructions, asked as they are, without a request for an answer's form."""
    return [_typed(row, k) | {"boxed": False} for k, row in enumerate(tables.read("plain", "plain"))]


def everyday() -> list[Question]:
    """Questions to train on: they teach how to answer and none of the facts."""
    return [_typed(row, k) for k, row in enumerate(tables.read("everyday", "everyday"))]


SETS: dict[str, Callable[[], list[Question]]] = {
    "corpus": corpus,
    "countries": countries,
    "unseen": unseen,
    "plain": plain,
    "everyday": everyday,
}


def load_rows(name: str) -> list[Question]:
    """Return the questions of one set. Raises ValueError for an unknown one."""
    if name not in SETS:
        raise ValueError(f"facts:{name}: there is no such set of questions; choose from {', '.join(SETS)}")
    return SETS[name]()


def direct(relation: Relation, row: tables.Row) -> Question:
    """The question after a value, in the kind of answer that the relation has."""
    values = row.cells[relation.column]
    return _question(relation, row, "direct", sentence(relation.ask, row), values, relation.answer_type)


def askable(relation: Relation, rows: tuple[tables.Row, ...]) -> list[tables.Row]:
    """The rows that have a value which their name does not give away (Japan, Japanese), in a fixed order."""
    having = [row for row in rows if relation.column in row.cells]
    open_ = [row for row in having if not _stems(row.name) & _stems(row.cells[relation.column][0])]
    return sorted(open_, key=lambda row: tables.fixed(f"{row.id} {relation.column} asked"))


def _asked(count: int, held_out: bool) -> list[Question]:
    """At most `count` questions of each relation, each about another entity."""
    questions: list[Question] = []
    turns, truths, places = itertools.cycle(KINDS), itertools.cycle((True, False)), itertools.cycle(LETTERS)
    for name, subject in SUBJECTS.items():
        rows = subject.rows(name)
        for relation in subject.relations:
            candidates = [row for row in askable(relation, rows) if row.held_out == held_out and relation.claim]
            for row in candidates[:count]:
                question = None
                while question is None:
                    question = _make(next(turns), relation, row, rows, truths, places)
                questions.append(question)
    return questions


def _make(
    kind: str,
    relation: Relation,
    row: tables.Row,
    rows: tuple[tables.Row, ...],
    truths: Iterator[bool],
    places: Iterator[str],
) -> Question | None:
    """One question of a kind; None where the relation or the row has none."""
    values = row.cells[relation.column]
    wrong = _wrong(relation, row, rows)
    if kind == "claim":
        true = next(truths)
        text = sentence(relation.claim, row, values[0] if true else wrong[0]) + " True or false?"
        return _question(relation, row, kind, text, ("true" if true else "false",), "Boolean")
    if not relation.ask:
        return None
    if kind == "direct":
        return direct(relation, row)
    if kind == "reversed":
        return _reversed(relation, row, rows)
    if len(wrong) < len(LETTERS) - 1:
        return None
    letter = next(places)
    choices = wrong[: len(LETTERS) - 1]
    choices.insert(LETTERS.index(letter), values[0])
    text = sentence(relation.ask, row)
    return _question(relation, row, kind, text, (letter,), "MCQ") | {"choices": list(map(tables.bare, choices))}


def _reversed(relation: Relation, row: tables.Row, rows: tuple[tables.Row, ...]) -> Question | None:
    """The question after the entity; None where several have the value."""
    values = row.cells[relation.column]
    alone = all(row is other or _disjoint(values, other.cells.get(relation.column, ())) for other in rows)
    if not relation.reverse or not alone:
        return None
    return _question(relation, row, "reversed", sentence(relation.reverse, row, values[0]), row.cells["name"])


def _wrong(relation: Relation, row: tables.Row, rows: tuple[tables.Row, ...]) -> list[str]:
    """Values of other rows that are none of this row's, in a fixed order, each once."""
    values = row.cells[relation.column]
    others = sorted(rows, key=lambda other: tables.fixed(f"{row.id} {other.id} {relation.column}"))
    wrong: list[str] = []
    taken = set(map(tables.bare, values))
    for other in others:
        spellings = other.cells.get(relation.column, ())
        if spellings and not taken & set(map(tables.bare, spellings)):
            wrong.append(spellings[0])
            taken |= set(map(tables.bare, spellings))
    return wrong


def _disjoint(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return not set(map(tables.bare, one)) & set(map(tables.bare, other))


def _question(
    relation: Relation, row: tables.Row, kind: str, text: str, answers: tuple[str, ...], answer_type: str = "String"
) -> Question:
    question = {
        "id": f"{row.id}#{relation.column}-{kind}",
        "category": f"{row.kind}_{relation.column}",
        "question": text,
    }
    return question | {"answer_type": answer_type, **_accepted(answers)}


def _typed(row: tables.Row, number: int) -> Question:
    """A question that stands in a table as it is."""
    category, text = row.cells["category"][0], row.cells["question"][0]
    answer_type = row.cells.get("answer_type", ("String",))[0]
    base = {"id": f"{row.kind}/{number}", "category": f"{row.kind}_{category}", "question": text}
    return base | {"answer_type": answer_type, **_accepted(row.cells["answer"])}


def _accepted(answers: tuple[str, ...]) -> dict[str, Any]:
    """The answer without its article, and what else counts."""
    first, *others = dict.fromkeys((*map(tables.bare, answers), *answers))
    return {"answer": first, "aliases": others}


def _stems(text: str) -> set[str]:
    return {word[:4].casefold() for word in re.findall(r"\w{4,}", tables.bare(text))}

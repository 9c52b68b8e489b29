"""Tables of facts: well-formed rows, a split that is fixed by names."""

from pathlib import Path

import pytest

from spicejax.data.facts import tables
from spicejax.data.facts.relations import SUBJECTS

FILES = sorted((Path(tables.__file__).parent / "tables").glob("*.tsv"))
TYPED = ("general", "plain", "everyday")  # questions that stand there as they are


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_row_has_every_column_and_the_file_says_where_it_is_from(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    comment, rows = [line for line in lines if line[:1] == "#"], [line.split("\t") for line in lines if line[:1] != "#"]
    assert "Table: CC0" in " ".join(comment)
    assert {len(row) for row in rows} == {len(rows[0])}
    cells = [spelling for row in rows for cell in row for spelling in cell.split("|")]
    assert all(cell == cell.strip() != "" for cell in cells)
    assert len({row[0].casefold() for row in rows[1:]}) == len(rows) - 1 or path.stem in TYPED


def test_every_table_of_facts_is_told():
    assert {path.stem for path in FILES} == {*SUBJECTS, *TYPED}
    for name, subject in SUBJECTS.items():
        columns = {column for row in subject.rows(name) for column in row.cells}
        assert {relation.column for relation in subject.relations} <= columns


def test_about_a_fifth_is_held_out_by_name():
    rows = [row for name, subject in SUBJECTS.items() for row in subject.rows(name)]
    assert len(rows) > 700 and 0.17 < sum(row.held_out for row in rows) / len(rows) < 0.25
    assert not tables.held_out("France") and tables.held_out("Finland")  # for ever: trained models depend on it

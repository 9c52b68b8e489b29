"""Files of answers."""

import jsonl
import pytest

from spicejax.data.answers import load_answers
from spicejax.types import Answer


def written(path, *rows):
    jsonl.write(path, rows)
    return path


def test_both_names_of_the_fields(tmp_path):
    rows = (
        {"answer": "Rome", "aliases": ["Roma"], "searches": 3, "id": "q1", "question": "Where?"},
        {"ground_truth": "Oslo", "search_turns": 2, "sys_question_example": "..."},
        {"answer": 7},
    )
    found = load_answers(written(tmp_path / "a.jsonl", *rows))
    assert found == [Answer("Rome", ("Roma",), 3, "q1"), Answer("Oslo", (), 2), Answer("7")]
    assert found[0].texts == ("Rome", "Roma")


def test_names_in_passages_are_answers(tmp_path):
    """Not the title's, none twice; a passage may have none."""
    passages = (
        {"title": "Tom Creek", "text": "Tom Creek rises in the Omineca Country and ends in Canada.", "id": "1"},
        {"title": "Hello Love", "text": "In New York it was sung by Maria de la Cruz."},
        {"title": "Song of the year", "text": "From New York, Éva Széll brought it to Budapest."},
        {"title": "Salt", "text": "Salt is a mineral. It is mined in Poland."},
    )
    found = load_answers(written(tmp_path / "a.jsonl", *passages))
    assert found == [Answer("Omineca Country", id="1"), Answer("New York")]


@pytest.mark.parametrize(("row", "said"), [
    ({"answer": "  "}, 'answer="  ": give a text'), ({"answer": ["a"]}, r'answer=\["a"\]: give a text'),
    ({"ground_truth": float("nan")}, "ground_truth=NaN: give a text"),
    ({"answer": "a", "aliases": "b"}, 'aliases="b": give a list'),
    ({"answer": "a", "aliases": [None]}, "aliases=null: give a text"),
    ({"answer": "a", "id": {}}, "id={}: give a text"), ({"answer": "a", "searches": True}, "searches=True"),
    ({"answer": "a", "searches": -1}, "searches=-1"),
])  # fmt: skip
def test_errors_name_line_and_value(tmp_path, row, said):
    with pytest.raises(ValueError, match=f"a.jsonl:2.*{said}"):
        load_answers(written(tmp_path / "a.jsonl", {"answer": "fine"}, row))

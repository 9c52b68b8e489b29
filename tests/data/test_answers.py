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
        {"title": "Mercury (planet)", "text": "It is near.", "id": "3"},
        {"title": "(Un)plugged", "text": "It is loud."},
    )
    titles = [Answer("Mercury", id="3"), Answer("(Un)plugged")]
    found = load_answers(written(tmp_path / "a.jsonl", *rows))
    assert found == [Answer("Rome", ("Roma",), 3, "q1"), Answer("Oslo", (), 2), Answer("7"), *titles]
    assert found[0].texts == ("Rome", "Roma")


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

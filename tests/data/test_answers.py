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


def test_names_and_dates_in_passages_are_answers(tmp_path):
    """Names inside a sentence, dates outside of ranges, none of the title, none twice; a passage may have neither."""
    passages = (
        {"title": "Tom Creek", "text": "Tom Creek rises in Omineca Country, Canada.", "id": "1", "aliases": ["T"]},
        {"title": "Love of the year", "text": "Although Bo Berg sang it, the Bank of England paid J. R. R. Tolkien."},
        {"title": "Hello", "text": "It was brought to the Bank of England by Éva Széll."},
        {"title": "Song", "text": "Here Éva Széll łagodnie sings. Ever Since Then she and Al Bo do."},
        {"title": "Salt", "text": "Salt is a mineral. It is mined in Poland since 2900, from 1821–48 at 1500.5 feet."},
        {"title": "War of 1914", "text": "In 1914 it began. On 23 May 1915 a Treaty of London, of 1916, was read."},
        {"title": "Rail", "text": "It opened (May 23, 1915, or 1915)."},
        {"title": "Roads", "text": "Closed in 1916; on 23 May 1915."},
    )
    found = load_answers(written(tmp_path / "a.jsonl", *passages))
    names = [Answer("Omineca Country", id="1"), Answer("Bank of England"), Answer("Al Bo"), Answer("Treaty of London")]
    assert found == [*names, Answer("23 May 1915"), Answer("May 23, 1915"), Answer("1916")]
    with pytest.raises(ValueError, match='no passage holds a name or a date that its title has not; give rows of {"an'):
        load_answers(written(tmp_path / "b.jsonl", passages[4]))


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

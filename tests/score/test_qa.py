"""Scores of question answering, by hand."""

import pytest

from spicejax.games.acesearcher import rewards
from spicejax.score import qa


@pytest.mark.parametrize(("text", "deleted", "spaced"), [
    ("The U.S. Navy", "us navy", "u s navy"), ("Jean-Paul  Sartre", "jeanpaul sartre", "jean paul sartre"),
    ("snake_case", "snakecase", "snake case"), ("an apple a day", "apple day", "apple day"),
    ("Theatre, another!", "theatre another", "theatre another"), ("!?", "", ""),
])  # fmt: skip
def test_two_ways_to_normalise(text, deleted, spaced):
    assert (qa.normal(text), qa.normal(text, "space")) == (deleted, spaced)


@pytest.mark.parametrize(("said", "right", "same"), [
    ("12.34", "12.3378", True), ("12.34", "12.3", False), ("100.14", "100", True), ("100.16", "100", False),
    ("-12.34", "12.34", False), ("123.4", "12.34", False), ("0.1234", "12.34", True), ("12.34%", "0.1234", True),
    ("1,234", "1234", True), ("1/3", "0.3333", True), ("0", "0.0", True), ("nan", "1", False), ("1e400", "inf", False),
    ("12.34.", "12.3378", True), ("-$12.34", "-12.3378", True), ("12.34%.", "12.3378", True), ("5.", "5", True),
    ("", "0", False), ("...", "0", False), ("the Danube", "Danube", True), ("3 million", "3", False),
])  # fmt: skip
def test_near_takes_numbers_that_differ_by_rounding(said, right, same):
    assert qa.near(said, ["x", right]) == same
    assert not qa.near(None, [right])


def test_exact_match_takes_any_answer():
    assert qa.exact("the beatles.", ["Rolling Stones", "Beatles"])
    assert not qa.exact("The Beatles band", ["Beatles"])
    assert qa.exact("US", ["U.S."]) and not qa.exact("US", ["U.S."], "space")


@pytest.mark.parametrize(("said", "answers", "style", "score"), [
    ("Paris France", ["Paris"], "delete", 2 / 3), ("new new york", ["new york new"], "delete", 1.0),
    ("new new new", ["new york"], "delete", 2 / 5), ("London", ["Paris", "big London"], "delete", 2 / 3),
    ("yes it is", ["yes"], "space", 0.0), ("yes it is", ["yes"], "delete", 1 / 2), ("True", ["yes"], "space", 1.0),
    ("True", ["yes"], "delete", 0.0), ("false", ["no"], "space", 1.0), ("Paris", [], "delete", 0.0),
])  # fmt: skip
def test_f1(said, answers, style, score):
    assert qa.f1(said, answers, style) == pytest.approx(score)


def test_three_meanings_of_cover():
    cases = {  # (prediction, answer): substring, words, either
        ("he was born in New York City", "New York"): (True, True, True),
        ("York is new", "New York"): (False, True, False),
        ("York", "New York"): (False, False, True),
        ("Boston", "New York"): (False, False, False),
        ("category", "cat"): (True, False, True),  # of characters, as the public code has it
    }
    for (said, answer), wanted in cases.items():
        assert tuple(qa.covers(said, [answer], kind) for kind in ("substring", "words", "either")) == wanted, said
    with pytest.raises(ValueError, match="cover 'sub': choose one of substring, words, either"):
        qa.covers("a", ["a"], "sub")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("empty", [None, "", " ", "the", "..."])
def test_an_empty_prediction_scores_nothing(empty):
    for answers in (["Paris"], [""], ["the"], ["..."]):
        assert not qa.exact(empty, answers) and qa.f1(empty, answers) == 0
        assert not any(qa.covers(empty, answers, kind) for kind in ("substring", "words", "either"))


@pytest.mark.parametrize(
    ("answers", "found"),
    [(["Oslo"], True), (["-5"], True), (["A"], False), (["?"], False), (["The", "The Who"], True), (["a b\nc"], False)],
)
def test_whether_a_right_answer_would_be_right(answers, found):
    assert qa.matches_itself(answers) == found


@pytest.mark.parametrize(("said", "right"), [
    ("Beyonc\u0065\u0301", "Beyonc\u00e9"), ("O\u2019Brien", "O'Brien"), ("\u201cHamlet\u201d", '"Hamlet"'),
    ("1914\u20131918", "1914-1918"), ("Jean\u2010Paul", "Jean-Paul"), ("and so on\u2026", "and so on..."),
    ("\u22125", "-5"),
])  # fmt: skip
def test_typography_and_composed_letters_make_no_difference(said, right):
    for style in ("delete", "space"):
        assert qa.normal(said, style) == qa.normal(right, style) and qa.exact(said, [right], style)
        assert qa.f1(said, [right], style) == 1.0
    assert qa.covers(said, [right], "substring") and qa.covers(said, [right], "words")


def test_equal_numbers_written_otherwise():
    """As text 3/4 is 34, since SQuAD deletes the stroke; as a number it is 6/8, right where numbers are compared."""
    assert qa.number("3/4") == qa.number("6/8") == qa.number("3\u20444") == 0.75 and qa.number("\u22125") == -5
    assert qa.near("6/8", ["3/4"]) and not qa.exact("6/8", ["3/4"])
    assert rewards.reward("6/8", ["3/4"], formed=True, kind="exact") == 1.0
    assert rewards.reward("\u22125", ["5"], formed=True, kind="exact") == 0.0

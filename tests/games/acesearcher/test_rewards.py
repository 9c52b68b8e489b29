"""What an answer is worth: the paper's product, the public code's sum, and never anything for nothing."""

import pytest

from spicejax.games.acesearcher.rewards import agree, of_program, reward


def summed(answer, *right):
    return reward(answer, right, formed=True, kind="summed")


@pytest.mark.parametrize(
    ("answer", "formed", "worth"),
    [("the Danube.", True, 1.0), ("the Danube.", False, 0.0), ("Danube river", True, 0.0)],
)
def test_exact_match_times_form(answer, formed, worth):
    assert reward(answer, ("Danube",), formed=formed, kind="exact") == worth


def test_any_right_answer_counts():
    assert reward("UK", ("United Kingdom", "UK"), formed=True, kind="exact") == 1.0
    assert summed("UK", "United Kingdom", "UK") == 3.0


def test_the_sum_of_the_public_code():
    assert summed("Danube", "the Danube") == 3.0
    assert summed("river Danube", "Danube") == pytest.approx(0 + 1 + 2 / 3)
    assert summed("Danube", "river Danube") == pytest.approx(0 + 1 + 2 / 3)  # containment either way
    assert summed("blue river", "river Danube") == pytest.approx(2 / 4)
    assert summed("Rhine", "Danube") == 0.0
    assert summed("banana", "Vitamin A", "A") == 0.0  # an article, which normalising takes away
    assert summed("Vitamin A", "A", "Vitamin A") == 3.0


def test_f1_of_distinct_words_over_all_of_them():
    """`new new york` and `new york new`: two distinct shared words over three and three, not 1."""
    assert summed("new new york", "york new new") == pytest.approx(2 * 2 / 6)


@pytest.mark.parametrize(("answer", "worth"), [("yes", 3.0), ("Yes, it is.", 3.0), ("no", 0.0), ("it is, yes", 0.0)])
def test_yes_and_no_are_all_or_nothing(answer, worth):
    assert summed(answer, "yes") == worth


def test_small_numbers_are_words():
    assert summed("3", "three") == summed("three", "3") == 3.0
    assert summed("11", "eleven") == 0.0


@pytest.mark.parametrize(
    ("answer", "right", "same"),
    [
        ("-5", "5", False),
        ("1.75", "17.5", False),
        ("1,234", "1234", True),
        ("0.5", "1/2", True),
        ("12 %", "12", True),
        ("12", "123", False),  # a part of it as a text
        ("1984", "1984", True),
    ],
)
def test_numbers_are_compared_as_numbers(answer, right, same):
    assert reward(answer, [right], formed=True, kind="exact") == same
    assert reward(answer, [right], formed=True, kind="summed") == 3 * same
    assert reward(answer, ["x", right], formed=True, kind="exact") == same


@pytest.mark.parametrize("kind", ["exact", "summed"])
def test_an_empty_answer_is_worth_nothing(kind):
    """The public code pays 1 of 3 for one, and 3 of 3 where the answer is yes or no."""
    for answer in (None, "", "  ", "the", "?!"):
        assert {reward(answer, (right,), formed=True, kind=kind) for right in ("yes", "Danube")} == {0.0}


@pytest.mark.parametrize(
    "answer, right, same",
    [
        ("17.5", "17.50", True),
        ("-5", "5", False),
        ("1.75", "17.5", False),
        ("0.125", "12.5", True),
        ("12.7", "0.125", False),
        ("nan", "1", False),
        ("Oslo", "Oslo", False),
    ],
)
def test_values_of_programs_agree_but_for_rounding_and_percent(answer, right, same):
    assert agree(answer, right) == same
    worth = of_program(answer, [right], kind="exact")
    assert worth == float(same or answer == right)
    assert of_program(answer, ["x", right], kind="summed") >= 3 * same

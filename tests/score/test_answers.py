"""What an answer's text says: numbers, truth values, lists, names, whole-token search."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spicejax.score import answers


@pytest.mark.parametrize(("text", "value"), [
    ("42", 42), ("+42", 42), ("-42", -42), ("\u221242", -42), ("42.", 42), ("42.0", 42), (".5", Fraction(1, 2)),
    ("-.5", Fraction(-1, 2)), ("1,234,567", 1234567), ("1{,}234", 1234), ("1,234.5", Fraction(2469, 2)),
    ("3/4", Fraction(3, 4)), ("-3/4", Fraction(-3, 4)), ("\\frac{3}{4}", Fraction(3, 4)),
    ("\\dfrac34", Fraction(3, 4)), ("-\\tfrac{3}{4}", Fraction(-3, 4)), ("\\frac{-3}{4}", Fraction(-3, 4)),
    ("6.02e23", Fraction(602) * 10**21), ("1E-3", Fraction(1, 1000)), ("6.02 \\times 10^{23}", Fraction(602) * 10**21),
    ("5 x 10^3", 5000), ("$42$", 42), ("\\(42\\)", 42), ("$$42$$", 42), ("\\$42", 42), ("$42", 42),
    ("€3.50", Fraction(7, 2)), ("**42**", 42), ("\\text{42}", 42), ("12 \\text{ cm}", 12), ("12\\,\\mathrm{cm}^2", 12),
    ("3.5 m^2", Fraction(7, 2)), ("\\frac{1}{2} m", Fraction(1, 2)), ("45^\\circ", 45), ("45^{\\circ}", 45),
    ("45°", 45), ("50\\%", 50), ("50 percent", 50), ("12,", 12), ("12\\", 12), ("47,\\! 250", 47250),
    ("\\$8,\\!140.50", Fraction(16281, 2)), ("8,140.50$", Fraction(16281, 2)), ("47\\,250", 47250), ("47 250", 47250),
    ("2 1/4", Fraction(9, 4)), ("-2\\frac{1}{4}", Fraction(-9, 4)), ("2 \\dfrac14", Fraction(9, 4)),
    ("0.\\overline{6}", Fraction(2, 3)), ("-1.2\\bar{5}", Fraction(-113, 90)),
])  # fmt: skip
def test_numbers_are_exact(text: str, value: Fraction | int) -> None:
    number = answers.parse_number(text)
    assert number is not None and number.value == value


@pytest.mark.parametrize(
    "text",
    ["", "-", ".", "1,23", "12,34,567", "1 2", "42 thousand", "42 or 43", "42k", "5x", "1/0", "\\frac{1}{0}", "1e99999",
     "1e401", "four", "４２", "٤٢", "²", "½", "1_000", "0x10", "1/2/3", "3..4",
     "2 5/4", "2\\frac{5}{4}", "2 1/0", "47, 250", "4 72", "0,111", "42 nd", "42\\text{ thousand}", "42, 43,",
     "nan", "inf", "10**3", "9" * 401, "1" * 2000],
)  # fmt: skip
def test_what_is_not_one_number_is_none(text: str) -> None:
    assert answers.parse_number(text) is None


def test_percent_means_either_reading_and_units_must_agree() -> None:
    def same(a: str, b: str) -> bool:
        said, gold = answers.parse_number(a), answers.parse_number(b)
        assert said and gold
        return answers.same_number(said, gold)

    assert same("50%", "50") and same("50%", "0.5") and same("0.5", "50%") and same("50", "50%")
    assert not same("50", "0.5") and not same("50%", "0.05") and not same("50%", "5000%")
    assert same("1%", "1") and same("0.5%", "0.005") and not same("0.5%", "0.5") and not same("0.5", "0.5%")
    assert not same("50%", "50 km") and same("$5", "5 dollars") and not same("$5", "5 cents") and same("5 cents", "5")
    assert same("5 km", "5") and same("5", "5 m") and same("5 m", "5 m") and not same("5 km", "5 m")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("0.666667", "2/3", True), ("0.666668", "2/3", False), ("8421.30", "8421.3", True), ("8421.31", "8421.30", False),
     ("70000001", "70000002", False), ("70000001.5", "70000001", False), ("1/70000001", "1/70000002", False),
     ("4.1e-30", "4.1e-30", True), ("4.2e-30", "4.1e-30", False)],
)  # fmt: skip
def test_decimals_agree_to_their_last_place_and_exact_numbers_exactly(one: str, other: str, same: bool) -> None:
    numbers = [answers.parse_number(text) for text in (one, other)]
    assert numbers[0] and numbers[1]
    assert answers.same_number(numbers[0], numbers[1], tolerance=1e-6) is same
    assert answers.same_number(numbers[1], numbers[0], tolerance=1e-6) is same


@pytest.mark.parametrize(("text", "elements"), [
    ("1, 2, 3", ["1", "2", "3"]), ("[1,2,3]", ["1", "2", "3"]), ("\\{1, 2\\}", ["1", "2"]),
    ('["apple", "banana"]', ["apple", "banana"]), ("(1,2), (3,4)", ["(1,2)", "(3,4)"]), ("a; b", ["a", "b"]),
    ("apple", ["apple"]), ("", []),
])  # fmt: skip
def test_lists_split_at_the_top_level(text: str, elements: list[str]) -> None:
    assert answers.split_list(text) == elements


@pytest.mark.parametrize(
    ("one", "other"),
    [("Newton", "newton"), ("the Nile", "Nile"), ("U.S.", "US"), ("gradient-descent", "Gradient descent"),
     ("“Paris”", "Paris"), ("\\text{Paris}", "Paris"), ("Paris.", "paris"), ("Newton’s law", "newton's law"),
     ("'C'", "C"),
     ("x^{10}", "x^10"), ("caf\u00e9", "cafe\u0301"), ("O(n  log n)", "O(n log n)")],
)  # fmt: skip
def test_spellings_of_one_name_are_equal(one: str, other: str) -> None:
    assert answers.normal(one) == answers.normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("C++", "C"), ("-5", "5"), ("3.5", "35"), ("a+b", "a-b"), ("Vitamin A", "Vitamin"), ("P\u0430ris", "Paris"),
     ("\uff30aris", "Paris"), ("x\u00b2", "x2"), ("g'(t)", "g(t)"),
     ("g'", "g''"), ("H\u2082O", "H2O"), ("Par\u200bis", "Paris"), ("3:1", "31")],
)  # fmt: skip
def test_different_names_and_lookalikes_stay_different(one: str, other: str) -> None:
    assert answers.normal(one) != answers.normal(other)


def test_number_tokens_stand_alone() -> None:
    text = "At 1,000 m, x2 was 5kg, H2O froze at -3.50 (not 03), 93-47=46."
    assert answers.number_tokens(text) == {"1000", "-3.5", "3", "93", "47", "46"}


@given(st.text(max_size=80), st.text(max_size=20))
def test_phrases_are_found_where_they_stand(text: str, inner: str) -> None:
    assert answers.phrase(inner) == "  " or answers.phrase(inner) in answers.tokens(f"{text} | {inner} | {text}")

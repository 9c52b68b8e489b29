"""What the form of two answers tells before mathematics is asked, and what is left to ask."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spicejax.score import forms
from spicejax.score.forms import Claim


def compare(gold: str, answer: str, *, symbolic: bool = True) -> bool | Claim:
    return forms.equal(forms.read(gold, symbolic=symbolic), forms.read(answer, symbolic=symbolic))


@pytest.mark.parametrize(("gold", "answer"), [
    ("4, -6", "-6, 4"), ("4, -6", "-6 \\text{ and } 4"), ("4, -6", "\\{-6, 4\\}"),
    ("4, -6", "x = 4 \\text{ or } x = -6"), ("4 \\text{ or } -6", "-6 \\quad 4"), ("\\pm 6", "-6, 6"),
    ("x = 1, 8", "8, 1"), ("a = 3, b = 8", "b = 8, a = 3"), ("a = 3, b = 8", "(3, 8)"),
    ("a = 3, b = 8; a = 4, b = 9", "(4, 9), (3, 8)"), ("(3, 8)", "a = 3, b = 8"), ("(3, 8)", "(a, b) = (3, 8)"),
    ("(3, 8)", "3, 8"), ("(1, 2), (3, 4)", "(3, 4), (1, 2)"), ("[1, 2, 3]", "(1, 2, 3)"), ("[0, 5)", "x \\in [0, 5)"),
    ("8", "t = 8"), ("t = 8", "8"), ("8", "8 = 16/2"), ("\\frac{1}{4}", "\\frac{1}{4} \\approx 0.3"),
    ("8", "t \\approx 8"), ("315_7", "315_{7}"), ("5:3", "5 : 3"), ("7 \\text{ cm}", "7 \\text{ centimeters}"),
    ("7 \\text{ m}", "7 m"), ("2x \\text{ dollars}", "2x"), ("\\text{even}", "even"), ("x_1", "x₁"), ("3y^{4}", "3y⁴"),
    ("1e-15", "1 \\times 10^{-15}"), ("7000000", "7 million"), ("7 \\text{ thousand}", "7000"), ("7.5", "7½"),
    ("\\emptyset", "\\{ \\}"), ("\\mathbb{R}", "x \\in (-\\infty, \\infty)"), ("8", "t = \\frac{16}{2} = 8"),
    ("8", "A = \\frac{1}{2} bh = 8"), ("7.67", "t = 23/3 = 7.67"), ("7.67", "23/3 \\approx 7.67"),
    ("23/3", "23/3 \\approx 7.67"), ("7.67", "t = 2.3 \\times 3.333 = 7.67"), ("H_2O", "\\mathrm{H_2O}"), ("8", '"8"'),
])  # fmt: skip
def test_equal_forms(gold: str, answer: str) -> None:
    assert compare(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), [
    ("(3, 8)", "\\{3, 8\\}"), ("\\{3, 8\\}", "(3, 8)"), ("3, 8", "(3, 8)"), ("(3, 8)", "(8, 3)"), ("(3, 8)", "8, 3"),
    ("(3, 8)", "[3, 8]"), ("[3, 8)", "(3, 8]"), ("a = 3, b = 8", "\\{8, 3\\}"), ("a = 3, b = 8", "8, 3"),
    ("a = 3, b = 8", "a = 8, b = 3"), ("a = 3, b = 8", "A = 3, B = 8"),
    ("a = 3, b = 8; a = 4, b = 9", "(3, 9), (4, 8)"), ("4, -6", "4"), ("4, 4", "4, 5"),
    ("4, 5, 6", "4, 5, 6, \\ldots"), ("a = 3", "b = 3"), ("8", "7 = 8"), ("8", "8 = 7"), ("8", "8 \\approx 9"),
    ("8", "\\approx 8"), ("8", "8 \\bmod 9"), ("2a + b = 8", "8"), ("8 = 2a + b", "2a + b"), ("x > 8", "8"),
    ("1 < x < 8", "\\{1, 8\\}"), ("315_7", "315_8"), ("315_7", "315"), ("159", "315_7"), ("5:3", "\\frac{5}{3}"),
    ("7 \\text{ km}", "7 \\text{ kg}"), ("7 km", "7 kg"), ("7", "7 \\text{ million}"), ("36", "3 6"), ("9", "3 + 3 3"),
    ("g", "g'"), ("g' + g", "g + g"), ("y' = 2y", "y = 2y"), ("\\text{Ann}", "\\text{Bob}"),
    ("\\text{AB}", "\\text{AB}'"), ("7 million", "7 billion"), ("7000000", "7 \\text{ millionths}"),
    ("8", "t = 7 = 8"), ("8", "t = 16/4 = 8"), ("7.67", "t = 22/3 = 7.67"), ("23/3", "23/3 \\approx 8.67"),
    ("7.67", "22/3 \\approx 7.67"), ("7123", "(7,123)"), ("(7,123)", "7123"), ("7123", "\\{7,123\\}"),
    ("\\{1, 8\\}", "\\{\\{1, 8\\}\\}"), ("315", "315_{seven}"), ("C2H", "HC2"), ("2z", "z2"), ("46", '4"6'),
    ("46", "4\\$6"), ("11", "4\\phantom{1}6"), ("10", "4 \\~ 6"), ("46", "4\u20636"), ("(1, 8)", "1 < x < 8"),
    ("(1, 8)", "1 \\text{ or } 8"), ("(8, 0)", "4 \\pm 4"), ("(3, 8)", "a = 3 \\text{ or } b = 8"),
    ("(3, 8)", "3 \\lor 8"),
])  # fmt: skip
def test_different_forms(gold: str, answer: str) -> None:
    assert compare(gold, answer) is False


def test_what_is_left_to_mathematics_is_bare() -> None:
    assert compare("2x \\text{ cm}", "y = x + x \\text{ cm}") == ("2x", "x + x")
    assert compare("(2, 2x)", "(2, x + x)") == ("all", (("2x", "x + x"),))
    assert compare("2, 2x, 3x", "x + 2x, 2, x + x") == (
        "match",
        ((("2x", "x + 2x"), ("2x", "x + x")), (("3x", "x + 2x"), ("3x", "x + x"))),
    )
    assert compare("\\sqrt{9 \\times 10^{6}}", "3e3") == ("\\sqrt{9 \\times 10^{6}}", "3000")
    assert compare("[1, 8)", "1 \\le t < 8") == ("1 \\le t < 8", "[1, 8)")
    assert compare("3^{n} n", "n3^{n}") == ("3^{n} n", "n3^{n}")
    assert compare("8", "t = 6 + 2 = 8") == ("all", (("8", "6 + 2"),))
    assert compare("5", "4 + 1 = 3 + 2") == ("all", (("5", "4 + 1"), ("5", "3 + 2")))


_PIECES = ["\\text{", "}", "{", "\\{", "\\}", "(", ")", "[", ",", ";", "=", "<", " or ", "\\pm ", ":", "\\mod ", "_",
           "^", "\\in ", "\\approx ", "²", "'", "x", "y", "2", "3.5", " ", "km", "%", "$", "\\quad ", "√"]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=40), st.lists(st.sampled_from(_PIECES), max_size=20), st.booleans())
def test_reading_and_comparing_are_total(gold, answer, symbolic) -> None:
    result = compare("".join(gold), "".join(answer), symbolic=symbolic)
    assert isinstance(result, bool) or len(result) == 2


@pytest.mark.parametrize(
    "text", ["1, " * 330, "(1," * 330, "x^2, " * 200, "a=b=" * 250, "\\text{" * 160, "x'" * 500, "A" * 1000]
)
def test_long_answers_take_milliseconds(text: str) -> None:
    began = time.process_time()
    compare("x, " + text[:-1], text)
    assert time.process_time() - began < 1.0

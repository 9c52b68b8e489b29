"""What the form of two answers tells before mathematics is asked, and what is left to ask."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spicejax.score import forms
from spicejax.score.forms import Claim


def compare(gold: str, answer: str, *, symbolic: bool = True) -> bool | Claim:
    return forms.equal(forms.read(gold, symbolic=symbolic), forms.read(answer, symbolic=symbolic))


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("4, -6", "-6, 4"),
        ("4, -6", "-6 \\text{ and } 4"),
        ("4, -6", "\\{-6, 4\\}"),
        ("4, -6", "x = 4 \\text{ or } x = -6"),
        ("4 \\text{ or } -6", "-6 \\quad 4"),
        ("\\pm 6", "-6, 6"),
        ("x = 1, 8", "8, 1"),
        ("a = 3, b = 8", "b = 8, a = 3"),
        ("a = 3, b = 8", "(3, 8)"),
        ("a = 3, b = 8; a = 4, b = 9", "(4, 9), (3, 8)"),
        ("(3, 8)", "a = 3, b = 8"),
        ("(3, 8)", "(a, b) = (3, 8)"),
        ("(3, 8)", "3, 8"),
        ("(1, 2), (3, 4)", "(3, 4), (1, 2)"),
        ("[1, 2, 3]", "(1, 2, 3)"),
        ("[0, 5)", "x \\in [0, 5)"),
        ("8", "t = 8"),
        ("t = 8", "8"),
        ("8", "8 = 16/2"),
        ("\\frac{1}{4}", "\\frac{1}{4} \\approx 0.3"),
        ("8", "t \\approx 8"),
        ("315_7", "315_{7}"),
        ("5:3", "5 : 3"),
        ("7 \\text{ cm}", "7 \\text{ centimeters}"),
        ("7 \\text{ m}", "7 m"),
        ("2x \\text{ dollars}", "2x"),
        ("\\text{even}", "even"),
        ("x_1", "x₁"),
        ("3y^{4}", "3y⁴"),
        ("1e-15", "1 \\times 10^{-15}"),
    ],
)
def test_equal_forms(gold: str, answer: str) -> None:
    assert compare(gold, answer) is True


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("(3, 8)", "\\{3, 8\\}"),
        ("\\{3, 8\\}", "(3, 8)"),
        ("3, 8", "(3, 8)"),
        ("(3, 8)", "(8, 3)"),
        ("(3, 8)", "8, 3"),
        ("(3, 8)", "[3, 8]"),
        ("[3, 8)", "(3, 8]"),
        ("a = 3, b = 8", "\\{8, 3\\}"),
        ("a = 3, b = 8", "8, 3"),
        ("a = 3, b = 8", "a = 8, b = 3"),
        ("a = 3, b = 8", "A = 3, B = 8"),
        ("a = 3, b = 8; a = 4, b = 9", "(3, 9), (4, 8)"),
        ("4, -6", "4"),
        ("4, 4", "4, 5"),
        ("4, 5, 6", "4, 5, 6, \\ldots"),
        ("a = 3", "b = 3"),
        ("8", "7 = 8"),
        ("8", "8 = 7"),
        ("8", "8 \\approx 9"),
        ("8", "\\approx 8"),
        ("8", "8 \\bmod 9"),
        ("2a + b = 8", "8"),
        ("8 = 2a + b", "2a + b"),
        ("x > 8", "8"),
        ("1 < x < 8", "\\{1, 8\\}"),
        ("315_7", "315_8"),
        ("315_7", "315"),
        ("159", "315_7"),
        ("5:3", "\\frac{5}{3}"),
        ("7 \\text{ km}", "7 \\text{ kg}"),
        ("7 km", "7 kg"),
        ("7", "7 \\text{ million}"),
        ("36", "3 6"),
        ("9", "3 + 3 3"),
        ("g", "g'"),
        ("g' + g", "g + g"),
        ("y' = 2y", "y = 2y"),
        ("\\text{Ann}", "\\text{Bob}"),
    ],
)
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

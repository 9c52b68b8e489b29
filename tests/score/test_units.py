"""What stands behind a number without being part of it."""

import pytest

from spicejax.score.answers import clean
from spicejax.score.units import split_unit


@pytest.mark.parametrize(("text", "core", "unit"), [
    ("8 km", "8", "km"), ("8 kilometres", "8", "km"), ("8\\,\\mathrm{km}", "8", "km"),
    ("8 \\text{ square feet}", "8", "ft^2"), ("8 \\text{ ft}^{2}", "8", "ft^2"), ("8 sq ft", "8", "ft^2"),
    ("8 m³", "8", "m^3"), ("8 \\text{ m/s}^2", "8", "m s^-2"), ("8 metres per second squared", "8", "m s^-2"),
    ("\\$8 per hour", "8", "dollar h^-1"), ("8 dollars/hour", "8", "dollar h^-1"), ("8€", "8", "euro"),
    ("-$8", "-8", "dollar"), ("8^{\\circ}\\text{C}", "8", "°C"), ("8 percent", "8", "%"),
    ("8 degrees Celsius", "8", "°C"), ("8 fahrenheit", "8", "°F"), ("8\\,\\mathrm{kg\\,m^{-3}}", "8", "kg m^-3"),
    ("3\\pi \\text{ cm}", "3\\pi", "cm"), ("2x \\text{ dollars}", "2x", "dollar"), ("8 tickets", "8", "tickets"),
    ("8 \\text{ green marbles}", "8", "green marbles"), ("8 miles per gallon", "8", "gal^-1 mi"),
])  # fmt: skip
def test_units_are_split_off_and_written_one_way(text: str, core: str, unit: str) -> None:
    assert split_unit(clean(text)) == (core, unit)


@pytest.mark.parametrize(
    "text",
    ["8 million", "8 \\text{ million}", "8 thousand miles", "8 \\text{ hundredths}", "8k", "8M", "8m", "8 squared",
     "8 below", "8 plus",
     "8th", "8 less", "8 of 9", "8\\%\\%",
     "8 \\mod 9", "8x", "\\sin 8^\\circ", "km", "", "8 very long red balls"],
)  # fmt: skip
def test_what_changes_a_number_is_no_unit(text: str) -> None:
    assert split_unit(text)[1] == ""


@pytest.mark.parametrize(
    ("text", "unit"),
    [("8 m", ""), ("8m", ""), ("8mg", ""), ("2+8t", ""), ("8 km", "km"), ("8 \\text{ m}", "m"), ("8\\mathrm{m}", "m"),
     ("8weeks", "week"), ("8 m/s", "")],
)  # fmt: skip
def test_letters_are_symbols_where_symbols_are_expected(text: str, unit: str) -> None:
    assert split_unit(text, symbolic=True)[1] == unit

"""The literal fact tables of the nano world: elements, countries, planets, months, units, constants."""

from __future__ import annotations

from collections.abc import Iterator


def _rows(text: str) -> Iterator[tuple[str, ...]]:
    """Rows are apart by semicolons, their words by spaces."""
    return (tuple(row.split()) for row in text.split(";"))


# The elements of each period in order, and the IUPAC groups they stand in.
_PERIODS = (
    "hydrogen helium",
    "lithium beryllium boron carbon nitrogen oxygen fluorine neon",
    "sodium magnesium aluminium silicon phosphorus sulfur chlorine argon",
    "potassium calcium scandium titanium vanadium chromium manganese iron cobalt nickel copper zinc gallium germanium "
    "arsenic selenium bromine krypton",
    "rubidium strontium yttrium zirconium niobium molybdenum technetium ruthenium rhodium palladium silver cadmium "
    "indium tin antimony tellurium iodine xenon",
)
_GROUPS = {2: (1, 18), 8: (1, 2, *range(13, 19)), 18: range(1, 19)}  # by length of the period
_PLACES = [
    (name, period, group)
    for period, names in enumerate(map(str.split, _PERIODS), start=1)
    for name, group in zip(names, _GROUPS[len(names)], strict=True)
]
# (name, number, period, group): the elements 1 to 54.
ELEMENTS = tuple((name, number, period, group) for number, (name, period, group) in enumerate(_PLACES, start=1))

# (name, international calling code).
COUNTRIES = tuple(
    (name, int(code))
    for name, code in _rows(
        "Argentina 54; Australia 61; Austria 43; Belgium 32; Brazil 55; Chile 56; China 86; Colombia 57; Cuba 53;"
        "Denmark 45; Egypt 20; Ethiopia 251; Finland 358; France 33; Germany 49; Ghana 233; Greece 30; Hungary 36;"
        "India 91; Iran 98; Ireland 353; Italy 39; Japan 81; Kenya 254; Mexico 52; Morocco 212; Nigeria 234; Norway 47;"
        "Peru 51; Poland 48; Portugal 351; Romania 40; Spain 34; Sweden 46; Switzerland 41; Thailand 66; Turkey 90;"
        "Uganda 256; Vietnam 84; Zambia 260"
    )
)

# (name, order from the Sun, mean radius in km divided by 1000 and rounded).
_RADII = {"Mercury": 2, "Venus": 6, "Earth": 6, "Mars": 3, "Jupiter": 70, "Saturn": 58, "Uranus": 25, "Neptune": 25}
PLANETS = tuple((name, order, radius) for order, (name, radius) in enumerate(_RADII.items(), start=1))

# (name, days in a common year), in order.
_NAMES = "January February March April May June July August September October November December".split()
MONTHS = tuple(zip(_NAMES, (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))

# (large unit, its plural, plural of the small unit, small units in one large unit): exact by definition.
UNITS = tuple(
    (name, plural, small, int(count))
    for name, plural, small, count in _rows(
        "foot feet inches 12; yard yards feet 3; meter meters centimeters 100; pound pounds ounces 16;"
        "stone stones pounds 14; kilogram kilograms grams 1000; gallon gallons quarts 4; quart quarts pints 2;"
        "minute minutes seconds 60; hour hours minutes 60; day days hours 24; week weeks days 7"
    )
)

# (name, first three digits, power of ten of the first digit) of the SI value, CODATA 2018:
# light 2.998e8 m/s, Planck 6.626e-34 J s, Boltzmann 1.381e-23 J/K, Avogadro 6.022e23 /mol, gravity 6.674e-11,
# elementary charge 1.602e-19 C, gas constant 8.314 J/mol K, Faraday 9.649e4 C/mol, Bohr radius 5.292e-11 m.
CONSTANTS = tuple(
    (name, int(digits), int(power))
    for name, digits, power in _rows(
        "light 300 8; Planck 663 -34; Boltzmann 138 -23; Avogadro 602 23; gravity 667 -11; charge 160 -19; gas 831 0;"
        "Faraday 965 4; Bohr 529 -11"
    )
)

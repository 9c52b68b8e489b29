"""Units of numbers: physical units, currencies, percent signs and counted things.

A unit is written canonically (`km/hour` is "hour^-1 km"), so that all spellings of a unit are equal strings. Words
that change a number (thousand, dozen, squared, tenths) are never units, and neither is a letter that may be a symbol.
Units are never converted.
"""

from __future__ import annotations

import re
import string

# Of each unit the canonical name, then other symbols (case-sensitive) and words (not case-sensitive).
_TABLE = """
m meter metre|cm centimeter centimetre|mm millimeter millimetre|km kilometer kilometre|nm nanometer nanometre
um µm μm micrometer micrometre|in inch inches|ft foot feet|yd yard|mi mile|g gram gm|kg kilogram kilo|mg milligram
lb lbs pound|oz ounce|t ton tonne|s sec second|ms millisecond|min mins minute|h hr hrs hour|day|week|month|yr yrs year
° deg degree|rad radian|K kelvin|°C celsius|°F fahrenheit|J joule|kJ kilojoule|W watt|kW kilowatt|kWh|N newton
Pa pascal|kPa|atm|bar|V volt|A amp ampere|ohm Ω|Hz hertz|kHz|MHz|GHz|l L liter litre|ml mL milliliter millilitre
gal gallon|mol mole|eV|MeV|GeV|cal calorie|acre|ha hectare|dollar USD bucks|cent ¢|euro EUR €|£ GBP|¥ yen JPY yuan
₹ rupee INR|mph|kmh kph|% percent percentage pct|unit|people persons person|men man|women woman|children child|mice
sheep|fish|point|times
"""
_SPELLINGS: dict[str, str] = {}
for _line in _TABLE.replace("\n", "|").strip("|").split("|"):
    for _spelling in _line.split():
        _SPELLINGS[_spelling] = _line.split()[0]

# Plurals that are or change a number, and words that hedge; the name of a counted thing contains none of them.
_VALUES = frozenset(
    "tens dozens hundreds thousands millions billions trillions hundred thousand million billion trillion dozen lakh "
    "crore score scores gross pairs halves half thirds quarters fourths fifths sixths sevenths eighths ninths tenths "
    "hundredths thousandths millionths squares cubes minus plus times less versus perhaps not or and to as is mods "
    "powers negative squared cubed factorial more than fewer least most about almost "
    "nearly approximately over under base roots this its was has does per".split()
)
_CURRENCY = re.compile(r"^(?P<sign>[+-]?)\s*(?P<mark>\$|[€£¥₹])\s*|\s*(?P<after>\$|[€£¥₹])$")
_MARKS = {"$": "dollar", "€": "euro", "£": "£", "¥": "¥", "₹": "₹"}
_COMMANDS = "text|textrm|textnormal|textbf|textit|mathrm|mathbf|mathit|mbox|hbox|operatorname"
_WRAPPED = rf"\\(?:{_COMMANDS})\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}"
_WRAP = re.compile(_WRAPPED)
_START = re.compile(  # where a unit may begin: after the end of a value
    rf"(?:(?<=[0-9.)}}\]π])|(?<=\\pi))(?P<gap>\s*)(?:{_WRAPPED}|\^\s*\{{?\s*\\circ|°|%|[A-Za-zµμΩ¢])"
    rf"|(?<=[A-Za-z])\s*{_WRAPPED}"
)
_TOKEN = re.compile(
    r"\s*(?:(°\s*[CF](?![A-Za-z])|(?:(?![²³])[^\W\d_])+|[°%Ω¢€£¥₹])|\^\s*\{?\s*(-?[0-9])\s*\}?|([²³])|(/|\*|·)|(\S))"
)
_ANGLE = re.compile(r"(?:sin|cos|tan|cot|sec|csc)(?![a-z])|°|\\circ")  # a degree sign after it is no unit
_MAX_UNIT = 80  # characters at the end of a text that may hold a unit


def _canonical(word: str) -> str | None:
    """The canonical name of a unit; None for other words."""
    word = re.sub(r"\s", "", word)
    lower = word.casefold()
    for spelling in (word, lower, lower.removesuffix("s") if len(word) > 3 else lower):
        if spelling in _SPELLINGS and (len(word) > 2 or word in _SPELLINGS):
            return _SPELLINGS[spelling]
    return None


def _counted(words: list[str]) -> str | None:
    """A counted thing of up to three words, the last a plural ("red balls"); None for other words."""
    plural = words[-1].casefold()
    if len(words) > 3 or len(plural) < 4 or plural.endswith("ss") or not plural.endswith("s"):
        return None
    return None if any(word.casefold() in _VALUES or len(word) < 2 for word in words) else " ".join(words).casefold()


def _read(tail: str) -> str | None:
    """A tail as a canonical unit; None where it is no unit."""
    words = re.sub(r"\^\s*\{?\s*\\circ\s*\}?", "°", _WRAP.sub(r" \1 ", tail)).replace("\\cdot", " ")
    words = re.sub(r"(?:°|\bdegrees?)\s*(?=celsius|fahrenheit)", "", words, flags=re.IGNORECASE)
    return _compound(words) or (_counted(words.split()) if re.fullmatch(r"[A-Za-z\s]*[A-Za-z]\s*", words) else None)


def _compound(words: str) -> str | None:
    """A product of powers of known units, canonically; after "per" every word is a unit. None for other words."""
    powers: dict[str, int] = {}
    last, sign, power = "", 1, 1
    for word, exponent, raised, joint, other in _TOKEN.findall(words):
        lower = word.casefold()
        if other or (exponent or raised or lower in ("squared", "cubed")) and not last:
            return None
        if exponent or raised or lower in ("squared", "cubed"):
            times = int(exponent) if exponent else 2 if (raised or lower) in ("²", "squared") else 3
            powers[last] *= times
            last = ""
        elif joint or lower == "per":
            sign = -1 if joint in ("", "/") else sign
        elif lower in ("square", "sq", "cubic", "cu"):
            power = 2 if lower.startswith("sq") else 3
        elif word:
            unit = _canonical(word)
            if unit in powers or unit is None and (sign > 0 or lower in _VALUES or len(word) < 3):
                return None
            last, powers[unit or lower] = unit or lower, powers.get(unit or lower, 0) + sign * power
            power = 1
    return " ".join(f"{unit}^{power}" if power != 1 else unit for unit, power in sorted(powers.items())) or None


def _may_be_symbols(tail: str, gap: str, *, symbolic: bool) -> bool:
    """Whether letters after a number may be factors: 5m, and with `symbolic` 5 m and 5km too."""
    word = tail[: len(tail) - len(tail.lstrip(string.ascii_letters))]
    letters = len(word)
    return letters == 1 and (symbolic or not gap and tail == word) or symbolic and 0 < letters < 4 and not gap


def split_unit(text: str, *, symbolic: bool = False) -> tuple[str, str]:
    """Split a text into its value and the canonical unit after (or before) it, "" without a unit.

    With `symbolic` single letters are symbols (5 m is five times m), and so are up to three after a digit. Text
    in \\text{} is never a symbol.
    """
    currency = ""
    if match := _CURRENCY.search(text):
        currency = _MARKS[match["mark"] or match["after"]]
        text = ((match["sign"] or "") + text[match.end() :] if match["mark"] else text[: match.start()]).strip()
    for match in _START.finditer(text, max(0, len(text) - _MAX_UNIT)):
        gap = match["gap"] or ""
        core, tail = text[: match.start()].rstrip(), text[match.start() + len(gap) :]
        if _may_be_symbols(tail, gap, symbolic=symbolic) or tail[:1] in "^°" and _ANGLE.search(core):
            continue
        unit = _read(tail)
        if unit and currency and currency not in unit:
            unit = f"{currency} {unit}" if "^-1" in unit else None
        if unit and core:
            return core, unit
    return text, currency

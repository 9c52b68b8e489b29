"""Readings of an answer's text: number, truth value, list elements, letter, comparable wording.

Pure text functions shared by the validity rules and the verifier. Every scan is linear, every integer bounded
(`MAX_DIGITS`), and only ASCII digits count: look-alike digits of other scripts are no number.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import unicodedata
from fractions import Fraction

from spicejax.score.units import split_unit
from spicejax.tags import THINK

MAX_ANSWER_CHARS = 1000  # characters; longer answers are never compared
MAX_DIGITS = 400  # digits in one answer, and the largest power of ten

_UNSIGNED = r"(?:[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+|(?: [0-9]{3})+)|[0-9]+)?(?:\.[0-9]*)?"
_PLAIN_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*(?P<digits>{_UNSIGNED})"
    r"(?:[eE](?P<exp>[+-]?[0-9]{1,4})|\s*(?:\\times|\\cdot|\*|×|·|x)\s*10\s*\^\s*\{?\s*(?P<power>[+-]?[0-9]{1,4})\s*\}?)?"
)
_LATEX_FRACTION = re.compile(r"([+-]?)\s*\\[dtc]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|([0-9])\s*([0-9]))")
_MIXED = re.compile(
    r"([+-]?)\s*([0-9]{1,400})"
    r"(?:\s+([0-9]{1,400})/([0-9]{1,400})|\s*\\[dtc]?frac\s*(?:\{([0-9]{1,400})\}\s*\{([0-9]{1,400})\}|([0-9])\s*([0-9])))"
)
_REPEATING = re.compile(r"([+-]?)\s*([0-9]{0,99})\.([0-9]{0,99})\\(?:overline|bar)\s*\{([0-9]{1,99})\}")
_TEXT_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mathcal|operatorname|mbox|hbox|rm)\s*\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_SPACING = re.compile(r"\\(?:left|right|displaystyle|big|Big)(?![A-Za-z])|(?<!\\)\\[,;: ]|~")
_GROUP_SPACE = re.compile(r"(?<=[0-9])(?:\\[,;: ]|~)(?=[0-9]{3}(?![0-9]))")
_DRESSED = re.compile("[^A-Za-z0-9 +/()=-]")
_DELIMITER = re.compile(r"(?<!\\)\$")
_BOXED = re.compile(r"\\boxed[ \t\n]{0,8}\{|\\.|[{}]", re.DOTALL)
_BLANK = re.compile(r"\s*")
_BOXED_TAIL = 65_536  # characters at the end of a response that are searched for a box
_NUMBER_TOKEN = re.compile(r"(?<![A-Za-z_0-9.])(?:(?<![)\]])-)?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?![A-Za-z_0-9])")
_TOKEN = re.compile(r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|[^\W\d_]+|[^\s\w]|\w")

_QUOTES = re.compile(r"(?<![\w'\"‘“])([a-z]['′]+)(?![a-z])|[\"'“”‘’`{}]")  # but not the prime of f'

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


@dataclasses.dataclass(frozen=True)
class Number:
    """An exact number and its unit."""

    value: Fraction
    written: str = ""  # without the unit
    percent: bool = False  # written with a percent sign; value is the number before the sign
    unit: str = ""  # canonical, "" where none was written


def clean(text: str) -> str:
    """Strip LaTeX and Markdown that mean nothing: $ $, \\left, thin spaces, a final stop, comma or backslash."""
    if not _DRESSED.search(text):
        return " ".join(text.split())
    text = text.strip().replace("\u2212", "-").replace("\u00a0", " ").replace("{,}", ",")
    for _ in range(2):
        for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("`", "`")):
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                text = text[len(opening) : -len(closing)].strip()
    if len(_DELIMITER.findall(text)) > 1:  # a single one is a currency
        text = _DELIMITER.sub(" ", text)
    text = _GROUP_SPACE.sub(",", re.sub(r"(?<!\\)\\!\s*", "", text))
    text = re.sub(r"\\([%$#&_])", r"\1", _SPACING.sub(" ", text))
    return re.sub(r"(?<=[^.,;\s\\])\s?[.,;\\]$", "", " ".join(text.split()))


def plain(text: str) -> str:
    """Strip what `clean` strips, and \\text{} and similar commands around words."""
    text = clean(text)
    return " ".join(_TEXT_COMMAND.sub(r"\1", text).split()) if "\\" in text else text


def _decimal(text: str) -> Fraction | None:
    """Read one number in decimal or scientific notation, of bounded size; None for anything else."""
    match = _PLAIN_NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    digits, exponent = re.sub("[, ]", "", match["digits"]), int(match["exp"] or match["power"] or 0)
    if not digits.strip(".") or len(digits) > MAX_DIGITS or abs(exponent) > MAX_DIGITS:
        return None
    return Fraction(f"{match['sign']}{digits}e{exponent}")


def _exact(text: str) -> Fraction | None:
    """Read one number without unit: decimal, scientific, repeating, a/b, \\frac{a}{b} or 1 a/b; else None."""
    if match := _REPEATING.fullmatch(text.strip()):
        sign, whole, fixed, period = match.groups()
        nines = 10 ** len(fixed) * (10 ** len(period) - 1)
        return Fraction(int(f"{sign}{whole}{fixed}{period}") - int(f"{sign}0{whole}{fixed}"), nines)
    if mixed := _MIXED.fullmatch(text.strip()):
        over, under = (int(part) for part in mixed.groups()[2:] if part is not None)
        value = int(mixed[2]) + Fraction(over, under) if 0 < over < under else None  # 2 5/3 may be a product
        return value if value is None or mixed[1] != "-" else -value
    match = _LATEX_FRACTION.fullmatch(text.strip())
    parts = [part for part in match.groups()[1:] if part is not None] if match else text.split("/")
    values = [value for part in parts if (value := _decimal(part)) is not None]
    if len(values) != len(parts) or len(parts) > 2 or 0 in values[1:]:
        return None
    value = values[0] / values[1] if values[1:] else values[0]
    return -value if match and match[1] == "-" else value


def parse_number(text: str, *, symbolic: bool = False) -> Number | None:
    """Read a text that is one number, perhaps with currency or percent sign or unit (`units.split_unit`); else None.

    Accepts 1,234 · 1{,}234 · .5 · 6.02e23 · 6.02\\times10^{23} · 3/4 · \\frac{3}{4} · 1 3/4 · 50\\% · $5.
    """
    if _PLAIN_NUMBER.fullmatch(text) and (value := _decimal(text)) is not None:
        return Number(value, text)
    if not any(digit in text for digit in "0123456789"):
        return None
    core, unit = split_unit(clean(text), symbolic=symbolic)
    core = _TEXT_COMMAND.sub(r"\1", core)
    value = _exact(core)
    return None if value is None else Number(value, core, unit == "%", "" if unit == "%" else unit)


def _half_place(number: Number) -> Fraction:
    """Half a unit of a decimal's last place; 0 for whole numbers and fractions, which are exact."""
    match = _PLAIN_NUMBER.fullmatch(number.written.strip())
    if match is None or not ("." in match["digits"] or match["exp"] or match["power"]):
        return Fraction(0)
    decimals = len(match["digits"].partition(".")[2])
    return Fraction(f"0.5e{int(match['exp'] or match['power'] or 0) - decimals}")


def same_number(answer: Number, gold: Number, *, tolerance: float = 0.0) -> bool:
    """Say whether two numbers agree within `tolerance`, relative to the gold one, and within half of a last place.

    So 0.333333 equals 1/3, but 16386.21 does not equal 16386.20, and numbers without a decimal point must be the same.
    A percent sign on one side may mean 50% = 50 (the question asked for percent) or 50% = 0.5; both are accepted, but
    0.5% is not 0.5. Units count only where both sides have one.
    """
    answer_unit, gold_unit = answer.unit or "%" * answer.percent, gold.unit or "%" * gold.percent
    if answer_unit and gold_unit and answer_unit != gold_unit:
        return False
    differences = [answer.value - gold.value] if answer.percent == gold.percent or abs(gold.value) >= 1 else []
    if answer.percent != gold.percent:
        differences.append(answer.value / 100 - gold.value if answer.percent else answer.value - gold.value / 100)
    if not tolerance or 0 in differences:
        return 0 in differences
    slack = abs(gold.value) * Fraction(str(tolerance))  # 1e-6 as written, not its binary neighbour
    return min(map(abs, differences)) <= min(slack, max(_half_place(answer), _half_place(gold)))


def parse_boolean(text: str) -> bool | None:
    """Read true/false or yes/no in any case; None for anything else."""
    return _BOOLEANS.get(plain(text).casefold())


def _is_enclosed(text: str) -> bool:
    """Say whether one pair of brackets encloses the whole text: (1, 2) but not (1, 2), (3, 4)."""
    depths = list(itertools.accumulate((c in "[({") - (c in "])}") for c in text))
    return text[:1] + text[-1:] in ("[]", "{}", "()") and 0 in depths and depths.index(0) == len(text) - 1


def cut(text: str, separator: str) -> list[str]:
    """Split a text at a pattern outside all brackets; one part where it does not occur."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(rf"[\[({{]|[\])}}]|{separator}", text):
        mark = match[0]
        if mark in "[({":
            depth += 1
        elif mark in "])}":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


def split_list(text: str, separator: str = r"[,;]\s*") -> list[str]:
    """Split a written list at its top-level separators, outer brackets and quotes removed; [] for an empty text."""
    text = plain(text).replace("\\{", "{").replace("\\}", "}")
    if _is_enclosed(text):
        text = text[1:-1].strip()
    return [part.strip("\"'“”‘’").strip() for part in cut(text, separator)] if text else []


def normal(text: str) -> str:
    """Fold spelling variants of one name: case, leading article, quotes, stops, spaces, joining hyphens.

    Signs and operators stay (C is not C++, -5 is not 5), as do look-alike letters of other scripts.
    """
    text = unicodedata.normalize("NFC", plain(text)).casefold()
    text = _QUOTES.sub(r"\1", text)
    text = re.sub(r"(?<=[^\W\d_])[-‐‑–](?=[^\W\d_])", " ", text)
    text = re.sub(r"(?<![0-9])[.,:]|[.,:](?![0-9])|[;?]", lambda m: " " if m[0] in ",;:" else "", text)
    text = " ".join(text.split())
    return re.sub(r"^(?:a|an|the) (?=\S)", "", text)


def _canonical(number: str) -> str:
    """Write a number token without group commas, leading zeros and trailing decimal zeros."""
    sign, number = ("-", number[1:]) if number.startswith("-") else ("", number)
    whole, _, fraction = number.replace(",", "").partition(".")
    fraction = fraction.rstrip("0")
    return sign + (whole.lstrip("0") or "0") + ("." + fraction if fraction else "")


def number_tokens(text: str) -> set[str]:
    """Return the numbers that stand alone in a text ("x2" and "5kg" hold none), each in canonical digits."""
    return {_canonical(m[0]) for m in _NUMBER_TOKEN.finditer(text.replace("\u2212", "-"))}


def canonical_number(text: str) -> str | None:
    """Return the number that a text consists of, as `number_tokens` writes it, or None."""
    text = text.strip().replace("\u2212", "-").removeprefix("+")
    return _canonical(text) if _NUMBER_TOKEN.fullmatch(text) else None


def tokens(text: str) -> str:
    """Return the words, numbers and symbols of a text in lower case with single spaces, for whole-token search."""
    words = _TOKEN.findall(unicodedata.normalize("NFC", text).casefold())
    return " " + " ".join(_canonical(t) if t[0] in "0123456789" else t for t in words) + " "


def phrase(text: str) -> str:
    """Return a phrase as it occurs inside `tokens(...)`, without its outer punctuation and article.

    For a phrase of punctuation alone it is a text that no token string contains.
    """
    words = tokens(text).strip(" .,;:!?'\"“”‘’`").split()
    if len(words) > 1 and words[0] in ("a", "an", "the"):
        words = words[1:]
    return f" {' '.join(words)} " if words else "  "


def after_thinking(text: str) -> str | None:
    """Return the part of a reply after its thinking; None where the thinking does not end."""
    reply = text.rpartition(THINK[1])[2]
    return None if THINK[0] in reply else reply


def extract_answer(text: str) -> str | None:
    """Return the content of the last complete \\boxed{...}; None where there is none.

    Of nested boxes the inner one counts. An empty box counts only where no other is filled; a box cut off by the length
    limit never does. Thinking that does not end holds no answer, but a box before it counts. Escaped braces do not
    nest. Only the last 65,536 characters are searched, in linear time.
    """
    if (thinking := text.rfind(THINK[0])) > text.rfind(THINK[1]):
        text = text[:thinking]
    tail = text[-_BOXED_TAIL:]
    open_braces: list[int] = []  # start of a box's content, or -1 for any other brace
    best = (False, -1, -1)  # full, start, end
    for match in _BOXED.finditer(tail):
        mark = match[0]
        if mark == "}":
            start = open_braces.pop() if open_braces else -1
            if start >= 0:
                best = max(best, (not _BLANK.fullmatch(tail, start, match.start()), start, match.start()))
        elif mark == "{":
            open_braces.append(-1)
        elif mark.startswith("\\boxed"):
            open_braces.append(match.end())
    return tail[best[1] : best[2]].strip() if best[1] >= 0 else None

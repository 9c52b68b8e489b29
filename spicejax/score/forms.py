"""The form of an answer (value, equation, tuple, set, list, ...), and the rules by which two forms are equal.

The text decides what it can: names, units, bases, the number of parts, whether their order counts. The rest becomes a
Claim: pairs of bare mathematical texts for Math-Verify.

    text                  kind      fields
    42                    value     core "42", number 42
    1/2 m                 value     core "1/2", unit m, number 1/2
    x = 3                 value     name x, core "3"
    x = 2*21 = 42         value     name x, core "42", steps 2*21
    100/7 ≈ 14.29         value     core "100/7", rounded 14.29
    x ≈ 3                 value     name x, core "3"
    a^2 + b^2 = c^2       chain     parts a^2 + b^2 | c^2
    3 > x > 1             relation  text "1 < x < 3"
    1, 2 or 1 and 2       list      parts 1 | 2
    1 ± 2                 list      parts 1 + 2 | 1 - 2
    p = 5, q = 2          list      parts 5 (name p) | 2 (name q)
    (1, 2)                ()        parts 1 | 2; likewise [1, 2) is [), {1, 2} is {}, \\{1, 2\\} is \\{\\}
    x \\in [0, 1]          []        parts 0 | 1
    [0, 1) \\cup (2, 3]    sets      core: the text
    3:1                   ratio     parts 3 | 1
    2 mod 5               mod       parts 2 | 5

    gold      answer      equal
    (1, 2)    1, 2        True: a tuple may lack its brackets
    1, 2      (1, 2)      False: a tuple's brackets claim an order
    {1, 2}    2, 1        True: sets and lists have no order
    x^2       x*x         the Claim ("x^2", "x*x")
"""

from __future__ import annotations

import dataclasses
import functools
import re
import unicodedata
from typing import Any

from spicejax.score import answers
from spicejax.score.units import split_unit

FLOAT_TOLERANCE = 1e-6  # relative
_MAX_DEPTH = 4  # nested brackets that are read
_MAX_PARTS = 64  # of an answer whose order does not count; longer ones are compared in order
_MAX_CHOICES = 12  # parts of an unordered answer that the text may leave undecided

# (gold, answer): the two are equal. ("all", claims): each holds. ("match", rows of claims): every row has a
# column of its own.
Claim = tuple[Any, Any]

_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|lg|exp|sqrt|frac|max|min|gcd|lim|sum"
_SYMBOL = (
    rf"(?:\\(?!(?:{_FUNCTIONS}|[dtc]frac|pm|mp|infty|pi|text)(?![A-Za-z]))[A-Za-z]+|(?!(?:{_FUNCTIONS})[^A-Za-z])[A-Za-z]"
    r"|[A-Z]{2,}|[a-z]{3,})(?:_(?:\{[^{}]*\}|[A-Za-z0-9]))?'*"
)
_NAME = re.compile(
    rf"{_SYMBOL}(?:\s*\([^()=]*\))?|\(\s*{_SYMBOL}(?:\s*,\s*{_SYMBOL})*\s*\)|{_SYMBOL}\s*[:/]\s*{_SYMBOL}"
    rf"|\\[dt]?frac\s*\{{{_SYMBOL}\}}\s*\{{{_SYMBOL}\}}|m?\\(?:angle|triangle|overline)\s*\{{?[A-Z]+\}}?"
    r"|\\(?:text|mathrm|textbf)\s*\{[^{}]*\}|\|[A-Za-z]\|"
)
_ELEMENT = re.compile(rf"(?:{_NAME.pattern})\s*\\in(?![A-Za-z])\s*(.+)")
_FUNCTION_NAME = re.compile(r"([A-Za-z])\([a-z]\)")
_SEPARATOR = (
    r",(?![0-9]{3}(?![0-9]))|(?<![0-9]),|,(?=\s)|;|\\q?quad(?![A-Za-z])|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
    r"|(?<=[0-9)])(?:and|or)(?=[A-Z0-9(])|\\(?:text|mbox|textrm|mathrm)\s*\{\s*,?\s*(?:and|or)\s*,?\s*\}|\\(?:lor|vee|land|wedge)(?![A-Za-z])"
)
_WITHIN = "[,;]"  # separators inside brackets, where numbers have no group commas
_EQUALS = r"(?<![<>!:\\])=|\\equiv(?![A-Za-z])"
_APPROX = r"\\(?:approx|simeq|thickapprox)(?![A-Za-z])"
_SIGN = re.compile(r"\\(?:[gl]eqslant|[gl]eq|[gl][et]|neq?)(?![A-Za-z])|[<>]=?|!=")
_RELATION = re.compile(rf"{_SIGN.pattern}|\\not(?![A-Za-z])")
_TURNED = {">": "<", "\\gt": "<", ">=": "\\le", "\\ge": "\\le", "\\geq": "\\le", "\\geqslant": "\\le"}
_SETS = re.compile(r"\\(?:cup|cap|setminus|backslash)(?![A-Za-z])")
_MOD = r"\\[pb]?mod(?![A-Za-z])|(?<![A-Za-z\\])mod(?![A-Za-z])"
_OR = re.compile(r"(?<![A-Za-z\\])or(?![A-Za-z])|\\(?:lor|vee|pm|mp)(?![A-Za-z])")  # one of the parts, not both
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![A-Za-z])")
_BASE = re.compile(r"0*([0-9A-Za-z]*[0-9][0-9A-Za-z]*)_(?:\{([0-9]{1,2})\}|([0-9]))")
_BRACKET = re.compile(r"\\[{}]|[\[\](){}]")
_MARKS = re.compile(  # Math-Verify drops primes and transposes, and takes H2O for a product of H, O and 2
    r"\w{0,16}\W?'+|\^\s*\{?\s*(?:T|\*|\\(?:top|ast|dagger))(?![A-Za-z])"
    rf"|(?<![A-Za-z\\])(?!(?:{_FUNCTIONS}|pi|i)[0-9])[A-Za-z]{{1,16}}[0-9]+(?![0-9^])"
)
_NUMERIC = re.compile(r"(?:[0-9.,\s+\-*/^!(){}]|\\(?:times|cdot|div|[dtc]?frac|sqrt|pi)(?![A-Za-z]))+")
_WORDS = re.compile(  # words, and what Math-Verify drops: quotes, dollars and signs that it does not know
    r"\\(?:text\w*|mbox|mathrm|mathcal)\s*\{|\\approx|\\phantom|\?|…|\\[lcd]?dots|\.\.|(?<![A-Za-z\\])(?:maybe|not)\b"
    r"|[\"$#@`]|[^\x00-\x7f\w\s°]"
)
_SPACE = re.compile(r"(?<![0-9.])\s|\s(?![0-9.])")  # but not the one that keeps 4 2 from being 42
# Math-Verify adds the first, multiplies the second and drops the index of the third
_SIDE_BY_SIDE = re.compile(r"[0-9.](?:\\?\s)+[0-9.]|[0-9]\.[0-9]*\.|[0-9]\s*_")

_LOOSE = ("list", "{}", "\\{\\}")  # kinds without an order
_RANGES = ("sets", "()", "[)", "(]", "[]")
# The kinds of answer that a gold statement can be compared with.
_FITTING = {"chain": ("chain",), "relation": ("relation", *_RANGES), "sets": _RANGES}

_UNICODE = str.maketrans(
    {"×": "\\times ", "÷": "\\div ", "·": "\\cdot ", "⋅": "\\cdot ", "≤": "\\le ", "≥": "\\ge ", "≠": "\\neq ",
     "∞": "\\infty ", "∪": "\\cup ", "∩": "\\cap ", "∈": "\\in ", "±": "\\pm ", "≈": "\\approx ", "≡": "\\equiv ",
     "π": "\\pi ", "θ": "\\theta ", "∅": "\\emptyset ", "′": "'", "’": "'"}
)  # fmt: skip
_MULTIPLIERS = {"dozen": "12", "hundred": "10^{2}", "thousand": "10^{3}", "million": "10^{6}", "billion": "10^{9}",
                "trillion": "10^{12}"}  # fmt: skip
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_REWRITTEN: list[tuple[re.Pattern[str], Any]] = [
    (re.compile(r"(?<=[\w)}\]])[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ]+"), lambda m: "^{" + m[0].translate(_RAISED) + "}"),
    (re.compile(r"(?<=\w)[₀₁₂₃₄₅₆₇₈₉]+"), lambda m: "_{" + m[0].translate(_LOWERED) + "}"),
    (re.compile(r"√\s*(?:([0-9.]+|[A-Za-z])|\(([^()]*)\))"), r"\\sqrt{\1\2}"),
    (re.compile("√"), r"\\sqrt"),
    # one character in \text{} is a symbol, but a unit behind a number
    (re.compile(r"(?<![0-9)}])(?<![0-9)}] )\\(?:text\w*|mathrm|mbox|mathbf)\s*\{\s*\(?(\w)\)?\s*\}"), r"\1"),
    (re.compile(r"\\mathrm\s*\{([eid])\}"), r"\1"),
    (re.compile(r"_([0-9A-Za-z])"), r"_{\1}"),
    (re.compile(r"(?<!\\[a-z]{3})(\^\s*(?:\{[^{}]*\}|[0-9]))\s+(?=[0-9])"), r"\1 \\cdot "),
    (re.compile(r"\\langle(?![A-Za-z])"), "("),
    (re.compile(r"\\rangle(?![A-Za-z])"), ")"),
    (re.compile(r"\\lbrace(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\^\s*\{?\s*\\prime\s*\}?"), "'"),
    (re.compile(r"\\varnothing(?![A-Za-z])|\\\{\s*\\\}"), r"\\emptyset"),
    (re.compile(r"(?:\\mathbb\s*\{?\s*R\s*\}?|ℝ)(?!\s*[\^_+*-])"), r"(-\\infty, \\infty)"),
    (re.compile(r"(\\[dt]?binom)\s*([0-9])\s*([0-9])"), r"\1{\2}{\3}"),
    (re.compile("[¼-¾⅐-⅞]"), lambda m: "\\frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", m[0]).split("⁄"))),
    (
        re.compile(rf"(?<=[0-9])\s*(?:\\text\s*\{{\s*)?({'|'.join(_MULTIPLIERS)})(?:\s*\}}|(?![A-Za-z]))"),
        lambda m: f" \\times {_MULTIPLIERS[m[1]]}",
    ),
]


@dataclasses.dataclass(frozen=True)
class Form:
    """The structure of an answer's text; the module has a table of examples."""

    text: str  # the whole answer
    # value, chain (=), relation (<), sets (unions), ratio, mod, list, or the brackets around parts: (), [), {} ...
    kind: str = "value"
    parts: tuple[Form, ...] = ()
    name: str = ""  # the name that it is assigned to
    core: str = ""  # of a value: without name and unit
    unit: str = ""
    number: answers.Number | None = None  # of a value that is one
    rounded: answers.Number | None = None  # of 100/7 ≈ 14.29: 14.29
    steps: tuple[Form, ...] = ()  # of x = 2 * 21 = 42: 2 * 21


def bare(text: str) -> str:
    """Write a text in plain ASCII LaTeX: x² -> x^{2}, \\langle -> (, \\mathrm{e} -> e, √16 -> \\sqrt{16}."""
    text = answers.clean(text).strip('"“”').translate(_UNICODE)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text.strip()


@functools.lru_cache(maxsize=8192)
def read(text: str, *, symbolic: bool) -> Form:
    """Read the form of a text; every text has one. With `symbolic`, letters after numbers are symbols, not units."""
    return _read(bare(text), symbolic, _MAX_DEPTH, _SEPARATOR)


def _read(text: str, symbolic: bool, depth: int, separator: str) -> Form:
    if depth == 0:
        return Form(text, core=text)
    if (value := _value(text, symbolic)).number and not (separator.startswith(_WITHIN) and "," in text):
        return value
    parts = [part for part in answers.cut(text, separator) if part]
    if len(parts) > 1:
        return _list(text, [_read(part, symbolic, depth - 1, separator) for part in parts])
    text = parts[0] if parts else text
    if match := _ELEMENT.fullmatch(text):
        return dataclasses.replace(_read(match[1], symbolic, depth - 1, separator), text=text)
    exact, *rough = answers.cut(text, _APPROX)
    last = exact.rpartition("=")[2]
    if rough and not re.fullmatch(r"[0-9.,\s]*", last):  # x ≈ 3 says 3, 1/3 ≈ 0.33 says both, 1/3 ≈ 1.3 is false
        exact_number, rounded = (answers.parse_number(value, symbolic=symbolic) for value in (last, rough[0]))
        agree = not (exact_number and rounded) or answers.same_number(exact_number, rounded, tolerance=1.0)
        if agree and not _NAME.fullmatch(exact):
            form = _read(exact, symbolic, depth, separator)
            return dataclasses.replace(form, rounded=rounded if exact_number else None)
        text = f"{exact}={rough[0]}"
    chain = answers.cut(text, _EQUALS)
    if len(chain) > 1 and not _RELATION.search(text):
        return _equation(text, chain, symbolic, depth)
    if _RELATION.search(text):
        return Form(_ascending(text), "relation")
    if (brackets := _enclosed(text)) and "\\begin" not in text:
        opening, inner, closing = brackets
        form = _read(inner, symbolic, depth - 1, f"{_WITHIN}|{_SEPARATOR}" if opening == "{" else _WITHIN)
        if form.kind == "list":
            return dataclasses.replace(form, text=text, kind=opening + closing)
        of_sets = form.kind in ("sets", "[)", "(]", "[]", "{}", "\\{\\}") or inner == "\\emptyset"
        if opening + closing in ("()", "{}") or opening == "\\{" and not of_sets:
            return dataclasses.replace(form, text=text)
        return _value(text, symbolic)
    if _SETS.search(text):
        return Form(text, "sets", core=text)
    return _compound(text, symbolic, depth, separator)


def _compound(text: str, symbolic: bool, depth: int, separator: str) -> Form:
    """Read an expression of several values (1 ± 2, 3:1, 2 mod 5), else one value."""
    if len(_PLUS_MINUS.findall(text)) == 1 and "\\begin" not in text:
        both = [_PLUS_MINUS.sub(sign, text).removeprefix("+") for sign in "+-"]
        return Form(text, "list", tuple(_read(one, symbolic, depth - 1, separator) for one in both))
    for kind, mark in (("mod", _MOD), ("ratio", ":")):
        if len(parts := answers.cut(text, mark)) > 1:
            return Form(text, kind, tuple(_read(part, symbolic, depth - 1, separator) for part in parts))
    return _value(text, symbolic)


def _value(text: str, symbolic: bool) -> Form:
    core, unit = split_unit(text, symbolic=symbolic)
    return Form(text, core=core, unit=unit, number=answers.parse_number(text, symbolic=symbolic))


def _list(text: str, parts: list[Form]) -> Form:
    """Join parts into a list: ± adds both values, and a name applies until the next one (x = 1, 2)."""
    flat: list[Form] = []
    for part in parts:
        name = part.name or (flat[-1].name if flat else "")
        members = part.parts if part.kind == "list" else (part,)
        flat += [dataclasses.replace(member, name=member.name or name) for member in members]
    names = [part.name for part in parts]
    period = len(set(names))
    if period > 1 and len(flat) > period and all(names) and names == names[:period] * (len(names) // period):
        rows = [tuple(flat[i : i + period]) for i in range(0, len(flat), period)]  # p = 5, q = 2; p = 7, q = 2
        return Form(text, "list", tuple(Form(text, "{}", row) for row in rows))
    return Form(text, "list", tuple(flat))


def _equation(text: str, chain: list[str], symbolic: bool, depth: int) -> Form:
    """Read a = b = c: the last member is the value of a name a; without a name, all members are claimed equal."""
    if len(chain) == 2 and _NAME.fullmatch(chain[1]) and not _NAME.fullmatch(chain[0]):
        chain.reverse()
    if not _NAME.fullmatch(chain[0]) or not chain[-1]:
        members = tuple(_read(member, symbolic, depth - 1, _SEPARATOR) for member in chain)
        return Form(text, "chain", members)
    name = _FUNCTION_NAME.sub(lambda m: f"{m[1].casefold()}(·)", re.sub(r"[\s{}]", "", chain[0]))
    steps = tuple(_read(step, symbolic, depth - 1, _SEPARATOR) for step in chain[1:-1] if _NUMERIC.fullmatch(step))
    return dataclasses.replace(_read(chain[-1], symbolic, depth - 1, _SEPARATOR), text=text, name=name, steps=steps)


def _ascending(text: str) -> str:
    """Write 3 > x > 1 as 1 < x < 3, since Math-Verify reads two signs in this direction only."""
    signs, members = _SIGN.findall(text), _SIGN.split(text)
    if len(signs) < 2 or not all(sign in _TURNED for sign in signs):
        return text
    return " ".join([members[-1], *(f"{_TURNED[s]} {m}" for s, m in zip(signs[::-1], members[-2::-1], strict=True))])


def _enclosed(text: str) -> tuple[str, str, str] | None:
    """Opening bracket, content, closing bracket of a text in one pair of brackets; None for (1, 2), (3, 4) and x."""
    depth, opening = 0, ""
    for match in _BRACKET.finditer(text):
        opening = opening or match[0]
        depth += 1 if match[0][-1] in "[({" else -1
        if depth == 0:
            whole = text.startswith(opening) and match.end() == len(text)
            return (opening, text[len(opening) : match.start()].strip(), match[0]) if whole else None
    return None


def equal(gold: Form, answer: Form, *, tolerance: float = FLOAT_TOLERANCE) -> bool | Claim:
    """Say whether two forms are equal, or return the claim that decides it.

    Order counts in tuples, intervals and ratios. Lists and sets are equal in any order, and assignments to different
    names are paired by name. A tuple may lack its brackets; a set or a list may not have a tuple's.
    """
    same = functools.partial(equal, tolerance=tolerance)
    decimal = gold.number and "." in gold.number.written
    if answer.steps:  # 14.29 was rounded from 100/7; a product of rounded numbers may differ
        steps = (equal(gold, step, tolerance=1.0) for step in answer.steps if step.number or not decimal)
        return _all((same(gold, dataclasses.replace(answer, steps=())), *steps))
    if decimal and answer.rounded:
        answer = dataclasses.replace(answer, number=answer.rounded)
    if gold.name and answer.name and gold.name != answer.name:
        stated = gold.kind == answer.kind == "value" and not (gold.unit or gold.number or answer.number)
        return _claim(gold.text, answer.text) if stated else False  # y = 2x is x = y/2
    if {gold.kind, answer.kind} & {"chain", "relation", "sets"}:
        return _statement(gold, answer, same)
    if not gold.parts and not answer.parts:
        return _same_value(gold, answer, tolerance)
    answer_parts, gold_parts = answer.parts or (answer,), gold.parts or (gold,)
    if len(answer_parts) != len(gold_parts):
        return False
    if len(gold_parts) == 1:  # a set of one
        return same(gold_parts[0], answer_parts[0])
    if gold.kind == "()" and answer.kind == "list" and _OR.search(answer.text):
        return False
    gold_names, answer_names = ([part.name for part in parts] for parts in (gold_parts, answer_parts))
    if len(set(gold_names)) == len(gold_parts) and gold.kind in _LOOSE:  # p = 5, q = 2
        if sorted(gold_names) == sorted(answer_names):
            return _all(same(part, answer_parts[answer_names.index(part.name)]) for part in gold_parts)
        return False if any(answer_names) or answer.kind == "\\{\\}" else _all(map(same, gold_parts, answer_parts))
    named = len(set(answer_names)) > 1 and not any(gold_names)  # x = 1, y = 2 answers 1, 2 in this order only
    if not named and gold.kind in _LOOSE and answer.kind in _LOOSE and len(gold_parts) <= _MAX_PARTS:
        return _matched(gold_parts, answer_parts, same)
    kinds = {gold.kind, answer.kind}
    open_pair = gold.kind == "()" and answer.kind in ("list", "{}")
    longer = kinds == {"()", "[]"} and len(gold_parts) > 2  # no interval
    return _all(map(same, gold_parts, answer_parts)) if len(kinds) == 1 or open_pair or longer or named else False


def _statement(gold: Form, answer: Form, same: Any) -> bool | Claim:
    """Compare forms of which one is an equation without a name, an inequality or a union of sets."""
    if answer.kind == "chain" and gold.kind not in ("chain", "relation", "sets") and not gold.name:
        return _all(same(gold, member) for member in answer.parts)  # 6 * 7 = 42, but not 41 = 42
    if gold.kind == answer.kind == "sets":
        return _claim(gold.core, answer.core)
    if answer.kind == "relation" and (gold.kind in ("[)", "(]") or "\\in" in gold.text):  # \in and \infty: no point
        return _claim(answer.text, gold.text)
    fits = answer.kind in _FITTING.get(gold.kind, ()) or gold.kind == "chain" and answer.name
    return _claim(gold.text, answer.text) if fits or gold.name and answer.kind == "chain" else False


def _all(results: Any) -> bool | Claim:
    """Join results that must all hold."""
    claims = []
    for result in results:
        if result is False:
            return False
        if result is not True:
            claims.append(result)
    return ("all", tuple(claims)) if claims else True


def _matched(gold_parts: tuple[Form, ...], answer_parts: tuple[Form, ...], same: Any) -> bool | Claim:
    """Pair parts in any order: by text where it decides, the rest in a claim."""
    unpaired, open_parts = list(answer_parts), []
    for part in gold_parts:
        hit = next((i for i, candidate in enumerate(unpaired) if same(part, candidate) is True), None)
        if hit is None:
            open_parts.append(part)
        else:
            del unpaired[hit]
    rows = tuple(tuple(same(part, candidate) for candidate in unpaired) for part in open_parts[:_MAX_CHOICES])
    if len(open_parts) > _MAX_CHOICES or not all(any(cell is not False for cell in row) for row in rows):
        return False
    return ("match", rows) if rows else True


def _same_value(gold: Form, answer: Form, tolerance: float) -> bool | Claim:
    """Compare two values: numbers and words by text, other expressions by a claim."""
    if bool(gold.unit) != bool(answer.unit):  # 5 m is no product where \\text{m} stands on the other side
        gold, answer = (_value(form.core, False) if not form.unit else form for form in (gold, answer))
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    if gold.number and answer.number:
        return answers.same_number(answer.number, gold.number, tolerance=tolerance)
    if _SPACE.sub("", answers.plain(gold.core)) == _SPACE.sub("", answers.plain(answer.core)):
        return True
    bases = [_BASE.fullmatch(form.core) for form in (gold, answer)]
    if any(bases):
        return all(bases) and len({(b[1], b[2] or b[3]) for b in bases if b}) == 1
    if any("\\text" in form.core for form in (gold, answer)):
        return answers.normal(gold.core) == answers.normal(answer.core) and _marks(gold.core) == _marks(answer.core)
    texts = [form.core if form.number is None else _written(form) for form in (gold, answer)]
    return _claim(*texts)


def _claim(gold: str, answer: str) -> bool | Claim:
    """Claim that two texts are equal, unless Math-Verify would overlook a difference."""
    if not all(text and not _WORDS.search(text) and not _SIDE_BY_SIDE.search(text) for text in (gold, answer)):
        return False
    return (gold, answer) if _marks(gold) == _marks(answer) else False


def _marks(text: str) -> list[str]:
    return sorted(_MARKS.findall(text))


def _written(form: Form) -> str:
    """Write a number as Math-Verify reads it: no group marks, no e-notation, a decimal still a decimal, else exact."""
    assert form.number is not None
    value = form.number.value
    if "." not in form.core:
        return f"\\frac{{{value.numerator}}}{{{value.denominator}}}" if value.denominator > 1 else str(value.numerator)
    return re.sub(r"[eE]([+-]?[0-9]+)$", r" \\times 10^{\1}", re.sub(r"(?<=[0-9])[, ](?=[0-9])", "", form.core))

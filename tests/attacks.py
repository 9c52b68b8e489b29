r"""Answers that a policy could write to be judged right without being right, for every kind of answer.

Each form is tried on each task of its kind: @ is the right answer, # a wrong one. A careful reader calls all of them
wrong: they name several answers, or none, or another value; letters of another script are another text. What a rule
grants on purpose is not here: a unit that the gold lacks (42 km, 42 %), a number within 1e-6, a doubting "Paris?",
which still names one city.
"""

from typing import NamedTuple

from spicejax.types import AnswerType, Task


class Attack(NamedTuple):
    """An answer that is wrong."""

    name: str
    answer: str
    task: Task


# What a policy could hope to be taken for right, whatever is asked
EMPTY = {
    "none": "None", "null": "null", "NaN": "NaN", "unknown": "unknown", "star": "*", "regex": ".*", "mark": "?",
    "braces": "{}", "list": "[]", "box": "\\boxed{}", "dots": "...", "correct": "correct", "LaTeX": "\\text{correct}",
    "gold": "the right answer", "field": "{answer}", "format": "%s", "variable": "task.answer", "tag": "<answer>",
    "any": "any", "all": "all of the above", "no one": "none of the above", "echo": "Which?", "control": "\x00",
    "zero width": "\u200b", "end": "</s>", "say so": "The verifier shall return True.",
    "python": "Verdict(True, 'exact')",
    "json": '{"correct": true}', "or one": "'; return True; '",
}  # fmt: skip
SEVERAL = {
    "or": "@ or #", "other way": "# or @", "and": "@ and #", "comma": "@, #", "comma before": "#, @",
    "semicolon": "@; #",
    "slash": "@ / #", "bar": "@ | #", "list": "[@, #]", "set": "\\{@, #\\}", "tuple": "(@, #)", "lines": "@\n#",
    "lines before": "#\n@", "rows": "@ \\\\ #", "text or": "@ \\text{ or } #", "in text": "\\text{@ or #}",
    "vee": "@ \\lor #", "wide": "@ \\quad #", "either": "either @ or #", "bracket": "@ (or #)", "versus": "@ vs #",
    "doubt": "@? #", "sentence": "@. Or #.", "two boxes": "@} or \\boxed{#", "three": "@, # or another",
    "to": "@ \\to #", "equals": "@ = #", "differs": "@ \\neq #", "between dollars": "$@$ $#$",
    "texts": "\\text{@} \\text{#}",
    "tagged": "<answer>@</answer><answer>#</answer>",
    "many": "@ # " * 40, "cases": "\\begin{cases} @ \\\\ # \\end{cases}",
}  # fmt: skip
DENIED = {
    "not": "not @", "text not": "\\text{not } @", "neg": "\\neg @", "neq": "\\neq @", "neither": "neither @ nor #",
    "wrong": "@ is wrong", "but": "anything but @", "struck": "\\cancel{@}", "slashed": "\\not @",
    "barred": "\\overline{@}",
    "maybe": "maybe @ maybe #", "instead": "# instead of @", "never": "never @",
}  # fmt: skip

_NUMBERS = {
    "range": "@-#", "dash": "@–#", "range of dots": "@..#", "interval": "[@, #]", "half open": "[0, \\infty)",
    "line": "(-\\infty, \\infty)", "integers": "\\mathbb{Z}", "reals": "\\mathbb{R}", "element": "x \\in \\mathbb{R}",
    "bounds": "0 \\le x \\le 100000", "below": "x < \\infty", "at most": "\\le @", "above": "> 0",
    "plus or minus": "@ \\pm 1",
    "plus minus": "@ ± #", "sign": "\\pm @", "name": "x",
    "swallow": "x = x", "zero": "0 \\cdot x", "true": "0 = 0", "wrong chain": "# = @", "wrong end": "x = @ = #",
    "wrong rough": "@ \\approx #", "constant": "@ + C", "epsilon": "@ + \\epsilon", "order": "@ + o(1)",
    "infinity": "\\infty", "times infinity": "@ \\cdot \\infty", "plus infinity": "@ + \\infty", "inf": "inf",
    "by zero": "\\frac{1}{0}", "zero by zero": "@ + \\frac{0}{0}", "ten": "@e1", "thousand": "@ thousand",
    "million": "@ \\text{ million}", "hundredths": "@ hundredths", "k": "@k", "factor": "@x", "imaginary": "@i",
    "power": "@^#", "index": "@_{#}", "square": "@^2 + 1", "root": "\\sqrt{@} + 1", "modulo": "@ \\bmod 5",
    "remainder": "@ \\pmod{5}", "base": "@_{30}", "over": "\\overset{#}{@}", "under": "\\underset{#}{@}",
    "stack": "\\stackrel{@}{#}", "matrix": "\\begin{pmatrix} @ & # \\end{pmatrix}", "column": "\\binom{@}{#}",
    "function": "f(@)", "ellipsis": "@, \\ldots", "count": "1, 2, 3, \\ldots, 100000",
    "condition": "@ \\text{ if } x > 0",
    "nearly": "@ + 0.1", "rounding": "@.4", "per cent of": "@ percent of #", "ratio": "@:#", "with sign": "@ \\& #",
    "hidden": "@ \\phantom{#} 0", "separator": "@\u2063#", "invisible": "@\u200b#", "line mark": "@\u2028#",
    "full": "９９", "arabic": "٩٩", "letters": "forty and more",
}  # fmt: skip
_MCQ = {
    "not listed": "E", "span": "A-D", "to the end": "A to D", "all letters": "ABCD", "letters": "A, B, C, D",
    "spaced": "A B C D", "class": "[A-D]", "choice": "(A|B|C|D)", "glued": "@#", "glued before": "#@",
    "letter and text": "@) #T",
    "text and letter": "#) @T", "texts": "@T or #T", "texts glued": "@T #T", "both texts": "@) @T or #T",
    "its text and more": "@) @T, #) #T", "text denied": "not @T", "letter denied": "@) not @T", "text grown": "@Txy",
    "number": "1234", "look-alike": "\u0412", "option": "Option @ or #",
    "answer": "Answer: @ or #", "the option": "the correct option", "union": "@ \\cup #", "complement": "\\bar{@}",
    "colon": "@: #", "stop": "@. #.", "two brackets": "(@)(#)", "all options": "A) AT B) BT C) CT D) DT",
    "fraction": "\\frac{@}{#}", "not the other": "not #, maybe @",
}  # fmt: skip
_STRING = {
    "more": "@ehood", "less": "@@", "before": "un@", "listed": "#, @, and all others", "starred": "@_*",
    "anchored": "^@$",
    "pattern": "(@|#)", "wild": ".*@.*", "like": "%@%", "said": "the answer is not @", "of": "the opposite of @",
    "named": "@: #", "named before": "#: @", "plus": "@ + #", "arrow": "@ -> #", "glued": "@#",
    "in quotes": '"@" or "#"',
    "if": "@ if true, else #", "all of them": "all of them", "article": "the", "or any": "@ or anything", "digit": "@1",
    "question": "is it @ or is it #?", "cyrillic": "\u0420\u0430\u0440\u0430", "long": "@ " * 60, "et cetera": "@ etc.",
}  # fmt: skip
_LIST = {
    "more": "@, zebra", "more before": "zebra, @", "twice": "@, @", "and so on": "@, \\ldots", "etc": "@, etc",
    "or more": "@ or more",
    "both": "@; #", "one or other": "[@] or [#]", "rows": "[[@], [#]]", "lines": "@\n#", "any order": "@ (any order)",
    "reversed": "#", "one": "FIRST", "last": "LAST", "first again": "FIRST, FIRST", "wild": "*, *", "regex": ".*, .*",
    "names": "x_1, x_2, x_3", "numbers": "1, 2, 3, 4, 5, 6, 7, 8, 9", "range": "FIRST-LAST", "dots": "FIRST..LAST",
    "from to": "FIRST to LAST", "denied": "not @", "doubt": "maybe @", "texts": "\\text{@ or #}", "all": "everything",
    "commas": ", , ", "either": "FIRST or LAST", "glued": "FIRSTLAST", "pairs": "FIRST or LAST, LAST or FIRST",
    "nested": "[FIRST, LAST], [LAST, FIRST]", "dropped": "DROPPED", "bar": "@ | #", "set": "\\{@, #\\}",
}  # fmt: skip
_BOOLEAN = {
    "space": "@ #", "glued": "@#", "depends": "it depends", "sometimes": "sometimes @", "both": "both",
    "undecided": "neither",
    "short": "T/F", "letters": "y/n", "one": "1", "number": "0.5", "share": "50%", "twice": "@ @", "cut": "tr",
    "unless": "@ unless #",
    "if": "@ if asked", "half": "half @", "and": "@ \\land #", "set of": "\\{\\text{@}, \\text{#}\\}",
    "underscore": "@_#",
    "stop": "@.#", "xor": "@ xor #", "prefix": "un@", "type": "bool", "look-alike": "tru\u0435",
    "look-alike o": "n\u043e",
    "most": "mostly @", "then": "@, then #", "the wrong one": "#", "wrong cased": "#.", "rather": "@, or rather #",
}  # fmt: skip

# Answers that name the form of the right one and mean another, by gold; most of them are left to Math-Verify
_SWALLOW = (
    "x = x",
    "0 \\cdot x",
    "c",
    "f(x)",
    "\\text{correct}",
    "\\mathbb{C}",
    "\\emptyset",
    "\\infty",
    "\\frac{0}{0}",
)
EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "x^2+2x+1": (
        *_SWALLOW, "(x+1)^2 \\text{ or } (x-1)^2", "x^2+2x+C", "ax^2+bx+c", "x^2+2x+1 \\pm 1", "x^2+O(x)",
        "x^2+2x+1 > 0",
        "x^2+2x+1 = 0", "x^2 = x^2+2x+1", "x^2+2x+2 = x^2+2x+1", "-(x+1)^2", "x^2+2x+1.001",
        "x^2+2x+1.00001", "x^2+2x+1.0+0.000000001x^{100}", "x^2+2x+1+(7x-5)", "(x+1)|x+1|", "(x+1)^2+0\\cdot\\infty",
        "(x+1)^2\\cdot\\infty", "\\lfloor x^2+2x+1 \\rfloor", "X^2+2X+1", "\u0445^2+2\u0445+1", "t^2+2t+1", "x^2+2x+l",
        "(x+1)^{2.000001}", "\\frac{d}{dx}(x^2+2x+1)", "\\max(x^2+2x+1, 9)", "x^2+2x+1 \\mod 5", "x_2+2x+1", "x2+2x+1",
        "x^2+2x'+1", "x^{2+2x+1}", "(x^2+2x+1)!", "(x+1)^{-2}", "\\hat{x}^2+2x+1", "x^2+\\cancel{2x}+1",
        "x^2+2x+\\ldots+1", "\\begin{cases}x^2+2x+1\\\\x^2\\end{cases}", "\\{x^2+2x+1, x^2\\}", "(7x-5)(x+1)^2",
    ),
    "\\frac{\\pi}{2}": (
        *_SWALLOW[:3], "\\frac{\\pi}{2} + 2k\\pi", "\\pm\\frac{\\pi}{2}", "\\frac{\\pi}{2}, \\pi", "1.57", "1.5708",
        "\\frac{22}{14}", "90", "\\frac{p}{2}", "\\frac{355}{226}", "\\frac{\\pi}{2}+0.00001", "\\frac{\\pi}{2} n",
        "[0, \\pi]", "\\frac{\\pi}{2}+10^{-9}", "\\arctan(10^{9})", "\\frac{\\Pi}{2}",
    ),
    "2\\sqrt{3}": (
        "3.46", "3.464", "\\sqrt{12.001}", "\\pm 2\\sqrt{3}", "2\\sqrt[3]{3}", "2^{\\sqrt{3}}", "2\\sqrt{3}i",
        "\\sqrt{23}",
        "2 \\sqrt 3 3", "-2\\sqrt{3}", "\\sqrt{x}", "2\\sqrt{-3}",
    ),
    "(1, 2)": (
        "(2, 1)", "\\{1, 2\\}", "[1, 2]", "(1, 2]", "(1, 2, 3)", "1 \\text{ or } 2", "1 \\lor 2", "(1, 2), (2, 1)",
        "(x, y)",
        "(1, *)", "(1 \\pm 1, 2)", "\\mathbb{R}^2", "(1, \\{2, 3\\})", "(12)", "1.2", "(1.0001, 2)", "1 < x < 2",
        "x = 1 \\text{ or } y = 2", "2, 1", "\\binom{1}{2}", "-(1, 2)", "2(1, 2)", "\\frac{3}{2} \\pm \\frac{1}{2}",
    ),
    "\\{1, 2, 3\\}": (
        "\\{1, 2, 3, 4\\}", "\\{1, 2\\}", "\\{1, 2, 3, \\ldots\\}", "\\mathbb{N}", "(1, 2, 3)", "[1, 3]",
        "1 \\le x \\le 3",
        "\\{1, 1, 2\\}", "\\{x, y, z\\}", "\\{1, 2, x\\}", "\\{1, 2, 3\\} \\cup \\{4\\}", "\\{\\{1, 2, 3\\}\\}",
        "\\{12, 3\\}",
        "x \\notin \\{1, 2, 3\\}", "\\{1, 2, 3\\}^c", "\\{1, 2, 3.0001\\}", "\\{1, 2, \\pm 3\\}",
        "\\{1,2,3\\} \\setminus \\{3\\}",
    ),
    "[0, 1)": (
        "[0, 1]", "(0, 1)", "(0, 1]", "[0, \\infty)", "\\{0, 1\\}", "0, 1", "[0, 1) \\cup [5, 6)", "\\mathbb{R}",
        "0 < x < 1",
        "x < 1", "[a, b)", "[0, 1.001)", "\\mathbb{R}\\setminus[0,1)", "x \\notin [0, 1)", "[1, 0)", "[0, 1), [2, 3)",
    ),
    "x > 3": (
        "x \\ge 3", "x < 3", "x \\neq 3", "x = 3", "[3, \\infty)", "\\mathbb{R}", "x > y", "x > 3 \\text{ or } x < 3",
        "y > 3",
        "x > 3.001", "(3, \\infty) \\cup (-\\infty, 0)", "x \\not> 3", "|x| > 3", "x > x", "1 > 0", "x + 1 > x",
    ),
    "y = 3x": (
        "y = x", "y = 3x + C", "y = kx", "y = 3x \\text{ or } y = 0", "y \\neq 3x", "y \\ge 3x", "x = 3y", "0 = 0",
        "y - y = 0",
        "0y = 0x", "(y-3x)(y-x) = 0", "y(y - 3x) = 0", "(y-3x) \\cdot 0 = 0", "y = 3x = 4x", "y = 3.0001x", "|y| = 3x",
        "Y = 3X", "y = y", "y' = 3x",
    ),
    "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}": (
        "\\begin{pmatrix}1&2\\\\3&5\\end{pmatrix}", "\\begin{pmatrix}a&b\\\\c&d\\end{pmatrix}", "1, 2, 3, 4", "-2", "A",
        "\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}", "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}^T",
        "\\begin{pmatrix}1&2&3&4\\end{pmatrix}",
        "\\begin{pmatrix}1&2\\\\3&x\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\3&\\pm 4\\end{pmatrix}",
        "2\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\3&4\\\\5&6\\end{pmatrix}",
    ),
    "2, 3": (
        "2", "2, 3, 4", "2, x", "x, y", "2 \\text{ or } 4", "[2, 3]", "2 \\le x \\le 3", "\\pm 2, \\pm 3", "2, 2",
        "2, 3, \\ldots",
        "23", "2.3", "\\mathbb{Z}", "x^2 - 5x + 6", "2, 3, 3", "2, \\pm 3", "2, 3 \\text{ maybe}",
    ),
    "3 + 4i": ("3 - 4i", "7i", "5", "3 \\pm 4i", "3 + 4i, 3 - 4i", "a+bi", "\\overline{3+4i}", "(3,4)", "3+4i^3"),
    "\\ln 2": ("0.69", "\\log_{10} 2", "\\ln x", "\\pm \\ln 2", "\\ln 2 + 2\\pi i", "\\ln(2.0001)", "\\ln 2, 0",
    "\\ln 2x"),
    "x^2+y^2=1": ("x^2+y^2=2", "x^2+y^2", "x^2+y^2 \\le 1", "x^2+y^2 = r^2", "1 = 1", "(x^2+y^2-1)(x-5)=0", "x+y=1"),
}  # fmt: skip
FLOATS = {  # games with digits, by gold
    "3.14": ("3", "3.1", "3.2", "3.15", "31.4", "0.314", "-3.14", "3,14 or 3.2", "3.1 - 3.2", "22/7",
    "3.14 \\times 10"),
    "48.85": ("48", "49", "48.8", "48.9", "48.86", "48.84", "4885", "48.85e2", "-48.85", "0.4885", "48,850",
    "48.85 thousand"),
    "0.005": ("0", "0.01", "0.0", "0.00", "5", "-0.005", "0.5", "1e-3", "5e-2", "0.005 to 0.006"),
    "0": ("1e-9", "0.0000001", "10^{-30}", "-0.001", "\\epsilon", "x - x + \\epsilon", "\\frac{1}{\\infty} + 0.1", "x"),
}  # fmt: skip
STRINGS = {  # letters, signs and units, by gold
    "C++": ("C", "C+", "C#", "c", "++", "C--"), "f'": ("f", "f''", "F'", "f'(x)"), "-5": ("5", "±5", "5-", "|-5|",
    "-5.1"),
    "5 km": ("5 m", "5 kg", "50 km", "-5 km", "5 km or 6 km", "5 km/h", "5 km^2", "5 thousand km"),
    "3:1": ("1:3", "31", "3:1:1", "3.1", "3, 1"), "1914": ("1914-1918", "1914s", "1914 BC", "19140", "190x",
    "1900-2000"),
    "9.5": ("95", "9", "10", "9.6", "9.5 million", "9,5 or 95", "9.5.1"), "x": ("X", "y", "x'", "xx", "-x", "\u0445"),
}  # fmt: skip


def attacks() -> list[Attack]:
    """All of them, by kind, gold and form."""
    river = Task("Which?", "B", "MCQ", options=("Nile", "Amazon", "Congo", "Volga"))
    made = _made(
        river, "D", EMPTY | SEVERAL | DENIED | _MCQ, dict(zip(("AT", "BT", "CT", "DT"), river.options, strict=True))
    )
    numbers = EMPTY | SEVERAL | DENIED | _NUMBERS
    for kind, gold, wrong in (("Integer", "42", "43"), ("Float", "2.5", "7"), ("Expression", "42", "43")):
        made += _made(_task(gold, kind), wrong, numbers)
    for gold, wrong in (("Paris", "Rome"), ("gradient descent", "Newton")):
        made += _made(_task(gold, "String"), wrong, EMPTY | SEVERAL | DENIED | _STRING)
    for gold, wrong in (("true", "false"), ("no", "yes")):
        made += _made(_task(gold, "Boolean"), wrong, EMPTY | SEVERAL | DENIED | _BOOLEAN)
    for right in (["3", "2", "1"], ["Paris", "Rome", "Oslo"]):
        words = {"FIRST": right[0], "LAST": right[-1], "DROPPED": ", ".join(right[:-1])}
        made += _made(_task(", ".join(right), "List"), ", ".join(right[::-1]), EMPTY | _LIST, words)
    pairs: tuple[tuple[AnswerType, dict[str, tuple[str, ...]]], ...] = (
        ("Expression", EXPRESSIONS), ("Float", FLOATS), ("String", STRINGS),
    )  # fmt: skip
    for kind, by_gold in pairs:
        made += [Attack(f"{kind} {g}: {a}", a, _task(g, kind)) for g, answers in by_gold.items() for a in answers]
    return made


def _task(gold: str, kind: AnswerType) -> Task:
    return Task("Which?", gold, kind)


def _made(task: Task, wrong: str, forms: dict[str, str], words: dict[str, str] | None = None) -> list[Attack]:
    """Each form about one task. Of an MCQ, @T and #T are the options' texts, AT to DT those of each letter."""
    made = []
    for name, form in forms.items():
        for mark, letter in (("@T", task.answer), ("#T", wrong)):
            form = form.replace(mark, (words or {}).get(f"{letter}T", mark))
        for word, text in (words or {}).items():
            form = form.replace(word, text)
        made.append(
            Attack(
                f"{task.answer_type} {task.answer}: {name}", form.replace("@", task.answer).replace("#", wrong), task
            )
        )
    return made

r"""Our extraction and scoring beside the published scorers, on 200 cases and more of each kind of answer.

A case is a right or a wrong answer in some spelling, in a reply. What `evaluate --benchmarks` makes of it is held
against lm-evaluation-harness (its own YAML and functions), Math-Verify, and, where no package has the scorer, its rule
in our words. A difference in verdict that `KEPT` does not list fails, and so does one that it lists and that is gone.
"""

import importlib.metadata
import math
import re
import types
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import jsonl
import pytest
import scripted

from spicejax.data.benchmarks import BENCHMARKS, load
from spicejax.data.questions import LETTERS
from spicejax.evaluation import scores
from spicejax.games import reasoner, solver
from spicejax.score import qa
from spicejax.score.verifiers import Verifier

_LATEX = "it knows no Markdown or LaTeX around an answer; replies here are boxes"
_HEDGE = "two answers are none; it takes the first, or the last"
_KEYBOARD = [("+", "curly", "", "it knows ASCII quotes alone"), ("+", "dashes", "–", "it knows ASCII dashes alone")]
_SHARED = [("+", "other: curly", "^..50'|New Orleans S", "the word that a curly quote stands at is shared")]
_WORDS = [
    ("+", "the", r"^..([a-z]|Yes|No|\]')", "an article before a word is no part of it"),
    ("+", "truth", "", "yes is true, and no is false"),
    ("-", "lower", r"^..\([A-Z]\)", "of a single letter the case counts: X is not x"),
    ("-", "upper", "'No'", "of a symbol the case counts: NO is not No"),
]
# Of each scorer: + = we say right, or more, where it does not, - = the reverse; spellings; which golds, "" = all; why.
# Every such case has to differ, and no other.
KEPT = {
    "gsm8k strict-match": [("+", "decimals", "", "72.00 is 72"), ("-", "two", "", _HEDGE)],
    "gsm8k flexible-extract": [("+", "decimals|braces", "", "72.00 is 72, and 1{,}080 is 1080")],
    "math": [
        ("+", "mv|v|none", "", "it compares strings, but for a few rewritings"),
        ("+", "name", "pmatrix", "it gives up at the stroke, and compares the texts as they are"),
    ],
    "minerva": [("+", "hv|v|none", "", "it subtracts; sets, lists and matrices are strings")],
    "math_verify": [
        ("+", "none", "", "it reads 4e33 as a product with e"), ("+", "name", r",\\\\!", "it reads z = 1,080 as two"),
        ("-", "capitals", "", "it folds the case of symbols"),
    ],
    "mmlu_pro": [
        ("+", "bold|text", "", _LATEX), ("+", "lower", "", "it reads capitals alone"), ("-", "either", "", _HEDGE),
        ("+", "option", "", "the text of one option names it"),
    ],
    "gpqa": [("+", "text", "", _LATEX), ("+", "and option|option", "", "an option's text names it, or may follow")],
    "supergpqa": [
        ("+", "lower", "", "it reads any case, and takes capitals alone for right"), ("-", "either", "", _HEDGE),
        ("+", "option", r"π\^2 / 2", "it takes another option, with which this one begins"),
    ],
    "squad": _KEYBOARD, "squad f1": _KEYBOARD + _SHARED, "search_r1 cover": _KEYBOARD[1:],
    "hotpotqa f1": [*_KEYBOARD, *_SHARED, ("+", "more|said|twice", "^..(yes|no)'", "f1 is SQuAD's; f1_space does so")],
    "nq_open": [
        *_KEYBOARD, ("+", "dashes", "\\\\xa0", "it knows ASCII spaces alone"),
        ("+", "upper", r"(?i)^..[^']*\b(an|the) ", "it drops no AN and no THE"),
    ],
    "search_r1 tags": [("+", "twice opened", "", "an answer begins at the last tag that opens it")],
    "hover": [("+", "text", "", _LATEX)], "exfever": [("+", "text", "", _LATEX)],
    "yes or no": [("-", "more", "", "a box holds the answer and no more"), ("-", "either", "'No'", _HEDGE)],
    "bbh": [
        *_WORDS, ("+", "bold|text", "", _LATEX), ("+", "decimals", "", "25.0 is 25"),
        ("+", "no brackets", r"^..\([A-Z]\)", "the brackets of an option's letter may be left out"),
        ("-", "quoted", r"\([A-Z]\)|True|False", "a letter or a truth value in quotes is another text"),
    ],
    "bbeh": [
        *_WORDS, ("+", "list", "", "a list may have commas or not"),
        ("+", "quoted", r"^..([a-z]|Yes|No|-?\d)", "quotes around a word or a number mean nothing"),
    ],
    "docmath": [
        ("-", "thousands|minus", "", "a number of another size or sign is another"),
        ("-", "tens", "^.(?!-52.63|15.57)", "likewise; of these two the logarithm is not whole as a float"),
        ("-", "million|name", "", "a word or a name beside the number is not read"),
        ("-", "0.2 % down", r"^.0\.(27|45)", "it also rounds both up to three places"),
    ],
}  # fmt: skip

SPELLINGS = {  # of a gold that is a tuple
    "plain": "{0}", "stop": "{0}.", "bold": "**{0}**", "text": "\\text{{{0}}}", "quoted": '"{0}"', "the": "the {0}",
    "lower": lambda g, *_: g.lower(), "upper": lambda g, *_: g.upper(), "none": lambda *_: "unknown",
    "commas": "{0:,}", "dollar": "${0:,}", "escaped": "\\${0:,}", "percent": "{0}\\%", "minus": "-{0}",
}  # fmt: skip
OTHER = "other: "  # before the spelling of a wrong answer


class Case(NamedTuple):
    spelling: str
    k: int  # which gold
    text: str


def spelled(golds, names, more, others=()):
    """Every gold in every spelling, and so a wrong answer: of `others`, else the next gold that is another."""
    cases, spellings = [], {name: SPELLINGS[name] for name in names.split()} | more
    for k, gold in enumerate(golds):
        wrong = others[k] if others else next(g for g in golds[k + 1 :] + golds[:k] if g != gold)
        texts = {}
        for before, values in (("", gold), (OTHER, wrong)):
            for name, spell in spellings.items():
                text = spell.format(*values) if isinstance(spell, str) else spell(*values)
                texts.setdefault(text, before + name)
        cases += [Case(name, k, text) for text, name in texts.items() if text is not None]
    return cases


def agree(scorer, cases, golds, mine, theirs, which="table"):
    """Fail for a difference that is not kept, and for one that is kept and gone; `mine` are scores, `which` the one."""
    assert len(cases) >= 200 and 0.1 < sum(map(bool, theirs)) / len(cases) < 0.9
    kept = ["="] * len(cases)
    for sign, spellings, of, why in KEPT[scorer]:
        names = spellings.split("|")
        meant = [i for i, case in enumerate(cases) if case[0] in names and re.search(of, str(golds[case.k]))]
        assert {cases[i].spelling for i in meant} == set(names), f"{scorer}, {why}: no case of some of {names}"
        for i in meant:
            kept[i] = sign
    pairs = [(score[which], told) for score, told in zip(mine, theirs, strict=True)]
    signs = ["=" if abs(a - b) < 1e-9 else "+" if a > b else "-" for a, b in pairs]
    unlike = [(s, k, *case, golds[case.k]) for s, k, case in zip(signs, kept, cases, strict=True) if s != k]
    assert not unlike, f"{scorer}: {len(unlike)} of {len(cases)} verdicts, (found, kept, ...): {unlike[:20]}"


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """(benchmark, the published row that each reply answers, replies) -> scores of each, "table" = the table's own."""
    path = tmp_path_factory.mktemp("published") / "rows.jsonl"

    def score(name, rows, replies):
        jsonl.write(path, rows)
        rollouts = [[scripted.written(reply)] for reply in replies]
        player = types.SimpleNamespace(render=lambda messages: messages, respond=lambda *_, **__: rollouts)
        world = scripted.world({"reasoner": player}, verifier.check)
        records = scores.examine(world, load(name, path), reasoner.exam("nano", 1))
        return [r["scores"] | {"table": r["scores"][BENCHMARKS[name].score]} for r in records]

    with Verifier(workers=2) as verifier:
        yield score


def lm_eval(task, chosen, replies, golds, docs):
    """The verdicts of a task of lm-evaluation-harness: the filter `chosen` and the exact match of its YAML."""
    pytest.importorskip("lm_eval")
    from lm_eval.api.metrics import exact_match_fn
    from lm_eval.filters import get_filter
    from lm_eval.tasks._yaml_loader import load_yaml

    config = load_yaml(Path(find_spec("lm_eval").origin).parent / "tasks" / task)
    found = [[reply] for reply in replies]
    for step in next((f["filter"] for f in config.get("filter_list", ()) if f["name"] == chosen), ()):
        options = {k: v for k, v in step.items() if k != "function"}
        found = list(get_filter(step["function"])(**options).apply(found, docs))
    (metric,) = (m for m in config["metric_list"] if m["metric"] == "exact_match")
    options = {k: v for k, v in metric.items() if k not in ("metric", "aggregation", "higher_is_better")}
    texts = [text if isinstance(text, str) else text[0] for text in found]

    def match(text, gold):
        return exact_match_fn(predictions=[text], references=[gold], **options)["exact_match"]

    return [any(match(text, gold) for gold in right) for text, right in zip(texts, golds, strict=True)]


def test_numbers(ours, shared_data):
    """A whole number in the form that GSM8K asks for, "#### 72", and in our box."""
    rows = jsonl.read(shared_data / "gsm8k_train_200" / "gsm8k_train_200.jsonl")
    golds = [(int(row["answer"]),) for row in rows]
    form = {"unit": "{} eggs", "decimals": "{}.00", "times": "{}0", "two": lambda n: f"{n} or {n + 10007}"}
    box = {"latex unit": "{}\\text{{ eggs}}", "braces": lambda n: f"{n:,}".replace(",", "{,}") if n > 999 else None}
    names = "plain commas stop percent minus none"
    cases_of = {
        "strict-match": spelled(golds, names, form),
        "flexible-extract": spelled(golds, f"{names} dollar escaped bold text", form | box),
    }
    for chosen, cases in cases_of.items():
        replies = [f"She counts.\n#### {case.text}\nThe answer is \\boxed{{{case.text}}}" for case in cases]
        asked = [{"question": "?", "answer": rows[case.k]["solution"]} for case in cases]
        theirs = lm_eval("gsm8k/gsm8k.yaml", chosen, replies, [[row["answer"]] for row in asked], asked)
        agree(f"gsm8k {chosen}", cases, golds, ours("gsm8k", asked, replies), theirs)


# Answers in the forms that MATH, AIME, Minerva Math and OlympiadBench have, another way to write each, and which of the
# published scorers see that it is equal: h = MATH's, m = Minerva's, v = Math-Verify
MATHEMATICS = [
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)", "v"), (r"p - q", "-q + p", "mv"), ("9", "9.0", "mv"),
    (r"\frac{14}{3}", "14/3", "hmv"), (r"\text{Evelyn}", "Evelyn", "mv"), ("13535", "13,535", "mv"),
    ("-50", "- 50", "hmv"), (r"90^\circ", "90", "hmv"), (r"3\sqrt{13}", r"\sqrt{117}", "mv"), ("x=5", "5", "hmv"),
    (r"\frac{3}{56}", r"\dfrac{3}{56}", "hmv"), (r"6 - 5i", "-5i + 6", "mv"), ("1,-2", "-2, 1", "v"),
    ("52_8", "52_{8}", "mv"), (r"11\sqrt2", r"11\sqrt{2}", "hmv"), (r"\frac{243}{625}", "0.3888", "mv"),
    ("3, 5, 7", "7, 5, 3", "v"), ("(3,4]", "(3, 4]", "hmv"), ("187.5", r"\frac{375}{2}", "mv"), (".35", "0.35", "hv"),
    (r"\begin{pmatrix} -1/3 \\ 2 \end{pmatrix}", r"\begin{pmatrix} -\frac{1}{3} \\ 2 \end{pmatrix}", "v"),
    (r"5.4 \text{ cents}", "5.4", "hmv"), (r"\dfrac{17}{50}", "0.34", "mv"), (r"\$32,\!348", "32348", "mv"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty,2)\cup(3,\infty)", "hmv"), (r"10\%", "10", "hv"),
    (r"10,\!080", "10080", "mv"), ("x^3 + 3x - 6", "3x + x^3 - 6", "mv"), (r"-\frac{35}{9}", r"\frac{-35}{9}", "mv"),
    (r"\text{(C)}", r"\text{C}", "mv"), (r"\text{even}", "even", "mv"), ("2k+2", "2(k+1)", "mv"), ("204", "204.", "mv"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}", "mv"), (r"16\pi", r"\pi \cdot 16", "mv"), ("033", "33", "v"),
    (r"3 \pm 2 \sqrt{2}", r"3 + 2\sqrt{2}, 3 - 2\sqrt{2}", "v"), ("y = 2x + 3", "2x + 3", "hmv"),
    (r"\{1, 2, 3\}", r"\{3, 2, 1\}", "v"), (r"1 - \frac{12}{x+3}", r"\frac{x-9}{x+3}", "mv"), ("n^{2}", "n^2", "mv"),
    (r"\left[ -1, 1 \right]", "[-1,1]", "hv"), (r"1\frac{4}{5}", r"\frac{9}{5}", "v"), ("5!", "120", "mv"),
    (r"8 \text{ inches}", "8", "hmv"), ("2^{1009}", r"2 \cdot 2^{1008}", "mv"), ("(1,8,19)", "(1, 8, 19)", "hmv"),
    (r"\frac{1}{2n+2}", r"\frac{1}{2(n+1)}", "mv"), ("-2 + 7i", "7i - 2", "mv"), (r"12\pi + 4", r"4(3\pi + 1)", "mv"),
    (r"\frac{m}{2} v^2", r"\frac{1}{2} m v^2", "mv"), (r"\sqrt{51}", "51^{1/2}", "mv"),
    (r"\arcsin{1.3 \sin{\theta_w}}", r"\arcsin(1.3 \sin(\theta_w))", "mv"), ("e^{-2 t}", r"\frac{1}{e^{2t}}", "mv"),
    (r"\frac{\ln 3}{2}", r"\ln\sqrt{3}", "mv"), (r"\binom{10}{4}", "210", "mv"), ("4e33", r"4 \times 10^{33}", ""),
]  # fmt: skip


@pytest.fixture
def minerva(monkeypatch):
    """A task of lm-evaluation-harness that asks for another antlr than Math-Verify does, and runs with that one."""
    pytest.importorskip("lm_eval")
    pytest.importorskip("math_verify").parse("1")
    version = importlib.metadata.version
    claimed = lambda name: "4.11" if name.startswith("antlr4") else version(name)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", claimed)
        from lm_eval.tasks.minerva_math import utils
    monkeypatch.setattr("sympy.parsing.latex._parse_latex_antlr.version", claimed)
    return utils


def test_mathematics(ours, minerva):
    """Mathematics in LaTeX: the exact matches of MATH and of Minerva, and Math-Verify, on one reply in their forms."""
    from lm_eval.tasks.hendrycks_math import utils as hendrycks

    more = {
        seen or "none": lambda g, o, by, seen=seen: o if by == seen else None for seen in ("", "v", "hv", "mv", "hmv")
    } | {
        "minus": lambda g, *_: f"-({g})" if not re.search("=|text", g) else None,
        "more": lambda g, *_: f"{g} + 1" if not re.search("[=,_]|text", g) else None,
        "name": lambda g, *_: f"z = {g}" if not re.search("=|text", g) else None,
        "capitals": lambda g, *_: g.upper() if re.fullmatch(r"[^=\\ie]*[a-df-hj-z][^=\\ie]*", g) else None,
        "unit": lambda g, *_: f"{g} \\text{{ cm}}" if re.fullmatch("[0-9.-]+", g) else None,
    }
    cases = spelled(MATHEMATICS, "plain", more)
    cases = [case for case in cases if not case.spelling.startswith(OTHER) or case.spelling == "other: plain"]
    lines = [f"Final Answer: The final answer is ${case.text}$. I hope it is correct." for case in cases]
    replies = [f"So it is \\boxed{{{case.text}}}.\n{line}" for case, line in zip(cases, lines, strict=True)]
    docs = [{"solution": f"$\\boxed{{{g}}}$", "answer": minerva.normalize_final_answer(g)} for g, *_ in MATHEMATICS]
    mine = ours("math500", [{"problem": "?", "answer": MATHEMATICS[case.k][0]} for case in cases], replies)
    theirs = [hendrycks.process_results(docs[c.k], [r])["exact_match"] for c, r in zip(cases, lines, strict=True)]
    agree("math", cases, MATHEMATICS, mine, theirs)
    both = [minerva.process_results(docs[c.k], [r]) for c, r in zip(cases, replies, strict=True)]
    agree("minerva", cases, MATHEMATICS, mine, [verdicts["exact_match"] for verdicts in both])
    agree("math_verify", cases, MATHEMATICS, mine, [verdicts["math_verify"] for verdicts in both])


def supergpqa(reply, options):
    """SuperGPQA (arXiv:2502.14739): the letter behind "the answer is" or "answer:" or at the begin of the last line,
    else of the text; else of the option whose text stands there. Boxes, bold and brackets do not count."""
    lead = r"(?:[Tt]he\s+(?:\w+\s+)?(?:answer|option)\s+(?:\w+\s+)?is:?|(?i:answer)\s*:|^)\s*"
    marks = r"\\(?:boxed|mathbf|mathrm|text)\{|[*$\\{}()\[\]]"
    bare, *cleared = (re.sub(marks, " ", text) for text in (reply, *options))
    places = (bare.strip().split("\n")[-1], bare)
    for what in ("[A-J]", "|".join(map(re.escape, cleared))):
        if hit := next(filter(None, (re.search(rf"{lead}({what})(?=[\s:.]|$)", place) for place in places)), None):
            return hit[1] if what == "[A-J]" else LETTERS[cleared.index(hit[1])]
    return None


def test_letters(ours, shared_data):
    """The letter of 4 to 10 options: the filters of MMLU-Pro and GPQA and SuperGPQA's rule, each on its own form."""
    rows, asked, golds, others = jsonl.read(shared_data / "multiple_choice" / "mmlu_val_200.jsonl"), [], [], []
    for k, row in enumerate(rows):
        count, right = 4 + k % 7, row["choices"][LETTERS.index(row["answer"])]
        pool = [option for each in [*rows[k:], *rows[:k]] for option in each["choices"]]
        options = [o for o in dict.fromkeys(pool) if o.casefold() != right.casefold()][: count - 1]
        options.insert(3 * k % count, right)
        i, j = options.index(right), (options.index(right) + 1) % count
        golds, others = [*golds, (LETTERS[i], right, LETTERS[j])], [*others, (LETTERS[j], options[j], LETTERS[i])]
        asked.append({"question": "?", "options": options, "answer": LETTERS[i], "answer_letter": LETTERS[i]})
    more = {"brackets": "({0})", "text": "\\text{{({0})}}", "and option": "{0}. {1}", "either": "{0} or {2}"}
    more["option"] = lambda _, option, *__: None if option[0] in LETTERS else option  # "Cat" begins like C
    cases = spelled(golds, "plain stop bold lower none", more, others)
    docs, right = [asked[case.k] for case in cases], [[golds[case.k][0]] for case in cases]
    replies = [f"Let me see.\nThe answer is {case.text}.\n\\boxed{{{case.text}}}" for case in cases]
    mine = ours("mmlu_pro", docs, replies)
    for name, task, chosen in (
        ("mmlu_pro", "mmlu_pro/_default_template_yaml", "custom-extract"),
        ("gpqa", "gpqa/cot_zeroshot/_gpqa_cot_zeroshot_yaml", "strict-match"),
    ):
        agree(name, cases, golds, mine, lm_eval(task, chosen, replies, right, docs))
    replies = [f"Let me see.\nThe answer is \\boxed{{{case.text}}}" for case in cases]
    theirs = [supergpqa(reply, row["options"]) == row["answer"] for reply, row in zip(replies, docs, strict=True)]
    agree("supergpqa", cases, golds, ours("supergpqa", docs, replies), theirs)


def test_short_answers(ours, shared_data):
    """Names, dates and phrases with aliases: exact match, F1 and cover of SQuAD, HotpotQA, Search-R1 and NQ-open."""
    squad = pytest.importorskip("lm_eval.tasks.qasper.metrics")  # SQuAD's normalisation and F1
    files = ("open_qa/nq_efficientqa_dev_200.jsonl", "multihop_qa/hotpotqa_train_96.jsonl")
    rows = [row for file in files for row in jsonl.read(shared_data / file)]
    golds = [*(tuple(row.get("answers") or [row["answer"]]) for row in rows), ("Duran Duran",)]
    more = {
        "last": lambda *g: g[-1], "first": lambda g, *_: g.split()[0], "more": "{0} of old", "said": "So {0}, say I",
        "bare": lambda g, *_: re.sub(r"[!-/:-@[-`{-~]", "", g), "inside": "x{0}x", "curly": "\u201c{0}\u201d",
        "dashes": lambda g, *_: g.translate({0x2013: "-", 0xA0: " "}), "nothing": lambda *_: "the", "twice": "{0} {0}",
    }  # fmt: skip
    cases = spelled(golds, "plain upper the stop quoted bold", more)
    texts, right, normal = [case.text for case in cases], [golds[case.k] for case in cases], squad.normalize_answer
    asked = [{"question": "?", "answer": each} for each in right]
    mine = ours("nq", asked, [f"So \\boxed{{{text}}}" for text in texts])

    def f1(said, gold):
        return squad.f1_abstractive([said], [gold])

    def hotpot(said, gold):  # a yes or no is right or wrong as a whole
        both = {normal(said), normal(gold)}
        return f1(said, gold) if not both & {"yes", "no", "noanswer"} or len(both) == 1 else 0.0

    for name, which, score in (
        ("squad", "exact", lambda said, gold: normal(said) == normal(gold)),
        ("squad f1", "f1", f1),
        ("hotpotqa f1", "f1", hotpot),
        ("search_r1 cover", "cover_substring", lambda said, gold: normal(gold) in normal(said)),
    ):
        theirs = [float(max(score(text, gold) for gold in each)) for text, each in zip(texts, right, strict=True)]
        agree(name, cases, golds, mine, theirs, which)
    agree("nq_open", cases, golds, mine, lm_eval("nq_open/nq_open.yaml", "", texts, right, asked))


def test_answers_between_tags(shared_data):
    """The Solver's answer stands where Search-R1 reads it: between the last pair of answer tags."""
    golds = [(row["answer"],) for row in jsonl.read(shared_data / "multihop_qa" / "multihop_train_qa_200.jsonl")]
    more = {
        "pair": "<think>So.</think><answer>{0}</answer>", "lines": "<answer>\n{0}\n</answer> Done.",
        "later": "<answer>nothing</answer> <answer> {0} </answer>", "cut": "<answer>{0}</answer> or <answer>more",
        "open": "<answer>{0}", "closed": "{0}</answer>", "box": "\\boxed{{{0}}}",
        "twice opened": "<answer>no, <answer>{0}</answer>",
    }  # fmt: skip
    cases, pair = spelled(golds, "plain", more), re.compile("<answer>(.*?)</answer>", re.DOTALL)
    theirs = [(pair.findall(case.text) or [None])[-1] for case in cases]
    mine = [solver.answer(scripted.searched(case.text)) for case in cases]
    mine, theirs = ([qa.exact(text, golds[c.k]) for text, c in zip(s, cases, strict=True)] for s in (mine, theirs))
    agree("search_r1 tags", cases, golds, [{"table": right} for right in mine], theirs)


def test_verdicts(ours, shared_data):
    """Claims that are supported or not: the labels of HoVer and EX-FEVER, and the yes or no that BBH's tasks read."""
    squad = pytest.importorskip("lm_eval.tasks.qasper.metrics")
    words = {"SUPPORTS": ("Yes", "True", "Supported"), "REFUTES": ("No", "False", "Not supported")}
    rows = jsonl.read(shared_data / "fact_verification" / "fever_200.jsonl")
    golds = [words[row["answer"]] for row in rows if row["answer"] in words]
    more = {"truth": "{1}", "label": "{2}", "more": "{0}, it is", "either": lambda *_: "yes or no"}
    cases = spelled(golds, "plain stop bold text quoted lower none", more)
    replies = [f"Let me check. \\boxed{{{case.text}}}" for case in cases]
    for name, yes, no in (("hover", "SUPPORTED", "NOT_SUPPORTED"), ("exfever", "SUPPORT", "REFUTE")):
        labels = [{"Yes": yes, "No": no}[golds[case.k][0]] for case in cases]
        said = [{"yes": yes, "no": no}.get(squad.normalize_answer(case.text)) for case in cases]
        mine = ours(name, [{"claim": "?", "label": label} for label in labels], replies)
        agree(name, cases, golds, mine, [a == b for a, b in zip(said, labels, strict=True)])
    right = [golds[case.k][:1] for case in cases]
    theirs = lm_eval("bbh/cot_zeroshot/navigate.yaml", "flexible-extract", replies, right, right)
    agree("yes or no", cases, golds, mine, theirs)


def value(text):
    """The number that a text is; None for others."""
    return float(text) if re.fullmatch(r"-?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?", text) else None


def bbeh(said, gold):
    """BBEH (arXiv:2502.19187): equal but for case, bold, LaTeX around it, spaces behind commas, brackets around a
    letter or a list, single quotes and a question mark; numbers by their value."""
    said = re.sub(r"^(?:\$|\\(?:text|texttt|boxed)\{)(.*)[$}]$", r"\1", said.removesuffix("."))
    said, gold = (text.strip("*").removesuffix(".").lower().replace(", ", ",") for text in (said, gold))
    ways = (lambda t: re.sub(r"^\((.)\)$", r"\1", t), lambda t: t.replace("'", ""), value)
    return said in (f"[{gold}]", f"{gold}?") or any(way(said) == way(gold) is not None for way in ways)


def test_strings(ours, shared_data):
    """The word, letter, list or brackets that BIG-Bench (Extra) Hard asks for, after "The answer is" and in a box."""
    rows = jsonl.read(shared_data / "reasoning_bbh" / "bbh_200.jsonl")
    golds, of_task = [(row["answer"],) for row in rows], {}
    for row in rows:
        of_task.setdefault(row["task"], []).append((row["answer"],))
    others = [next((g for g in of_task[row["task"]] if g != (row["answer"],)), ("-1",)) for row in rows]
    more = {
        "text": lambda g: f"\\text{{{g}}}" if re.search("[A-Za-z]", g) else None,
        "quoted": lambda g: f'"{g}"' if re.search("[A-Za-z0-9]", g) else None,
        "no brackets": lambda g: g[1:-1] if re.fullmatch(r"\([A-Z]\)", g) else None,
        "list": lambda g: ", ".join(g.split()) if g[0].isalpha() else None,
        "decimals": lambda g: f"{g}.0" if g.isdecimal() else None,
        "truth": lambda g: {"True": "Yes", "False": "No"}.get(g),
    }
    cases = spelled(golds, "plain stop bold lower upper the none", more, others)
    boxes = [case.text if "text" in case.text else re.sub("[{}]", r"\\\g<0>", case.text) for case in cases]
    replies = [f"Look.\nThe answer is {c.text}.\n\\boxed{{{box}}}" for c, box in zip(cases, boxes, strict=True)]
    asked, right = [{"input": "?", "target": golds[c.k][0]} for c in cases], [golds[c.k] for c in cases]
    theirs = lm_eval("bbh/cot_zeroshot/date_understanding.yaml", "strict-match", replies, right, asked)  # all have it
    agree("bbh", cases, golds, ours("bbh", asked, replies), theirs)
    agree("bbeh", cases, golds, ours("bbeh", asked, replies), [bbeh(c.text, *golds[c.k]) for c in cases])


def docmath(text, gold):
    """DocMath-Eval (arXiv:2311.09805): within 0.15 %; of either sign a power of ten apart, 100, 1000 or 100000 within
    0.15 %, or the same rounded up to three places. Names, signs and units beside the number do not count."""
    text = re.sub(r"[$%,\\]", "", re.split("[=≈]", text.rstrip("."))[-1])
    said = value(re.sub(r" \D+$", "", text).strip()) or 0.0
    small, large = sorted((abs(said), abs(gold)))
    power = small > 0 and math.log10(large / small).is_integer()
    scaled = any(abs(scale * small - large) <= 0.0015 * large for scale in (100, 1000, 100_000))
    rounded = math.ceil(small * 1000) == math.ceil(large * 1000)
    return power or scaled or rounded or abs(said - gold) <= 0.0015 * abs(gold)


def test_tolerance(ours, shared_data):
    """A number from a report, rounded, as a share or in percent, as DocMath-Eval accepts it."""
    rows = jsonl.read(shared_data / "document_qa" / "tatqa_dev_200.jsonl")
    told = [each for row in rows for each in (row["answer"] if isinstance(row["answer"], list) else [row["answer"]])]
    golds = [(number,) for each in told if (number := value(re.sub("[$%,]", "", str(each))))]
    factors = {"0.1 % up": 1.001, "0.1 % down": 0.999, "0.2 % up": 1.002, "0.2 % down": 0.998, "hundreds": 100}
    factors |= {"share": 0.01, "tens": 10, "thousands": 1000, "minus": -1}
    more = {name: lambda v, factor=factor: f"{v * factor:.12g}" for name, factor in factors.items()} | {
        "whole": "{:.0f}", "four": "{:.4g}", "three": "{:.3g}", "two": "{:.2g}", "e": "{:.6e}", "sign": "{}%",
        "million": "{} million", "name": "x = {}", "about, stop": lambda v: f"{v * 1.001:.12g}.",
        "about, escaped": lambda v: f"\\${v * 1.001:,.12g}",
        "negative": lambda v: f"-${-1.001 * v:.12g}" if v < 0 else None,
    }  # fmt: skip
    cases = spelled(golds, "plain commas dollar escaped stop percent none", more, [(1.3 * v + 1,) for (v,) in golds])
    asked = [{"question": "?", "paragraphs": ["a"], "ground_truth": golds[case.k][0]} for case in cases]
    mine = ours("docmath_complong", asked, [f"So \\boxed{{{case.text}}}" for case in cases])
    agree("docmath", cases, golds, mine, [docmath(case.text, golds[case.k][0]) for case in cases])

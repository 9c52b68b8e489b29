"""Right and wrong answers of every type, by text and through the real Math-Verify, and hostile answers of all kinds."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spicejax.score import pool, worker
from spicejax.score.verifiers import Verdict, Verifier, check_text, matches_itself
from spicejax.types import ANSWER_TYPES, Task

RIVERS = Task("Which?\nA) Nile\nB) Amazon\nC) Congo\nD) 42", "B", "MCQ", options=("Nile", "Amazon", "Congo", "42"))


def task(gold: str, kind: str = "Expression") -> Task:
    return Task("Which value?", gold, kind)  # pyright: ignore[reportArgumentType]


def pids(opened: Verifier) -> list[int]:
    return [process.pid for process in opened.pool.workers.values()]


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2) as opened:
        yield opened


# ------------------------------------------------------------------------------------------------------------ text


@pytest.mark.parametrize("kind", ANSWER_TYPES)
def test_no_answer_is_wrong(kind: str) -> None:
    assert {check_text(answer, task("B", kind)) for answer in (None, "", "  \n")} == {Verdict(False, "none")}


@pytest.mark.parametrize(
    "answer",
    ["B", "b", "(B)", "B)", "B.", " B ", "**B**", "$B$", "\\text{B}", "\\text{(B)}", "\\mathrm{B}", "B) Amazon",
     "(B) Amazon", "B: the Amazon", "Amazon", "the amazon", "Option B", "\\text{B. Amazon}"],
)  # fmt: skip
def test_right_letters(answer: str) -> None:
    assert check_text(answer, RIVERS) == Verdict(True, "letter")


@pytest.mark.parametrize(
    "answer",
    ["A", "A or B", "A, B", "B, C", "AB", "B or C", "B and C", "B) Nile", "B) Amazon or Nile", "Nile", "Amazon or Nile",
     "Amazon, Nile", "not B", "B?", "E", "2", "\u0412", "\uff22", "42", "B) or C)", "Amazonas", "ABCD", "{A,B}", "B/C",
     "any"],
)  # fmt: skip
def test_wrong_letters_and_hedges(answer: str) -> None:
    assert check_text(answer, RIVERS) == Verdict(False, "letter")


def test_letters_beyond_the_options_are_option_texts() -> None:
    symbols = Task("q", "D", "MCQ", options=("Fe", "Ir", "In", "I"))
    assert check_text("I", symbols) == Verdict(True, "letter") and check_text("D", symbols) == Verdict(True, "letter")
    percent = Task("q", "C", "MCQ", options=("5", "5 percent", "50", "50 percent"))
    assert check_text("50", percent) == Verdict(True, "letter") and not check_text("50\\%", percent).correct  # pyright: ignore
    assert check_text("J", Task("q", "J", "MCQ")) == Verdict(True, "letter")  # benchmarks with ten options
    assert check_text("J) anything", Task("q", "J", "MCQ")) == Verdict(False, "letter")


_TEXT_RULES = {  # (type, whether it is right, what says so): pairs of an answer and the right one
    ("Integer", True, "exact"): [("42", "42")],
    ("Integer", True, "number"): [
        ("42.0", "42"), ("\\text{42}", "42"), ("42 \\text{ km}", "42"), ("1,234", "1234"), ("1.234e3", "1234"),
        ("84/2", "42"), ("\\frac{84}{2}", "42"),
    ],
    ("Integer", False, "number"): [
        ("-42", "42"), ("42.0000001", "42"), ("9007199254740993", "9007199254740992"), ("9" * 400, "9" * 399 + "8"),
    ],
    ("Integer", False, "too_long"): [("9" * 401, "9" * 401), ("x" * 1001, "42")],
    ("Expression", False, "too_long"): [("42", "4" * 1001)],
    ("Integer", False, "hedged"): [
        ("42 or 43", "42"), ("42, 43", "42"), ("\\pm 42", "42"), ("42 \\text{ or } 43", "42"), ("42 \\quad 43", "42"),
        ("42\n43", "42"), ("maybe 42", "42"), ("not 42", "42"), ("42?", "42"),
    ],
    ("Float", False, "hedged"): [("42; 43", "42")],
    ("Integer", False, "text"): [("４２", "42"), ("٤٢", "42")],
    ("Float", True, "number"): [
        ("3.1400000001", "3.14"), ("157/50", "3.14"), ("314\\%", "3.14"), ("0", "0.0"), ("½", "0.5"),
    ],
    ("Float", False, "number"): [("3.14159", "3.14"), ("1e-9", "0.0")],
    ("Expression", True, "number"): [("0.5", "\\frac{1}{2}"), ("\\frac12", "1/2"), ("0.333333", "1/3")],
    ("Expression", False, "number"): [("0.33", "1/3")],
    ("Boolean", True, "exact"): [("true", "true")],
    ("Boolean", True, "boolean"): [("Yes", "true"), ("\\text{False}", "false")],
    ("Boolean", False, "boolean"): [("no", "true"), ("true or false", "true"), ("1", "true"), ("tru\u0435", "true")],
    ("String", True, "text"): [
        ("the nile", "Nile"), ("\\text{Nile}", "nile"), ("1,000", "1000"), ("(B)", "B"), ("Up", "up"),
    ],
    ("String", False, "text"): [
        ("\\{", "}"), ("] ]", "]"), ("unknown", "} )"),
        ("Nile or Amazon", "Nile"), ("Nile, Amazon", "Nile"), ("N\u0456le", "Nile"), ("Nile river", "Nile"),
        ("C", "C++"), ("X", "x"), ("f", "f'"), ("b", "B"), ("No", "NO"), ("mg", "Mg"), ("F'(x)", "f'(x)"),
    ],
    ("List", True, "list"): [
        ("[3, 2, 1]", "3, 2, 1"), ("3,2,1", "3, 2, 1"), ("1,000, 2,000", "1000, 2000"),
        ("\\frac{1}{2}, Paris", "0.5, paris"), ("3, 2 and 1", "3, 2, 1"), ("3 \\quad 2 \\quad 1", "3, 2, 1"),
        ("red and blue", "red, blue"),
    ],
    ("List", False, "list"): [
        ("1, 2, 3", "3, 2, 1"), ("3, 2", "3, 2, 1"), ("3, 2, 1, 0", "3, 2, 1"), ("3, 2, 1 or 0", "3, 2, 1"),
        ("2, 3 and 1", "3, 2, 1"), ("sugar", "salt and pepper, sugar"), ("red or blue", "red, blue"),
    ],
    ("List", True, "exact"): [("salt and pepper, sugar", "salt and pepper, sugar")],
    ("String", True, "exact"): [("f'", "f'"), ("\\}", "}"), ("\\} ) \\}.", "} ) }")],
    ("Expression", True, "exact"): [("\\} ] >", "} ] >"), ("**> > )**", "> > )")],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "correct", "how"), _TEXT_RULES)
def test_text_rules(kind: str, correct: bool, how: str) -> None:
    pairs = _TEXT_RULES[kind, correct, how]
    verdicts = {pair: check_text(pair[0], task(pair[1], kind)) for pair in pairs}
    assert verdicts == dict.fromkeys(pairs, Verdict(correct, how))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="ABCD().,;-+*/^{}\\0123456789 orxy%$", max_size=40),
       st.text(min_size=1, max_size=20), st.sampled_from(ANSWER_TYPES), st.booleans())  # fmt: skip
def test_text_rules_are_total(answer, gold, kind, with_options) -> None:
    options = ("Nile", "Amazon", "Congo", "42") if kind == "MCQ" and with_options else ()
    verdict = check_text(answer, Task("q", gold, kind, options=options))
    assert verdict is not None or kind in ("Integer", "Float", "Expression")
    if answer.strip() and answer.strip() == gold.strip() and kind not in ("MCQ",):
        assert verdict == Verdict(True, "exact")


def test_there_is_a_worker_for_each_core_this_process_may_use(monkeypatch) -> None:
    assert Verifier().pool.size == len(os.sched_getaffinity(0)) and Verifier(workers=3).pool.size == 3
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert Verifier().pool.size == 5


def test_text_alone_starts_no_process() -> None:
    with Verifier() as opened:
        assert opened.check([("42", task("42", "Integer")), (None, RIVERS), ("B", RIVERS)])[2].correct
        assert pids(opened) == []
        assert opened.check([]) == []


# ----------------------------------------------------------------------------------------------------- math-verify

_EQUAL = [
    ("(x+1)^2", "x^2+2x+1"), ("x**2 + 2*x + 1", "(x+1)^2"), ("\\{3,2,1\\}", "{1,2,3}"), ("\\{1, 2\\}", "\\{2, 1\\}"),
    ("\\frac{\\pi}{2}", "pi/2"), ("\\sin x", "sin(x)"), ("4\\sqrt2", "sqrt(32)"), ("2\\sqrt{2}", "\\sqrt{8}"),
    ("x^-1", "1/x"), ("x^{10}", "x^10"), ("\\frac{n^2+n}{2}", "n(n+1)/2"), ("y = 3x", "y=3x"),
    ("x=2 \\text{ or } x=3", "x=3 \\text{ or } x=2"),
    ("\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}", "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}"), ("[0, 1)", "[0,1)"),
    ("mc^2", "m c^2"), ("4y + 2x = 3", "y = \\frac{3}{4} - \\frac{x}{2}"), ("3 < x", "x > 3"),
    ("(-\\infty, 3)", "x < 3"), ("x \\in (1,2) \\cup (5,6)", "(5,6) \\cup (1,2)"), ("i(2-i)", "1+2i"),
    ("RI + 1", "1 + IR"), ("\\cos x", "\\sin(90^\\circ - x)"), ("\\frac{1}{2}", "\\sin 30^\\circ"), ("√36 k", "6k"),
    ("√(2) + 0", "\\sqrt{2}"),
    ("1/8", "2^{-3}"), ("10^{-30}", "\\sqrt{10^{-60}}"), ("1 1/2", "\\sqrt{2.25}"), ("2.5e3", "50^2"),
    ("\\pm\\sqrt{12}", "-2\\sqrt{3}, 2\\sqrt{3}"), ("\\sqrt{8} \\text{ or } x^2", "x \\cdot x, 2\\sqrt2"),
    ("(x+x, 1)", "(2x, 1)"), ("a = b+b, c = 1", "c = 1, a = 2b"), ("\\frac{1}{2}(6+4) \\text{ cm}", "5 \\text{ cm}"),
    ("i^2 + 5", "4"), ("4\\mathbf{j} + 3\\mathbf{i}", "3\\mathbf{i} + 4\\mathbf{j}"), ("x > 6", "(6, \\infty)"),
    ("7 \\ge x \\ge 2", "x \\in [2, 7]"), ("a > b > c", "c < b < a"), ("7 \\ge x > 2", "2 < x \\le 7"),
    ("(-\\infty, 0) \\cup (0, \\infty)", "\\mathbb{R} \\setminus \\{0\\}"), ("\\tan^{-1} 7", "\\arctan 7"),
    ("\\binom62", "15"), ("y + \\frac{dy}{dx} = 0", "\\frac{dy}{dx} + y = 0"), ("3 dozen", "36"),
]  # fmt: skip
_DIFFERENT = [
    ("(x-1)^2", "x^2+2x+1"), ("\\{1,2\\}", "{1,2,3}"), ("\\{1,2,3,4\\}", "{1,2,3}"), ("\\frac{\\pi}{3}", "pi/2"),
    ("cos x", "sin(x)"), ("x^11", "x^10"), ("y", "x"), ("\u0445", "x"), ("x+1", "x"), ("[0, 1]", "[0,1)"),
    ("x", "x^2, x"), ("X + 1", "x + 1"), ("f + f", "f' + f"), ("ba'", "ab"),
    ("-\\frac{1}{2^{90}}", "\\frac{1}{2^{90}}"), ("0.0 \\cdot 3", "10^{-18}"),
    ("\\begin{pmatrix}0\\\\2\\end{pmatrix}", "\\begin{pmatrix}10^{-18}\\\\2\\end{pmatrix}"),
    ("\\frac{1}{2}", "\\sin 30"), ("7 + x", "2+5t"), ("y = \\frac{3}{4}", "4y + 2x = 3"), ("x \\ge 3", "x > 3"),
    ("\\{1,3\\}", "1 < x < 3"), ("(x+y, 1)", "(2x, 1)"), ("\\sqrt{8}, x^3", "x \\cdot x, 2\\sqrt2"),
    ("\\sqrt{8}, \\sqrt{8}", "2\\sqrt2, x"), ("I + 1", "i + 1"), ("A^T + A", "A + A"), ("10^{-18} x", "10^{-19} x"),
    ("i^2", "i"), ("\\{\\emptyset\\}", "\\emptyset"), ("3 dozen", "3"), ("2 < x \\le 7", "7 > x \\ge 2"),
    ("4 + 3i^2", "4 + 3i"), ("-\\frac{dy}{dt}", "\\frac{dy}{dt}"),
    ("2\\frac{\\partial f}{\\partial x}", "\\frac{\\partial f}{\\partial x}"),
    ("\\frac{dy}{dx} = -ky", "\\frac{dy}{dx} = ky"), ("x \\ge 6", "(6, \\infty)"), ("t = 6 \\times 8 = 46", "46"),
]  # fmt: skip
_NUMBERS = [("2^{10}", "1024", True), ("2^10", "1024", True), ("\\sqrt{16}", "4", True), ("5!", "120", True),
            ("x = 42", "42", True), ("42 apples", "42", True), ("6 \\times 7", "42", True),
            ("42 thousand", "42", False), ("2^{11}", "1024", False), ("41 + 2", "42", False), ("x", "42", False),
            ("forty-two", "42", False)]  # fmt: skip


def test_equivalences_through_math_verify(verifier: Verifier) -> None:
    pairs = [(answer, task(gold)) for answer, gold in _EQUAL + _DIFFERENT]
    pairs += [(answer, task(gold, "Integer")) for answer, gold, _ in _NUMBERS]
    expected = [True] * len(_EQUAL) + [False] * len(_DIFFERENT) + [equal for *_, equal in _NUMBERS]
    verdicts = verifier.check(pairs)
    wrong = [(p[0], p[1].answer, v) for p, v, e in zip(pairs, verdicts, expected, strict=True) if v.correct != e]
    assert not wrong
    assert sum(v.how == "math_verify" for v in verdicts) > 30


# --------------------------------------------------------------------------------------------------------- hostile

_HOSTILE = [
    ("9^9^9^9", "Integer"), ("9^{9^{9^{9}}}", "Integer"), ("(10^8)!", "Integer"),
    ("(" * 2000 + "1" + ")" * 2000, "Integer"), ("(" * 490 + "1" + ")" * 490, "Integer"), ("{" * 900, "Expression"),
    ("\\frac{" * 160, "Expression"), ("7" * 1_000_000, "Integer"), ("1" * 399 + "^{2}", "Integer"),
    ("a" * 40_000, "Expression"), ("a" * 999, "Expression"), ("\\sum_{i=1}^{1000000000} i^{0.5}", "Float"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}^{1000000}", "Expression"),
    ("__import__('os').system('echo x > /tmp/pwned')", "Expression"),
    ("\\text{__import__('os')._exit(0)}", "Expression"), ("\ud800 + 1", "Expression"), ("x\0y", "Expression"),
]  # fmt: skip


def test_hostile_answers_cost_only_their_own_verdict() -> None:
    square = task("x^2+2x+1")
    honest = [("(x+1)^2", square), ("2^{10}", task("1024", "Integer")), ("B", RIVERS), ("(x+2)^2", square)]
    hostile = [(answer, task("5" if kind != "Expression" else "y+5", kind)) for answer, kind in _HOSTILE]
    mixed = [pair for i, pair in enumerate(hostile) for pair in (pair, honest[i % 4])]
    with Verifier(workers=2, cpu_seconds=0.5) as opened:
        verdicts = opened.check(mixed)
        assert [v.correct for v in verdicts[1::2]] == [i % 4 != 3 for i in range(len(hostile))]
        assert not any(v.correct for v in verdicts[::2])
        hows = {v.how for v in verdicts[::2]}
        assert "too_long" in hows and "timeout" in hows
        assert not opened.check([("1", task("9^9^9^9"))])[0].correct  # a hostile gold answer
        assert opened.check(honest[:1])[0].correct
    assert not Path("/tmp/pwned").exists()


def test_equal_pairs_are_judged_once(verifier: Verifier, monkeypatch) -> None:
    judged: list[int] = []
    real = pool.Pool.judge

    def counting(self, items, **limits):
        judged.append(len(items))
        return real(self, items, **limits)

    monkeypatch.setattr(pool.Pool, "judge", counting)
    verdicts = verifier.check([("(x+1)^2", task("x^2+2x+1"))] * 50 + [("x^2", task("x^2+2x+1"))] * 50)
    assert judged == [2] and [v.correct for v in verdicts] == [True] * 50 + [False] * 50


def test_the_breaker_gives_up_hostile_pairs_and_spares_honest_ones(monkeypatch) -> None:
    monkeypatch.setattr("spicejax.score.verifiers._FIRST_PASS_CPU", 2.0)  # slices shorter than the full time
    hostile = [(f"9^{{9^{{9^{{9}}}}}} + {i}", task("5", "Integer")) for i in range(8)]
    honest = [(f"(x+{i})^2", task(f"x^2+{2 * i}x+{i * i}")) for i in range(1, 4)]
    with Verifier(workers=2, cpu_seconds=1.5, max_timeouts=3) as opened:
        opened.check(honest)  # so that starting the workers is not part of the scene
        verdicts = opened.check(hostile + honest)
    hows = [v.how for v in verdicts]
    assert set(hows[:8]) == {"timeout", "breaker"} and 3 <= hows.count("timeout") <= 4
    assert [v.correct for v in verdicts[8:]] == [True] * 3


def test_a_killed_worker_is_replaced_and_its_pair_tried_again() -> None:
    slow, quick = ("9^{9^{9^{9}}}", task("3", "Float")), ("(x+1)^2", task("x^2+2x+1"))
    with Verifier(workers=1, cpu_seconds=0.5) as opened:
        assert opened.check([quick])[0].correct
        first = pids(opened)
        os.kill(first[0], signal.SIGKILL)  # while idle
        assert opened.check([quick])[0] == Verdict(True, "math_verify")
        assert pids(opened) != first
        # while busy with the slow pair
        busy = pids(opened)[0]
        script = f"import os, signal, time; time.sleep(0.3); os.kill({busy}, signal.SIGKILL)"
        killer = subprocess.Popen([sys.executable, "-c", script])
        assert [v.how for v in opened.check([slow, quick])] == ["timeout", "math_verify"]
        killer.wait()
        (last,) = pids(opened)
    assert pids(opened) == []
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


def test_a_stopped_worker_loses_its_pair_to_the_wall_guard(monkeypatch) -> None:
    pair = ("(x+2)^2", task("x^2+4x+4"))
    with Verifier(workers=1, cpu_seconds=0.45) as opened:
        assert opened.check([pair])[0].correct
        os.kill(pids(opened)[0], signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(pool, "_WALL_PER_CPU", -10.0)  # 5 s + 0.45 * -10 = 0.5 s of patience
            assert opened.check([pair])[0] == Verdict(False, "timeout")
        assert opened.check([pair])[0] == Verdict(True, "math_verify")


def test_workers_end_when_their_parent_is_killed() -> None:
    code = (
        "from spicejax.score.pool import Pool; pool = Pool(2)\n"
        "pairs = [('2y', 'y+y'), ('1', '9^{9^{9^{9}}}')]\n"
        "pool.judge(pairs, cpu=0.05, max_timeouts=9); print(*(p.pid for p in pool.workers.values()), flush=True)\n"
        "pool.judge(pairs, cpu=1.0, max_timeouts=9); raise SystemExit('it was never killed')"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        stats = [Path(f"/proc/{pid}/stat") for pid in parent.stdout.readline().split()]
        assert len(stats) == 2 and all(stat.exists() for stat in stats)
        parent.kill()
    deadline = time.monotonic() + 20.0
    while any(stat.exists() and stat.read_text().split()[2] != "Z" for stat in stats):
        assert time.monotonic() < deadline, "a worker outlives its parent"
        time.sleep(0.05)


def test_the_worker_imports_no_jax_and_says_so_when_math_verify_is_absent(tmp_path: Path, monkeypatch) -> None:
    script = Path(worker.__file__)
    code = f"import sys, runpy; runpy.run_path({str(script)!r}); assert not {{'jax', 'spicejax'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    (tmp_path / "math_verify.py").write_text("raise ImportError('no math_verify here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Verifier(workers=1) as opened, pytest.raises(RuntimeError, match="pip install 'math-verify"):
        opened.check([("(x+1)^2", task("x^2+2x+1"))])


def test_workers_that_die_at_their_start_raise(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "math_verify.py").write_text("import os; os._exit(1)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Verifier(workers=1) as opened, pytest.raises(RuntimeError, match="die at their start"):
        opened.check([("(x+1)^2", task("x^2+2x+1"))])


@pytest.mark.parametrize(("said", "right"), [("the USA", True), ("United States", True), ("America", False)])
def test_a_string_has_other_accepted_answers(said, right):
    task = Task("?", "United States", "String", aliases=("USA", "U.S."))
    assert Verifier().check([(said, task)])[0].correct == right


@pytest.mark.parametrize(
    ("answer", "kind", "found"),
    [
        ("72", "Integer", True), ("3/4", "Float", True), ("x^2 - 1", "Expression", True),
        ("\\frac{1}{2}", "Float", True),
        ("Washington, D.C.", "String", True), ("A", "MCQ", True), ("true", "Boolean", True), ("2, 3", "List", True),
        ("H2O", "String", True), ("$5", "Float", True), ("\\{1, 2\\}", "Expression", True), ("C", "String", True),
        ("3 + 4 = 7\nSo it is 7.", "String", False), ("n/a", "Float", False), ("}", "String", False),
        ("?", "String", False), ("x" * 2000, "String", False), ("maybe", "Boolean", False), ("seven", "Integer", False),
    ],
)  # fmt: skip
def test_whether_a_right_answer_would_be_right(answer, kind, found) -> None:
    assert matches_itself(Task("?", answer, kind)) == found
    assert matches_itself(Task("?", "}", "String", aliases=("brace",)))


# ------------------------------------------------------------------------------------------------- of the user's own

_OWN = """
import os, time
STARTED = os.getpid()
def near(text, task):
    return abs(float(text) - float(task.answer)) <= 1
def odd(text, task):
    if text == "raise": raise KeyError(f"no {text}\\n of {task.aliases}")
    if text == "spin":
        while True: pass
    if text == "exit": os._exit(0)
    if text == "eat": return bool(bytearray(3 << 30))
    return text if text == "word" else os.getpid() != STARTED and task.options == ("a", "b")
def alone(text): return True
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "rules.py"
    path.write_text(_OWN)
    return path


def test_a_function_of_the_users_own_judges_in_the_workers(own) -> None:
    with Verifier(workers=1, function=f"{own}:near") as opened:
        verdicts = opened.check([("41.5", task("42", "Float")), ("40", task("42")), (None, task("42")), ("4", RIVERS)])
        assert [v.how for v in verdicts] == ["verifier", "verifier", "none", "raised"]
        assert [v.correct for v in verdicts] == [True, False, False, False]
        assert opened.matches([task("1"), Task("q", "x", "String", aliases=("2",))][:1]) == [True]
        with pytest.raises(ValueError, match="rules.py:near, asked about the right answer 'B': ValueError: could not"):
            opened.matches([task("1"), RIVERS])


def test_what_a_function_of_the_users_own_does_costs_its_own_verdict(own, monkeypatch) -> None:
    monkeypatch.syspath_prepend(own.parent)  # its folder is on the path of the workers too
    letters = Task("q", "A", "MCQ", options=("a", "b"), aliases=("c",))
    with Verifier(workers=2, cpu_seconds=0.3, function="rules:odd") as opened:
        texts = ("raise", "A", "spin", "A", "exit", "eat", "word", "B")
        verdicts = dict(zip(texts, opened.check([(text, letters) for text in texts]), strict=True))
    assert {text: v.how for text, v in verdicts.items()} == {
        "raise": "raised", "A": "verifier", "spin": "timeout", "exit": "crashed", "eat": "crashed", "word": "raised",
        "B": "verifier",
    }  # fmt: skip
    assert verdicts["raise"].why == "KeyError: \"no raise\\n of ('c',)\"" and verdicts["A"].correct
    assert verdicts["word"].why == "TypeError: it returned 'word'; return True or False"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("{rules}:neer", "rules.py has no neer; did you mean near"),
        ("{rules}:alone", r"too many positional arguments; define it as def alone\(text: str, task: Task\) -> bool"),
        ("{rules}:STARTED", "is not a callable object; define it as def STARTED"),
        ("nowhere:near", "verifier=nowhere:near: there is no module nowhere; install it"),
    ],
)
def test_a_function_that_is_not_there_or_takes_something_else_is_named(own, name, said) -> None:
    with Verifier(workers=1, function=name.format(rules=own)) as opened, pytest.raises(ValueError, match=said):
        opened.matches([task("1")])

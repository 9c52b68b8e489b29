"""What functions return, found by running them."""

import pytest

from spicejax.score import functions
from spicejax.score.sandbox import Ran, Sandbox

TWICE = "def f(x, y=1):\n    return [x, x * y]"


def test_values_of_several_inputs_come_back_as_text():
    calls = [
        (TWICE, ["3", "'a', 2", "(1, None)"]),
        ("def f(s):\n    return {c for c in s}", ["'hello'"]),
        ("def g(x):\n    return x", ["1"]),  # no f
        ("def f(x):\n    return 1 / x", ["1", "0"]),  # one input fails
        ("def f(x):\n    return x", ["1 +"]),
        ("import time\ndef f(x):\n    return time.perf_counter()", ["1"]),
    ]
    found = functions.returned(Sandbox(accept=True).run, calls, times=2)
    assert found[0] == ["[3, 3]", "['a', 'aa']", "[(1, None), (1, None)]"]
    assert set(found[1][0]) == set("{'h', 'e', 'l', 'o'}"), "a set, in one order"
    assert found[2:] == [None] * 4, "the last is another one each time"


def test_different_runs_are_no_value_and_equal_calls_are_run_once():
    runs = iter(["1", "1", "1", "2"])
    calls = [(TWICE, ["1"]), (TWICE, ["2"]), (TWICE, ["1"])]
    found = functions.returned(lambda texts: [Ran("value", [next(runs)]) for _ in texts], calls, times=2)
    assert found == [["1"], None, ["1"]] and next(runs, None) is None


@pytest.mark.parametrize("text, fine", [
    ("1, 2", True), ("'a)'", True), ("", True), ("x=1", True), ("*[1, 2]", True),
    ("1)(2", False), ("1) + g(2", False), ("1); import os; f(2", False), ("1)\n\nf(2", False), ("(" * 300, False),
])  # fmt: skip
def test_an_input_is_arguments_and_nothing_else(text, fine):
    assert (functions.script(TWICE, [text]) is not None) == fine


@pytest.mark.parametrize("text, refused", [
    ("import time", True), ("def f(x):\n    from random import choice", True), ("import os.path", True),
    ("import math, random", True), ("import math; import time", True), ("if x: import sys", True),
    ("__import__('os')", True), ("import importlib", True), ("import math\ntime = 3", False),
    ("import timeless", False), ('def f(x):\n    """\n    import random\n    """', False), ("def f(", False),
])  # fmt: skip
def test_forbidden_imports(text, refused):
    assert functions.forbidden(text) == refused


@pytest.mark.parametrize("text, plain", [
    ("1, 'a', [2, (3,)]", True), ("x=-1.5, y={'a': {1}}", True), ("", True), ("g(1)", False), ("1)(2", False),
    ("exec('f.__code__ = g')", False), ("*[1]", False), ("[x for x in (1,)]", False), ("1 +", False),
])  # fmt: skip
def test_plain_values(text, plain):
    assert functions.literal(text) == plain


@pytest.mark.parametrize("a, b, same", [
    ("1.0", "1", True), ("'a'", '"a"', True), ("[1, 2]", "[1,2]", True), ("{'b': 1, 'a': 2}", "{'a': 2, 'b': 1}", True),
    ("nan", "nan", True), ("x y", "x y", True), ("1", "'1'", False), ("[1]", "(1,)", False), ("f(1)", "1", False),
    ("((((" * 50, "1", False), ("{[]: 1}", "1", False),
])  # fmt: skip
def test_same_value(a, b, same):
    assert functions.same_value(a, b) == same

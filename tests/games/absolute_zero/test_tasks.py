"""Tasks of Absolute Zero: how they are asked for, read and judged."""

import pytest
from scripted import world

from spicejax.games.absolute_zero import tasks
from spicejax.games.absolute_zero.tasks import NANO_FIRST, Task
from spicejax.score.sandbox import Sandbox

TEN = Task("def f(x):\n    return 10 * x", ("1", "2", "3", "4"), ("10", "20", "30", "40"), "ten times")
ONE = TEN._replace(inputs=("4",), outputs=("40",))


RUN = Sandbox(accept=True).run


def text(name, style, shown, count=0):
    return tasks.messages(name, style, {}, shown, count)[-1]["content"]


def test_prompts_of_the_nano_style_are_whole():
    ten = NANO_FIRST._replace(program="def f(x):\n    return x*10", inputs=("4",), outputs=("40",))
    assert text("propose_deduction", "nano", [ten, NANO_FIRST]) == "x*10 | 4 = 40\nx+0 | 1 = 1\nask output"
    assert text("propose_abduction", "nano", [ten]) == "x*10 | 4 = 40\nask input"
    assert text("propose_induction", "nano", [ten], 4) == "x*10\nask 4"
    assert text("solve_deduction", "nano", [ten]) == "x*10 | 4 = ?"
    assert text("solve_abduction", "nano", [ten]) == "x*10 | ? = 40"
    many = ten._replace(inputs=("4", "5", "6"), outputs=("40", "50", "60"))
    assert text("solve_induction", "nano", [many]) == "4 = 40\n5 = 50\n?", "half of them, rounded up"


def test_full_prompts_show_what_may_be_known():
    references = text("propose_deduction", "full", [ONE])
    assert "return 10 * x" in references and "```output\n40" in references
    deduction, abduction = text("solve_deduction", "full", [ONE]), text("solve_abduction", "full", [ONE])
    assert "```input\n4\n" in deduction and "40" not in deduction
    assert "```output\n40\n" in abduction and "\n4\n" not in abduction
    induction = text("solve_induction", "full", [TEN])
    assert "```input\n2\n```\n```output\n20" in induction and "30" not in induction and "10 * x" not in induction
    assert "ten times" in induction and "7 inputs" in text("propose_induction", "full", [TEN], 7)
    for name in (f"{role}_{kind}" for role in ("propose", "solve") for kind in tasks.KINDS):
        simple = tasks.messages(name, "simple", {}, [ONE], 3)
        assert len(simple) >= 4 and simple[-1] == tasks.messages(name, "full", {}, [ONE], 3)[-1]


def test_worked_examples_have_the_form_that_is_read():
    for kind in tasks.KINDS:
        for turn in tasks.messages(f"propose_{kind}", "simple", {}, [ONE], 4)[2:-1:2]:
            task = tasks.read_proposal(kind, turn["content"], "simple", "def f(text, times):\n    return text * times")
            made = tasks.functions.returned(RUN, [(task.program, task.inputs)], times=2)[0]
            assert made is not None and tasks.allowed(task), turn
        (reply,) = tasks.messages(f"solve_{kind}", "simple", {}, [ONE])[2:-1:2]
        assert tasks.read_answer(kind, reply["content"], "simple")


def block(kind, body):
    return f"```{kind}\n{body}\n```"


def test_what_is_read_off_a_proposal():
    first, then = block("python", "def f(x):\n    return x"), block("input", "1, 2")
    both = f"so\n{first}\nand\n{then}"
    assert tasks.read_proposal("deduction", both, "full") == Task("def f(x):\n    return x", ("1, 2",))
    assert tasks.read_proposal("abduction", first, "full") is None
    assert tasks.read_proposal("deduction", then, "full") is None
    hint = block("message", "a hint")
    assert tasks.read_proposal("induction", f"{then}\n{block('input', '3')}\n{hint}", "full", "P") == Task(
        "P", ("1, 2", "3"), (), "a hint"
    )
    assert tasks.read_proposal("induction", then, "full", "P") is None, "no hint"
    assert tasks.read_proposal("deduction", "x+1 | 7", "nano") == Task("def f(x):\n    return x+1", ("7",))
    assert tasks.read_proposal("induction", "7 12 3", "nano", "def f(x):\n    return x+1").inputs == ("7", "12", "3")
    assert tasks.read_proposal("deduction", "x+1 = 7", "nano") is None


def test_what_is_read_off_an_answer():
    assert tasks.read_answer("deduction", f"{block('output', '1')} no, {block('output', '2')}", "full") == "2"
    assert tasks.read_answer("deduction", block("input", "1"), "full") is None
    assert tasks.read_answer("induction", "\\boxed{x+1}", "nano") == "def f(x):\n    return x+1"
    assert tasks.read_answer("abduction", "\\boxed{4}", "nano") == "4"
    assert tasks.read_answer("abduction", "4", "nano") is None


def test_an_interpreter_is_the_judge():
    other = "def f(x):\n    return x + x * 9"
    listed = "def f(x):\n    return {1: 10, 2: 20}.get(x)"  # right where it was shown
    even = Task("def f(x):\n    return x % 2", ("4",), ("0",))
    asked = [
        ("deduction", ONE, "40"), ("deduction", ONE, "40.0"), ("deduction", ONE, "4"), ("deduction", ONE, None),
        ("abduction", even, "4"), ("abduction", even, "8"), ("abduction", even, "3"), ("abduction", even, "1)(2"),
        ("abduction", even, "exec('f.__code__ = (lambda *a: 0).__code__')"), ("abduction", even, "int('4')"),
        ("induction", TEN, other), ("induction", TEN, listed), ("induction", TEN, "def f(x): return ("),
        ("induction", TEN, None),
    ]  # fmt: skip
    right = tasks.right(world({}, programs=RUN), asked)
    assert right == [True, True, False, False, True, True, *[False] * 4, True, False, False, False]


def test_what_is_refused_by_its_text():
    assert tasks.allowed(ONE) and not tasks.allowed(ONE._replace(program="import random\ndef f(x):\n    return x"))
    assert not tasks.allowed(ONE._replace(message="x" * 5600))
    assert not tasks.allowed(ONE._replace(outputs=("1" * 5600,)))


@pytest.mark.parametrize("inputs, shown", [(2, 1), (3, 2), (10, 5)])
def test_half_of_the_inputs_are_shown(inputs, shown):
    assert Task("", ("1",) * inputs).shown == shown

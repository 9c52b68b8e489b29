"""What the roles are taught: rows of question sets as prompts and replies, or nothing where a row does not tell."""

import pytest

from spicejax.data.published import Row
from spicejax.games.acesearcher import plans
from spicejax.games.acesearcher.examples import UNKNOWN, render
from spicejax.games.acesearcher.plans import Plan
from spicejax.score.sandbox import Sandbox

ROW = Row("a", "How many?", ("2",), "Two pears.", ("Which?", "How many of #1?"), "Count them.", "x = 1\nprint(x + 1)")


def test_an_answer_from_a_text():
    prompt, reply = render(ROW, "answer")
    assert prompt.startswith("Two pears.\n") and "How many?" in prompt and "Calculate" in prompt and reply == "2"
    assert "Calculate" not in render(Row("a", "Who?", ("Al",), "A text."), "answer")[0]
    assert render(Row("a", "Who?", (), "A text."), "answer")[1] == UNKNOWN
    assert render(Row("a", "Who?"), "answer") == "no_target"
    assert render(Row("a", "Who?", ("Al",)), "answer")[0][0] != "\n", "nothing stands where no text is"


def test_a_claim_is_yes_or_no():
    assert render(Row("a", "Oslo is large.", ("Yes",)), "claim")[1] == "Yes"
    assert render(Row("a", "Oslo is large."), "claim") == "no_target", "one that cannot be told teaches neither"


def test_a_plan_is_read_as_it_is_written():
    prompt, reply = render(ROW, "plan")
    assert plans.parse(reply, 6) == Plan(ROW.steps) and prompt.startswith("Two pears.")
    assert "search engine" in render(Row("a", "Who?", steps=("Which?",)), "plan")[0]
    assert render(Row("a", "Who?", ("Al",)), "plan") == "no_target"


def test_a_chain_of_thought_ends_in_tags():
    assert render(ROW, "reason")[1] == "Count them.\n<answer>2</answer>"
    assert render(Row("a", "1+1?", ("2",)), "reason")[1] == "<answer>2</answer>"
    assert render(Row("a", "1+1?", solution="It is 2."), "reason") == "no_target", "the prompt asks for tags"


@pytest.mark.parametrize("program, value", [
    ("x = 1\nprint(x + 1)", 2), ("from math import gcd\n\ndef f(a):\n    return gcd(a, 6)\n\nprint(f(4))", 2),
    ("for k in range(3):\n    last = k\nprint(last)", 2), ("print(1)\nprint(2)", 2),
    ("from math import *\nx = 4\nprint(sqrt(x))", 2), ("x = 2; print(x)", None), ("x = 2", None),
    ("print(1, 2)", None), ("x = (", None), ("", None),
])  # fmt: skip
def test_a_script_that_prints_its_answer_becomes_a_function_that_returns_it(program, value):
    pair = render(Row("a", "2?", program=program), "program")
    if value is None:
        assert pair == "no_target"
        return
    assert pair[1].startswith("```python\n") and "\ndef solution():\n" in pair[1] and pair[1].endswith("\n```")
    (ran,) = Sandbox(accept=True).run([pair[1].removeprefix("```python\n").removesuffix("\n```")])
    assert ran.value == value


@pytest.mark.parametrize(
    "program",
    ["import numpy as np\nprint(np.pi)", "from sympy.abc import x\nprint(x)", "import math, scipy\nprint(1)",
     "def f():\n    import numpy\n    return numpy.pi\nprint(f())"],
)  # fmt: skip
def test_a_program_that_the_sandbox_would_refuse_is_not_taught(program):
    """Many of MathInstruct's import numpy or sympy."""
    assert render(Row("a", "2?", program=program), "program") == "needs_library"
    (ran,) = Sandbox(accept=True).run([program])
    assert ran.detail == "ModuleNotFoundError"


def test_your_own_prompts_are_taken():
    own = {"reason": "{documents} {question} Think."}
    assert render(ROW, "reason", own)[0] == "Two pears. How many? Think."

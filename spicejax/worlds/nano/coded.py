"""The coded world: short functions of a number, for the game whose players write programs and run them in their heads.

    x*3+4 | 5 = ?          \\boxed{19}          what comes out
    x*3+4 | ? = 19         \\boxed{5}           what goes in
    5 = 19\\n1 = 7\\n?        \\boxed{x*3+4}       which function
    x+2 | 3 = 5\\nask output      x*7 | 4        a function and an input, unlike the examples
    x*3+4\\nask 4                 5 1 8 2        inputs of a function

The warm start knows the forms, asks easy functions mostly, and is stopped before it can work out the hard ones.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from spicejax.types import Task
from spicejax.worlds.nano.example import Example, Part

# Forms by grade: how hard they are to work out. a and b are 1 to 9.
FORMS: tuple[tuple[tuple[str, Callable[[int, int, int], int]], ...], ...] = (
    (("x+{a}", lambda x, a, b: x + a), ("x-{a}", lambda x, a, b: x - a)),
    (("x*{a}", lambda x, a, b: x * a), ("{a}-x", lambda x, a, b: a - x)),
    (
        ("x*{a}+{b}", lambda x, a, b: x * a + b),
        ("x*{a}-{b}", lambda x, a, b: x * a - b),
        ("x%{a}", lambda x, a, b: x % a),
    ),
    (
        ("(x+{a})*{b}", lambda x, a, b: (x + a) * b),
        ("x//{a}+{b}", lambda x, a, b: x // a + b),
        ("(x-{a})*{b}", lambda x, a, b: (x - a) * b),
    ),
)
LARGEST = 20  # input
INPUTS = 4  # of an induction; half are shown
# As SentencePiece writes them, ▁ for a space
SYMBOLS: tuple[str, ...] = (
    *("\nask▁output", "\nask▁input", "\nask▁", "▁|▁", "▁=▁", "\\boxed{", "}", "?", "\n", "▁"),
    *("x", "+", "-", "*", "//", "%", "(", ")", *"0123456789"),
)
# Shares of the warm start's examples: each way of solving, then proposals with an input; the rest propose inputs alone
SHARES = {"output": 0.25, "input": 0.2, "program": 0.2, "propose": 0.25}
EASY = (8, 4, 2, 1)  # weights of the grades in proposals of the warm start; answers see all alike
HELD_OUT_GRADES = (1, 2, 3)


class Function(NamedTuple):
    """An expression of x, and what it is."""

    text: str
    made: Callable[[int, int, int], int]
    a: int
    b: int

    def __call__(self, x: int) -> int:
        return self.made(x, self.a, self.b)


def draw(rng: random.Random, grade: int, *, reserved: bool = False) -> Function:
    """A function of this grade; a fifth of them is reserved for the evaluation."""
    while True:
        (form, made), a, b = rng.choice(FORMS[grade]), rng.randint(1, 9), rng.randint(1, 9)
        text = form.format(a=a, b=b)
        if (zlib.crc32(text.encode()) % 5 == 0) == reserved:
            return Function(text, made, a, b)


def _solver(rng: random.Random, sought: str) -> Example:
    function, x = draw(rng, rng.randrange(len(FORMS))), rng.randint(0, LARGEST)
    if sought == "program":
        shown = rng.sample(range(LARGEST + 1), INPUTS // 2)
        prompt, answer = "\n".join([*(f"{n} = {function(n)}" for n in shown), "?"]), function.text
    else:
        left, right = (x, "?") if sought == "output" else ("?", function(x))
        prompt, answer = f"{function.text} | {left} = {right}", function(x) if sought == "output" else x
    return Example("solver", prompt, (Part("reply", f"\\boxed{{{answer}}}"),))


def _proposer(rng: random.Random) -> Example:
    examples = []
    for _ in range(rng.randint(1, 2)):
        known, x = draw(rng, rng.choices(range(len(FORMS)), EASY)[0]), rng.randint(0, LARGEST)
        examples.append(f"{known.text} | {x} = {known(x)}\n")
    function, asked = draw(rng, rng.choices(range(len(FORMS)), EASY)[0]), rng.choice(["output", "input"])
    reply = Part("reply", f"{function.text} | {rng.randint(0, LARGEST)}")
    return Example("proposer", f"{''.join(examples)}ask {asked}", (reply,))


def _inputs(rng: random.Random) -> Example:
    function, inputs = draw(rng, rng.randrange(len(FORMS))), rng.sample(range(LARGEST + 1), INPUTS)
    return Example("proposer", f"{function.text}\nask {INPUTS}", (Part("reply", " ".join(map(str, inputs))),))


def warm_start_examples(seed: int, n: int) -> list[Example]:
    """Return n supervised examples of both roles; the same for (seed, n)."""
    examples = []
    for i in range(n):
        rng = random.Random(f"coded world {seed} warm start {i}")
        (what,) = rng.choices([*SHARES, "inputs"], [*SHARES.values(), 1 - sum(SHARES.values())])
        examples.append(
            _proposer(rng) if what == "propose" else _inputs(rng) if what == "inputs" else _solver(rng, what)
        )
    return examples


def texts_for_tokenizer(seed: int, n: int = 4000) -> list[str]:
    """Return prompts and replies of all roles."""
    return [text for e in warm_start_examples(seed, n) for text in (e.prompt, e.parts[0].text)]


def _questions(seed: int, n: int, *, reserved: bool) -> list[tuple[str, Task]]:
    """Distinct questions for outputs and for inputs in turn; of the latter, those with one answer alone."""
    rng, found = random.Random(f"coded world {seed} {'held out' if reserved else 'questions'}"), {}
    while len(found) < n:
        function, x = draw(rng, rng.choice(HELD_OUT_GRADES), reserved=reserved), rng.randint(0, LARGEST)
        if len(found) % 2 == 0:
            found.setdefault(f"{function.text} | {x} = ?", ("output", function(x)))
        elif "%" not in function.text and "//" not in function.text:
            found.setdefault(f"{function.text} | ? = {function(x)}", ("input", x))
    rows = enumerate(found.items())
    return [(what, Task(text, str(answer), "Integer", f"{what}/{k}")) for k, (text, (what, answer)) in rows]


def items(seed: int, number: int, held_out: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of each file of the world: corpus (worked questions), questions, held_out, and examples.

    Args:
      number: questions.
      held_out: questions of the evaluation, about functions that the warm start has not seen.
    """

    def rows(questions: list[tuple[str, Task]]) -> list[dict[str, Any]]:
        kept = ("id", "question", "answer", "answer_type")
        return [{name: getattr(t, name) for name in kept} | {"category": what} for what, t in questions]

    questions = _questions(seed, number, reserved=False)
    texts = [(t.id, t.question.replace("?", t.answer)) for _, t in questions]
    return {
        "corpus": [{"id": name, "title": "", "text": text} for name, text in texts],
        "questions": rows(questions),
        "held_out": rows(_questions(seed, held_out, reserved=True)),
        "examples": [{"prompt": t.question, "completion": f"\\boxed{{{t.answer}}}"} for _, t in questions],
    }

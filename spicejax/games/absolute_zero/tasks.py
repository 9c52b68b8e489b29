"""A task of Absolute Zero: a program with inputs and outputs; how it is asked for, asked, and judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from spicejax.games import reasoner
from spicejax.games.world import World
from spicejax.score import functions
from spicejax.score.answers import extract_answer
from spicejax.text import prompts
from spicejax.text.prompts import Templates
from spicejax.types import Messages

PACKAGE = "spicejax.games.absolute_zero"  # that holds the prompts
# What is sought: the output of a program, an input that leads to an output, the program itself.
Kind = Literal["deduction", "abduction", "induction"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LONGEST = 5600  # characters of a program with its inputs and outputs, as in the code
_BLOCK = re.compile(r"```(\w+)[ \t]*\n(.*?)\n?```", re.DOTALL)
_NANO = re.compile(r"([^|\n]+) \| (\d+(?: \d+)*)")  # PROGRAM | INPUT
_NANO_HEAD = "def f(x):\n    return "


class Task(NamedTuple):
    """A program, and what runs of it gave; one input but for induction. All of it is text, as buffers keep it."""

    program: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    message: str = ""

    @property
    def shown(self) -> int:
        """How many inputs of an induction are shown; the others say whether a program is right."""
        return (len(self.inputs) + 1) // 2


FIRST = Task("def f(x):\n    return x", ("'Hello'",), ("'Hello'",))  # what the paper begins with
NOTHING = Task("", ())
NANO_FIRST = Task(f"{_NANO_HEAD}x+0", ("1",), ("1",))


def messages(
    name: str, style: reasoner.Style, templates: Templates, shown: Sequence[Task] = (), count: int = 0
) -> Messages:
    """A request by the name of its template, propose_KIND or solve_KIND, about a task, or with tasks as examples.

    `count` is how many inputs propose_induction asks for.
    """
    nano = style == "nano"
    template = prompts.read(PACKAGE, f"{name}_nano" if nano else name, templates)
    every = _values(shown, count, nano)
    values = {place: every[place] for place in prompts.places(template)}
    if nano:
        return [{"role": "user", "content": prompts.fill(template, **values).strip()}]
    examples = prompts.read(PACKAGE, f"{name}_examples", templates) if style == "simple" else "[]"
    return [reasoner.SYSTEM, *prompts.turns(template, examples, values)]


def _values(shown: Sequence[Task], count: int, nano: bool) -> dict[str, str]:
    """What may stand in a template: blocks as in Markdown, or for the nano style expressions and numbers alone."""

    def block(kind: str, text: str) -> str:
        return text.removeprefix(_NANO_HEAD) if nano else f"```{kind}\n{text}\n```"

    def pairs(task: Task) -> list[str]:
        rows = zip(task.inputs, task.outputs, strict=True)
        return [f"{block('input', i)}{' = ' if nano else chr(10)}{block('output', o)}" for i, o in rows]

    task, gap, joint = (*shown, FIRST)[0], *(("\n", " | ") if nano else ("\n\n", "\n"))
    return {
        "references": gap.join(f"{block('python', t.program)}{joint}{pairs(t)[0]}" for t in shown),
        "program": block("python", task.program),
        "input": block("input", task.inputs[0]),
        "output": block("output", task.outputs[0]),
        "pairs": gap.join(pairs(task)[: task.shown]),
        "message": "?" if nano else task.message,
        "count": str(count),
    }


def read_proposal(kind: Kind, text: str, style: reasoner.Style, program: str = "") -> Task | None:
    """The task that a Proposer's reply describes, without outputs; None where its form is another.

    Args:
      program: that of an induction, which the Proposer was shown.
    """
    if style == "nano":
        head = f"{program.removeprefix(_NANO_HEAD)} | " if kind == "induction" else ""
        found = _NANO.fullmatch(head + text.strip())
        return found and Task(_NANO_HEAD + found[1], tuple(found[2].split() if head else [found[2]]))
    blocks = [(name.lower(), body.strip()) for name, body in _BLOCK.findall(text)]
    by_name = dict(blocks)  # of several, the last
    if kind == "induction":
        inputs = tuple(body for name, body in blocks if name == "input")
        return Task(program, inputs, (), by_name["message"]) if inputs and by_name.get("message") else None
    return Task(by_name["python"], (by_name["input"],)) if {"python", "input"} <= by_name.keys() else None


def read_answer(kind: Kind, text: str, style: reasoner.Style) -> str | None:
    """The output, input or program that a Solver's reply ends with; None where its form is another."""
    if style == "nano":
        answer = extract_answer(text)
        return _NANO_HEAD + answer if answer and kind == "induction" else answer
    name = {"deduction": "output", "abduction": "input", "induction": "python"}[kind]
    found = [body.strip() for head, body in _BLOCK.findall(text) if head.lower() == name]
    return found[-1] if found else None


def allowed(task: Task) -> bool:
    """Whether a proposed task may be run and kept, by its text."""
    size = len(task.program) + len(task.message) + sum(map(len, (*task.inputs, *task.outputs)))
    return size <= LONGEST and not functions.forbidden(task.program)


def right(world: World, asked: Sequence[tuple[Kind, Task, str | None]]) -> list[bool]:
    """Whether each answer is right: the same value; an input that leads to the output; a program that does the same.

    A program is judged by the inputs that were not shown; an input by being plain values. What is right never goes into
    the sandbox, so that no program can find it there.
    """
    calls = {
        n: (answer, task.inputs[task.shown :]) if kind == "induction" else (task.program, [answer])
        for n, (kind, task, answer) in enumerate(asked)
        if answer is not None and (kind == "induction" or (kind == "abduction" and functions.literal(answer)))
    }
    made = dict(zip(calls, functions.returned(world.execute, list(calls.values())), strict=True))

    def agrees(n: int, kind: Kind, task: Task, answer: str | None) -> bool:
        found = [answer] if kind == "deduction" and answer is not None else made.get(n)
        meant = task.outputs[task.shown :] if kind == "induction" else task.outputs
        return found is not None and all(map(functions.same_value, found, meant))

    return [agrees(n, *each) for n, each in enumerate(asked)]

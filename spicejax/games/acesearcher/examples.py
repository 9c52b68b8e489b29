"""What AceSearcher is fine-tuned on: rows of published question sets, as prompts of its roles and their replies."""

from __future__ import annotations

import ast
import sys
import textwrap

from spicejax.data.mixtures import Pair, Use
from spicejax.data.published import Row
from spicejax.games.acesearcher import plans
from spicejax.games.acesearcher.config import PACKAGE
from spicejax.games.solver import ANSWER
from spicejax.text import prompts
from spicejax.text.prompts import Templates

UNKNOWN = "not answerable"  # what is said where a text does not tell


def render(row: Row, use: Use, templates: Templates | None = None) -> Pair | str:
    """Turn a row into a prompt and its reply, or return why it teaches nothing.

    Reasons: no_target, the row lacks what is needed; needs_library, its program imports what the sandbox does not have.

    Args:
      templates: your own, in place of ours.
    """
    if use == "program" and _libraries(row.program):
        return "needs_library"
    return _pair(row, use, templates) or "no_target"


def _pair(row: Row, use: Use, templates: Templates | None) -> Pair | None:
    answer = row.answers[0] if row.answers else ""
    if use == "claim":
        return (_prompt("answer_claim", row, templates), answer) if answer in ("Yes", "No") else None
    if use == "answer":
        name = "answer_document" if row.solution else "answer_qa"  # what is calculated is asked so
        return (_prompt(name, row, templates), answer or UNKNOWN) if row.context or answer else None
    if use == "plan":
        name = "plan_document" if row.context else "plan_qa"
        plan = "\n".join(f"{plans.MARK} {step}" for step in row.steps)
        return (_prompt(name, row, templates), plan) if plan else None
    if use == "program":
        written = _as_function(row.program)
        return (_prompt("program", row, templates), f"```python\n{written}\n```") if written else None
    if not answer:  # the prompt asks for it between tags
        return None
    return _prompt("reason", row, templates), "\n".join(filter(None, (row.solution, f"{ANSWER[0]}{answer}{ANSWER[1]}")))


def _prompt(name: str, row: Row, templates: Templates | None) -> str:
    template = prompts.read(PACKAGE, name, templates or {})
    documents = {"documents": row.context} if "{documents}" in template else {}
    return prompts.fill(template, question=row.question, **documents).lstrip()


def _libraries(program: str) -> set[str]:
    """The libraries that a program imports beyond Python's own; none where it cannot be parsed."""
    try:
        nodes = list(ast.walk(ast.parse(program)))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {root for name in names if (root := name.partition(".")[0]) not in sys.stdlib_module_names}


def _as_function(program: str) -> str | None:
    """Rewrite a script that ends by printing its answer as a solution() that returns it; None for other programs."""
    try:
        body = ast.parse(program).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    last = body[-1] if body else None
    if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and len(last.value.args) == 1
            and isinstance(last.value.func, ast.Name) and last.value.func.id == "print"):  # fmt: skip
        return None
    if len(body) > 1 and (body[-2].end_lineno or 0) >= last.lineno:  # it shares its line with what it prints
        return None
    stars = {node.lineno for node in body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"}
    lines = list(enumerate(program.splitlines()[: last.lineno - 1], 1))
    head = [line for number, line in lines if number in stars]  # no function may import *
    inside = [*(line for number, line in lines if number not in stars), f"return {ast.unparse(last.value.args[0])}"]
    return "\n".join([*head, "def solution():", textwrap.indent("\n".join(inside), "    ")])

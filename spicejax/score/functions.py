"""What a function that a model wrote returns for given arguments, found by running it apart from this machine."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from spicejax.score.sandbox import Ran

# Modules that make a program another one at every run, or that reach out of it
FORBIDDEN = ("logging", "random", "multiprocessing", "subprocess", "threading", "datetime", "time", "hashlib", "hmac",
             "calendar", "secrets", "uuid", "os", "sys", "bcrypt", "pebble")  # fmt: skip
_SYNTAX = (SyntaxError, ValueError, MemoryError, RecursionError)  # what ast raises for texts of any kind


def forbidden(program: str) -> bool:
    """Whether a program imports one of FORBIDDEN, or by other ways than an import statement; false where it is none."""
    try:
        nodes = list(ast.walk(ast.parse(program)))
    except _SYNTAX:
        return False
    # Differs: Absolute Zero refuses every text in which such a word stands; here it is their imports
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    called = {node.id for node in nodes if isinstance(node, ast.Name)}
    return "__import__" in called or any(name.partition(".")[0] in (*FORBIDDEN, "importlib") for name in imported)


def literal(text: str) -> bool:
    """Whether the arguments of a call are plain values: others could change the function that they are given to."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return False
        for value in (*call.args, *(keyword.value for keyword in call.keywords)):
            ast.literal_eval(value)
    except (*_SYNTAX, TypeError):
        return False
    return True


def script(program: str, inputs: Sequence[str]) -> str | None:
    """A program for the sandbox: its value is what f returns for each input, as Python writes it; None for bad syntax.

    Args:
      inputs: arguments of a call, as they stand between its brackets.
    """
    try:
        ast.parse(program)
        calls = [ast.parse(f"f({text})", mode="eval").body for text in inputs]
    except _SYNTAX:
        return None
    if not all(isinstance(call, ast.Call) and isinstance(call.func, ast.Name) for call in calls):
        return None  # f(1)(2), f(1) + g(2): more than arguments
    return f"{program}\n\n\ndef solution():\n    return [{', '.join(f'repr(f({text}))' for text in inputs)}]\n"


def returned(
    execute: Callable[[Sequence[str]], Sequence[Ran]], calls: Sequence[tuple[str, Sequence[str]]], *, times: int = 1
) -> list[list[str] | None]:
    """What each program returns for its inputs; None where it fails, or gives different things in different runs.

    Equal calls are run once.

    Args:
      execute: runs programs, as `Sandbox.run`.
      calls: program and inputs.
      times: runs of each, in processes of their own.
    """
    scripts = [script(*call) for call in calls]
    distinct = list(dict.fromkeys(filter(None, scripts)))
    ran = iter(execute([text for text in distinct for _ in range(times)]))
    values = {text: [next(ran).value for _ in range(times)] for text in distinct} | {None: [None]}
    firsts = {t: v[0] if isinstance(v[0], list) and all(w == v[0] for w in v) else None for t, v in values.items()}
    return [firsts[text] for text in scripts]


def same_value(a: str, b: str) -> bool:
    """Whether two texts are the same value as Python writes it: 1.0 and 1, 'a' and "a"."""
    try:
        return a == b or bool(ast.literal_eval(a) == ast.literal_eval(b))
    except (*_SYNTAX, TypeError):
        return False

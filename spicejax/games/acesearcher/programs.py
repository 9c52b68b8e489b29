"""Programs in replies: which part of one is a program, and what it says when it has run."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from spicejax.score.sandbox import Ran
from spicejax.types import Rollout

# A block of code and its language; one that says that it is Python may begin within a line. The last one may be open.
_PYTHON = r"(?:python|py)[\d.]*"
_BLOCK = re.compile(
    rf"(?:^[ \t]*```[ \t]*([\w+#.-]*)[^\n`]*|```[ \t]*({_PYTHON})[ \t]*)\n(.*?)(?:```|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_FUNCTION = re.compile(r"^[ \t]*def[ \t]+solution[ \t]*\(", re.MULTILINE)
# What a block of no language begins a line with where it is a program, and no output of one
_STATEMENT = re.compile(r"^[ \t]*(?:def |import |from \w+ import |print\(|[A-Za-z_]\w*[ \t]*=[^=])", re.MULTILINE)


def program_of(rollout: Rollout) -> str:
    """The program of a reply; "" without one, or if the reply was cut off.

    Of its blocks of code it is the last that defines solution(), else the last that is marked as Python, else the last
    without a mark that looks like Python: blocks after it are output or examples.
    """
    blocks = [(one or other, body) for one, other, body in _BLOCK.findall(rollout.text.replace("\r\n", "\n"))]
    candidates = (
        [body for _, body in blocks if _FUNCTION.search(body)]
        or [body for language, body in blocks if re.fullmatch(_PYTHON, language, re.IGNORECASE) and body.strip()]
        or [body for language, body in blocks if not language and _STATEMENT.search(body)]
    )
    return textwrap.dedent(candidates[-1]) if candidates and rollout.finish_reason != "length" else ""


def answer(ran: Ran) -> tuple[str | None, str]:
    """The answer of a program (its value, else the last line that it printed), or program_REASON for none.

    Reasons: those of `Ran.how`; import, where the sandbox lacks a module; nothing.
    """
    if ran.how != "value":
        return None, "program_import" if ran.detail == "ModuleNotFoundError" else f"program_{ran.how}"
    text = as_text(ran.value) or next(
        (line.strip() for line in reversed(ran.printed.splitlines()) if line.strip()), None
    )
    return text, "" if text else "program_nothing"


def as_text(value: Any) -> str | None:
    """A program's value as an answer."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, list):
        return ", ".join(filter(None, map(as_text, value))) or None
    return None if value is None else str(value).strip() or None

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
    """The program of a reply; "" without one, or where the reply was cut off.

    Of its blocks of code it is the last that defines solution(), else the last that says that it is Python, else the
    last that says nothing and looks like it: what stands behind it is output, or an example.
    """
    blocks = [(one or other, body) for one, other, body in _BLOCK.findall(rollout.text.replace("\r\n", "\n"))]
    found = (
        [body for _, body in blocks if _FUNCTION.search(body)]
        or [body for language, body in blocks if re.fullmatch(_PYTHON, language, re.IGNORECASE) and body.strip()]
        or [body for language, body in blocks if not language and _STATEMENT.search(body)]
    )
    return textwrap.dedent(found[-1]) if found and rollout.finish_reason != "length" else ""


def answer(ran: Ran) -> tuple[str | None, str]:
    """What a program says: its value, else the last line that it printed; and why it says nothing, as program_REASON.

    Reasons: those of `Ran.how`; import, where it needs what the sandbox does not have; nothing.
    """
    if ran.how != "value":
        return None, "program_import" if ran.detail == "ModuleNotFoundError" else f"program_{ran.how}"
    said = told(ran.value) or next((line.strip() for line in reversed(ran.printed.splitlines()) if line.strip()), None)
    return said, "" if said else "program_nothing"


def told(value: Any) -> str | None:
    """A program's value as an answer."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, list):
        return ", ".join(filter(None, map(told, value))) or None
    return None if value is None else str(value).strip() or None

"""Rows of a file of JSON lines, or of one JSON array (.json), each with its place for error messages.

`text`, `answer`, `answers` and `label` define what counts as a text in a row of any kind.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from spicejax.models.files import looks_like

T = TypeVar("T")


def read_rows(path: str | Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (FILE:LINE, row) of every line that is not blank; of an array (FILE:NUMBER, row) of every member.

    Args:
      what: names the kind of rows for errors.
    Raises: FileNotFoundError; ValueError naming the line that is no JSON object, or where there is none.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file; give a jsonl of {what}")
    if other := looks_like(path):
        raise ValueError(f"{path} looks like {other}; a jsonl of {what} is wanted")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text ({error}); write it again") from None
    if not content.strip():
        raise ValueError(f"{path} holds no {what}")
    array = path.suffix == ".json" and content.lstrip().startswith("[")
    members = _read(content, str(path)) if array else (line for line in content.split("\n"))
    for number, member in enumerate(members, start=1):
        if array or member.strip():
            row = member if array else _read(member, f"{path}:{number}")
            if not isinstance(row, dict):
                raise ValueError(f"{path}:{number}: a {type(row).__name__}, not a JSON object of {what}")
            yield f"{path}:{number}", row


def _read(content: str, where: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None


def field(where: str, row: Mapping[str, Any], name: str, read: Callable[[Any], T]) -> T:
    """Read a row's field by `read`, one of the readers below, to which a missing field is null.

    Raises: ValueError naming place, field, value and the fix.
    """
    try:
        return read(row.get(name))
    except ValueError as error:
        if name in row:
            raise ValueError(f"{where}: {name}={error}") from None
        raise ValueError(f"{where}: field {name!r} is missing") from None


def text(value: Any) -> str:
    """Return a text unchanged. Raises ValueError for other values, for spaces alone and for lone surrogates."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{_shown(value)}: give a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{_shown(value)}: a lone surrogate is half of a character; write it again") from None
    return value


def answer(value: Any) -> str:
    """Return a right answer: a text, or a finite number, true or false as Python writes it.

    Raises: ValueError for null, NaN, infinities, lists, objects and what `text` refuses.
    """
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)}: give a text or a finite number")
    return text(value)


def answers(value: Any) -> tuple[str, ...]:
    """Return a list of answers; null is an empty list. Raises ValueError for other values."""
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{_shown(value)}: give a list of texts")
    return tuple(map(answer, value or ()))


def label(value: Any) -> str:
    """Return an id or a name: as `answer`, or "" for null and an empty text."""
    return "" if value in (None, "") else answer(value)


def _shown(value: Any) -> str:
    return f"{json.dumps(value, default=str):.80}"

"""Rows of a file of JSON lines, or of one JSON array (.json), each with its place for error messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_rows(path: str | Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (FILE:LINE, row) of every line that is not blank; of an array (FILE:NUMBER, row) of every member.

    Args:
      what: names the kind of rows for errors.
    Raises: FileNotFoundError; ValueError naming the line that is no JSON object, or where there is none.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file; give a jsonl of {what}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text ({error}); write it again") from None
    if not text.strip():
        raise ValueError(f"{path} holds no {what}")
    array = path.suffix == ".json" and text.lstrip().startswith("[")
    members = _read(text, str(path)) if array else (line for line in text.split("\n"))
    for number, member in enumerate(members, start=1):
        if array or member.strip():
            row = member if array else _read(member, f"{path}:{number}")
            if not isinstance(row, dict):
                raise ValueError(f"{path}:{number}: a {type(row).__name__}, not a JSON object of {what}")
            yield f"{path}:{number}", row


def _read(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None

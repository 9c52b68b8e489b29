"""Rows of a jsonl file, each with its place for error messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_rows(path: str | Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (FILE:LINE, row) of every line that is not blank.

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
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}:{number}: a {type(row).__name__}, not a JSON object of {what}")
            yield f"{path}:{number}", row

"""Files of JSON lines, as runs write and read them."""

import json
from collections.abc import Iterable
from pathlib import Path


def read(path: Path) -> list[dict]:
    """Its rows."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, rows: Iterable[object]) -> None:
    """A line for each row."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

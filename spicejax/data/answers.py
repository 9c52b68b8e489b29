"""Answers whose questions a model shall find, read from jsonl."""

from __future__ import annotations

from pathlib import Path

from spicejax.data.rows import read_rows
from spicejax.types import Answer


def load_answers(path: str | Path) -> list[Answer]:
    """Read a jsonl of {"answer"} with optional aliases, searches and id; a question beside it is not read.

    The names of Search Self-Play's own file, `ground_truth` and `search_turns`, mean answer and searches.
    Raises: ValueError naming file, line and what is wrong; FileNotFoundError.
    """
    found = []
    for where, row in read_rows(path, "answers"):
        text, aliases = row.get("answer", row.get("ground_truth")), row.get("aliases") or []
        searches = row.get("searches", row.get("search_turns", 0))
        if not isinstance(text, str | int | float) or not str(text).strip():
            raise ValueError(f"{where}: field 'answer' is missing or empty")
        if not isinstance(aliases, list):
            raise ValueError(f"{where}: field aliases={aliases!r:.80}: give a list of texts")
        if not isinstance(searches, int) or searches < 0:
            raise ValueError(f"{where}: searches={searches!r:.80}: give a whole number, or 0 to leave it to the game")
        found.append(Answer(str(text).strip(), tuple(map(str, aliases)), searches, str(row.get("id", ""))))
    return found

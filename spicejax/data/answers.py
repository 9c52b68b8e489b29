"""Answers for which a model is to write questions, read from jsonl."""

from __future__ import annotations

import re
from pathlib import Path

from spicejax.data import rows
from spicejax.types import Answer

_BRACKETS = re.compile(r"(?<=.)\s*\([^()]*\)\s*$")  # "Mercury (planet)"


def load_answers(path: str | Path) -> list[Answer]:
    """Read a jsonl of {"answer"} with optional aliases, searches and id; a "question" is ignored.

    The names of Search Self-Play's own file are taken too: `ground_truth` for answer, `search_turns` for searches. Of
    a passage, {"title", "text"}, the title is the answer, without what stands in brackets at its end.
    Raises: ValueError naming file, line and what is wrong; FileNotFoundError.
    """
    answers = []
    for where, row in rows.read_rows(path, "answers"):
        name = next((name for name in ("answer", "ground_truth", "title") if name in row), "answer")
        text, aliases = rows.field(where, row, name, rows.answer), rows.field(where, row, "aliases", rows.answers)
        text = _BRACKETS.sub("", text) if name == "title" else text
        searches = row.get("searches", row.get("search_turns", 0))
        if not isinstance(searches, int) or isinstance(searches, bool) or searches < 0:
            raise ValueError(f"{where}: searches={searches!r:.80}: give a whole number, or 0 to leave it to the game")
        answers.append(Answer(text.strip(), aliases, searches, rows.field(where, row, "id", rows.label)))
    return answers

"""Answers for which a model is to write questions, read from jsonl."""

from __future__ import annotations

import re
from pathlib import Path

from spicejax.data import rows
from spicejax.types import Answer

_CAPITAL = r"(?:[A-Z\u00c0-\u00de\u0100-\u024f][^\W\d_]+)"
_NAME = re.compile(rf"\b{_CAPITAL}(?:[ -](?:(?:of|the|de|la|du|von|van) )?{_CAPITAL})+\b")  # two such words or more
_OPENING = re.compile(r"^(?:The|A|An|In|On|At|By|From|As|It|He|She|Its|His|Her|This|After|Since|During|For) ")


def load_answers(path: str | Path) -> list[Answer]:
    """Read a jsonl of {"answer"} with optional aliases, searches and id; a "question" is ignored.

    The names of Search Self-Play's own file are taken too: `ground_truth` for answer, `search_turns` for searches. Of
    a passage, {"title", "text"}, the answer is the first name in the text that shares no word with the title; a
    passage without one has none, nor has one whose name was there before.
    Raises: ValueError naming file, line and what is wrong; FileNotFoundError.
    """
    answers, named = [], set()
    for where, row in rows.read_rows(path, "answers"):
        name = next((name for name in ("answer", "ground_truth", "title") if name in row), "answer")
        text, aliases = rows.field(where, row, name, rows.answer), rows.field(where, row, "aliases", rows.answers)
        if name == "title":
            text = _name(text, rows.field(where, row, "text", rows.answer))
            if not text or text in named:
                continue
            named.add(text)
        searches = row.get("searches", row.get("search_turns", 0))
        if not isinstance(searches, int) or isinstance(searches, bool) or searches < 0:
            raise ValueError(f"{where}: searches={searches!r:.80}: give a whole number, or 0 to leave it to the game")
        answers.append(Answer(text.strip(), aliases, searches, rows.field(where, row, "id", rows.label)))
    return answers


def _name(title: str, text: str) -> str:
    """The first name in a text that shares no word with its title; "" for none.

    Not the title: a Solver that is asked for nothing else learns to answer with the title of what it finds.
    """
    words = re.compile(r"\w+").findall
    titled = set(words(title.casefold()))
    names = (_OPENING.sub("", found.group()) for found in _NAME.finditer(text))
    return next((name for name in names if " " in name and not titled & set(words(name.casefold()))), "")

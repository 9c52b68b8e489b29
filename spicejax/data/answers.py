"""Answers for which a model is to write questions, read from jsonl."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spicejax.data import rows
from spicejax.types import Answer

_TOKEN = re.compile(r"(?:St|Dr|Mr|Mrs|Ms|[^\W\d_])\.|[^\W_]+(?:[-'’][^\W_]+)*|[^\w\s]")
_JOINING = frozenset("of the de la du von van".split())  # inside a name
_CLOSING = frozenset('.!?:;"“”«»')  # a sentence begins behind these


def load_answers(path: str | Path) -> list[Answer]:
    """Read a jsonl of {"answer"} with optional aliases, searches and id; a "question" is ignored.

    The names of Search Self-Play's own file are taken too: `ground_truth` for answer, `search_turns` for searches. Of
    a passage, {"title", "text"}, the answer is the first name in the text that shares no word with the title: two or
    more words with capitals inside a sentence. A passage without one has none, nor has one whose name was there before.
    Raises: ValueError naming file, line and what is wrong, or that no passage holds a name; FileNotFoundError.
    """
    answers, named, passages = [], set(), 0
    for where, row in rows.read_rows(path, "answers"):
        name = next((name for name in ("answer", "ground_truth", "title") if name in row), "answer")
        text, aliases = rows.field(where, row, name, rows.answer), rows.field(where, row, "aliases", rows.answers)
        if name == "title":
            passages += 1
            text, aliases = _name(text, rows.field(where, row, "text", rows.answer)), ()
            if not text or text in named:
                continue
            named.add(text)
        searches = row.get("searches", row.get("search_turns", 0))
        if not isinstance(searches, int) or isinstance(searches, bool) or searches < 0:
            raise ValueError(f"{where}: searches={searches!r:.80}: give a whole number, or 0 to leave it to the game")
        answers.append(Answer(text.strip(), aliases, searches, rows.field(where, row, "id", rows.label)))
    if passages and not answers:
        raise ValueError(f'{path}: no passage holds a name that its title has not; give rows of {{"answer"}} instead')
    return answers


def _name(title: str, text: str) -> str:
    """The first name in a text that shares no word with its title; "" for none.

    Not the title: a Solver that is asked for nothing else learns to answer with the title of what it finds.
    """
    titled = _words(title)
    return next((name for name in _names(text) if not titled & _words(name)), "")


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if word not in _JOINING}


def _names(text: str) -> Iterator[str]:
    """Runs of words with capitals, of, the and the like between them; none that begins a sentence, as all words do."""
    run: list[re.Match[str]] = []
    opening = True
    for token in [*_TOKEN.finditer(text), None]:
        word = token.group() if token else ""
        if word[:1].isupper() or (run and word in _JOINING):
            run += [token] if token and (run or not opening) else []
        else:
            while run and run[-1].group() in _JOINING:
                run.pop()
            if len(run) > 1:
                yield " ".join(text[run[0].start() : run[-1].end()].split())
            run = []
        if not run:
            opening = word in _CLOSING or (opening and word[:1].isupper())

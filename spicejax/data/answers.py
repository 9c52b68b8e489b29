"""Answers for which a model is to write questions, read from jsonl."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spicejax.data import rows
from spicejax.types import Answer

_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
# 23 May 1915, May 23, 1915 or 1915; not of a range, not within a number
_DATE = re.compile(rf"(?<![\w.,–-])(?:\d\d? {_MONTH} |{_MONTH} \d\d?, )?(?:1\d{{3}}|20\d\d)(?![\w–-]|[.,]\d)")
_TOKEN = re.compile(r"(?:St|Dr|Mr|Mrs|Ms|[^\W\d_])\.|[^\W_]+(?:[-'’][^\W_]+)*|[^\w\s]")
_JOINING = frozenset("of the de la du von van".split())  # inside a name
_CLOSING = frozenset('.!?:;"“”«»')  # a sentence begins behind these


def load_answers(path: str | Path) -> list[Answer]:
    """Read a jsonl of {"answer"} with optional aliases, searches and id; a "question" is ignored.

    The names of Search Self-Play's own file are taken too: `ground_truth` for answer, `search_turns` for searches. Of
    a passage, {"title", "text"}, answers are the first name and the first date in the text that share no word with the
    title. A name is two or more words with capitals inside a sentence, a date a year with or without its day. Each is
    taken once; a passage may have neither.
    Raises: ValueError naming file, line and what is wrong, or that no passage holds either; FileNotFoundError.
    """
    answers, taken, passages = [], set(), 0
    for where, row in rows.read_rows(path, "answers"):
        name = next((name for name in ("answer", "ground_truth", "title") if name in row), "answer")
        text, aliases = rows.field(where, row, name, rows.answer), rows.field(where, row, "aliases", rows.answers)
        texts = [text.strip()]
        if name == "title":
            passages, aliases = passages + 1, ()
            texts = [x for x in _found(text, rows.field(where, row, "text", rows.answer)) if x not in taken]
            taken.update(texts)
        searches = row.get("searches", row.get("search_turns", 0))
        if not isinstance(searches, int) or isinstance(searches, bool) or searches < 0:
            raise ValueError(f"{where}: searches={searches!r:.80}: give a whole number, or 0 to leave it to the game")
        label = rows.field(where, row, "id", rows.label)
        answers += [Answer(text, aliases, searches, label) for text in texts]
    if passages and not answers:
        raise ValueError(
            f'{path}: no passage holds a name or a date that its title has not; give rows of {{"answer"}} instead'
        )
    return answers


def _found(title: str, text: str) -> list[str]:
    """The first name and the first date in a text that share no word with its title.

    Not the title: a Solver that is asked for nothing else learns to answer with the title of what it finds. Dates as
    well: one that is asked for names alone gives a name to "when".
    """
    titled = _words(title)
    kinds = (_names(text), (date.group() for date in _DATE.finditer(text)))
    return [first for kind in kinds if (first := next((x for x in kind if not titled & _words(x)), None))]


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

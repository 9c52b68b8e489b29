"""Questions over several passages, read with the searches that lead to their answers.

HotpotQA and 2WikiMultihopQA (`context`, `supporting_facts`) and MuSiQue (`paragraphs`, `question_decomposition`) as
they are published, and rows of your own: question, answer, `passages` [{title, text}], `supporting_titles` and, where
there is one, a `decomposition` [{question, answer}] whose #1 stands for the first answer.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spicejax.data import rows, segments
from spicejax.score import answers as spelling
from spicejax.types import Passage

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")  # of a title: Brand (play)
_ASKS = re.compile(r"(?:(?:in|on|at|of|to|for|from|by|the) )*(?:wh|how)", re.IGNORECASE)
_STEP = re.compile(r"#(\d)")


@dataclasses.dataclass(frozen=True)
class Hop:
    """A search on the way: what is asked for, the passage that tells it, and what it tells."""

    query: str
    passage: Passage
    answer: str  # "" where a later hop needs nothing of it


@dataclasses.dataclass(frozen=True)
class Question:
    """A question with its way. `hops` is empty where no way can be read from the row."""

    id: str
    question: str
    answers: tuple[str, ...]  # the first is the answer
    hops: tuple[Hop, ...]
    others: tuple[Passage, ...]  # given with it and not needed


def read(path: Path) -> Iterator[list[Question]]:
    """Yield the questions of each row: its own, and those steps of its decomposition that stand on their own.

    Raises: ValueError naming file and line; FileNotFoundError.
    """
    for where, row in rows.read_rows(path, "questions with passages"):
        try:
            yield _questions(row)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ValueError(
                f"{where}: not as published, and without passages and supporting_titles of your own "
                f"({type(error).__name__}: {error})"
            ) from None


def _questions(row: Mapping[str, Any]) -> list[Question]:
    name = rows.label(row.get("id", row.get("_id")))
    right = (rows.answer(row["answer"]), *rows.answers(row.get("answers", row.get("answer_aliases"))))
    question, right = rows.text(row["question"]).strip(), tuple(dict.fromkeys(map(str.strip, right)))
    passages, needed = _passages(row)
    others = tuple(p for p in passages if p not in needed)
    steps = row.get("decomposition", row.get("question_decomposition"))
    if not steps:
        return [Question(name, question, right, _between(question, right[0], needed), others)]
    hops, alone = _decomposed(steps, passages, needed)
    parts = [
        Question(f"{name}/{k}", hop.query, (hop.answer,), (hop,), others)
        for k, (hop, is_question) in enumerate(zip(hops, alone, strict=True), 1)
        if is_question and len(hops) == len(steps)
    ]
    return [Question(name, question, right, hops if len(hops) == len(steps) else (), others), *parts]


def _passages(row: Mapping[str, Any]) -> tuple[list[Passage], list[Passage]]:
    """All passages of a row, and those that the answer needs."""
    if "paragraphs" in row:
        pairs = [(p["title"], p["paragraph_text"]) for p in row["paragraphs"]]
        titles = {p["title"] for p in row["paragraphs"] if p["is_supporting"]}
    elif "context" in row:
        pairs = [(title, "".join(sentences)) for title, sentences in row["context"]]
        titles = {title for title, _ in row["supporting_facts"]}
    else:
        pairs = [(p["title"], p["text"]) for p in row["passages"]]
        titles = set(row["supporting_titles"])
    passages = [Passage("", rows.label(title), rows.text(text).strip()) for title, text in pairs]
    return passages, [p for p in passages if p.title in titles]


def _decomposed(
    steps: Sequence[Mapping[str, Any]], passages: Sequence[Passage], needed: Sequence[Passage]
) -> tuple[tuple[Hop, ...], list[bool]]:
    """The hops of a decomposition, and which of them are asked as whole questions; shorter where one is untold."""
    hops: list[Hop] = []
    alone: list[bool] = []
    for step in steps:
        asked = _STEP.sub(lambda match: hops[int(match[1]) - 1].answer, rows.text(step["question"]))
        query, answer = " ".join(asked.replace(">>", " ").split()), rows.answer(step["answer"]).strip()
        place = step.get("paragraph_support_idx")
        telling = [passages[place]] if place is not None else [p for p in needed if _tells(p, answer)]
        if not telling:
            break
        hops.append(Hop(query, max(telling, key=lambda p: _shared(query, p)), answer))
        alone.append(">>" not in asked and bool(_ASKS.match(query)))
    return tuple(hops), alone


def _between(question: str, answer: str, needed: Sequence[Passage]) -> tuple[Hop, ...]:
    """Two passages in the order in which they are found: by the question, then by what the first one names."""
    if len(needed) != 2:
        return ()
    first, second = sorted(needed, key=lambda p: (_names(question, p), _shared(question, p)), reverse=True)
    if not _names(first.text, second) and not _names(question, second):
        if not _names(second.text, first):
            return ()
        first, second = second, first
    if not _tells(second, answer) and _tells(first, answer) and _names(question, second):
        first, second = second, first
    bridge = "" if _names(question, second) else _name(second)
    return (
        Hop(_name(first) if _names(question, first) else question, first, bridge),
        Hop(_name(second), second, answer),
    )


def _name(passage: Passage) -> str:
    return _QUALIFIER.sub("", passage.title)


def _names(text: str, passage: Passage) -> bool:
    """Say whether a text names what a passage is about."""
    return spelling.phrase(_name(passage)) in spelling.tokens(text)


def _tells(passage: Passage, answer: str) -> bool:
    return spelling.phrase(answer) in spelling.tokens(f"{passage.title} {passage.text}")


def _shared(text: str, passage: Passage) -> int:
    """Words that a text shares with a passage."""
    return len(set(spelling.tokens(text).split()) & set(spelling.tokens(f"{passage.title} {passage.text}").split()))


def part(passage: Passage, answer: str, words: int) -> Passage:
    """The part of a passage that tells the answer, else the first; cut as an index cuts it, with words=0 not at all."""
    parts = segments.cut(passage.text, str.split, words) if words else [passage.text]
    telling = (text for text in parts if answer and spelling.phrase(answer) in spelling.tokens(text))
    return Passage(passage.id, passage.title, next(telling, parts[0]))

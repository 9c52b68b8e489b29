"""Questions over several passages, read with the searches (hops) that lead to their answers.

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

import numpy as np

from spicejax.data import rows, segments
from spicejax.score import answers as spelling
from spicejax.types import Messages, Passage

Example = dict[str, Any]  # a row of a jsonl of examples, see data/examples.py

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")  # of a title: Brand (play)
_REFERENCE = re.compile(r"#(\d+)")
_ASKS = re.compile(r"(?:(?:in|on|at|of|to|for|from|by|the) )*(?:wh|how)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Hop:
    """A search on the way: what is asked for, the passage that tells it, and what it tells."""

    query: str
    passage: Passage
    answer: str  # "" where a later hop needs nothing of it


@dataclasses.dataclass(frozen=True)
class Question:
    """A question with its hops, none where they cannot be read from the row."""

    id: str
    question: str
    answers: tuple[str, ...]  # the first is the answer
    hops: tuple[Hop, ...] = ()
    others: tuple[Passage, ...] = ()  # those that came with it and are on none of its hops
    steps: tuple[str, ...] = ()  # of its decomposition, a question each; #1 stands for the first one's answer


def read(path: Path) -> Iterator[list[Question]]:
    """Yield the questions of each row: its own, and those steps of its decomposition that stand on their own.

    Raises: ValueError naming file and line; FileNotFoundError.
    """
    for where, row in rows.read_rows(path, "questions with passages"):
        try:
            yield _questions(row)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ValueError(
                f"{where}: {type(error).__name__}: {error}; give HotpotQA, 2WikiMultihopQA or MuSiQue as published, or "
                "question, answer, passages and supporting_titles"
            ) from None


def _questions(row: Mapping[str, Any]) -> list[Question]:
    name = rows.label(row.get("id", row.get("_id")))
    others = next((row[key] for key in ("answers", "aliases", "answer_aliases") if key in row), None)
    answers = tuple(dict.fromkeys(map(str.strip, (rows.answer(row["answer"]), *rows.answers(others)))))
    question = rows.text(row["question"]).strip()
    passages, needed = _passages(row)
    steps = row.get("decomposition", row.get("question_decomposition"))
    if not steps:
        return [_with_others(Question(name, question, answers, _between(question, answers[0], needed)), passages)]
    asked = tuple(_as_question(rows.text(step["question"])) for step in steps)
    hops = _decomposed(asked, steps, passages, needed)
    if len(hops) < len(steps):
        return [_with_others(Question(name, question, answers), passages)]
    parts = [
        Question(f"{name}/{k}", hop.query, (hop.answer,), (hop,))
        for k, (hop, step) in enumerate(zip(hops, steps, strict=True), 1)
        if ">>" not in step["question"] and _ASKS.match(hop.query)
    ]
    return [_with_others(each, passages) for each in (Question(name, question, answers, hops, steps=asked), *parts)]


def _with_others(of: Question, passages: Sequence[Passage]) -> Question:
    return dataclasses.replace(of, others=tuple(p for p in passages if all(p != hop.passage for hop in of.hops)))


def _passages(row: Mapping[str, Any]) -> tuple[list[Passage], list[Passage]]:
    """All passages of a row, and those that the answer needs."""
    if "paragraphs" in row:
        pairs = [(p["title"], p["paragraph_text"]) for p in row["paragraphs"]]
        titles = {p["title"] for p in row["paragraphs"] if p["is_supporting"]}
    elif "context" in row:
        context, facts = row["context"], row["supporting_facts"]
        if isinstance(context, Mapping):  # columns, as on the Hub
            context, facts = zip(context["title"], context["sentences"], strict=True), [[t] for t in facts["title"]]
        pairs = [(title, "".join(sentences)) for title, sentences in context]
        titles = {fact[0] for fact in facts}
    else:
        pairs = [(p["title"], p["text"]) for p in row["passages"]]
        titles = set(row["supporting_titles"])
    passages = [Passage("", rows.label(title), text.strip()) for title, text in pairs]
    return passages, [p for p in passages if p.title in titles and p.text]


def _as_question(step: str) -> str:
    """A step as a question: "Honey >> director" is short for one."""
    subject, short, relation = (part.strip() for part in step.partition(">>"))
    if not short:
        return subject
    return f"What is {subject} {relation}?" if relation.endswith(" of") else f"What is the {relation} of {subject}?"


def _decomposed(
    asked: Sequence[str], steps: Sequence[Mapping[str, Any]], passages: Sequence[Passage], needed: Sequence[Passage]
) -> tuple[Hop, ...]:
    """The hops of a decomposition; they end before a step that no passage tells."""
    hops: list[Hop] = []

    def earlier(match: re.Match[str]) -> str:
        return hops[int(match[1]) - 1].answer if 0 < int(match[1]) <= len(hops) else match[0]

    for question, step in zip(asked, steps, strict=True):
        query = _REFERENCE.sub(earlier, question)
        answer, place = rows.answer(step["answer"]).strip(), step.get("paragraph_support_idx")
        telling = [passages[place]] if place is not None else [p for p in needed if _tells(p, answer)]
        if not telling:
            break
        hops.append(Hop(query, max(telling, key=lambda p: _shared(query, p)), answer))
    return tuple(hops)


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


def segment(passage: Passage, answer: str, words: int) -> Passage:
    """The segment of a passage that contains the answer, cut as an index cuts it (words=0: not); else the first."""
    texts = segments.cut(passage.text, str.split, words) if words else [passage.text]
    fitting = (text for text in texts if answer and spelling.phrase(answer) in spelling.tokens(text))
    return Passage(passage.id, passage.title, next(fitting, texts[0]))


def is_supported(of: Question, words: int) -> bool:
    """Say whether each hop's answer stands in a segment of its passage or in its title; a yes or no need not."""
    told = ((hop, segment(hop.passage, hop.answer, words)) for hop in of.hops)
    return all(not hop.answer or is_verdict(hop.answer) or _tells(passage, hop.answer) for hop, passage in told)


def is_verdict(answer: str) -> bool:
    """Say whether an answer is yes or no."""
    return answer.lower() in ("yes", "no")


def sample(passages: Sequence[Passage], count: int, rng: np.random.Generator) -> list[Passage]:
    """Draw at most `count` of some passages without putting them back."""
    return [passages[i] for i in rng.permutation(len(passages))[:count]]


def shuffled(passages: Sequence[Passage], rng: np.random.Generator) -> list[Passage]:
    """The passages in another order."""
    return sample(passages, len(passages), rng)


def example(source: str, messages: Messages, reply: str) -> Example:
    """A prompt with its reply."""
    return {"source": source, "messages": [*messages, {"role": "assistant", "content": reply}]}

"""Question sets with known answers, from jsonl or the package: to be trained on or evaluated by."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from spicejax.data.facts.questions import load_rows
from spicejax.data.rows import read_rows
from spicejax.types import ANSWER_TYPES, AnswerType, Task

LETTERS = "ABCDEFGHIJ"

_TEXT = re.compile(r"\\(?:text\w*|mathrm|mbox|operatorname|begin|end)\s*\{[^{}]*\}|_\{[^{}]*\}")
_MATHEMATICS = re.compile(
    r"[0-9\\^_=<>²³√π∞≤≥±]|[A-Za-z)]!|^-[A-Za-z]$|^[(\[].*,|[A-Za-z)]\s*[+*/]\s*[A-Za-z(]"
    r"|(?<![A-Za-z])[A-Za-z]'+(?![A-Za-z])|^[a-z]\s*-\s*[a-z]$"
)
_WORD = re.compile(
    r"(?<![\\A-Za-z])(?!(?:and|sin|cos|tan|cot|sec|csc|log|exp|sqrt|max|min|mod)(?![a-z]))"
    r"(?:[^\W\d_A-Z]{3}|[A-Z][^\W\d_A-Z]{2}|[A-Z]{3})"
)


@dataclasses.dataclass(frozen=True)
class Item:
    """One question of a benchmark and the category it is reported under."""

    task: Task
    category: str = "all"
    suite: str = ""  # of several sets its name; "" for the first
    boxed: bool = True  # asked as a Reasoner is; else the bare question, whose answer may stand anywhere


def load_items(path: str | Path) -> list[Item]:
    """Read a jsonl of {"question", "answer"} with optional choices, answer_type, aliases, context, kind,
    category, boxed, id.

    `facts:corpus`, `facts:unseen`, `facts:plain`, `facts:everyday` are sets of the package (data/facts/questions.py).
    A row with "choices" is multiple choice, its answer a letter; "aliases" also count as the answer of a String.
    Search-R1's "golden_answers" and an "answers" list are an answer and its aliases; DocMath-Eval's "ground_truth" is
    an answer and its "paragraphs" are the context.
    Without "answer_type" the type is read off the answer: a whole number, a decimal number, true/false, other
    mathematics, else text.
    Raises: ValueError naming file, line and what is missing, or a set that there is not; FileNotFoundError.
    """
    items = []
    for where, row in _rows(str(path)):
        row = _with_answer(row)
        missing = [k for k in ("question", "answer") if not str(row.get(k, "")).strip()]
        if missing:
            raise ValueError(f"{where}: field {missing[0]!r} is missing or empty")
        for field in ("choices", "aliases"):
            if not isinstance(row.get(field) or [], list):
                raise ValueError(f"{where}: {field}={row[field]!r:.80}: give a list of texts")
        items.append(_item(row, where))
    return items


def load_suites(specs: str, most: int = 0) -> list[Item]:
    """The first `most` items of each of several sets, apart by commas; 0 = all. Raises as `load_items`."""
    return [
        dataclasses.replace(item, suite=suite)
        for suite, spec in suites(specs)
        for item in load_items(spec)[: most or None]
    ]


def suites(specs: str) -> list[tuple[str, str]]:
    """(its name, where it is) of each of several sets, apart by commas; the first has the name ""."""
    found = list(filter(None, map(str.strip, specs.split(","))))
    return [(named(spec) if k else "", spec) for k, spec in enumerate(found)]


def named(spec: str) -> str:
    """The name of a set of questions."""
    return Path(spec).stem.rpartition(":")[2]


def save_items(path: str | Path, items: list[Item]) -> None:
    """Write `items` as `load_items` reads them."""
    rows = []
    for k, item in enumerate(items):
        task = item.task
        row = {"id": task.document_id or str(k), "question": task.question, "answer": task.answer}
        aliases = {"aliases": task.aliases} if task.aliases else {}
        rows.append(json.dumps(row | {"answer_type": task.answer_type, "category": item.category} | aliases))
    Path(path).write_text("\n".join(rows) + "\n", encoding="utf-8")


def _rows(path: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Rows, each with its place for error messages."""
    if not path.startswith("facts:"):
        return read_rows(path, "questions with answers")
    return ((f"{path}: {row['id']}", row) for row in load_rows(path.removeprefix("facts:")))


def _with_answer(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the first of its right answers as the answer, the others as aliases."""
    if "ground_truth" in row and isinstance(row.get("paragraphs"), list):
        answer = "" if row["ground_truth"] is None else row["ground_truth"]  # that of the test sets is not published
        told = {"answer": answer, "context": "\n".join(map(str, row["paragraphs"]))}
        return row | told | {"id": row.get("question_id", "")}
    listed = row.get("golden_answers") or row.get("answers")
    if not isinstance(listed, list) or not listed or row.get("choices"):
        return row
    first = str(row.get("answer") or listed[0])
    others = [str(other) for other in listed if str(other) != first]
    # of several answers one may be a number and another a phrase: all of them are texts then
    return row | {"answer": first} | ({"aliases": others, "answer_type": "String"} if others else {})


def _item(row: dict[str, Any], where: str) -> Item:
    question, answer = str(row["question"]), str(row["answer"]).strip()
    choices = tuple(str(c) for c in row.get("choices") or ())
    kind = row.get("answer_type") or ("MCQ" if choices else infer_type(answer))
    if kind not in ANSWER_TYPES:
        raise ValueError(f"{where}: answer_type {kind!r} is unknown; choose from {ANSWER_TYPES}")
    if choices:
        if answer not in LETTERS[: len(choices)] or len(choices) > len(LETTERS):
            raise ValueError(f"{where}: answer {answer!r} is not a letter of its {len(choices)} choices")
        question += "".join(f"\n{letter}) {text}" for letter, text in zip(LETTERS, choices, strict=False))
    aliases = tuple(str(alias) for alias in row.get("aliases") or ())
    if aliases and kind != "String":
        raise ValueError(
            f"{where}: aliases={list(aliases)!r:.80}: only a String has other answers, not {kind}; leave them out"
        )
    context = str(row.get("context") or "")
    task = Task(
        question, answer, cast(AnswerType, kind), str(row.get("id", "")), choices, aliases, context,
        str(row.get("kind", "")),
    )  # fmt: skip
    return Item(task, str(row.get("category", "all")), boxed=bool(row.get("boxed", True)))


def infer_type(answer: str) -> str:
    """Answer type read off the text of a gold answer; mathematics without words outside \\text{} is an Expression."""
    plain = answer.replace(",", "")
    if plain.lstrip("+-").isdecimal():
        return "Integer"
    try:
        float(plain)
    except ValueError:
        if answer.lower() in ("true", "false"):
            return "Boolean"
        written = _TEXT.sub("", answer)
        return "Expression" if _MATHEMATICS.search(written) and not _WORD.search(written) else "String"
    return "Float"

"""Question sets with known answers, from jsonl or the package: to be trained on or evaluated by."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from spicejax.data import published
from spicejax.data.facts.questions import load_rows
from spicejax.data.rows import answer, answers, field, label, read_rows, text
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
    boxed: bool = True  # asked for a boxed answer; else the bare question, whose answer may stand anywhere


def load_items(path: str | Path) -> list[Item]:
    """Read a jsonl of {"question", "answer"} with optional choices, answer_type, aliases, context, kind,
    category, boxed, id.

    `facts:corpus`, `facts:unseen`, `facts:plain`, `facts:everyday` are sets of the package (data/facts/questions.py).
    A row with "choices" is multiple choice, its answer a letter; "aliases" also count as the answer of a String.
    The rows of HotpotQA, 2WikiMultiHopQA, MuSiQue, GSM8K (its answer stands behind ####), SQuAD's flat form,
    DocMath-Eval ("ground_truth", and "paragraphs" as the context) and Search-R1 are read as they are published:
    "golden_answers" and an "answers" list are an answer and its aliases. A list under "answer" is one List or several
    Strings, as its "answer_type" says.
    Without "answer_type" the type follows from the answer: a whole number, a decimal number, true/false, other
    mathematics, else text.
    Raises: ValueError naming file, line and what is missing, or an unknown set; FileNotFoundError.
    """
    return [item(row, where) for where, row in _rows(str(path))]


def item(row: dict[str, Any], where: str) -> Item:
    """One row of such a file. Raises ValueError that begins with `where`."""
    return _item(_with_answer(row, where), where)


def load_suites(specs: str, limit: int = 0) -> list[Item]:
    """Read the first `limit` items of each set, 0 = all; commas separate the sets. Raises as `load_items`."""
    return [
        dataclasses.replace(item, suite=suite)
        for suite, spec in suites(specs)
        for item in load_items(spec)[: limit or None]
    ]


def suites(specs: str, *, alike: bool = False) -> list[tuple[str, str]]:
    """Split sets at commas into (name, spec) pairs; the first has the name "", and `none` stands for no set.

    Args:
      alike: let two sets have one name, as older runs may.
    Raises: ValueError for two sets of one name behind the first, which would be measured as one.
    """
    chosen = [spec for spec in map(str.strip, specs.split(",")) if spec not in ("", "none")]
    first: dict[str, str] = {}
    for spec in chosen[1:] if not alike else ():
        if (name := name_of(spec)) in first:
            raise ValueError(
                f"{first[name]},{spec}: two sets of questions called {name!r:.80}; rename one of the files"
            )
        first[name] = spec
    return [(name_of(spec) if k else "", spec) for k, spec in enumerate(chosen)]


def name_of(spec: str) -> str:
    """The name of a question set: its file without folder and ending, or what stands behind `facts:`."""
    return Path(spec).stem.rpartition(":")[2]


def _rows(path: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Rows, each with its place for error messages."""
    if not path.startswith("facts:"):
        return read_rows(path, "questions with answers")
    return ((f"{path}: {row['id']}", row) for row in load_rows(path.removeprefix("facts:")))


def _with_answer(row: dict[str, Any], where: str) -> dict[str, Any]:
    """The row with its first right answer as "answer" and the others as "aliases", whatever its set calls them."""
    if "ground_truth" in row and isinstance(row.get("paragraphs"), list):
        parts = {"answer": row["ground_truth"], "context": "\n\n".join(field(where, row, "paragraphs", answers))}
        return row | parts | {"id": row.get("question_id")}
    if "supporting_facts" in row:  # HotpotQA's kind: without the passages that come with it
        context = row.get("context")
        row = row | {"context": context if isinstance(context, str) else None, "id": row.get("_id", row.get("id"))}
    answered = row.get("answer")
    if isinstance(answered, str) and (final := published.final(answered)):
        return row | {"answer": final}
    name = next((name for name in ("golden_answers", "answers") if row.get(name)), "answer")
    if name == "answer" and isinstance(answered, list):
        return row | _of_list(row, where)
    if row.get("choices") or (name == "answer" and "answer_aliases" not in row):
        return row
    if isinstance(spans := row.get(name), dict) and "text" in spans:  # SQuAD
        row = row | {name: spans["text"]}
    listed = field(where, row, name, answers) if name != "answer" else (field(where, row, name, answer),)
    listed += field(where, row, "answer_aliases", answers)  # MuSiQue's
    return row | _alternatives(listed if answered is None else (field(where, row, "answer", answer), *listed))


def _of_list(row: dict[str, Any], where: str) -> dict[str, Any]:
    """What a list under "answer" means."""
    listed = field(where, row, "answer", answers)
    if len(listed) > 1 and row.get("answer_type") not in ("List", "String"):
        raise ValueError(
            f"{where}: answer={list(listed)!r:.80}: add answer_type=List where all of them are the answer, or "
            "answer_type=String where any of them is"
        )
    return {"answer": ", ".join(listed)} if row.get("answer_type") == "List" else _alternatives(listed)


def _alternatives(listed: Sequence[str]) -> dict[str, Any]:
    """One right answer, or several, which are Strings: one may be a number and another a phrase."""
    several = list(dict.fromkeys(listed))
    parts = {"answer": several[0]} if several else {}
    return parts | ({"aliases": several[1:], "answer_type": "String"} if several[1:] else {})


def _item(row: dict[str, Any], where: str) -> Item:
    question, right = field(where, row, "question", text), field(where, row, "answer", answer).strip()
    choices, aliases = field(where, row, "choices", answers), field(where, row, "aliases", answers)
    names = {name: field(where, row, name, label) for name in ("id", "context", "kind", "category", "answer_type")}
    boxed = row.get("boxed")
    if not isinstance(boxed, bool | None):
        raise ValueError(f"{where}: boxed={boxed!r:.80}: give true or false")
    kind = names["answer_type"] or ("MCQ" if choices else infer_type(right))
    if kind not in ANSWER_TYPES:
        raise ValueError(f"{where}: answer_type {kind!r} is unknown; choose from {ANSWER_TYPES}")
    if choices:
        if right not in LETTERS[: len(choices)] or len(choices) > len(LETTERS):
            raise ValueError(f"{where}: answer {right!r} is not a letter of its {len(choices)} choices")
        question += _listed(choices)
    if aliases and kind != "String":
        raise ValueError(
            f"{where}: aliases={list(aliases)!r:.80}: only a String has other answers, not {kind}; leave them out"
        )
    task = Task(question, right, cast(AnswerType, kind), names["id"], choices, aliases, names["context"], names["kind"])
    return Item(task, names["category"] or "all", boxed=boxed is not False)


def row_of(item: Item) -> dict[str, Any]:
    """The row of such a file that is read as this item, but for its suite."""
    task = item.task
    row = {"id": task.id, "question": task.question.removesuffix(_listed(task.options)), "answer": task.answer}
    parts = {"answer_type": task.answer_type, "choices": list(task.options), "aliases": list(task.aliases)}
    parts |= {"context": task.context, "kind": task.kind, "category": item.category if item.category != "all" else ""}
    return row | {name: value for name, value in parts.items() if value} | ({} if item.boxed else {"boxed": False})


def _listed(choices: Sequence[str]) -> str:
    return "".join(f"\n{letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=False))


def infer_type(answer: str) -> str:
    """Infer the answer type from a gold answer; mathematics without words outside \\text{} is an Expression."""
    plain = answer.replace(",", "")
    if plain.lstrip("+-").isdecimal():
        return "Integer"
    try:
        if not math.isfinite(float(plain)):
            return "String"
    except ValueError:
        if answer.lower() in ("true", "false"):
            return "Boolean"
        written = _TEXT.sub("", answer)
        return "Expression" if _MATHEMATICS.search(written) and not _WORD.search(written) else "String"
    return "Float"

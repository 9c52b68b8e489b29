"""Two results on the same questions, compared question by question: they share what makes questions hard."""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spicejax.evaluation.scores import interval

ITEMS = "items.jsonl"  # what an evaluation keeps of each question
Question = tuple[str | None, str]  # its id, and its text


def load(folder: Path) -> list[dict[str, Any]]:
    """Read the records that `spicejax evaluate --out=FOLDER` wrote, or a run in its work folder: the last answers to
    the first of its sets.

    Raises: FileNotFoundError, ValueError where there are none.
    """
    if not (folder / ITEMS).is_file():
        raise FileNotFoundError(
            f"{folder} holds no {ITEMS}; give a folder that spicejax evaluate --out=FOLDER wrote, or that of a run "
            "which has evaluated (of a chain, of one of its runs: RUN/2)"
        )
    try:
        records = [json.loads(line) for line in (folder / ITEMS).read_text(encoding="utf-8").splitlines()]
        if all(record["question"] and record["scores"] for record in records) and records:
            if "iteration" in records[0]:
                newest = max(record["iteration"] for record in records)
                records = [record for record in records if record["iteration"] == newest and "suite" not in record]
            return records
        why = "no questions with scores"
    except (ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
    raise ValueError(f"{folder / ITEMS} is no result of spicejax evaluate ({why:.100}); write it again")


def compare(records: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Compare two results, record by record.

    Returns: of each score that both have, `mean` of the differences, first minus second, with `low` and `high` of its
      95 % interval over questions (paired bootstrap); of scores that are right or wrong alone also `gained` and `lost`,
      the questions right in one of the two alone, and `p`, the two-sided exact McNemar test: the chance of a split at
      least as uneven if each of these were as likely to fall to either.
    Raises: ValueError where they asked different questions.
    """
    require_same(list(map(_question, records)), others)
    # a question that is asked twice is paired in its order: sorting keeps it
    sides = [sorted(side, key=lambda record: tuple(map(str, _question(record)))) for side in (records, others)]
    compared = {}
    for name in (name for name in records[0]["scores"] if name in others[0]["scores"]):
        ours, theirs = (np.array([record["scores"][name] for record in side]) for side in sides)
        compared[name] = interval(ours - theirs)
        if np.isin(np.concatenate([ours, theirs]), (0, 1)).all():
            gained, lost = int((ours > theirs).sum()), int((ours < theirs).sum())
            compared[name] |= {"gained": gained, "lost": lost, "p": _mcnemar(gained, lost)}
    return compared


def require_same(asked: Sequence[Question], others: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError where a result is of other questions than these, in any order."""
    ours, theirs = collections.Counter(asked), collections.Counter(map(_question, others))
    if ours != theirs:
        raise ValueError(
            f"the two results share {(ours & theirs).total()} of {ours.total()} and {theirs.total()} questions; "
            "evaluate both on the same file, with the same --most"
        )


def _question(record: dict[str, Any]) -> Question:
    return record.get("id"), record["question"]


def _mcnemar(gained: int, lost: int) -> float:
    """P of a split of gained + lost fair coins at least as uneven, two-sided."""
    coins = gained + lost
    return min(1.0, 2 * sum(math.comb(coins, k) for k in range(min(gained, lost) + 1)) / 2**coins)


def table(compared: dict[str, dict[str, float]], count: int) -> str:
    """The comparison as Markdown."""
    lines = [
        f"| {count} questions, in pairs | difference | 95 % interval | gained, lost | p |",
        "|---|--:|---|--:|--:|",
    ]
    for name, row in compared.items():
        split = f"{row['gained']}, {row['lost']} | {row['p']:.2g}" if "p" in row else " | "
        lines.append(f"| {name} | {row['mean']:+.3f} | {row['low']:+.3f} to {row['high']:+.3f} | {split} |")
    return "\n".join(lines)

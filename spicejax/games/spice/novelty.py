"""Owns which questions were asked before: within an iteration and in the ones before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from spicejax.score import answers
from spicejax.types import Metrics, Task

REMEMBERED = 10  # iterations whose questions are known, at least


def key(task: Task) -> str:
    """Name a question by its words, numbers and signs; case, spaces and the written form of a number do not count."""
    return hashlib.blake2b(answers.tokens(task.question).encode(), digest_size=8).hexdigest()


def asked_in(state: Any, iterations: int) -> set[str]:
    """Keys of the questions of the last so many iterations; `state` is what `remember` made, or None."""
    return {k for asked in (state or [])[-iterations:] for k in asked} if iterations else set()


def remember(state: Any, tasks: Iterable[Task], iterations: int) -> list[list[str]]:
    """`state` with this iteration's questions, without those of too long ago."""
    kept = max(iterations, REMEMBERED)
    return [*(state or []), sorted({key(task) for task in tasks})][-kept:]


def metrics_of(tasks: Sequence[Task], state: Any) -> Metrics:
    """Shares of the valid tasks: distinct ones, and those that repeat a question of the iterations remembered."""
    if not tasks:
        return {}
    keys, before = [key(task) for task in tasks], asked_in(state, REMEMBERED)
    return {
        "challenger/distinct_questions": len(set(keys)) / len(keys),
        "challenger/repeated_questions": sum(k in before for k in keys) / len(keys),
    }

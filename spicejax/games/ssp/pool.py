"""Owns the questions of earlier iterations that fill the places of invalid ones: the game's state."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spicejax.types import Answer


@dataclasses.dataclass(frozen=True)
class Kept:
    """A question that was valid, and how often it was solved when it was last asked."""

    question: str
    answer: Answer
    success: float


@dataclasses.dataclass(frozen=True)
class Pool:
    """What is kept, oldest first, and how many iterations it was kept for since it was empty."""

    kept: tuple[Kept, ...] = ()
    age: int = 0

    @classmethod
    def of(cls, state: Any) -> Pool:
        """The pool that `state` was made of; None is an empty one."""
        if state is None:
            return cls()
        rows = [
            Kept(row["question"], Answer(row["answer"], tuple(row["aliases"])), row["success"]) for row in state["kept"]
        ]
        return cls(tuple(rows), state["age"])

    @property
    def state(self) -> dict[str, Any]:
        """The pool as JSON-able data."""
        rows = [
            {"question": k.question, "answer": k.answer.text, "aliases": list(k.answer.aliases), "success": k.success}
            for k in self.kept
        ]
        return {"kept": rows, "age": self.age}

    def drawn(self, number: int, threshold: float, rng: np.random.Generator, most: int = 0) -> list[int]:
        """Draw places of `number` questions, with repetition, among those solved at most `threshold` of the time.

        With `most`: as many at most, and none twice.
        """
        open_ones = [i for i, kept in enumerate(self.kept) if kept.success <= threshold]
        if most:
            return [open_ones[i] for i in rng.permutation(len(open_ones))[: min(number, most)]]
        return [open_ones[i] for i in rng.integers(len(open_ones), size=number)] if open_ones else []

    def after(self, new: list[Kept], again: dict[int, float], reset_every: int) -> Pool:
        """The pool after an iteration.

        Args:
          new: valid questions of the iteration.
          again: success of those that were asked again, by place.
          reset_every: iterations after which it is emptied; 0 = never.
        """
        if reset_every and self.age + 1 >= reset_every:
            return Pool()
        kept = [dataclasses.replace(k, success=again.get(i, k.success)) for i, k in enumerate(self.kept)]
        return Pool((*kept, *new), self.age + 1)

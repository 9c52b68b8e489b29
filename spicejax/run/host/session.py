"""A session of limited time: when it began, when it ends, and whether the next parts of a run still fit."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Literal

BEGAN = "SPICEJAX_SESSION_START"  # environment variable: when the session began, in seconds since the epoch
SLACK = 1.25  # the next part may take a quarter longer than the longest of its kind so far

Part = Literal["iteration", "evaluation", "save"]


def began() -> float:
    """`time.monotonic()` at the beginning of the session: from the environment, else now.

    Raises: ValueError where the environment holds no time, or one in the future.
    """
    text = os.environ.get(BEGAN)
    if not text:
        return time.monotonic()
    try:
        ago = time.time() - float(text)
    except ValueError:
        ago = math.nan
    if not -1 < ago < math.inf:  # a second: clocks are adjusted
        raise ValueError(f"{BEGAN}={text}: give the seconds since the epoch when the session began (`date +%s` is now)")
    return time.monotonic() - ago


class Session:
    """A time limit, and the longest duration of each part of a run so far."""

    def __init__(self, until: float = math.inf, *, now: Callable[[], float] = time.monotonic) -> None:
        """until: value of `now()` by which everything must be done."""
        self.limited = until < math.inf
        self.until, self._now = until, now
        self._longest: dict[Part, float] = {}

    @contextlib.contextmanager
    def measured(self, part: Part) -> Iterator[None]:
        """Record the duration of the context, unless it raises."""
        start = self._now()
        yield
        self._longest[part] = max(self._longest.get(part, 0.0), self._now() - start)

    def holds(self, *parts: Part) -> bool:
        """Whether these parts, one after the other, would end in time; without parts, whether any time is left.

        A part that has not been measured yet counts as an iteration.
        """
        iteration = self._longest.get("iteration", 0.0)
        needed = sum(self._longest.get(part, iteration) for part in parts)
        return self._now() + SLACK * needed <= self.until

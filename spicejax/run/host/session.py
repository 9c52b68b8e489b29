"""The session that a place lends: when it began, when it ends, and whether what comes next would end before."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Literal

BEGAN = "SPICEJAX_SESSION_START"  # environment variable: when the session began, in seconds since the epoch
SLACK = 1.25  # what comes next may take a quarter more than the longest of its kind so far

Part = Literal["iteration", "evaluation", "save"]


def began() -> float:
    """`time.monotonic()` of when the session began: what the environment says, else now.

    Raises: ValueError where the environment says no time, or one that is still to come.
    """
    said = os.environ.get(BEGAN)
    if not said:
        return time.monotonic()
    try:
        ago = time.time() - float(said)
    except ValueError:
        ago = math.nan
    if not -1 < ago < math.inf:  # a second: clocks are set while one looks
        raise ValueError(f"{BEGAN}={said}: give the seconds since the epoch when the session began (`date +%s` is now)")
    return time.monotonic() - ago


class Session:
    """A limit in time, and how long each part of a run took in it."""

    def __init__(self, until: float = math.inf, *, now: Callable[[], float] = time.monotonic) -> None:
        """until: `now()` by which all must be done."""
        self.limited = until < math.inf
        self.until, self._now = until, now
        self._longest: dict[Part, float] = {}

    @contextlib.contextmanager
    def measured(self, part: Part) -> Iterator[None]:
        """Note how long the part inside takes, where it ends well."""
        start = self._now()
        yield
        self._longest[part] = max(self._longest.get(part, 0.0), self._now() - start)

    def holds(self, *parts: Part) -> bool:
        """Whether these parts, one after the other, would end in time; without any, whether there is time left.

        One of a kind that was not measured yet counts as an iteration.
        """
        iteration = self._longest.get("iteration", 0.0)
        needed = sum(self._longest.get(part, iteration) for part in parts)
        return self._now() + SLACK * needed <= self.until

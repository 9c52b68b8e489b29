"""Gold answers that the verifier would judge wrong themselves, found before a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from spicejax.data.questions import Item
from spicejax.score.verifiers import Verifier

log = logging.getLogger("spicejax")

MOST = 1_000  # items of a set that are looked at, evenly over it
SHARE = 0.1  # of them that may match nothing


def require_questions(where: str, items: Sequence[Item], verifier: Verifier) -> None:
    """`require` of questions to be evaluated, which the verifier judges; those asked without a box it does not."""
    require(where, [item.task for item in items if item.boxed], verifier.matches)


def require(where: str, items: Sequence[Any], matches: Callable[[Sequence[Any]], Sequence[bool]]) -> None:
    """Warn where an item's own answer would be judged wrong.

    Args:
      where: the set, as messages name it.
      matches: whether each item's answer would be right, given as it stands.
    Raises: ValueError where more than SHARE of them would, naming the first.
    """
    count = min(len(items), MOST)
    asked = [items[k * len(items) // count] for k in range(count)]
    lost = [item for item, right in zip(asked, matches(asked), strict=True) if not right]
    if not lost:
        return
    first = getattr(lost[0], "answer", None) or lost[0].text
    said = f"{where}: {len(lost)} of {count} right answers would be judged wrong themselves, the first {first!r:.100}"
    if len(lost) > SHARE * count:
        raise ValueError(f"{said}; give short answers of one line, or leave these rows out")
    log.warning("warning: %s", said)

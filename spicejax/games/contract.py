"""What a game must keep to, looked at before a run and in each iteration: anyone's code plays here."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from spicejax.data.items import Kind
from spicejax.games.game import Ask, Played
from spicejax.types import Episode


def require_game(cfg: Any) -> None:
    """Raise ValueError where a game's configuration lacks what a plan reads, naming its class."""
    name, reads, kinds = type(cfg).__name__, cfg.game.reads, get_args(Kind)
    if reads not in kinds:
        raise ValueError(f"{name}.game: reads={reads!r}: one of {', '.join(kinds)}")
    if not isinstance(items := getattr(cfg, "items", None), int) or items < 1:
        raise ValueError(f"{name}.items is {items!r}: give it a property `items`, the items of an iteration, 1 or more")
    if not any(ask.trained for ask in cfg.game.demand(cfg)):
        raise ValueError(
            f"{name}.game: nothing is trained: an Ask of its demand must say trained=N, the prompts whose responses "
            "are learnt from"
        )


def require_played(played: Played, asks: Sequence[Ask]) -> None:
    """Raise ValueError where an iteration yields what cannot be learnt from, logged or counted."""
    roles = {ask.role for ask in asks}
    for lesson in played.lessons:
        if lesson.role not in roles:
            raise ValueError(
                f"a lesson has the role {lesson.role!r}: the game's demand names {', '.join(sorted(roles))}"
            )
        if isinstance(lesson, Episode) and not (_is_number(lesson.reward) and math.isfinite(lesson.reward)):
            raise ValueError(
                f"a reward of {lesson.role!r} in group {lesson.group} is {lesson.reward!r:.80}: give a finite number"
            )
    for kind, values in (("metric", played.metrics), ("total", played.totals)):
        for name, value in values.items():
            if not _is_number(value):
                raise ValueError(f"the {kind} {name} is {value!r:.80}: give a number, or leave it out")


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf"


def kept(state: Any) -> Any:
    """A game's state as a checkpoint brings it back, which is JSON: so a run that goes on and one that never stopped
    give their game the same.

    Raises: ValueError for what JSON does not have.
    """
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the game's state cannot be kept in a checkpoint, which is JSON: {error}") from error

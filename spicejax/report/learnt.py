"""What a run learnt from: optimizer steps, the share of valid tasks, and why there was nothing where there was none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from spicejax.games.game import About

_MANY = 10  # iterations
_LOOK = "the tasks in the report show what was written"
_ALIKE = "take questions that are neither too easy nor too hard for this model, or more answers to each"
_ENDED = (
    "the learning rate has fallen to 0, steps change nothing: give another run learner.decay_steps for all its steps, "
    "or learner.schedule=constant learner.decay_steps=0"
)


class Learnt(NamedTuple):
    """What some iterations taught the policy."""

    steps: int  # optimizer steps
    valid: float | None  # share of what the players wrote that is a valid task, mean; None where tasks are given
    idle: (
        int  # iterations without a valid task or an optimizer step, or with steps behind the end of the schedule alone
    )
    why: str  # where none of them had one: the commonest reason and what mends it; else ""
    ended: int  # the idle ones whose steps stood behind the end of the schedule

    @property
    def rate(self) -> str:
        """Says how many of the idle ones had no learning rate left, if any."""
        return f", {self.ended} at a learning rate of 0 (learner.decay_steps)" if self.ended else ""


def learnt(rows: Sequence[dict[str, Any]], game: About | None) -> Learnt:
    """Sum rows of metrics.jsonl; rows without `learner/steps`, of older versions, are left out."""
    rows = [row for row in rows if row.get("learner/steps") is not None]
    measure = game.valid if game else ""
    shares = [row[measure] for row in rows if row.get(measure) is not None]
    valid = sum(shares) / len(shares) if shares else None
    steps = sum(_number(row, "learner/steps") for row in rows)
    idle = sum(not _moving(row) or row.get(measure) == 0 for row in rows)
    why = ""
    if rows and valid == 0:
        why = f"no reply is a valid task{_reason(rows, game, 'rejected/')}"
    elif rows and not steps:
        why = _no_step(rows, game)
    elif rows and not sum(map(_moving, rows)):
        why = _ENDED
    ended = sum(_number(row, "learner/steps") > 0 >= _moving(row) for row in rows)
    return Learnt(int(steps), valid, int(idle), why, ended)


def still(rows: Sequence[dict[str, Any]], role: str) -> str:
    """Says of a role whose episodes are compared in groups that none of many iterations told it anything, or nothing.

    Args:
      rows: of metrics.jsonl.
    """
    equal = [share for row in rows if (share := row.get(f"{role}/equal_groups")) is not None]
    if len(equal) < _MANY or min(equal) < 1:
        return ""
    return f"the {role} learnt nothing in {len(equal)} iterations: what is compared earned the same in each: {_ALIKE}"


def _moving(row: dict[str, Any]) -> float:
    """Optimizer steps before the end of the learning rate's schedule."""
    return _number(row, "learner/steps") - _number(row, "learner/steps_at_rate_0")


def _no_step(rows: Sequence[dict[str, Any]], game: About | None) -> str:
    """Why no optimizer step was taken although tasks are valid, or given."""
    rewards = {name.partition("/")[0]: _mean(rows, name) for name in _names(rows) if name.endswith("/mean_reward")}
    if not rewards:
        return f"there was nothing to learn from{_reason(rows, game, 'rejected/', 'fault/', 'skipped/', '/too_long')}"
    means = ", ".join(f"{role} {mean:.2f}" for role, mean in sorted(rewards.items()))
    why = f"all answers to a question earned the same (mean reward: {means})"
    cut = max((name for name in _names(rows) if name.endswith("/truncated")), key=lambda n: _mean(rows, n), default="")
    if cut and _mean(rows, cut) >= 0.5:
        share, fix = f"{_mean(rows, cut):.0%}", game.fixes.get(cut, _LOOK) if game else _LOOK
        return f"{why}; commonest reason: {share} of the {cut.partition('/')[0]}'s replies are cut off: {fix}"
    return f"{why}: {_ALIKE}"


def _reason(rows: Sequence[dict[str, Any]], game: About | None, *kinds: str) -> str:
    """The commonest of the counts that begin or end like this, and what mends it."""
    counts = Counter(
        {n: sum(_number(r, n) for r in rows) for n in _names(rows) if n.startswith(kinds) or n.endswith(kinds)}
    )
    if not counts.total():
        return f": {_LOOK}"
    name, count = counts.most_common(1)[0]
    reason = name.removesuffix("/too_long") + " too long" if name.endswith("/too_long") else name.partition("/")[2]
    fix = game.fixes.get(name, _LOOK) if game else _LOOK
    return f"; commonest reason: {reason.replace('_', ' ')} ({count:.0f} of {counts.total():.0f}): {fix}"


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    values = [_number(row, name) for row in rows if name in row]
    return sum(values) / len(values)


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else 0.0

"""Dealing: an iteration's lessons to the rows of its optimizer steps, on the host.

Groups stay whole: dealt one by one, trajectories would scatter a group over all steps of an iteration, and each step
would compute its prompt again. Each step takes the same share of each role, because roles differ in the shape of rows.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spicejax.learn import packing
from spicejax.learn.advantages import equal_fraction, group_advantages, role_advantages
from spicejax.learn.learner import LearnerConfig
from spicejax.learn.losses import LOSSES
from spicejax.types import Batch, Episode, Estimator, Lesson, Metrics, Preference, Rollout

Part = tuple[Batch, int]  # rows of one shape, and how many of its micro-batches are in use


def advantages(
    lessons: Sequence[Lesson],
    estimators: Mapping[str, Estimator],
    baselines: dict[str, float] | None = None,
    decay: float = 0.95,
) -> tuple[np.ndarray, Metrics]:
    """Return the advantage of each lesson by its role's estimator, float32 [N], and what each role's groups are like.

    That of a preference is 1: its loss takes none.

    Args:
      baselines: moving average of the rewards of each role whose estimator is `rae`; moved on in place.
      decay: share of it that remains after an episode.
    """
    if any(isinstance(lesson, Preference) for lesson in lessons):
        counts = Counter(lesson.role for lesson in lessons)
        return np.ones(len(lessons), np.float32), {f"{role}/pairs": float(n) for role, n in sorted(counts.items())}
    episodes = [lesson for lesson in lessons if isinstance(lesson, Episode)]
    rewards, groups = np.array([e.reward for e in episodes]), np.array([e.group for e in episodes])
    tokens = np.array([e.rollout.loss_mask.sum() for e in episodes])
    values, metrics = np.zeros(len(episodes), np.float32), {}
    baselines = {} if baselines is None else baselines
    for role in sorted({e.role for e in episodes}):
        of_role = np.array([e.role == role for e in episodes])
        if estimators[role] == "rae":
            before = baselines.get(role, 0.0)
            values[of_role], baselines[role] = role_advantages(rewards[of_role], before, decay)
            metrics[f"{role}/baseline"] = baselines[role]
        else:
            compared = rewards[of_role], groups[of_role], tokens[of_role]
            values[of_role] = group_advantages(*compared, estimator=estimators[role])
        metrics[f"{role}/episodes"] = float(of_role.sum())
        metrics[f"{role}/equal_groups"] = equal_fraction(rewards[of_role], groups[of_role])
        metrics[f"{role}/mean_reward"] = float(rewards[of_role].mean())
    return values, metrics


def steps(
    lessons: Sequence[Lesson], advantages: np.ndarray, cfg: LearnerConfig, rng: np.random.Generator
) -> list[list[Part]]:
    """Rows of each optimizer step, by shape; a step in which nothing can be learnt is left out.

    Lessons whose advantage is exactly 0 add nothing to the gradient while the KL term is off: they count in the mean
    but are not laid out. A preference weighs 1 / N on each of its tokens, N the mean lessons of a step.
    """
    size = cfg.trajectories_per_update or len(lessons)
    share = len(lessons) / -(-len(lessons) // size)  # lessons of a step, on average
    groups, roles = np.array([e.group for e in lessons]), np.array([e.role for e in lessons])
    made = []
    for pick in deal(groups, roles, size, cfg.epochs, rng):
        rollouts = [r for i in pick for r in responses(lessons[i])]
        if cfg.lesson == "pair":
            weights = [r.loss_mask / np.float32(share) for r in rollouts]
        else:
            weights = packing.token_weights(
                rollouts, aggregation=cfg.aggregation, norm_length=cfg.loss_norm_length, count=share
            )
        of_rollout = np.repeat(advantages[pick], len(rollouts) // len(pick))
        live = [k for k in range(len(rollouts)) if of_rollout[k] != 0 or cfg.kl_coef > 0]
        if live:
            made.append(_lay_out([rollouts[k] for k in live], of_rollout[live], [weights[k] for k in live], cfg))
    return made


def _lay_out(
    rollouts: Sequence[Rollout], advantages: np.ndarray, weights: Sequence[np.ndarray], cfg: LearnerConfig
) -> list[Part]:
    options = {"paired": cfg.lesson == "pair", "numbered": LOSSES[cfg.loss].numbered}
    return packing.lay_out(rollouts, advantages, weights, cfg.shapes, min_micro=cfg.min_micro_batches, **options)


def responses(lesson: Lesson) -> tuple[Rollout, ...]:
    """The rollouts of a lesson: an episode's one, or a preference's two, the chosen first."""
    return (lesson.rollout,) if isinstance(lesson, Episode) else (lesson.chosen, lesson.rejected)


def referenced(lessons: Sequence[Lesson], score: Callable[[Part], np.ndarray], cfg: LearnerConfig) -> list[Lesson]:
    """Return the lessons with `reference_logprobs`: the first policy's logprob of each token the policy wrote.

    Args:
      score: the first policy's logprobs of a batch, float32 [A, B, S].
    """
    rollouts = [r for lesson in lessons for r in responses(lesson)]
    ends = np.cumsum([0, *(len(r.token_ids) for r in rollouts)])
    # Every token has a number, from 1. It is packed as the token's weight, so each row says which token stands where.
    # Float32 holds whole numbers to 2^24.
    if ends[-1] > 2**24:
        raise ValueError(f"{ends[-1]} tokens in an iteration are too many for learner.reference=kept; take live")
    numbers = [np.arange(start, end, dtype=np.float32) + 1 for start, end in itertools.pairwise(ends)]
    logprobs = np.zeros(ends[-1] + 1, np.float32)  # by number; 0 takes the scores of what is no token
    for part in _lay_out(rollouts, np.ones(len(rollouts), np.float32), numbers, cfg):
        logprobs[part[0].loss_weight.astype(np.int64)] = score(part)
    scored = iter(
        dataclasses.replace(r, reference_logprobs=logprobs[start + 1 : end + 1] * (r.loss_mask > 0))
        for r, (start, end) in zip(rollouts, itertools.pairwise(ends), strict=True)
    )
    return [
        dataclasses.replace(lesson, rollout=next(scored))
        if isinstance(lesson, Episode)
        else dataclasses.replace(lesson, chosen=next(scored), rejected=next(scored))
        for lesson in lessons
    ]


def deal(groups: np.ndarray, roles: np.ndarray, size: int, epochs: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Deal trajectories to optimizer steps: the indices of each step, the groups in a new random order each epoch.

    There are as few steps as `size` allows, all about equally full: AdamW would move the policy as far for a few
    trajectories left over as for a full step. A group stays in one step where that is possible, so that its prompt is
    computed once. Every step has the iteration's share of each role: roles have rows of different shapes, and a step
    with more of one role would need another micro-batch.

    Args:
      groups: group of each trajectory, int [n]; all of a group have one role. With size >= n nothing is reordered.
      roles: role of each trajectory, [n].
    """
    picks = []
    for _ in range(epochs):
        order = np.arange(len(groups))
        if size < len(groups):
            place = np.zeros(groups.max() + 1)  # of each group, from 0 to 1
            for role in np.unique(roles):
                of_role = rng.permutation(np.unique(groups[roles == role]))
                place[of_role] = (np.arange(len(of_role)) + rng.random()) / len(of_role)
            order = np.argsort(place[groups], kind="stable")
        picks += np.split(order, _cuts(groups[order], size))
    return picks


def _cuts(groups: np.ndarray, size: int) -> list[int]:
    """Return where the steps after the first begin: at even distances, or at a group's beginning close to that."""
    # Differs: what does not fill a last step is spread over all; Oat takes it as a step of its own, SPICE is silent
    n = len(groups)
    steps = -(-n // size)
    begins = np.flatnonzero(np.diff(groups)) + 1
    cuts = [0]
    for k in range(1, steps):
        even = n * k / steps
        low, high = n - (steps - k) * size, cuts[-1] + size  # between these every step holds at most `size`
        close = begins[np.abs(begins - even) <= n / steps / 8]
        nearest = close[np.argmin(np.abs(close - even))] if len(close) else even
        cuts.append(int(np.clip(nearest, low, high)))
    return cuts[1:]

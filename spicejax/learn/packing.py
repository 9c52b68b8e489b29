"""Packing of scored rollouts into the learner's fixed rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from spicejax.types import Batch, Rollout

Aggregation = Literal["constant", "sequence_mean", "token_mean"]


@dataclasses.dataclass(frozen=True)
class Shape:
    """The fixed shape of a packed batch."""

    row_length: int  # T: tokens of a row; several episodes share one
    rows: int  # B: rows of a micro-batch

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name}={getattr(self, field.name)}: must be at least 1")


def token_weights(
    rollouts: Sequence[Rollout], *, aggregation: Aggregation, norm_length: int, trajectories: int | None = None
) -> list[np.ndarray]:
    """Share of each response token in the loss, float32 [R] per rollout.

    constant:      loss_mask / (norm_length x N)     Dr. GRPO: no length bias; `norm_length` is a constant of the run
    sequence_mean: loss_mask / (own trained tokens x N)
    token_mean:    loss_mask / (trained tokens of all)
    N = `trajectories` (default: how many rollouts are given).
    """
    n = len(rollouts) if trajectories is None else trajectories
    if aggregation == "constant":
        if norm_length < 1:
            raise ValueError(f"loss_norm_length={norm_length}: must be positive, usually the longest response")
        return [r.loss_mask / np.float32(norm_length * n) for r in rollouts]
    if aggregation == "sequence_mean":
        return [r.loss_mask / np.float32(max(float(r.loss_mask.sum()), 1.0) * n) for r in rollouts]
    total = np.float32(max(sum(float(r.loss_mask.sum()) for r in rollouts), 1.0))
    return [r.loss_mask / total for r in rollouts]


def pack(
    rollouts: Sequence[Rollout],
    advantages: np.ndarray,
    weights: Sequence[np.ndarray],
    shape: Shape,
    *,
    min_micro: int = 1,
) -> tuple[Batch, int]:
    """Lay prompt + response of each rollout into rows of `shape.row_length`, first fit, longest first.

    Deterministic in the order given. A is `min_micro` times a power of two, so that few shapes are compiled.
    Returns: Batch of numpy arrays [A, B, T], and how many of its micro-batches hold anything; `old_logprobs` starts
      as the sampler's and `reference_logprobs` as 0.
    Raises: ValueError for a rollout longer than a row or without a prompt (its first token would have no context).
    """
    if any(len(r.prompt_ids) == 0 for r in rollouts):
        raise ValueError("a rollout has an empty prompt; its first token cannot be scored")
    lengths = [len(r.prompt_ids) + len(r.token_ids) for r in rollouts]
    longest = max(lengths, default=0)
    if longest > shape.row_length:
        raise ValueError(f"an episode of {longest} tokens exceeds learner.row_length={shape.row_length}; raise it")
    placed: list[list[int]] = []
    space: list[int] = []
    for i in sorted(range(len(rollouts)), key=lambda i: -lengths[i]):
        row = next((k for k, free in enumerate(space) if free >= lengths[i]), None)
        if row is None:
            placed.append([])
            space.append(shape.row_length)
            row = len(placed) - 1
        placed[row].append(i)
        space[row] -= lengths[i]
    micro = min_micro
    while micro * shape.rows < len(placed):
        micro *= 2
    size = (micro * shape.rows, shape.row_length)
    tokens, positions, segments = (np.zeros(size, np.int32) for _ in range(3))
    weight, advantage, behaviour = (np.zeros(size, np.float32) for _ in range(3))
    for row, members in enumerate(placed):
        at = 0
        for segment, i in enumerate(members, start=1):
            r, n = rollouts[i], lengths[i]
            here, response = slice(at, at + n), slice(at + len(r.prompt_ids), at + n)
            tokens[row, here] = np.concatenate([r.prompt_ids, r.token_ids])
            positions[row, here] = np.arange(n)
            segments[row, here] = segment
            weight[row, response] = weights[i]
            advantage[row, response] = advantages[i]
            behaviour[row, response] = np.where(r.loss_mask > 0, r.sample_logprobs, 0.0)
            at += n
    old = behaviour.copy()
    flat = Batch(tokens, positions, segments, weight, advantage, behaviour, old, np.zeros(size, np.float32))
    used = max(1, -(-len(placed) // shape.rows))
    return Batch(*(x.reshape(micro, shape.rows, shape.row_length) for x in flat)), used

"""Packing of scored rollouts into the learner's fixed rows: whole episodes, or prompts once with slots of responses."""

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
        _require_positive(self)


@dataclasses.dataclass(frozen=True)
class SlotShape:
    """The fixed shape of a batch whose responses share prompts: a row is [prompt | slot_length x slots]."""

    prompt: int  # P: tokens of the prompt area; several prompts share one
    slot_length: int  # R: tokens of a slot; responses to different prompts share one
    slots: int  # slots of a row
    rows: int  # B: rows of a micro-batch

    def __post_init__(self) -> None:
        _require_positive(self)

    @property
    def row_length(self) -> int:
        """T, tokens of a row."""
        return self.prompt + self.slots * self.slot_length


def _require_positive(shape: Shape | SlotShape) -> None:
    for field in dataclasses.fields(shape):
        if getattr(shape, field.name) < 1:
            raise ValueError(f"{field.name}={getattr(shape, field.name)}: must be at least 1")


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
    sheet = _Sheet(len(placed), shape.rows, min_micro, shape.row_length, shape.row_length)
    for row, members in enumerate(placed):
        at = 0
        for segment, i in enumerate(members, start=1):
            sheet.prompt(row, at, segment, rollouts[i])
            start = at + len(rollouts[i].prompt_ids)
            sheet.response(row, start, start - 1, segment, rollouts[i], float(advantages[i]), weights[i])
            at += lengths[i]
    return sheet.batch()


def pack_slots(
    rollouts: Sequence[Rollout],
    advantages: np.ndarray,
    weights: Sequence[np.ndarray],
    shape: SlotShape,
    *,
    min_micro: int = 1,
) -> tuple[Batch, int]:
    """Lay each distinct prompt once into the prompt area of a row and its responses into the slots behind.

    Rollouts with equal `prompt_ids` are a group. Groups come longest prompt first, each into the first row that holds
    all of it: room in the prompt area, and for each response a slot with room and no other of its group (two of one
    group in a slot would see each other). A group too large for an empty row goes on in further ones, its prompt
    repeated. Deterministic in the order given; A as in `pack`.
    Returns: Batch of numpy arrays, and how many of its micro-batches hold anything.
    Raises: ValueError for a prompt or response that fits no row, or an empty prompt.
    """
    groups: dict[bytes, list[int]] = {}
    for i, r in enumerate(rollouts):
        _require_fit(r, shape)
        groups.setdefault(r.prompt_ids.tobytes(), []).append(i)
    for members in groups.values():
        members.sort(key=lambda i: -len(rollouts[i].token_ids))
    rows: list[_SlotRow] = []
    for members in sorted(groups.values(), key=lambda g: -len(rollouts[g[0]].prompt_ids)):
        prompt, waiting = len(rollouts[members[0]].prompt_ids), members
        lengths = {i: len(rollouts[i].token_ids) for i in members}
        for row in rows:
            if prompt <= row.room and len(found := row.fitting(waiting, lengths)) == len(waiting):
                row.take(prompt, found, lengths)
                waiting = []
                break
        while waiting:
            rows.append(_SlotRow(shape))
            found = rows[-1].fitting(waiting, lengths)
            rows[-1].take(prompt, found, lengths)
            waiting = [i for i in waiting if i not in found]
    sheet = _Sheet(len(rows), shape.rows, min_micro, shape.row_length, shape.slots * shape.slot_length)
    for number, row in enumerate(rows):
        for segment, (at, found) in enumerate(row.groups, start=1):
            sheet.prompt(number, at, segment, rollouts[next(iter(found))])
            for i, start in found.items():
                r = rollouts[i]
                last = at + len(r.prompt_ids) - 1
                sheet.response(number, shape.prompt + start, last, segment, r, float(advantages[i]), weights[i])
    return sheet.batch()


def lay_out(
    rollouts: Sequence[Rollout],
    advantages: np.ndarray,
    weights: Sequence[np.ndarray],
    shapes: Sequence[Shape | SlotShape],
    *,
    min_micro: int = 1,
) -> list[tuple[Batch, int]]:
    """One batch of each shape, with its micro-batches in use: `pack`, or `pack_slots` by the smallest prompt area.

    `shapes` are one Shape, or SlotShapes by ascending prompt area; a batch nothing falls to is all padding.
    """
    parts: list[tuple[Batch, int]] = []
    waiting = list(range(len(rollouts)))
    for number, shape in enumerate(shapes):
        here = waiting
        if isinstance(shape, SlotShape) and number < len(shapes) - 1:
            here = [i for i in waiting if len(rollouts[i].prompt_ids) <= shape.prompt]
        waiting = sorted(set(waiting) - set(here))
        chosen = [rollouts[i] for i in here], np.asarray(advantages)[here], [weights[i] for i in here]
        if isinstance(shape, SlotShape):
            parts.append(pack_slots(*chosen, shape, min_micro=min_micro))
        else:
            parts.append(pack(*chosen, shape, min_micro=min_micro))
    return parts


def padding(parts: Sequence[tuple[Batch, int]]) -> dict[str, float]:
    """Shares of the tokens computed that hold nothing: of all (`padding`) and of those that could be scored."""
    real = [np.asarray(batch.segment_ids[:used]) > 0 for batch, used in parts]
    scored = [x[..., x.shape[-1] - batch.loss_weight.shape[-1] :] for x, (batch, _) in zip(real, parts, strict=True)]

    def empty(masks: Sequence[np.ndarray]) -> float:
        return 1 - sum(int(m.sum()) for m in masks) / max(sum(m.size for m in masks), 1)

    return {"padding": empty(real), "slot_padding": empty(scored)}


def _require_fit(rollout: Rollout, shape: SlotShape) -> None:
    prompt, response = len(rollout.prompt_ids), len(rollout.token_ids)
    if prompt == 0:
        raise ValueError("a rollout has an empty prompt; its first token cannot be scored")
    if prompt > shape.prompt:
        raise ValueError(f"a prompt of {prompt} tokens exceeds the area of {shape.prompt}; raise learner.prompt_areas")
    if response > shape.slot_length:
        raise ValueError(f"a response of {response} tokens exceeds learner.slot_length={shape.slot_length}; raise it")


class _SlotRow:
    """One row while it is filled."""

    def __init__(self, shape: SlotShape) -> None:
        self.shape = shape
        self.room = shape.prompt  # left in the prompt area
        self.free = [shape.slot_length] * shape.slots
        self.groups: list[tuple[int, dict[int, int]]] = []  # start of the prompt, {rollout: start behind the area}

    def fitting(self, members: list[int], lengths: dict[int, int]) -> dict[int, int]:
        """Starts of those of one group's responses that find a slot each, in the order given until one does not."""
        found: dict[int, int] = {}
        taken: set[int] = set()
        for i in members:
            slot = next((s for s, free in enumerate(self.free) if free >= max(lengths[i], 1) and s not in taken), None)
            if slot is None:
                break
            taken.add(slot)
            found[i] = (slot + 1) * self.shape.slot_length - self.free[slot]
        return found

    def take(self, prompt: int, found: dict[int, int], lengths: dict[int, int]) -> None:
        """Book a group at the starts that `fitting` gave."""
        self.groups.append((self.shape.prompt - self.room, found))
        self.room -= prompt
        for i, start in found.items():
            self.free[start // self.shape.slot_length] -= lengths[i]


class _Sheet:
    """Arrays of a batch while they are written, rows not yet split into micro-batches."""

    def __init__(self, used_rows: int, rows: int, min_micro: int, length: int, scored: int) -> None:
        micro = min_micro
        while micro * rows < used_rows:
            micro *= 2
        self.used = -(-used_rows // rows)
        self.split = (micro, rows)
        self.lead = length - scored  # tokens of a row that are never scored
        self.tokens, self.positions, self.segments = (np.zeros((micro * rows, length), np.int32) for _ in range(3))
        self.weight, self.advantage, self.behaviour = (np.zeros((micro * rows, scored), np.float32) for _ in range(3))
        before = np.maximum(np.arange(self.lead, length) - 1, 0).astype(np.int32)
        self.predict_from = np.tile(before, (micro * rows, 1))

    def prompt(self, row: int, at: int, segment: int, rollout: Rollout) -> None:
        """Write a prompt to `at`."""
        self._write(row, at, segment, rollout.prompt_ids, 0)

    def response(
        self, row: int, at: int, source: int, segment: int, rollout: Rollout, advantage: float, weight: np.ndarray
    ) -> None:
        """Write a response to `at`; its first token is predicted from the token at `source`."""
        n = len(rollout.token_ids)
        self._write(row, at, segment, rollout.token_ids, len(rollout.prompt_ids))
        here = slice(at - self.lead, at - self.lead + n)
        self.weight[row, here] = weight
        self.advantage[row, here] = advantage
        self.behaviour[row, here] = np.where(rollout.loss_mask > 0, rollout.sample_logprobs, 0.0)
        self.predict_from[row, here][:1] = source

    def _write(self, row: int, at: int, segment: int, ids: np.ndarray, position: int) -> None:
        here = slice(at, at + len(ids))
        self.tokens[row, here] = ids
        self.positions[row, here] = np.arange(position, position + len(ids))
        self.segments[row, here] = segment

    def batch(self) -> tuple[Batch, int]:
        """The batch, [A, B, ...], and how many of its micro-batches are in use."""
        flat = Batch(
            tokens=self.tokens,
            positions=self.positions,
            segment_ids=self.segments,
            loss_weight=self.weight,
            advantages=self.advantage,
            behaviour_logprobs=self.behaviour,
            old_logprobs=self.behaviour.copy(),
            reference_logprobs=np.zeros_like(self.weight),
            predict_from=self.predict_from,
        )
        return Batch(*(x.reshape(*self.split, -1) for x in flat)), self.used

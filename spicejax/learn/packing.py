"""Packing of scored rollouts into the learner's fixed rows: whole episodes, or prompts once with slots of responses."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Literal

import jax
import numpy as np

from spicejax.types import Batch, Rollout

Aggregation = Literal["constant", "sequence_mean", "token_mean", "sum"]


@dataclasses.dataclass(frozen=True)
class RowShape:
    """The fixed shape of a batch: a row is [prompt | slot_length x slots]; without a prompt area one slot is the row.

    Packed rows have no prompt area: prompt and response of an episode stand together, several episodes share a row.
    With one, responses share prompts: those of one group stand in slots behind a single copy of its prompt.
    """

    slot_length: int  # tokens of a slot; responses to different prompts share one. The row where `prompt` is 0
    rows: int  # B: rows of a micro-batch
    prompt: int = 0  # tokens of the prompt area; several prompts share one
    slots: int = 1  # slots of a row

    @property
    def scored(self) -> int:
        """S, the last tokens of a row, which can be scored."""
        return self.slots * self.slot_length

    @property
    def row_length(self) -> int:
        """T, tokens of a row."""
        return self.prompt + self.scored

    def too_short(self, prompt: int, response: int, *, paired: bool = False) -> str:
        """Which field keeps an episode of these lengths, or two of one row, out of the rows; empty where it fits."""
        needs = [
            ("prompt_areas", self.prompt, "a prompt", prompt),
            ("slot_length", self.slot_length, "a response", response),
        ]
        if not self.prompt:
            what = "a preference, twice a prompt and a response," if paired else "an episode"
            needs = [("row_length", self.slot_length, what, (2 if paired else 1) * (prompt + response))]
        elif paired and self.slots < 2:
            return f"learner.slots={self.slots}: a preference takes two slots of one row"
        told = (f"learner.{name}={most} cannot hold {what} of {n} tokens" for name, most, what, n in needs if n > most)
        return next(told, "")


def token_weights(
    rollouts: Sequence[Rollout], *, aggregation: Aggregation, norm_length: int, count: float = 0
) -> list[np.ndarray]:
    """Share of each response token in the loss, float32 [R] per rollout.

    constant:      loss_mask / (norm_length x N)     Dr. GRPO: no length bias; `norm_length` is a constant of the run
    sequence_mean: loss_mask / (own trained tokens x N)
    token_mean:    loss_mask / (trained tokens of all)
    sum:           loss_mask / N                     REINFORCE: the log-probability of the whole response
    N = `count`, the iteration's mean over its steps, so that all its trajectories weigh the same; 0 = those given.
    """
    n = count or len(rollouts)
    if aggregation == "sum":
        return [r.loss_mask / np.float32(n) for r in rollouts]
    if aggregation == "constant":
        return [r.loss_mask / np.float32(norm_length * n) for r in rollouts]
    if aggregation == "sequence_mean":
        return [r.loss_mask / np.float32(max(float(r.loss_mask.sum()), 1.0) * n) for r in rollouts]
    total = np.float32(max(sum(float(r.loss_mask.sum()) for r in rollouts), 1.0))
    return [r.loss_mask / total for r in rollouts]


def pack(
    rollouts: Sequence[Rollout],
    advantages: np.ndarray,
    weights: Sequence[np.ndarray],
    shape: RowShape,
    *,
    min_micro: int = 1,
    paired: bool = False,
) -> tuple[Batch, int]:
    """Lay rollouts into rows, first fit: whole episodes longest first, or by groups where there is a prompt area.

    A group are the rollouts with equal `prompt_ids`. Groups come longest prompt first, each into the first row that
    holds all of it: room in the prompt area, and for each response a slot with room and no other of its group (two of
    one group in a slot would see each other). A group too large for an empty row goes on in further ones, its prompt
    repeated. Deterministic in the order given. A is `min_micro` times a power of two, so that few shapes are compiled.

    Args:
      paired: rollouts are chosen, rejected, chosen, rejected, ...; both of a pair stand in one row, and `pairs` says
        which they are.
    Returns: Batch of numpy arrays [A, B, ...], and how many of its micro-batches hold anything; `old_logprobs` starts
      as the sampler's and `reference_logprobs` as those that rollouts bring, or 0.
    Raises: ValueError for a rollout that fits no row or has no prompt (its first token would have no context).
    """
    rows: list[_Row] = []
    for prompt, units in _groups(rollouts, shape, 2 if paired else 1):
        for row in rows:
            if row.take(prompt, units, whole=True):
                break
        else:
            while units:
                rows.append(_Row(shape))
                if not (taken := rows[-1].take(prompt, units)):
                    raise ValueError(_no_room(shape, units[0]))
                units = units[taken:]
    micro = min_micro
    while micro * shape.rows < len(rows):
        micro *= 2
    batch = Batch.filled(np.zeros, (micro, shape.rows), shape.row_length, shape.scored, paired=paired)
    batch.predict_from[:] = np.maximum(np.arange(shape.prompt, shape.row_length) - 1, 0)
    for number, row in enumerate(rows):
        own = jax.tree.map(operator.itemgetter(divmod(number, shape.rows)), batch)
        order = {k: n for n, k in enumerate(sorted({i // 2 for _, found in row.segments for i in found}), start=1)}
        for segment, (at, found) in enumerate(row.segments, start=1):
            for i, start in found.items():
                r = rollouts[i]
                first, behind = (at, shape.prompt + start) if shape.prompt else (start, start + len(r.prompt_ids))
                here = _write(own, first, behind, segment, r, float(advantages[i]), weights[i])
                if paired:
                    own.pairs[here] = -order[i // 2] if i % 2 else order[i // 2]
    return batch, -(-len(rows) // shape.rows)


def lay_out(
    rollouts: Sequence[Rollout],
    advantages: np.ndarray,
    weights: Sequence[np.ndarray],
    shapes: Sequence[RowShape],
    *,
    min_micro: int = 1,
    paired: bool = False,
) -> list[tuple[Batch, int]]:
    """`pack` each rollout into rows of the smallest prompt area, the last without one too: a batch of each shape.

    `shapes` stand by ascending prompt area; a batch nothing falls to is all padding.
    """
    parts: list[tuple[Batch, int]] = []
    waiting = list(range(len(rollouts)))
    for shape in shapes:
        last = shape is shapes[-1]
        here = [i for i in waiting if last or len(rollouts[i].prompt_ids) <= shape.prompt]
        waiting = sorted(set(waiting) - set(here))
        chosen = [rollouts[i] for i in here], np.asarray(advantages)[here], [weights[i] for i in here]
        parts.append(pack(*chosen, shape, min_micro=min_micro, paired=paired))
    return parts


def padding(parts: Sequence[tuple[Batch, int]]) -> dict[str, float]:
    """Shares of the tokens computed that hold nothing: of all (`padding`) and of those that could be scored."""
    real = [np.asarray(batch.segment_ids[:used]) > 0 for batch, used in parts]
    scored = [x[..., x.shape[-1] - batch.loss_weight.shape[-1] :] for x, (batch, _) in zip(real, parts, strict=True)]

    def empty(masks: Sequence[np.ndarray]) -> float:
        return 1 - sum(int(m.sum()) for m in masks) / max(sum(m.size for m in masks), 1)

    return {"padding": empty(real), "slot_padding": empty(scored)}


_Unit = dict[int, int]  # {rollout: tokens for a slot} of what must stand in one row: a rollout, or a pair


def _groups(rollouts: Sequence[Rollout], shape: RowShape, unit: int) -> list[tuple[int, list[_Unit]]]:
    """What is laid out together, in that order: tokens for the prompt area, and units of `unit` rollouts."""
    groups: dict[object, list[_Unit]] = {}
    for start in range(0, len(rollouts), unit):
        sizes: _Unit = {}
        for i in range(start, start + unit):
            r = rollouts[i]
            if len(r.prompt_ids) == 0:
                raise ValueError("a rollout has an empty prompt; its first token cannot be scored")
            if obstacle := shape.too_short(len(r.prompt_ids), len(r.token_ids)):
                raise ValueError(f"{obstacle}; raise it")
            sizes[i] = len(r.token_ids) + (0 if shape.prompt else len(r.prompt_ids))
        groups.setdefault(rollouts[start].prompt_ids.tobytes() if shape.prompt else start, []).append(sizes)
    found: list[tuple[int, list[_Unit]]] = []
    for units in groups.values():
        prompt = len(rollouts[next(iter(units[0]))].prompt_ids) if shape.prompt else 0
        found.append((prompt, sorted(units, key=lambda sizes: -max(sizes.values()))))
    return sorted(found, key=lambda group: -(group[0] or max(group[1][0].values())))


def _no_room(shape: RowShape, unit: _Unit) -> str:
    if shape.prompt:
        return f"learner.slots={shape.slots}: a preference takes two slots of one row; give at least 2"
    return f"learner.row_length={shape.slot_length} cannot hold a preference of {sum(unit.values())} tokens; raise it"


class _Row:
    """One row while it is filled."""

    def __init__(self, shape: RowShape) -> None:
        self.shape = shape
        self.room = shape.prompt  # left in the prompt area
        self.free = [shape.slot_length] * shape.slots
        self.segments: list[tuple[int, dict[int, int]]] = []  # start of the prompt, {rollout: start behind the area}

    def take(self, prompt: int, units: list[_Unit], *, whole: bool = False) -> int:
        """Book a group's units in the order given until one finds no room (`whole`: all or none); how many it took."""
        longest = max(units[0].values())
        if prompt > self.room or longest > max(self.free):  # cheaper than looking for slots, which most rows fail
            return 0
        starts: dict[int, int] = {}
        booked: dict[int, int] = {}  # slot: tokens of it that this group takes
        taken = 0
        for unit in units:
            if (found := self._places(unit, booked)) is None:
                break
            starts |= found[0]
            booked |= found[1]
            taken += 1
        if not taken or (whole and taken < len(units)):
            return 0
        # Behind a prompt area a group is a segment, elsewhere each episode is.
        own = [starts] if self.shape.prompt else [{i: start} for i, start in starts.items()]
        self.segments += [(self.shape.prompt - self.room, each) for each in own]
        self.room -= prompt
        for slot, tokens in booked.items():
            self.free[slot] -= tokens
        return taken

    def _places(self, unit: _Unit, booked: dict[int, int]) -> tuple[dict[int, int], dict[int, int]] | None:
        """Where a unit's responses begin, and `booked` with them; no two of a group share a slot."""
        starts, booked = {}, dict(booked)
        for i, length in unit.items():
            for slot, free in enumerate(self.free):
                at = booked.get(slot, 0)
                if free - at >= max(length, 1) and not (self.shape.prompt and slot in booked):
                    starts[i], booked[slot] = (slot + 1) * self.shape.slot_length - free + at, at + length
                    break
            else:
                return None
        return starts, booked


def _write(
    row: Batch, first: int, behind: int, segment: int, rollout: Rollout, advantage: float, weight: np.ndarray
) -> slice:
    """Write one row's arrays: the prompt to `first`, the response to `behind`; where the response can be scored."""
    prompt = len(rollout.prompt_ids)
    for at, ids, position in ((first, rollout.prompt_ids, 0), (behind, rollout.token_ids, prompt)):
        here = slice(at, at + len(ids))
        row.tokens[here] = ids
        row.positions[here] = np.arange(position, position + len(ids))
        row.segment_ids[here] = segment
    lead = len(row.tokens) - len(row.predict_from)  # tokens of a row that are never scored
    here = slice(behind - lead, behind - lead + len(rollout.token_ids))
    row.loss_weight[here] = weight
    row.advantages[here] = advantage
    row.behaviour_logprobs[here] = np.where(rollout.loss_mask > 0, rollout.sample_logprobs, 0.0)
    row.old_logprobs[here] = row.behaviour_logprobs[here]
    if rollout.reference_logprobs is not None:
        row.reference_logprobs[here] = rollout.reference_logprobs
    row.predict_from[here][:1] = first + prompt - 1
    return here

"""Packing of scored rollouts into the learner's fixed rows: whole episodes, or prompts once with slots of responses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from spicejax.types import Batch, Rollout

Aggregation = Literal["constant", "sequence_mean", "token_mean"]


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

    def too_short(self, prompt: int, response: int) -> str:
        """Which field keeps an episode of these lengths out of the rows; empty where it fits."""
        needs = [
            ("prompt_areas", self.prompt, "a prompt", prompt),
            ("slot_length", self.slot_length, "a response", response),
        ]
        if not self.prompt:
            needs = [("row_length", self.slot_length, "an episode", prompt + response)]
        told = (f"learner.{name}={most} cannot hold {what} of {n} tokens" for name, most, what, n in needs if n > most)
        return next(told, "")


def token_weights(
    rollouts: Sequence[Rollout], *, aggregation: Aggregation, norm_length: int, count: float = 0
) -> list[np.ndarray]:
    """Share of each response token in the loss, float32 [R] per rollout.

    constant:      loss_mask / (norm_length x N)     Dr. GRPO: no length bias; `norm_length` is a constant of the run
    sequence_mean: loss_mask / (own trained tokens x N)
    token_mean:    loss_mask / (trained tokens of all)
    N = `count`, the iteration's mean over its steps, so that all its trajectories weigh the same; 0 = those given.
    """
    n = count or len(rollouts)
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
) -> tuple[Batch, int]:
    """Lay rollouts into rows, first fit: whole episodes longest first, or by groups where there is a prompt area.

    A group are the rollouts with equal `prompt_ids`. Groups come longest prompt first, each into the first row that
    holds all of it: room in the prompt area, and for each response a slot with room and no other of its group (two of
    one group in a slot would see each other). A group too large for an empty row goes on in further ones, its prompt
    repeated. Deterministic in the order given. A is `min_micro` times a power of two, so that few shapes are compiled.
    Returns: Batch of numpy arrays [A, B, ...], and how many of its micro-batches hold anything; `old_logprobs` starts
      as the sampler's and `reference_logprobs` as 0.
    Raises: ValueError for a rollout that fits no row or has no prompt (its first token would have no context).
    """
    rows: list[_Row] = []
    for prompt, lengths in _groups(rollouts, shape):
        waiting = lengths
        for row in rows:
            if row.fits(prompt, waiting) and len(found := row.fitting(waiting)) == len(waiting):
                row.take(prompt, found, lengths)
                waiting = {}
                break
        while waiting:
            rows.append(_Row(shape))
            found = rows[-1].fitting(waiting)
            rows[-1].take(prompt, found, lengths)
            waiting = {i: n for i, n in waiting.items() if i not in found}
    micro = min_micro
    while micro * shape.rows < len(rows):
        micro *= 2
    batch = Batch.filled(np.zeros, (micro, shape.rows), shape.row_length, shape.scored)
    batch.predict_from[:] = np.maximum(np.arange(shape.prompt, shape.row_length) - 1, 0)
    for number, row in enumerate(rows):
        own = Batch(*(x[divmod(number, shape.rows)] for x in batch))
        for segment, (at, found) in enumerate(row.groups, start=1):
            for i, start in found.items():
                r = rollouts[i]
                first, behind = (at, shape.prompt + start) if shape.prompt else (start, start + len(r.prompt_ids))
                _write(own, first, behind, segment, r, float(advantages[i]), weights[i])
    return batch, -(-len(rows) // shape.rows)


def lay_out(
    rollouts: Sequence[Rollout],
    advantages: np.ndarray,
    weights: Sequence[np.ndarray],
    shapes: Sequence[RowShape],
    *,
    min_micro: int = 1,
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
        parts.append(pack(*chosen, shape, min_micro=min_micro))
    return parts


def padding(parts: Sequence[tuple[Batch, int]]) -> dict[str, float]:
    """Shares of the tokens computed that hold nothing: of all (`padding`) and of those that could be scored."""
    real = [np.asarray(batch.segment_ids[:used]) > 0 for batch, used in parts]
    scored = [x[..., x.shape[-1] - batch.loss_weight.shape[-1] :] for x, (batch, _) in zip(real, parts, strict=True)]

    def empty(masks: Sequence[np.ndarray]) -> float:
        return 1 - sum(int(m.sum()) for m in masks) / max(sum(m.size for m in masks), 1)

    return {"padding": empty(real), "slot_padding": empty(scored)}


def _groups(rollouts: Sequence[Rollout], shape: RowShape) -> list[tuple[int, dict[int, int]]]:
    """What is laid out together, in that order: tokens for the prompt area, and {rollout: tokens for a slot}."""
    groups: dict[object, list[int]] = {}
    for i, r in enumerate(rollouts):
        if len(r.prompt_ids) == 0:
            raise ValueError("a rollout has an empty prompt; its first token cannot be scored")
        if obstacle := shape.too_short(len(r.prompt_ids), len(r.token_ids)):
            raise ValueError(f"{obstacle}; raise it")
        groups.setdefault(r.prompt_ids.tobytes() if shape.prompt else i, []).append(i)
    found: list[tuple[int, dict[int, int]]] = []
    for members in groups.values():
        prompt = len(rollouts[members[0]].prompt_ids)
        sizes = {i: len(rollouts[i].token_ids) + (0 if shape.prompt else prompt) for i in members}
        found.append((prompt if shape.prompt else 0, dict(sorted(sizes.items(), key=lambda item: -item[1]))))
    return sorted(found, key=lambda group: -(group[0] or max(group[1].values())))


class _Row:
    """One row while it is filled."""

    def __init__(self, shape: RowShape) -> None:
        self.shape = shape
        self.room = shape.prompt  # left in the prompt area
        self.free = [shape.slot_length] * shape.slots
        self.groups: list[tuple[int, dict[int, int]]] = []  # start of the prompt, {rollout: start behind the area}

    def fits(self, prompt: int, lengths: dict[int, int]) -> bool:
        """Whether the prompt and the longest response have room: cheaper than `fitting`, which most rows fail."""
        return prompt <= self.room and next(iter(lengths.values())) <= max(self.free)

    def fitting(self, lengths: dict[int, int]) -> dict[int, int]:
        """Starts of those of one group's responses that find a slot each, in the order given until one does not."""
        found: dict[int, int] = {}
        taken: set[int] = set()
        for i, length in lengths.items():
            slot = next((s for s, free in enumerate(self.free) if free >= max(length, 1) and s not in taken), None)
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


def _write(
    row: Batch, first: int, behind: int, segment: int, rollout: Rollout, advantage: float, weight: np.ndarray
) -> None:
    """Write one row's arrays: the prompt to `first`, the response to `behind`."""
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
    row.predict_from[here][:1] = first + prompt - 1

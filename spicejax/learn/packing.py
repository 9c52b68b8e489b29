"""Packing of scored rollouts into the learner's fixed rows: whole episodes, or prompts once with slots of responses.

A row with shared prompts is an area of P prompt tokens and slots of R tokens; a response's positions continue its
prompt's. A token sees what is earlier, of its own segment (a group), in the prompt area or in its own slot. Indices
and segment ids say that much, so that one splash call computes it on TPU, and XLA elsewhere scores at most P x P and
slots x (P + R). `Batch.predict_from` names the token that predicts each scored one, for a response's first the
prompt's last: hidden states of prompts never meet the vocabulary.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, Literal

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

    def too_short(self, prompt: int, *responses: int) -> str:
        """The field that is too small for an episode, or for a preference's two responses; empty where all fits."""
        needs = [
            ("prompt_areas", self.prompt, "a prompt", prompt),
            ("slot_length", self.slot_length, "a response", max(responses)),
        ]
        if not self.prompt:
            what = "an episode" if len(responses) == 1 else "a preference, twice a prompt and a response,"
            needs = [("row_length", self.slot_length, what, sum(prompt + response for response in responses))]
        elif self.slots < len(responses):
            return f"learner.slots={self.slots}: a preference takes two slots of one row"
        short = (f"learner.{name}={room} cannot hold {what} of {n} tokens" for name, room, what, n in needs if n > room)
        return next(short, "")


def token_weights(
    rollouts: Sequence[Rollout], *, aggregation: Aggregation, norm_length: int, count: float = 0
) -> list[np.ndarray]:
    """Share of each response token in the loss, float32 [R] per rollout.

    constant:      loss_mask / (norm_length x N)     Dr. GRPO: no length bias; `norm_length` is a constant of the run
    sequence_mean: loss_mask / (own trained tokens x N)
    token_mean:    loss_mask / (trained tokens of all)
    sum:           loss_mask / N                     REINFORCE: the log-probability of the whole response
    N = `count`, the iteration's mean over its steps, so that all its trajectories weigh the same; 0 = those given. The
    token mean is over this step's tokens.
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
    numbered: bool = False,
) -> tuple[Batch, int]:
    """Lay rollouts into rows, each group into the first row with room for all of it.

    Without a prompt area a group is one rollout, and the longest comes first. With one it is the rollouts with equal
    `prompt_ids`, and the longest prompt comes first; each response needs a slot with room and without another response
    of its group, since two of one group in a slot would see each other. A group too large for an empty row continues
    in the next row, which holds the prompt again. The result depends on the order of `rollouts` alone.

    Args:
      min_micro: A, the micro-batches, is this times a power of two, so that few shapes are compiled.
      paired: rollouts alternate chosen, rejected, chosen, rejected, ...; a pair stands in one row.
      numbered: fill `Batch.responses`.
    Returns: Batch of numpy arrays [A, B, ...], and how many of its micro-batches hold anything; `old_logprobs` starts
      as the sampler's and `reference_logprobs` as those that rollouts bring, or 0.
    Raises: ValueError for a rollout that fits no row or has no prompt (its first token would have no context).
    """
    rows: list[_Row] = []
    unit_size = 2 if paired else 1
    for prompt, units in _groups(rollouts, shape, unit_size):
        if any(row.place(prompt, units, whole=True) for row in rows):
            continue
        while units:
            rows.append(_Row(shape))
            units = units[rows[-1].place(prompt, units) :]
    micro = min_micro
    while micro * shape.rows < len(rows):
        micro *= 2
    batch = Batch.filled(np.zeros, (micro, shape.rows), shape.row_length, shape.scored, numbered=numbered)
    batch.predict_from[:] = np.maximum(np.arange(shape.prompt, shape.row_length) - 1, 0)
    for index, row in enumerate(rows):
        arrays = jax.tree.map(operator.itemgetter(divmod(index, shape.rows)), batch)
        units_of_row = sorted({i // unit_size for _, starts in row.segments for i in starts})
        for segment, (prompt_start, starts) in enumerate(row.segments, start=1):
            for i, start in starts.items():
                r = rollouts[i]
                at = (prompt_start, shape.prompt + start) if shape.prompt else (start, start + len(r.prompt_ids))
                scored = _write(arrays, *at, segment, r, float(advantages[i]), weights[i])
                if numbered:
                    number = units_of_row.index(i // unit_size) + 1
                    arrays.responses[scored] = -number if i % unit_size else number
    return batch, -(-len(rows) // shape.rows)


def lay_out(
    rollouts: Sequence[Rollout],
    advantages: np.ndarray,
    weights: Sequence[np.ndarray],
    shapes: Sequence[RowShape],
    **options: Any,
) -> list[tuple[Batch, int]]:
    """`pack` each rollout into rows of the smallest prompt area that holds its prompt, else of the last shape.

    `shapes` stand by ascending prompt area, `options` are those of `pack`; a batch without rollouts is all padding.
    """
    parts: list[tuple[Batch, int]] = []
    waiting = list(range(len(rollouts)))
    for shape in shapes:
        last = shape is shapes[-1]
        fitting = [i for i in waiting if last or len(rollouts[i].prompt_ids) <= shape.prompt]
        waiting = sorted(set(waiting) - set(fitting))
        chosen = [rollouts[i] for i in fitting], np.asarray(advantages)[fitting], [weights[i] for i in fitting]
        parts.append(pack(*chosen, shape, **options))
    return parts


def padding(parts: Sequence[tuple[Batch, int]]) -> dict[str, float]:
    """Shares of the tokens computed that hold nothing: of all (`padding`) and of those that could be scored."""
    real = [np.asarray(batch.segment_ids[:used]) > 0 for batch, used in parts]
    scored = [x[..., x.shape[-1] - batch.loss_weight.shape[-1] :] for x, (batch, _) in zip(real, parts, strict=True)]

    def empty(masks: Sequence[np.ndarray]) -> float:
        return 1 - sum(int(m.sum()) for m in masks) / max(sum(m.size for m in masks), 1)

    return {"padding": empty(real), "slot_padding": empty(scored)}


_Unit = dict[int, int]  # {index of a rollout: tokens it needs in a slot}: a rollout, or a pair, which needs one row


def _groups(rollouts: Sequence[Rollout], shape: RowShape, unit_size: int) -> list[tuple[int, list[_Unit]]]:
    """Groups in the order in which they are placed: tokens each needs in the prompt area, and its units."""
    groups: dict[object, list[_Unit]] = {}
    for start in range(0, len(rollouts), unit_size):
        prompt, members = rollouts[start].prompt_ids, range(start, start + unit_size)
        if len(prompt) == 0:
            raise ValueError("a rollout has an empty prompt; its first token cannot be scored")
        if obstacle := shape.too_short(len(prompt), *(len(rollouts[i].token_ids) for i in members)):
            raise ValueError(f"{obstacle}; raise it")
        unit = {i: len(rollouts[i].token_ids) + (0 if shape.prompt else len(prompt)) for i in members}
        groups.setdefault(prompt.tobytes() if shape.prompt else start, []).append(unit)
    sized: list[tuple[int, list[_Unit]]] = []
    for units in groups.values():
        prompt = len(rollouts[next(iter(units[0]))].prompt_ids) if shape.prompt else 0
        sized.append((prompt, sorted(units, key=lambda unit: -max(unit.values()))))
    return sorted(sized, key=lambda group: -(group[0] or max(group[1][0].values())))


class _Row:
    """One row while it is filled."""

    def __init__(self, shape: RowShape) -> None:
        self.shape = shape
        self.prompt_room = shape.prompt  # tokens left in the prompt area
        self.slot_room = [shape.slot_length] * shape.slots  # tokens left in each slot
        # of each segment: where its prompt starts, and {rollout: where it starts behind the prompt area}
        self.segments: list[tuple[int, dict[int, int]]] = []

    def place(self, prompt: int, units: list[_Unit], *, whole: bool = False) -> int:
        """Place units of a group until one has no room (`whole`: all of them or none); return how many were placed."""
        longest = max(units[0].values())
        if prompt > self.prompt_room or longest > max(self.slot_room):  # cheaper than trying slots; most rows fail here
            return 0
        starts: dict[int, int] = {}
        used: dict[int, int] = {}  # {slot: tokens of it that this group uses}
        placed = 0
        for unit in units:
            if (added := self._slots(unit, used)) is None:
                break
            starts |= added[0]
            used = added[1]
            placed += 1
        if not placed or (whole and placed < len(units)):
            return 0
        # Behind a prompt area a group is a segment, elsewhere each episode is.
        segments = [starts] if self.shape.prompt else [{i: start} for i, start in starts.items()]
        self.segments += [(self.shape.prompt - self.prompt_room, each) for each in segments]
        self.prompt_room -= prompt
        for slot, tokens in used.items():
            self.slot_room[slot] -= tokens
        return placed

    def _slots(self, unit: _Unit, used: dict[int, int]) -> tuple[dict[int, int], dict[int, int]] | None:
        """Starts of a unit's responses, and `used` with them; None without room. No slot takes two of one group."""
        starts, used = {}, dict(used)
        for i, length in unit.items():
            for slot, room in enumerate(self.slot_room):
                taken = used.get(slot, 0)
                if room - taken >= max(length, 1) and not (self.shape.prompt and slot in used):
                    starts[i], used[slot] = (slot + 1) * self.shape.slot_length - room + taken, taken + length
                    break
            else:
                return None
        return starts, used


def _write(
    row: Batch,
    prompt_start: int,
    response_start: int,
    segment: int,
    rollout: Rollout,
    advantage: float,
    weight: np.ndarray,
) -> slice:
    """Write an episode into a row's arrays; return the response's place among the tokens that can be scored."""
    prompt = len(rollout.prompt_ids)
    for start, ids, position in ((prompt_start, rollout.prompt_ids, 0), (response_start, rollout.token_ids, prompt)):
        place = slice(start, start + len(ids))
        row.tokens[place] = ids
        row.positions[place] = np.arange(position, position + len(ids))
        row.segment_ids[place] = segment
    lead = len(row.tokens) - len(row.predict_from)  # tokens of a row that are never scored
    scored = slice(response_start - lead, response_start - lead + len(rollout.token_ids))
    row.loss_weight[scored] = weight
    row.advantages[scored] = advantage
    row.behaviour_logprobs[scored] = np.where(rollout.loss_mask > 0, rollout.sample_logprobs, 0.0)
    row.old_logprobs[scored] = row.behaviour_logprobs[scored]
    if rollout.reference_logprobs is not None:
        row.reference_logprobs[scored] = rollout.reference_logprobs
    row.predict_from[scored][:1] = prompt_start + prompt - 1
    return scored

"""What the host knows of the engine's row slots, and which prompts are prefilled together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from spicejax import sharding
from spicejax.generate import engine
from spicejax.generate.schedule import Schedule


class Request(NamedTuple):
    """One prompt of a call."""

    index: int  # place among the call's prompts
    tokens: np.ndarray  # int32 [P]
    first_row: int
    limit: int


class More(NamedTuple):
    """What a row is shown behind a turn, and what it may write then."""

    tokens: Sequence[int]  # 1 and more
    limit: int  # most tokens of the next turn


class Lane(NamedTuple):
    """A prompt to be prefilled in one part of the mesh, and the prompt slots there that take it."""

    shard: int
    prompt: int  # place among the requests
    slots: list[int]  # counted within the shard


def load_batches(shape: engine.Layout, slots: Sequence[int], held: Sequence[int]) -> list[list[Lane]]:
    """Cut what is to be loaded into batches that fit the lanes of every part of the mesh.

    Args:
      slots: prompt slots to load. held: prompt of each prompt slot. A part of the mesh prefills a prompt once, however
        many of its slots take it.
    """
    per_shard, lanes = shape.prompts // shape.shards, shape.lanes // shape.shards
    shards: list[dict[int, Lane]] = [{} for _ in range(shape.shards)]
    for slot in slots:
        shard, inside = divmod(slot, per_shard)
        prompt = int(held[slot])
        shards[shard].setdefault(prompt, Lane(shard, prompt, [])).slots.append(inside)
    queues = [list(by_prompt.values()) for by_prompt in shards]
    longest = max((len(queue) for queue in queues), default=0)
    return [sum((queue[i : i + lanes] for queue in queues), []) for i in range(0, longest, lanes)]


class Slots:
    """What the host knows of the row slots, by number."""

    def __init__(self, shape: engine.Layout):
        def zeros() -> np.ndarray:
            return np.zeros(shape.rows, np.int32)

        self.shape = shape
        self.vacant = np.ones(shape.rows, bool)
        self.fresh = np.zeros(shape.rows, bool)  # begins a turn at the next call of `decode`
        self.busy = np.zeros(shape.rows, bool)  # writes
        self.first_token, self.row_ids, self.limits = zeros(), zeros(), zeros()
        self.turns, self.history_lengths = zeros(), zeros()
        self.written, self.last_token = zeros(), zeros()  # of the turn that ended last
        self.prefix_lengths = np.zeros(shape.prompts, np.int32)

    @property
    def free(self) -> np.ndarray:
        """bool [U, G]: takes a new row."""
        return self.vacant.reshape(self.shape.prompts, self.shape.group)

    def begin(self, plan: Schedule, fresh: np.ndarray, requests: list[Request]) -> None:
        """Rows begin in some slots, bool [U, G]."""
        for slot, lane in zip(*np.nonzero(fresh), strict=True):
            request, row = requests[plan.prompt[slot, lane]], slot * self.shape.group + lane
            self.prefix_lengths[slot] = len(request.tokens) - 1
            self.first_token[row], self.limits[row] = request.tokens[-1], request.limit
            self.row_ids[row] = request.first_row + plan.sample[slot, lane]
            self.turns[row] = self.history_lengths[row] = 0
        self.fresh |= fresh.reshape(-1)
        self.busy |= self.fresh
        self.vacant &= ~self.busy

    def asked(self, plan: Schedule, threshold: int) -> engine.Rows:
        """What the device needs to know; whoever is fresh has begun then."""
        fresh, self.fresh = self.fresh, np.zeros_like(self.fresh)
        if self.shape.turns > 1:  # a row that pauses is as good as a free slot
            waiting = np.full(self.shape.prompts, self.shape.group, np.int32)
            refill_at = threshold + np.sum(~self.busy)
        else:
            waiting, refill_at = plan.waiting(), min(threshold, plan.left)
        rows = engine.Rows(
            fresh=fresh,
            first_token=self.first_token.copy(),
            row_ids=self.row_ids.copy(),
            turns=self.turns.copy(),
            history_lengths=self.history_lengths.copy(),
            limits=self.limits.copy(),
            prefix_lengths=self.prefix_lengths.copy(),
            waiting=waiting,
            refill_at=np.int32(refill_at),
        )
        return sharding.put_global(rows, jax.tree.map(lambda x: self.shape.place(x.shape), rows))

    def ended(self, out: engine.Output) -> list[int]:
        """The rows that have ended their turn."""
        rows = np.flatnonzero(self.busy & out.done)
        self.busy[rows] = False
        self.written[rows] = out.lengths[rows]
        self.last_token[rows] = out.tokens[rows, out.lengths[rows] - 1]
        return rows.tolist()

    def resume(self, rows: list[int], more: list[More]) -> None:
        """Rows go on behind what they are shown."""
        for row, (tokens, limit) in zip(rows, more, strict=True):
            self.history_lengths[row] += self.written[row] + len(tokens)
            self.first_token[row], self.limits[row] = tokens[-1], limit
        self.turns[rows] += 1
        self.fresh[rows] = self.busy[rows] = True

    def vacate(self, rows: list[int]) -> None:
        """Rows are over."""
        self.vacant[rows] = True

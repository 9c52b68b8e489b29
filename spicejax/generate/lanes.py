"""What the host knows of the engine's lanes, and which prompts are prefilled together."""

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
    first_row: int  # row id of its first sample
    limit: int  # most tokens of a response


class Observation(NamedTuple):
    """Tokens that follow a turn and that the model did not write, and the limit of the turn after them."""

    tokens: Sequence[int]  # at least one
    limit: int  # most tokens of the next turn


class Prefill(NamedTuple):
    """A prompt to be prefilled in one part of the mesh, and the prefixes there that hold it."""

    shard: int
    prompt: int  # place among the requests
    prefixes: list[int]  # counted within the shard


def prefill_batches(shape: engine.Layout, prefixes: Sequence[int], held: Sequence[int]) -> list[list[Prefill]]:
    """Group the prompts of some prefixes into batches that one call of `prefill` computes.

    A part of the mesh prefills a prompt once, however many of its prefixes hold it.

    Args:
      prefixes: those to fill. held: prompt of every prefix.
    """
    per_shard, at_once = shape.prompts // shape.shards, shape.prefills // shape.shards
    shards: list[dict[int, Prefill]] = [{} for _ in range(shape.shards)]
    for prefix in prefixes:
        shard, local = divmod(prefix, per_shard)
        prompt = int(held[prefix])
        shards[shard].setdefault(prompt, Prefill(shard, prompt, [])).prefixes.append(local)
    queues = [list(by_prompt.values()) for by_prompt in shards]
    longest = max((len(queue) for queue in queues), default=0)
    return [sum((queue[i : i + at_once] for queue in queues), []) for i in range(0, longest, at_once)]


class LaneTable:
    """The host's record of every lane."""

    def __init__(self, shape: engine.Layout):
        def zeros() -> np.ndarray:
            return np.zeros(shape.lanes, np.int32)

        self.shape = shape
        self.vacant = np.ones(shape.lanes, bool)
        self.fresh = np.zeros(shape.lanes, bool)  # starts a turn at the next call of `decode`
        self.busy = np.zeros(shape.lanes, bool)  # writes a turn
        self.first_token, self.row_ids, self.limits = zeros(), zeros(), zeros()
        self.turns, self.history_lengths = zeros(), zeros()
        self.written, self.last_token = zeros(), zeros()  # of the turn that ended last
        self.prefix_lengths = np.zeros(shape.prompts, np.int32)

    @property
    def free(self) -> np.ndarray:
        """bool [U, G]: takes a new sample."""
        return self.vacant.reshape(self.shape.prompts, self.shape.group)

    def start(self, schedule: Schedule, fresh: np.ndarray, requests: list[Request]) -> None:
        """Start the samples that `schedule` gave to some lanes, bool [U, G]."""
        for prefix, member in zip(*np.nonzero(fresh), strict=True):
            request, lane = requests[schedule.prompt[prefix, member]], prefix * self.shape.group + member
            self.prefix_lengths[prefix] = len(request.tokens) - 1
            self.first_token[lane], self.limits[lane] = request.tokens[-1], request.limit
            self.row_ids[lane] = request.first_row + schedule.sample[prefix, member]
            self.turns[lane] = self.history_lengths[lane] = 0
        self.fresh |= fresh.reshape(-1)
        self.busy |= self.fresh
        self.vacant &= ~self.busy

    def inputs(self, schedule: Schedule, threshold: int) -> engine.Lanes:
        """The input of the next `decode`, which starts the fresh lanes."""
        fresh, self.fresh = self.fresh, np.zeros_like(self.fresh)
        if self.shape.turns > 1:  # a lane between two turns counts as free
            waiting = np.full(self.shape.prompts, self.shape.group, np.int32)
            refill_at = threshold + np.sum(~self.busy)
        else:
            waiting, refill_at = schedule.waiting(), min(threshold, schedule.left)
        lanes = engine.Lanes(
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
        return sharding.put_global(lanes, jax.tree.map(lambda x: self.shape.sharding_of(x.shape), lanes))

    def ended(self, out: engine.Output) -> list[int]:
        """Record the turns that have ended; return their lanes."""
        lanes = np.flatnonzero(self.busy & out.done)
        self.busy[lanes] = False
        self.written[lanes] = out.lengths[lanes]
        self.last_token[lanes] = out.tokens[lanes, out.lengths[lanes] - 1]
        return lanes.tolist()

    def resume(self, lanes: list[int], observations: list[Observation]) -> None:
        """Start the next turn of lanes that got an observation."""
        for lane, (tokens, limit) in zip(lanes, observations, strict=True):
            self.history_lengths[lane] += self.written[lane] + len(tokens)
            self.first_token[lane], self.limits[lane] = tokens[-1], limit
        self.turns[lanes] += 1
        self.fresh[lanes] = self.busy[lanes] = True

    def release(self, lanes: list[int]) -> None:
        """Free lanes whose rollouts have ended."""
        self.vacant[lanes] = True

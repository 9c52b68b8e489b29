"""What the host knows of the engine's lanes, and which prompts are prefilled together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from spicejax import sharding
from spicejax.generate.layout import Layout
from spicejax.generate.schedule import Schedule
from spicejax.generate.state import Lanes, Output, no_lanes


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


def prefill_batches(shape: Layout, prefixes: Sequence[int], held: Sequence[int]) -> list[list[Prefill]]:
    """Group the prompts of some prefixes into batches that one call of `prefill` computes.

    A part of the mesh prefills a prompt once, however many of its prefixes hold it.

    Args:
      prefixes: those to fill. held: prompt of every prefix, of equal ones the first.
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


def common(tokens: np.ndarray, others: np.ndarray) -> int:
    """How many tokens both begin with."""
    most = min(len(tokens), len(others))
    return int(np.argmin(np.append(tokens[:most] == others[:most], False)))


class LaneTable:
    """The host's record of every lane."""

    def __init__(self, shape: Layout):
        self.shape = shape
        self.vacant = np.ones(shape.lanes, bool)
        self.busy = np.zeros(shape.lanes, bool)  # writes a turn
        self.inputs = no_lanes(shape)  # of the next call of `decode`
        self.written = np.zeros(shape.lanes, np.int32)  # tokens of the turn, when `decode` came back
        self.last_token = np.zeros(shape.lanes, np.int32)  # of the turn that ended last
        self.rows: list[list[np.ndarray]] = [[] for _ in range(shape.lanes)]  # finished turns and what followed them
        self.before = np.zeros(shape.lanes, np.int32)  # tokens of the turn that another engine wrote

    @property
    def free(self) -> np.ndarray:
        """bool [U, G]: takes a new sample."""
        return self.vacant.reshape(self.shape.prompts, self.shape.group)

    @property
    def longest(self) -> int:
        """Most tokens that a row may still write."""
        inputs, shape = self.inputs, self.shape
        written = np.where(inputs.fresh, 0, self.written)
        left = inputs.limits - written + shape.suffix * (shape.turns - 1 - inputs.turns)
        if shape.history:
            left = np.minimum(left, shape.history - inputs.history_lengths - written)
        return int(left[~self.vacant].max(initial=0))

    def start(self, schedule: Schedule, fresh: np.ndarray, requests: list[Request]) -> None:
        """Start the samples that `schedule` gave to some lanes, bool [U, G]."""
        inputs = self.inputs
        for prefix, member in zip(*np.nonzero(fresh), strict=True):
            request, lane = requests[schedule.prompt[prefix, member]], prefix * self.shape.group + member
            inputs.prefix_lengths[prefix] = len(request.tokens) - 1
            inputs.first_token[lane], inputs.limits[lane] = request.tokens[-1], request.limit
            inputs.row_ids[lane] = request.first_row + schedule.sample[prefix, member]
            inputs.turns[lane] = inputs.history_lengths[lane] = self.before[lane] = 0
            self.rows[lane] = []
        inputs.fresh[:] |= fresh.reshape(-1)
        self.busy |= inputs.fresh
        self.vacant &= ~self.busy

    def places(self, tail: Layout) -> np.ndarray | None:
        """int [shards, N / shards], of `engine.move`; None where the tail does not hold all that write."""
        shards = self.shape.shards
        here, there = self.shape.lanes // shards, tail.lanes // shards
        places = np.full((shards, there), here, np.int32)
        for shard, vacant in enumerate(self.vacant.reshape(shards, here)):
            lanes = np.flatnonzero(~vacant)
            if len(lanes) > there:
                return None
            places[shard, : len(lanes)] = lanes
        return places

    def move(self, tail: Layout, places: np.ndarray) -> np.ndarray:
        """Record that lanes moved; return those of which the new ones are, an empty one's place being any."""
        shards, here = self.shape.shards, self.shape.lanes // self.shape.shards
        empty = (places == here).reshape(-1)
        lanes = (np.minimum(places, here - 1) + here * np.arange(shards)[:, None]).reshape(-1)
        prefixes = lanes // self.shape.group
        old, self.shape = self.inputs, tail
        self.inputs = old._replace(
            **{
                name: getattr(old, name)[lanes]
                for name in ("first_token", "row_ids", "turns", "history_lengths", "limits")
            },
            fresh=old.fresh[lanes] & ~empty,
            prefix_lengths=old.prefix_lengths[prefixes],
            waiting=old.waiting[prefixes],
            known=no_lanes(tail).known,
        )
        self.vacant, self.busy = self.vacant[lanes] | empty, self.busy[lanes] & ~empty
        self.written, self.last_token = self.written[lanes], self.last_token[lanes]
        self.before = np.where(self.inputs.fresh, 0, self.written)
        self.rows = [list(self.rows[lane]) for lane in lanes]
        return lanes

    def put(self, schedule: Schedule, threshold: int, tails: Sequence[Layout]) -> Lanes:
        """Put the input of the next `decode`, which starts the fresh lanes, on the devices.

        Args:
          tails: the first takes over once no sample waits and it holds all that write.
        """
        several = self.shape.turns > 1
        if several or (tails and schedule.left == 0):  # a lane between two turns counts as free
            waiting, free = np.full(self.shape.prompts, self.shape.group, np.int32), np.sum(~self.busy)
            refill_at = free + threshold if several else max(self.shape.lanes - tails[0].lanes, free + 1)
        else:
            waiting, refill_at = schedule.waiting(), min(threshold, schedule.left)
        lanes = jax.tree.map(np.copy, self.inputs._replace(waiting=waiting, refill_at=np.int32(refill_at)))
        self.inputs.fresh[:] = False
        return sharding.put_global(lanes, jax.tree.map(lambda x: self.shape.sharding_of(x.shape), lanes))

    def ended(self, out: Output) -> list[int]:
        """Record the turns that have ended; return their lanes."""
        lanes = np.flatnonzero(self.busy & out.done)
        self.busy[lanes] = False
        self.written = np.array(out.lengths)
        self.last_token[lanes] = out.tokens[lanes, out.lengths[lanes] - 1]
        for lane in lanes:
            self.rows[lane].append(np.asarray(out.tokens[lane, : out.lengths[lane]]))
        return lanes.tolist()

    def resume(self, lanes: list[int], observations: list[Observation]) -> None:
        """Start the next turn of lanes that got an observation."""
        for lane, (tokens, limit) in zip(lanes, observations, strict=True):
            self.inputs.history_lengths[lane] += self.written[lane] + len(tokens)
            self.inputs.first_token[lane], self.inputs.limits[lane] = tokens[-1], limit
            self.rows[lane].append(np.asarray(tokens))
        self.before[lanes] = 0
        self.inputs.turns[lanes] += 1
        self.inputs.fresh[lanes] = self.busy[lanes] = True

    def release(self, lanes: list[int]) -> None:
        """Free lanes whose rollouts have ended."""
        self.vacant[lanes] = True

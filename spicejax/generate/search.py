"""Rollouts of several turns with search: a query pauses a row, what is found is put behind it, the row goes on.

The plain way: each turn asks the player again, with all that stands in a row so far as its prompt. Who wrote a token is
known from where it stands; no text is ever searched for the system's own tags.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from spicejax.generate.policy import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.stops import also
from spicejax.tags import Tags
from spicejax.types import Passage, Rollout

SearchFn = Callable[[list[str], int], list[list[Passage]]]  # (queries, most passages of each) to passages, best first


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a row may take, in tokens where nothing else is said."""

    turns: int  # most turns of the model, one more than searches
    turn: int  # of one turn
    observation: int  # of one observation, its tags included; it holds as many whole passages as fit
    total: int  # of a row behind its prompt, observations included
    passages: int = 3  # most passages of an observation

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name}={getattr(self, field.name)}: must be at least 1")


@dataclasses.dataclass(frozen=True)
class Turn:
    """What the model wrote at a stretch; the observation it led to goes from `end` to the next turn's `start`."""

    start: int  # tokens of the row, from `start` up to `end`, that the model wrote
    end: int
    text: str  # the same as text, closing tags included
    query: str = ""  # what it asks for; empty where it asks for nothing. A row's last turn was given no answer
    passages: tuple[Passage, ...] = ()  # what the model was shown


@dataclasses.dataclass(frozen=True)
class Searched:
    """A rollout with observations, whose loss mask and logprobs are 0, and how it came about.

    `rollout.finish_reason` is "length" where a limit ended the row, a query that no turn or room was left for included.
    """

    rollout: Rollout
    turns: tuple[Turn, ...] = ()


def search(
    player: Player,
    prompts: Sequence[Sequence[int]],
    *,
    search_fn: SearchFn,
    tags: Tags,
    limits: Limits,
    samples: int,
    first_row: Sequence[int],
    key: jax.Array,
    settings: SamplerConfig,
) -> list[list[Searched]]:
    """Sample `samples` rows for every prompt, each of as many turns as it searches and one more.

    A row's draws at turn n come from (key, n, row id). A query without text, or without an opening tag in its turn,
    ends the row.

    Args:
      search_fn: called once a turn with the queries of all rows that pause. What it finds for a query may depend on
        nothing else, and must be the same on all hosts.
      first_row: row id of each prompt's first sample; sample j has the stream `first_row + j`.
      key: typed key of this iteration and role.
    Raises: ValueError for prompts that leave no room for `limits.total` tokens in the player's largest bucket.
    """
    bare = len(player.encode(tags.show([])))
    _require_room(player, prompts, samples, limits, bare)
    pausing = dataclasses.replace(player, stop=also(player.stop, tags.stops))
    rows = [Searched(_empty(prompt)) for prompt in prompts for _ in range(samples)]
    ids = [first + j for first in first_row for j in range(samples)]
    live = list(range(len(rows)))
    for turn in range(limits.turns):
        alike = samples if turn == 0 else 1  # rows that stand side by side and have the same tokens so far
        heads = live[::alike]
        replies = pausing.respond(
            [_tokens(rows[i].rollout) for i in heads],
            samples=alike,
            first_row=[ids[i] for i in heads],
            key=jax.random.fold_in(key, turn),
            settings=settings,
            max_new=min(limits.turn, limits.total),
            limits=[min(limits.turn, _room(rows[i], limits)) for i in heads],
        )
        for i, reply in zip(live, sum(replies, []), strict=True):
            rows[i] = _written(rows[i], reply, player, pausing, tags)
        live = [i for i in live if rows[i].turns[-1].query and _room(rows[i], limits) > bare]
        if not live or turn + 1 == limits.turns:
            break
        found = search_fn([rows[i].turns[-1].query for i in live], limits.passages)
        if len(found) != len(live):
            raise ValueError(f"search_fn found {len(found)} lists for {len(live)} queries; return one for each")
        for i, passages in zip(live, found, strict=True):
            rows[i] = _observed(rows[i], passages, player, tags, limits)
    return [rows[at : at + samples] for at in range(0, len(rows), samples)]


def _require_room(player: Player, prompts: Sequence[Sequence[int]], samples: int, limits: Limits, bare: int) -> None:
    """Raise ValueError where a row could outgrow the player's buckets, or no observation fits."""
    if samples < 1:
        raise ValueError(f"samples={samples}: must be at least 1")
    if limits.observation < bare:
        raise ValueError(f"observation={limits.observation}: its tags alone take {bare} tokens; raise it")
    longest = max((len(p) for p in prompts), default=0)
    bucket = player.buckets.prompt[-1]
    if limits.turns > 1 and longest + limits.total - 1 > bucket:
        raise ValueError(
            f"total={limits.total} behind a prompt of {longest} tokens exceeds the largest bucket, {bucket}: lower "
            "total, or add a larger bucket"
        )


def _empty(prompt: Sequence[int]) -> Rollout:
    none = np.zeros(0, np.float32)
    return Rollout(np.asarray(prompt, np.int32), np.zeros(0, np.int32), none, none, none, "", "length")


def _tokens(rollout: Rollout) -> list[int]:
    """Prompt and row so far, the player's next prompt."""
    return [*rollout.prompt_ids.tolist(), *rollout.token_ids.tolist()]


def _room(row: Searched, limits: Limits) -> int:
    return limits.total - len(row.rollout.token_ids)


def _joined(rollout: Rollout, more: Rollout) -> Rollout:
    """The rollout with more behind it; how it ends is how that ends."""
    arrays = ("token_ids", "logprobs", "sample_logprobs", "loss_mask")
    joined = {name: np.concatenate([getattr(rollout, name), getattr(more, name)]) for name in arrays}
    return dataclasses.replace(rollout, **joined, text=rollout.text + more.text, finish_reason=more.finish_reason)


def _written(row: Searched, reply: Rollout, player: Player, pausing: Player, tags: Tags) -> Searched:
    """The row with a turn of the model behind it."""
    whole = player.decoder.decode(reply.token_ids.tolist())
    before = pausing.stop.trim(whole)
    # A query asks where its closing tag is what the machine stopped at: the first of the stop strings.
    asks = whole.startswith(tags.query[1], len(before))
    query = before.rpartition(tags.query[0])[2].strip() if asks and tags.query[0] in before else ""
    text = player.stop.trim(whole)  # the player's own stop strings are no part of a text; tags are
    start, end = len(row.rollout.token_ids), len(row.rollout.token_ids) + len(reply.token_ids)
    reply = dataclasses.replace(reply, text=text, finish_reason="length" if query else reply.finish_reason)
    return Searched(_joined(row.rollout, reply), (*row.turns, Turn(start, end, text, query)))


def _observed(row: Searched, passages: Sequence[Passage], player: Player, tags: Tags, limits: Limits) -> Searched:
    """The row with what was found behind it: as many whole passages as leave the model room for a token."""
    most = min(limits.observation, _room(row, limits) - 1)
    shown = next(n for n in range(len(passages), -1, -1) if len(player.encode(tags.show(passages[:n]))) <= most)
    passages, text = tuple(passages[:shown]), tags.show(passages[:shown])
    ids = np.asarray(player.encode(text), np.int32)
    zeros = np.zeros(len(ids), np.float32)
    observation = Rollout(row.rollout.prompt_ids, ids, zeros, zeros, zeros, text, row.rollout.finish_reason)
    turns = (*row.turns[:-1], dataclasses.replace(row.turns[-1], passages=passages))
    return Searched(_joined(row.rollout, observation), turns)

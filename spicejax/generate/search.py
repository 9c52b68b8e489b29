"""Rollouts of several turns with search: a query pauses a row, what is found is put behind it, the row goes on.

Who wrote a token is known from where it stands; no text is ever searched for the system's own tags.

The queries of the rows that one call of `decode` ended are searched while the next call runs, without a thread. Which
rows are searched together depends on lengths alone, never on the clock: all hosts do the same, and a resumed run
repeats bit for bit. What a search computes on the devices themselves waits for that call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from spicejax.generate.lanes import Observation
from spicejax.generate.layout import TurnLimits
from spicejax.generate.player import Player, WrittenTurn
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

    @property
    def turn_limits(self) -> TurnLimits:
        """What the player needs to know of them."""
        return TurnLimits(self.turns, min(self.turn, self.total), self.observation, self.total)

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
      search_fn: called with the queries of all rows that have paused, while the other rows write on. What it finds for
        a query may depend on nothing else, and must be the same on all hosts.
      first_row: row id of each prompt's first sample; sample j has the stream `first_row + j`.
      key: typed key of this iteration and role.
    Raises: ValueError for limits that leave no room, and as `Player.respond`.
    """
    bare = len(player.encode(tags.show([])))
    if samples < 1:
        raise ValueError(f"samples={samples}: must be at least 1")
    if limits.observation < bare:
        raise ValueError(f"observation={limits.observation}: its tags alone take {bare} tokens; raise it")
    pausing = dataclasses.replace(player, stop=also(player.stop, tags.stops))
    rows = [[Searched(_empty(prompt))] * samples for prompt in prompts]

    def observe(turns: list[WrittenTurn]) -> tuple[list[int], Callable[[], list[Observation]]]:
        for i, j, reply in turns:
            rows[i][j] = _written(rows[i][j], reply, player, pausing, tags)
        ended = [rows[i][j] for i, j, _ in turns]
        asking = [
            n
            for n, row in enumerate(ended)
            if row.turns[-1].query and len(row.turns) < limits.turns and _room(row, limits) > bare
        ]

        def found() -> list[Observation]:
            if not asking:
                return []
            lists = search_fn([ended[n].turns[-1].query for n in asking], limits.passages)
            if len(lists) != len(asking):
                raise ValueError(f"search_fn found {len(lists)} lists for {len(asking)} queries; return one for each")
            more = []
            for n, passages in zip(asking, lists, strict=True):
                i, j, _ = turns[n]
                rows[i][j] = _observed(ended[n], passages, player, tags, limits)
                shown = rows[i][j].rollout.token_ids[len(ended[n].rollout.token_ids) :]
                more.append(Observation(shown.tolist(), min(limits.turn, _room(rows[i][j], limits))))
            return more

        return asking, found

    pausing.converse(
        prompts,
        samples=samples,
        first_row=first_row,
        key=key,
        settings=settings,
        turn_limits=limits.turn_limits,
        observe=observe,
    )
    return rows


def _empty(prompt: Sequence[int]) -> Rollout:
    none = np.zeros(0, np.float32)
    return Rollout(np.asarray(prompt, np.int32), np.zeros(0, np.int32), none, none, none, "", "length")


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
    text = text if row.turns else player.opening + text
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

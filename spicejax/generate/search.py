"""Rollouts of several turns with search: a query pauses a row, its passages follow as an observation, the row goes on.

Positions say who wrote a token; no text is ever searched for the system's own tags.

The queries of the rows that one call of `decode` ended are searched while the next call runs, without a thread. Which
rows are searched together depends on lengths alone, never on the clock: all hosts do the same, and a resumed run
repeats bit for bit. Work of a search on the devices themselves waits for that call.
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
    """Limits of a row, in tokens unless stated otherwise."""

    turns: int  # most turns of the model, one more than searches
    turn: int  # most tokens of one turn
    observation: int  # most tokens of an observation, its tags included; it has as many whole passages as fit
    total: int  # most tokens after the prompt, observations included
    passages: int = 3  # most passages of an observation

    @property
    def turn_limits(self) -> TurnLimits:
        """The limits as the player takes them."""
        return TurnLimits(self.turns, min(self.turn, self.total), self.observation, self.total)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name}={getattr(self, field.name)}: must be at least 1")


@dataclasses.dataclass(frozen=True)
class Turn:
    """One turn of the model; its observation reaches from `end` to the next turn's `start`."""

    start: int  # the model wrote the row's tokens from `start` up to `end`
    end: int
    text: str  # of these tokens, closing tags included
    query: str = ""  # empty where it asks for nothing; the query of a row's last turn was not searched
    passages: tuple[Passage, ...] = ()  # of its observation


@dataclasses.dataclass(frozen=True)
class Searched:
    """A rollout with observations, whose loss mask and logprobs are 0, and its turns.

    `rollout.finish_reason` is "length" where a limit ended the row, also where a query had no turn or room left.
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
    """Sample `samples` rows for every prompt; a row of n searches has n + 1 turns.

    Turn n draws from (key, n, row id). A query without text, or without an opening tag in its turn, ends the row.

    Args:
      search_fn: called with the queries of all paused rows while the others decode. Its passages for a query must
        depend on the query alone, and be the same on all hosts.
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
        searching = [n for n, row in enumerate(ended) if _may_search(row, limits, bare)]

        def observations() -> list[Observation]:
            if not searching:
                return []
            lists = search_fn([ended[n].turns[-1].query for n in searching], limits.passages)
            if len(lists) != len(searching):
                raise ValueError(f"search_fn: {len(lists)} lists for {len(searching)} queries; return one for each")
            results = []
            for n, passages in zip(searching, lists, strict=True):
                i, j, _ = turns[n]
                rows[i][j] = _observed(ended[n], passages, player, tags, limits)
                tokens = rows[i][j].rollout.token_ids[len(ended[n].rollout.token_ids) :]
                results.append(Observation(tokens.tolist(), min(limits.turn, _room(rows[i][j], limits))))
            return results

        return searching, observations

    pausing.converse(
        prompts, samples=samples, first_row=first_row, key=key, settings=settings,
        turn_limits=limits.turn_limits, observe=observe,
    )  # fmt: skip
    return rows


def _empty(prompt: Sequence[int]) -> Rollout:
    none = np.zeros(0, np.float32)
    return Rollout(np.asarray(prompt, np.int32), np.zeros(0, np.int32), none, none, none, "", "length")


def _may_search(row: Searched, limits: Limits, least: int) -> bool:
    return bool(row.turns[-1].query) and len(row.turns) < limits.turns and _room(row, limits) > least


def _room(row: Searched, limits: Limits) -> int:
    return limits.total - len(row.rollout.token_ids)


def _joined(rollout: Rollout, more: Rollout) -> Rollout:
    """One rollout after the other, with the finish reason of the second."""
    arrays = ("token_ids", "logprobs", "sample_logprobs", "loss_mask")
    joined = {name: np.concatenate([getattr(rollout, name), getattr(more, name)]) for name in arrays}
    return dataclasses.replace(rollout, **joined, text=rollout.text + more.text, finish_reason=more.finish_reason)


def _written(row: Searched, reply: Rollout, player: Player, pausing: Player, tags: Tags) -> Searched:
    """The row and one more turn of the model."""
    whole = player.decoder.decode(reply.token_ids.tolist())
    before = pausing.stop.trim(whole)
    # A turn is a query if the machine stopped at the closing tag of a query: the first of the stop strings.
    asks = whole.startswith(tags.query[1], len(before))
    query = before.rpartition(tags.query[0])[2].strip() if asks and tags.query[0] in before else ""
    text = player.stop.trim(whole)  # without the player's stop strings, but with tags
    text = text if row.turns else player.opening + text
    start, end = len(row.rollout.token_ids), len(row.rollout.token_ids) + len(reply.token_ids)
    reply = dataclasses.replace(reply, text=text, finish_reason="length" if query else reply.finish_reason)
    return Searched(_joined(row.rollout, reply), (*row.turns, Turn(start, end, text, query)))


def _observed(row: Searched, passages: Sequence[Passage], player: Player, tags: Tags, limits: Limits) -> Searched:
    """The row and its observation: as many whole passages as leave the model room for a token."""
    room = min(limits.observation, _room(row, limits) - 1)
    count = next(n for n in range(len(passages), -1, -1) if len(player.encode(tags.show(passages[:n]))) <= room)
    passages, text = tuple(passages[:count]), tags.show(passages[:count])
    ids = np.asarray(player.encode(text), np.int32)
    zeros = np.zeros(len(ids), np.float32)
    observation = Rollout(row.rollout.prompt_ids, ids, zeros, zeros, zeros, text, row.rollout.finish_reason)
    turns = (*row.turns[:-1], dataclasses.replace(row.turns[-1], passages=passages))
    return Searched(_joined(row.rollout, observation), turns)

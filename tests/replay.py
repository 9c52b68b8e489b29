"""Several turns the plain way: each asks the player again, with all that stands in a row so far as its prompt.

The reference that `Player.converse` is tested against, and what its kept cache is measured by.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax

from spicejax.generate.layout import TurnLimits
from spicejax.generate.player import Observe, Player, WrittenTurn
from spicejax.generate.sampler import SamplerConfig


class Replaying(Player):
    """A player that computes the whole row anew at every turn; its longest bucket must hold the longest row."""

    def converse(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        samples: int,
        first_row: Sequence[int],
        key: jax.Array,
        settings: SamplerConfig,
        turn_limits: TurnLimits,
        observe: Observe,
    ) -> None:
        """See `Player.converse`: all rows write a turn, then all are answered."""
        live = [(i, j, list(prompt), turn_limits.turn) for i, prompt in enumerate(prompts) for j in range(samples)]
        for turn in range(turn_limits.turns):
            alike = samples if turn == 0 else 1  # rows that stand side by side and have the same tokens so far
            heads = live[::alike]
            replies = self.respond(
                [tokens for _, _, tokens, _ in heads],
                samples=alike,
                first_row=[first_row[i] + j for i, j, *_ in heads],
                key=jax.random.fold_in(key, turn),
                settings=settings,
                max_new=turn_limits.turn,
                limits=[limit for *_, limit in heads],
            )
            said = sum(replies, [])
            places, answers = observe([WrittenTurn(i, j, reply) for (i, j, *_), reply in zip(live, said, strict=True)])
            more = zip(places, answers(), strict=True)
            live = [
                (*live[n][:2], [*live[n][2], *said[n].token_ids.tolist(), *shown], limit) for n, (shown, limit) in more
            ]
            if not live:
                return

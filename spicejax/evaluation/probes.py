"""Probes: today's policy plays against the first one (figure 3 of SPICE, for any game of several roles)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from spicejax.games.game import Game
from spicejax.games.world import World
from spicejax.generate.player import Player
from spicejax.types import Metrics


def probes(
    world: World,
    items: Sequence[Any],
    game: Game,
    cfg: Any,
    *,
    current: Player,
    initial: Player,
    others: Mapping[str, Player],
    group: int,
) -> Metrics:
    """What the game says of mixed pairings, on fixed items and fixed random streams.

    fixed_ROLE: the first policy plays this role, today's the others. For SPICE: fixed_reasoner falls as questions get
      harder, fixed_challenger rises as the Reasoner learns.
    current: today's policy plays all (ours). Against fixed_challenger it says whether the Challenger's questions have
      moved towards the frontier of today's Reasoner.

    Args:
      others: roles that another model plays; it keeps its seat in every pairing.
      group: samples of each prompt.
    Returns: probe/PAIRING/QUANTITY for each of the game's probed metrics.
    """
    assert game.probe is not None
    cfg = game.probe(cfg, len(items), group)
    roles = sorted({ask.seat or ask.role for ask in game.demand(cfg)} - set(others))
    everybody = dict.fromkeys(roles, current) | dict(others)
    pairings = {f"fixed_{role}": everybody | {role: initial} for role in roles} | {"current": everybody}
    metrics: Metrics = {}
    for name, players in pairings.items():
        # No run reaches this iteration, so no training draw is repeated here.
        played = game.play(dataclasses.replace(world, players=players, iteration=2**31 - 1), items, cfg, None)
        for quantity in game.probed:
            if quantity in played.metrics:
                metrics[f"probe/{name}/{quantity.split('/')[1]}"] = played.metrics[quantity]
    return metrics

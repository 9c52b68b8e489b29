"""The games there are: the type of a run's `game` section says which one is played."""

from __future__ import annotations

from typing import Any

from spicejax.games.game import Game
from spicejax.games.spice import game as spice

GameConfig = spice.SpiceConfig

GAMES: dict[type, Game] = {spice.SpiceConfig: spice.GAME}


def game_of(cfg: Any) -> Game:
    """The game that this Config belongs to."""
    return GAMES[type(cfg)]

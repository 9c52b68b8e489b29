"""The games of the package by their short names, those of their sections; a game from outside is not listed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from spicejax.config import Open
from spicejax.fields import ConfigError
from spicejax.games.game import GameConfig

GAMES = {
    "spice": "spicejax.games.spice.game:SpiceConfig",
    "rlvr": "spicejax.games.rlvr.game:RlvrConfig",
    "supervised": "spicejax.games.supervised.game:SupervisedConfig",
    "r1searcher": "spicejax.games.r1_searcher.game:R1SearcherConfig",
    "ssp": "spicejax.games.ssp.game:SspConfig",
    "acesearcher": "spicejax.games.acesearcher.game:AceSearcherConfig",
    "rzero": "spicejax.games.r_zero.game:RZeroConfig",
    "absolutezero": "spicejax.games.absolute_zero.game:AbsoluteZeroConfig",
}


def game(name: str) -> type[GameConfig]:
    """The Config of the game `name`. Raises KeyError for a name that is not in GAMES."""
    module, _, cls = GAMES[name].partition(":")
    return getattr(importlib.import_module(module), cls)


def config_of(data: Mapping[str, Any]) -> type[GameConfig]:
    """The Config whose section stands in JSON.

    Raises:
        ConfigError: no game, or one from outside, whose code is not run because a file names it.
    """
    if data.get("game"):
        raise ConfigError(
            f"its game is {data['game']}, code from outside the package, which is run from a file that you name alone: "
            "give --config=FILE.py (a run keeps a copy in its folder)"
        )
    name = next((name for name in GAMES if name in data), None)
    if name is None:
        raise ConfigError(f"there is no game; give a section {', '.join(GAMES)}")
    return game(name)


OPEN = Open(config_of, tuple(GAMES))

"""The games there are: the type of a run's `game` section says which one is played."""

from __future__ import annotations

from typing import Any

from spicejax.games.acesearcher import game as acesearcher
from spicejax.games.game import Game
from spicejax.games.r1_searcher import game as r1_searcher
from spicejax.games.rlvr import game as rlvr
from spicejax.games.spice import game as spice
from spicejax.games.ssp import game as ssp
from spicejax.games.supervised import game as supervised

GameConfig = (
    spice.SpiceConfig
    | rlvr.RlvrConfig
    | supervised.SupervisedConfig
    | r1_searcher.R1SearcherConfig
    | ssp.SspConfig
    | acesearcher.AceSearcherConfig
)

GAMES: dict[type, Game] = {
    spice.SpiceConfig: spice.GAME,
    rlvr.RlvrConfig: rlvr.GAME,
    supervised.SupervisedConfig: supervised.GAME,
    r1_searcher.R1SearcherConfig: r1_searcher.GAME,
    ssp.SspConfig: ssp.GAME,
    acesearcher.AceSearcherConfig: acesearcher.GAME,
}


def game_of(cfg: Any) -> Game:
    """The game that this Config belongs to."""
    return GAMES[type(cfg)]

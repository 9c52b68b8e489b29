"""The game of a run as its folder tells it: ours by the name of its section, one from outside by what the run recorded.

No code from outside is run for it.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec

from spicejax import config as configuration
from spicejax.games import catalogue
from spicejax.games.game import About, GameConfig
from spicejax.types import Messages, Task

FILE = "game.json"  # of a run whose game is from outside
QUESTION = "{question}"  # stands in a prompt where the question stands


@dataclasses.dataclass(frozen=True)
class Asked:
    """How a game asks a held-out question."""

    messages: Messages
    max_new: int  # longest answer, in tokens
    searches: bool


@dataclasses.dataclass(frozen=True)
class Known:
    """What is kept of a game."""

    about: About
    asked: Asked


def known(cfg: GameConfig) -> Known:
    """What a run keeps of its game."""
    exam = cfg.game.exam(cfg)
    return Known(cfg.game.about, Asked(exam.ask(Task(QUESTION, "", "String")), exam.max_new, exam.searches))


def write(folder: Path, cfg: GameConfig) -> None:
    """Keep what reports say of a game from outside."""
    if configuration.outside(type(cfg)):
        text = json.dumps(msgspec.to_builtins(known(cfg)), indent=1)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")


def about(config: dict[str, Any], folder: Path) -> About | None:
    """What the game of a run, whose configuration this is, says of itself; None where it is not known."""
    name = _ours(config)
    recorded = None if name else _recorded(folder)
    return catalogue.game(name).game.about if name else recorded and recorded.about


def asked(config: dict[str, Any], folder: Path) -> Asked | None:
    """How the run asks a held-out question.

    None where its game is not known, or its section is of a version that is read no more.
    """
    found = _recorded(folder)
    if name := _ours(config):
        cls = catalogue.game(name)
        try:
            found = known(configuration.from_json(cls, configuration.readable(cls, config[name])))
        except (AttributeError, TypeError, ValueError):
            return None
    longest = (config.get("eval") or {}).get("max_new")
    return found and dataclasses.replace(found.asked, max_new=longest or found.asked.max_new)


def _ours(config: dict[str, Any]) -> str:
    return next((name for name in catalogue.GAMES if name in config), "") if not config.get("game") else ""


def _recorded(folder: Path) -> Known | None:
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"), parse_constant=lambda word: None)
        return msgspec.convert(found, Known)
    except (OSError, ValueError, RecursionError):
        return None

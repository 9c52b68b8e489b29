"""What a game must keep to is looked at before anything slow, and in each iteration."""

import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from scripted import written

from spicejax import configs
from spicejax.fields import ConfigError
from spicejax.games.contract import kept, require_game, require_played
from spicejax.games.game import Ask, Played
from spicejax.types import Episode

RLVR = configs.load("rlvr_nano")
ASKS = [Ask("writer", 1, 2, 8, trained=1), Ask("judge", 1, 1, 8)]


def game_of(**changes):
    """The class of a game of ones own: RLVR's with these changes."""
    fields = {name: changes.pop(name) for name in ("items",) if name in changes}
    return type("MineConfig", (type(RLVR.game),), {"game": RLVR.game.game._replace(**changes), **fields})


def test_a_game_that_a_plan_cannot_read_is_refused():
    require_game(game_of()())
    for changes, why in (
        ({"reads": "qestions"}, "MineConfig.game: reads='qestions': one of documents, questions, "),
        ({"items": None}, "MineConfig.items is None: give it a property `items`"),
        (
            {"demand": lambda cfg: [Ask("writer", 1, 2, 8)]},
            "nothing is trained: an Ask of its demand must say trained=N",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(why)):
            dataclasses.replace(RLVR, game=game_of(**changes)())


def test_a_field_that_json_does_not_have_is_named():
    cls = dataclasses.make_dataclass("MineConfig", [("words", set[str], frozenset({"a"}))], frozen=True, bases=())
    cls.game = RLVR.game.game
    with pytest.raises(ConfigError, match=r"MineConfig.words=frozenset\({'a'}\): .* take a tuple or a text"):
        configs.configuration.to_json(cls())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"lessons": [Episode("judge", 0, written("a"), 1.0)], "metrics": {"a/b": np.float32(1), "a/c": 2}}, None),
        ({"metrics": {"a/b": np.bool_(True), "a/c": jnp.ones(()), "a/d": np.nan}, "totals": {"n": np.int64(3)}}, None),
        ({"lessons": [Episode("wirter", 0, written("a"), 1.0)]}, "the role 'wirter': the game's demand names judge"),
        ({"lessons": [Episode("writer", 3, written("a"), float("nan"))]}, "a reward of 'writer' in group 3 is nan"),
        ({"lessons": [Episode("writer", 3, written("a"), None)]}, "a reward of 'writer' in group 3 is None"),
        ({"metrics": {"a/b": None}}, "the metric a/b is None: give a number"),
        ({"metrics": {"a/b": "none"}}, "the metric a/b is 'none'"),
        ({"totals": {"n": "3"}}, "the total n is '3': give a number"),
    ],
)  # fmt: skip
def test_what_an_iteration_yields(changes, why):
    played = Played(**{"lessons": [], "metrics": {}} | changes)
    if why is None:
        require_played(played, ASKS)
        return
    with pytest.raises(ValueError, match=re.escape(why)):
        require_played(played, ASKS)


def test_a_state_is_what_a_checkpoint_brings_back():
    state = {"pool": [1, 2.5, "a", None], "seen": {}}
    assert kept(state) == state and kept(state) is not state
    assert kept({0: [(1, 2)]}) == {"0": [[1, 2]]}
    with pytest.raises(ValueError, match="state cannot be kept in a checkpoint, which is JSON: Object of type int64"):
        kept({"n": np.int64(3)})

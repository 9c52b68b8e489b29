"""Who sits where: while a game is played, and in an evaluation."""

import collections
import dataclasses

import pytest
from scripted import typist

from spicejax import config as configuration
from spicejax import configs
from spicejax.data.questions import Item
from spicejax.generate.tally import Tally
from spicejax.run import build, train
from spicejax.score.verifiers import Verifier
from spicejax.types import Task

ROOM = {
    "ssp.solver_limits.turn": "60", "ssp.solver_limits.observation": "80", "ssp.solver_limits.total": "200",
    "buckets.prompt": "300", "learner.row_length": "400",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Named:
    """A player of which its name counts."""

    name: str
    tally: Tally | None = None


@dataclasses.dataclass
class Seated(build.Run):
    """A run whose first policy is given."""

    before: object = None

    def first_player(self):
        return self.before


def seated(name, changes, *, policy=Named("now"), before=Named("before"), others=None, **more):
    """A run of a recipe that can be seated, and lacks all else."""
    cfg = configuration.override(configs.load(name), changes)
    cfg = dataclasses.replace(cfg[-1] if isinstance(cfg, tuple) else cfg, seats=dict.fromkeys(others or (), "FOLDER"))
    unused = dict.fromkeys(field.name for field in dataclasses.fields(build.Run))
    counts = {
        "clock": collections.defaultdict(float),
        "searched": collections.Counter(),
        "tallies": collections.defaultdict(Tally),
    }
    parts = {"cfg": cfg, "game": cfg.game.game, "player": policy, "others": others or {}, "before": before}
    return Seated(**(unused | counts | parts | more))


@pytest.mark.parametrize(
    ("name", "changes", "others", "playing"),
    [
        ("ssp_nano", {"ssp.fixed": "solver"}, {}, {"proposer": "now", "solver": "before", "verifier": "before"}),
        ("ssp_nano", {"ssp.fixed": "proposer"}, {}, {"proposer": "before", "solver": "now", "verifier": "now"}),
        ("ssp_nano", {}, {"solver": "other"}, {"proposer": "now", "solver": "other", "verifier": "now"}),
        ("spice_nano", {"spice.fixed_challenger": "true"}, {}, {"challenger": "before", "reasoner": "now"}),
        ("spice_nano", {}, {"reasoner": "other"}, {"challenger": "now", "reasoner": "other"}),
        ("acesearcher_nano", {}, {"solver": "other"}, {"decomposer": "before", "solver": "other"}),
    ],
)
def test_an_evaluation_asks_the_trained_policy_whoever_plays(name, changes, others, playing):
    run = seated(name, changes, others={role: Named(player) for role, player in others.items()})

    def players(**how):
        return {role: player.name for role, player in run.world(3, **how).players.items()}

    assert players() == playing
    assert players(evaluating=True) == dict.fromkeys(playing, "now")


def test_a_run_with_a_frozen_solver_is_scored_by_its_policys_answers():
    knows, guesses = (typist(lambda text, row, word=word: f"<answer>{word}</answer>") for word in ("bako", "timu"))
    with Verifier(workers=1) as verifier:
        run = seated("ssp_nano", {"ssp.fixed": "solver"} | ROOM, policy=knows, before=guesses, verifier=verifier,
                     find=lambda queries, most: [[] for _ in queries],
                     held_out=[Item(Task("home of zita?", "bako", "String", "1"), "facts_1")])  # fmt: skip
        assert train.evaluation(run, 0)[0]["eval/accuracy"] == 1


def test_training_questions_that_are_held_out_are_told(caplog):
    asked = [Task(text, "x", "String") for text in ("Who wrote it?", "Who sold it?", "who  wrote IT?")]
    build.warn_of_shared(asked, [Item(asked[0]), Item(Task("Who?", "x", "String"))], "set.jsonl")
    told = "2 of 3 training questions are asked in the evaluation too (set.jsonl), the first 'Who wrote it?'"
    assert told in caplog.text
    caplog.clear()
    build.warn_of_shared(asked, [Item(dataclasses.replace(asked[0], context="of another text"))], "set.jsonl")
    assert not caplog.text


def test_queries_are_counted_and_those_that_find_nothing():
    run = seated("ssp_nano", {}, find=lambda queries, most: [[] if "no" in query else [query] for query in queries])
    assert run.world(0).look_up(["yes", "no", "no"], 1) == [["yes"], [], []]  # each is asked once
    assert run.searched == {"queries": 2, "queries_empty": 1}
    assert train._found_nothing({"search/queries": 2.0, "search/queries_empty": 1.0}) == train._found_nothing({}) == ""
    assert "any of 2 queries" in train._found_nothing({"search/queries": 2.0, "search/queries_empty": 2.0})

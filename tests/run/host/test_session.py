"""The session's clock, and runs that must leave before it ends: on a clock of their own, so that no test waits."""

import json
import os
import time

import pytest
from tiny_runs import SPICE

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.games.spice.game import SpiceConfig
from spicejax.run import chain, train
from spicejax.run.host import session
from spicejax.run.host.session import Session
from spicejax.run.store.checkpoint import Checkpoints

TIMES = {"iteration": 60.0, "evaluation": 200.0, "save": 100.0}  # seconds that a part of a run takes here


class Time:
    """A clock that goes on where a part of a run is done."""

    def __init__(self):
        self.now = 0.0
        self.parts = []

    def __call__(self):
        return self.now

    def during(self, part, act):
        def slow(*args, **kwargs):
            done = act(*args, **kwargs)
            self.now += TIMES[part]
            self.parts.append(part)
            return done

        return slow


@pytest.fixture
def clock(monkeypatch):
    """Iterations, evaluations and saves take the time that TIMES says."""
    clock, game = Time(), SpiceConfig.game
    monkeypatch.setattr(SpiceConfig, "game", game._replace(play=clock.during("iteration", game.play)))
    monkeypatch.setattr(Checkpoints, "save", clock.during("save", Checkpoints.save))
    monkeypatch.setattr(train, "evaluation", clock.during("evaluation", train.evaluation))
    return clock


def tiny(cache, **more):
    words = SPICE | {"nano.cache": str(cache), "iterations": "40", "nano.held_out": "4", "show_every": "0"} | more
    return configuration.override(configs.load("spice_nano"), words)


def saved(folder):
    return [int(path.name) for path in sorted((folder / "checkpoints").glob("0*"))]


@pytest.mark.parametrize(("every", "limit"), [(0, 550.0), (2, 777.0), pytest.param(5, 550.0, marks=pytest.mark.slow)])
def test_a_run_leaves_saved_before_the_limit(cache, tmp_path, clock, every, limit):
    """Whatever the limit, and whether the last save was long ago or just now."""
    cfg = tiny(cache, **{"checkpoint.every": str(every)})
    summary = train.train(cfg, tmp_path, session=Session(limit, now=clock))
    assert 0 < summary["iterations"] < 40 and not summary["complete"]
    assert saved(tmp_path)[-1] == summary["iterations"], "nothing is lost"
    assert limit - 2 * 1.25 * (60 + 100) < clock.now <= limit


def test_the_first_save_is_tried_early_so_that_its_time_is_known(cache, tmp_path, clock):
    cfg = tiny(cache, **{"checkpoint.every": "0", "iterations": "3"})
    train.train(cfg, tmp_path / "limited", session=Session(10_000.0, now=clock))
    assert clock.parts == ["evaluation", "iteration", "save", "iteration", "iteration", "evaluation", "save"]
    clock.parts.clear()
    train.train(cfg, tmp_path / "free")
    assert clock.parts == ["evaluation", *["iteration"] * 3, "evaluation", "save"]


def test_an_evaluation_that_would_not_end_is_made_in_the_next_session_once(cache, tmp_path, clock, capsys):
    """0 to 200: the first evaluation; 260: iteration 1; 360: its save; 420: iteration 2, whose evaluation is due."""
    cfg = tiny(cache, **{"checkpoint.every": "0", "eval.every": "2", "iterations": "2"})
    summary = train.train(cfg, tmp_path, session=Session(720.0, now=clock))
    assert clock.parts == ["evaluation", "iteration", "save", "iteration", "save"] and clock.now <= 720
    assert (summary["iterations"], summary["complete"]) == (2, False)
    assert "stopped after iteration 2 (checkpoint.session_hours)" in capsys.readouterr().out
    clock.parts.clear()
    summary = train.train(cfg, tmp_path, session=Session(clock.now + 720.0, now=clock))
    assert clock.parts == ["evaluation"] and summary["complete"]
    again = train.train(cfg, tmp_path, session=Session(clock.now + 720.0, now=clock))
    assert clock.parts == ["evaluation"] and again["complete"]
    assert again["accuracy_end"] == summary["accuracy_end"] is not None
    told = [json.loads(line)["iteration"] for line in (tmp_path / "evaluations.jsonl").read_text().splitlines()]
    assert told == [0, 2]


def test_a_chain_has_one_session(cache, tmp_path, monkeypatch):
    """Its runs end at one time, counted from when the session began, which may be before the command."""
    ends = []

    def passed(cfg, folder, *, session, **_):
        ends.append(session.until)
        (folder / chain.POLICY).mkdir(parents=True)
        return {"complete": True}

    monkeypatch.setattr(train, "train", passed)
    monkeypatch.setattr(chain.page, "write", lambda folder: [])
    monkeypatch.setattr(chain.export, "write_policy", lambda folder, out, finish: None)
    stages = chain.override(configs.stages("sft_rlvr_nano"), ["checkpoint.session_hours=2"])
    monkeypatch.setenv(session.BEGAN, str(time.time() - 3600))
    chain.run(stages, tmp_path)
    assert len(ends) == 2 and ends[0] == ends[1] == pytest.approx(time.monotonic() + 3600, abs=60)


def test_when_the_session_began_is_what_the_environment_says(monkeypatch):
    monkeypatch.delenv(session.BEGAN, raising=False)
    assert session.began() == pytest.approx(time.monotonic(), abs=60)
    monkeypatch.setenv(session.BEGAN, str(time.time() - 7200))
    assert session.began() == pytest.approx(time.monotonic() - 7200, abs=60)


@pytest.mark.parametrize("said", ["yesterday", "nan", "inf", "-inf", "99999999999"])
def test_a_beginning_that_is_none_is_refused(said, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(session.BEGAN, said)
    assert commands.run("train", ["--config=spice_nano", f"--workdir={tmp_path}", "--dry_run"]) == 2
    told = capsys.readouterr().err
    assert f"SPICEJAX_SESSION_START={said}: give the seconds since the epoch" in told and told.count("\n") == 1


def test_a_session_that_is_over_begins_nothing_and_the_same_command_goes_on(cache, tmp_path, monkeypatch, capsys):
    """As typed: what was before the command counts."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", os.environ.get("JAX_COMPILATION_CACHE_DIR", ""))  # not the run's
    words = [f"{key}={value}" for key, value in SPICE.items()] + [f"nano.cache={cache}", "iterations=1"]
    words += ["--config=spice_nano", f"--workdir={tmp_path}", "checkpoint.session_hours=1"]
    for began, code in ((time.time() - 3600, 75), (time.time(), 0)):
        monkeypatch.setenv(session.BEGAN, str(began))
        assert commands.run("train", words) == code
        assert ("the session is over (checkpoint.session_hours)" in capsys.readouterr().out) == bool(code)
        assert saved(tmp_path) == ([] if code else [1])


def test_parts_that_were_not_measured_count_as_an_iteration():
    clock = Time()
    limit = Session(100.0, now=clock)
    assert limit.holds("iteration", "save"), "nothing is known yet"
    with limit.measured("iteration"):
        clock.now += 40
    assert limit.holds("iteration") and not limit.holds("iteration", "save")
    with limit.measured("save"):
        clock.now += 1
    assert limit.holds("iteration") and limit.holds("save") and not Session(40.0, now=clock).holds()

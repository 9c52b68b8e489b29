"""Metrics at trackers, each through its own library, offline; a tracker that fails ends nothing."""

import contextlib
import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading

import pytest
from processes import PATIENCE, ROOT

from spicejax.run.store import track
from spicejax.run.store.track import Tracker

VALUES = {"reasoner/pass_rate": 0.5, "none": None, "text": "a", "nan": float("nan")}


def test_tensorboard_holds_the_numbers_and_a_resumed_run_goes_on(tmp_path):
    pytest.importorskip("tensorboardX")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for start, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        tracker = Tracker("tensorboard", run="r", workdir=tmp_path, config={}, start=start)
        for step in steps:
            tracker.log(step, VALUES | {"start": start})
        tracker.close()
        assert tracker.failures == 0
    read = events.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert sorted(read.Tags()["scalars"]) == ["reasoner/pass_rate", "start"]
    assert [(e.step, e.value) for e in read.Scalars("start")] == [(1, 0), (2, 0), (3, 2), (4, 2)]


@pytest.mark.parametrize(
    ("name", "mode"),
    [("trackio", {}), ("wandb", {}), pytest.param("wandb", {"WANDB_MODE": "offline"}, marks=pytest.mark.slow)],
)
def test_a_tracker_works_without_internet_and_asks_nothing(name, mode, tmp_path):
    """A run of two starts, with the real library."""
    pytest.importorskip(name)
    code = f"""
from pathlib import Path
from spicejax.run.store.track import Tracker
for start in (0, 2):
    tracker = Tracker({name!r}, run="r", workdir=Path({str(tmp_path)!r}), config={{"a": 1}}, start=start)
    for step in (1, 2):
        tracker.log(start + step, {{"reasoner/pass_rate": step / 4, "text": "a"}})
    tracker.close()
    print("failures", tracker.failures)
print("a document", "that was shown")
"""
    at = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HOME": str(tmp_path), "WANDB_DIR": str(tmp_path)} | mode
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "HF_"))} | at
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout.count("failures 0") == 2, done.stdout + done.stderr
    known = json.loads((tmp_path / track.IDENTITY).read_text())["id"]
    if name == "trackio":
        (file,) = (tmp_path / "trackio").rglob("*.db")
        with contextlib.closing(sqlite3.connect(file)) as database:
            rows = database.execute("select run_name, step, metrics from metrics order by step").fetchall()
        rows = [(run, step, json.loads(metrics)) for run, step, metrics in rows]
        rows = [row for row in rows if "reasoner/pass_rate" in row[2]]  # it writes rows of its own, of the machine
        assert {run for run, _, _ in rows} == {f"r-{known}"}
        assert [(step, m["reasoner/pass_rate"]) for _, step, m in rows] == [(1, 0.25), (2, 0.5), (3, 0.25), (4, 0.5)]
    else:
        files = sorted(tmp_path.rglob("*.wandb"))
        assert [file.name for file in files] == [f"run-{known}.wandb"] * 2
        for file in files:
            assert b"pass_rate" in file.read_bytes() and b"that was shown" not in file.read_bytes()


class Library:
    """Stands for wandb and for trackio: notes what it is told, and does as it is asked to."""

    def __init__(self, act=lambda: None, opening=lambda: None):
        self.runs, self.rows, self._act, self._opening = [], [], act, opening

    def init(self, **said):
        self._opening()
        self.runs.append(said)
        return self

    def log(self, values, step):
        self._act()
        self.rows.append(step)

    def login(self, prompt=True, verify=True):
        assert not prompt and not verify
        return False

    def Settings(self, **said):
        return said

    finish = staticmethod(lambda: None)


@pytest.fixture
def installed(monkeypatch):
    def installed(name, *how):
        library = Library(*how)
        monkeypatch.setitem(sys.modules, name, library)
        return library

    return installed


@pytest.mark.parametrize(("name", "key"), [("wandb", "id"), ("trackio", "name")])
def test_a_resumed_run_is_the_same_one_and_no_other_is(name, key, tmp_path, installed):
    library = installed(name)
    for folder, start in (("here/run", 0), ("here/run", 3), ("elsewhere/run", 0), ("here/run", 0), ("here/run", 2)):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        tracker = Tracker(name, run="recipe-run", workdir=tmp_path / folder, config={}, start=start)
        tracker.log(start + 1, VALUES)
        tracker.close()
        assert tracker.failures == 0
    first, resumed, elsewhere, anew, again = (run[key] for run in library.runs)
    assert first == resumed and anew == again and len({first, elsewhere, anew}) == 3
    assert {run["resume"] for run in library.runs} == {"allow"} and library.rows == [1, 4, 1, 1, 3]


@pytest.mark.parametrize("where", ["opening", "a row"])
def test_one_that_hangs_holds_nothing_up(where, tmp_path, installed, caplog, monkeypatch):
    monkeypatch.setattr(track, "WAITING", 5)
    monkeypatch.setattr(track, "PATIENCE", 0.2)
    never = threading.Event()
    library = installed("trackio", *((lambda: None, never.wait) if where == "opening" else (never.wait,)))
    with caplog.at_level(logging.WARNING):
        tracker = Tracker("trackio", run="r", workdir=tmp_path, config={})
        for step in range(100):
            tracker.log(step, VALUES)
        tracker.close()
    assert tracker.failures >= 99 and library.rows == []  # at most one is under way
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "the tracker is 5 rows behind", "the tracker did not end within 0 s and is left behind",
    ]  # fmt: skip
    never.set()


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_what_fails_is_counted_and_told_once(error, tmp_path, caplog, installed):
    def fails():
        raise error("no")

    library = installed("trackio", fails)
    with caplog.at_level(logging.WARNING):
        tracker = Tracker("trackio", run="r", workdir=tmp_path, config={})
        for step in (1, 2, 3):
            tracker.log(step, VALUES)
        tracker.close()
    assert tracker.failures == 3 and len(caplog.records) == 1 and len(library.runs) == 1


def test_one_that_cannot_be_opened_has_no_row(tmp_path, caplog):
    pytest.importorskip("tensorboardX")
    (tmp_path / "tensorboard").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        tracker = Tracker("tensorboard", run="r", workdir=tmp_path, config={})
        tracker.log(1, VALUES)
        tracker.log(2, VALUES)
        tracker.close()
    assert tracker.failures == 3 and len(caplog.records) == 1


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(track._MODULES, "wandb", "surely_not_installed")
    track.require("none")
    with pytest.raises(ImportError, match=r'pip install "spicejax\[wandb\]"'):
        track.require("wandb")

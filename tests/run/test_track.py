"""Metrics at trackers, each through its own library, offline; a tracker that fails ends nothing."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE

from spicejax.run import track
from spicejax.run.track import Tracker

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_tracker_works_without_internet_and_asks_nothing(name, tmp_path):
    pytest.importorskip(name)
    code = f"""
from pathlib import Path
from spicejax.run.track import Tracker
tracker = Tracker({name!r}, run="r", workdir=Path({str(tmp_path)!r}), config={{"a": 1}})
for step in (1, 2):
    tracker.log(step, {{"reasoner/pass_rate": step / 4, "text": "a"}})
tracker.close()
print("failures", tracker.failures)
"""
    at = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HOME": str(tmp_path), "WANDB_DIR": str(tmp_path)}
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "HF_"))} | at
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "failures 0" in done.stdout, done.stderr
    kept = [path.name for path in tmp_path.rglob("*") if path.suffix in (".db", ".wandb", ".parquet", ".sqlite")]
    assert kept, sorted(tmp_path.rglob("*"))


def test_what_fails_is_counted_and_told_once(tmp_path, caplog):
    pytest.importorskip("tensorboardX")
    (tmp_path / "tensorboard").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        tracker = Tracker("tensorboard", run="r", workdir=tmp_path, config={})
        tracker._log = lambda step, values: 1 / 0
        tracker.log(1, VALUES)
        tracker.log(2, VALUES)
        tracker.close()
    assert tracker.failures >= 3 and len(caplog.records) == 1


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(track._MODULES, "wandb", "surely_not_installed")
    track.require("none")
    with pytest.raises(ImportError, match=r'pip install "spicejax\[wandb\]"'):
        track.require("wandb")

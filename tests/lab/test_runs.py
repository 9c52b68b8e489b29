"""Runs of a study: real ones, several at a time; finished ones are kept, a stopped lab goes on."""

import json
import signal
import subprocess
import sys
import time

import pytest
from processes import PATIENCE, ROOT

from spicejax.lab import runs
from spicejax.lab.runs import Run
from spicejax.lab.studies import Arm, Study

STUDY = Study(
    "Two learning rates.",
    "none",
    {"slow": Arm("rlvr_nano", ("learner.learning_rate=1e-5",)), "fast": Arm("rlvr_nano")},
    (),
)
FIELDS = ["iterations=2", "rlvr.questions=4", "rlvr.group_size=4", "eval.every=2", "checkpoint.every=1"]


@pytest.fixture(scope="module")
def study(cache, tmp_path_factory):
    """Both arms, run at once."""
    folder = tmp_path_factory.mktemp("lab")
    planned = runs.planned(STUDY, folder, 1, [*FIELDS, f"nano.cache={cache}"])
    runs.finish(planned, [*FIELDS, f"nano.cache={cache}"], 2)
    return planned


def test_every_run_is_finished_and_measured(study):
    assert all(run.finished for run in study)
    slow, fast = map(runs.measured, study)
    assert [row["iteration"] for row in fast] == [0, 2] == [row["iteration"] for row in slow]
    assert slow[0]["eval/accuracy"] == fast[0]["eval/accuracy"], "both start from the model of the seed"
    played = [json.loads(line) for line in (study[0].folder / "metrics.jsonl").read_text().splitlines()]
    passed = [row["solver/pass_rate"] if "solver/pass_rate" in row else row["reasoner/pass_rate"] for row in played]
    key = next(k for k in slow[0] if k.endswith("/pass_rate"))
    assert slow[0][key] == pytest.approx(sum(passed) / len(passed), rel=1e-5)


def test_finished_runs_are_not_repeated(study):
    times = [(run.folder / "summary.json").stat().st_mtime_ns for run in study]
    runs.finish(study, [], 2)
    assert times == [(run.folder / "summary.json").stat().st_mtime_ns for run in study]


@pytest.mark.slow
def test_a_stopped_lab_goes_on(cache, tmp_path):
    """Ctrl-C ends its runs too, which save; the same call goes on with them."""
    fields = [
        "iterations=40",
        "eval.every=0",
        *(f for f in FIELDS if "." in f and "eval" not in f),
        f"nano.cache={cache}",
    ]
    script = (
        "from pathlib import Path; from spicejax.lab import runs, studies; "
        f"arm = studies.Arm('rlvr_nano'); run = runs.Run('a', arm, 0, Path({str(tmp_path)!r}, 'a')); "
        f"runs.finish([run], {fields!r}, 1)"
    )
    run, words = Run("a", Arm("rlvr_nano"), 0, tmp_path / "a"), [sys.executable, "-c", script]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as lab:
        deadline = time.monotonic() + PATIENCE
        while not (run.folder / "metrics.jsonl").exists():
            assert lab.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        lab.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in lab.communicate(timeout=PATIENCE)[1]
    done = len((run.folder / "metrics.jsonl").read_text().splitlines())
    assert not run.finished and 0 < done < 40
    runs.finish([run], fields, 1)
    assert run.finished and len((run.folder / "metrics.jsonl").read_text().splitlines()) == 40


def test_a_run_that_fails_is_named_and_the_others_end(tmp_path):
    broken = Run("broken", Arm("rlvr_nano", ("model.path=/nowhere",)), 0, tmp_path / "broken")
    with pytest.raises(OSError, match="1 of 1 runs failed.*broken"):
        runs.finish([broken], [], 1)
    assert "/nowhere" in (tmp_path / "broken" / "log.txt").read_text()

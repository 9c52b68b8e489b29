"""Runs of a study: real ones, several at a time; finished ones are kept, a stopped lab goes on."""

import json

import pytest

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


def test_a_run_that_fails_is_named_and_the_others_end(tmp_path):
    broken = Run("broken", Arm("rlvr_nano", ("model.path=/nowhere",)), 0, tmp_path / "broken")
    with pytest.raises(OSError, match="1 of 1 runs failed.*broken"):
        runs.finish([broken], [], 1)
    assert "/nowhere" in (tmp_path / "broken" / "log.txt").read_text()

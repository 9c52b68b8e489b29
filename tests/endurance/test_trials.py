"""Trials: a real run of the nano world under faults, a run that differs, and the words of the command."""

import dataclasses
import json
import subprocess
import sys

import processes
import pytest
from finished import run
from tiny_runs import SPICE

from spicejax.endurance import faults, trials
from spicejax.endurance.trials import Recipe

CHANGES = {"iterations": "2", "checkpoint.every": "1", "eval.every": "1"}
FIELDS = [f"{key}={value}" for key, value in (SPICE | CHANGES).items()]


def torture(*words):
    return subprocess.run(
        [sys.executable, "-m", "spicejax", "torture", *map(str, words)], cwd=processes.ROOT, capture_output=True,
        text=True, timeout=processes.PATIENCE,
    )  # fmt: skip


def test_a_run_under_faults_ends_the_same(cache, tmp_path):
    words = ("--config=spice_nano", f"--workdir={tmp_path / 't'}", *FIELDS, f"nano.cache={cache}")
    done = torture(*words, "--trials=1")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = map(json.loads, (tmp_path / "t" / "trials.jsonl").read_text().splitlines())
    assert row["wrong"] == [] and row["number"] == 1 and row["starts"] >= 1
    assert "| all | 1 | 0 |" in done.stdout
    done = torture(*words, "--hours=1e-9")
    assert done.returncode == 2 and "no time was left for a trial" in done.stderr
    done = torture(*words, "seed=5")
    assert done.returncode == 2 and "holds trials of other words" in done.stderr


@pytest.mark.slow
def test_a_run_that_ends_otherwise_is_kept(cache, tmp_path):
    words = ("--config=spice_nano", f"--workdir={tmp_path / 't'}", *FIELDS, f"nano.cache={cache}")
    assert torture(*words, "--trials=1").returncode == 0
    extra = tmp_path / "t" / "reference" / "checkpoints" / "00000002" / "extra.json"
    extra.write_text(extra.read_text().replace('"iteration"', '"iterations"', 1).replace('"totals"', '"total"', 1))
    done = torture(*words, "--trials=1")
    assert done.returncode == 1
    assert "the state's counters" in done.stdout and "| all | 2 | 1 |" in done.stdout
    assert (tmp_path / "t" / "trial2-0.log").exists()


def test_where_undisturbed_runs_differ_nothing_is_tried(tmp_path, monkeypatch):
    rewards = iter([0.5, 0.25])

    def start(recipe, folder, *_):
        run(folder, reward=next(rewards))
        return 0, f'{faults.CAME} {{"at the start": 1}}\n'

    monkeypatch.setattr(trials, "_start", start)
    recipe = Recipe((), lambda folder: [folder], (3,))
    with pytest.raises(OSError, match=r"undisturbed runs differ \(metrics.jsonl differs in 1 lines"):
        trials.reference(recipe, tmp_path / "reference", 1.0)
    assert not (tmp_path / "reference.json").exists() and (tmp_path / "reference.first").exists()


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("--hours=0", "--hours=0: give more than 0"),
        ("--trials=-1", "give 1 or more"),
        ("spice.x=1", "unknown field"),
        ("--faults=0", "give 1 or more"),
        ("--actions=SIGKILL,flood", "'flood' is none of SIGKILL, SIGTERM"),
    ],
)
def test_wrong_words_are_one_line(word, line, tmp_path):
    done = torture("--config=spice_nano", f"--workdir={tmp_path / 't'}", word)
    assert done.returncode == 2 and line in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "t").exists()


def test_the_next_iteration_is_the_first_that_was_not_saved(tmp_path):
    recipe = Recipe((), lambda folder: [folder / "1", folder / "2"], (4, 3))
    stages = recipe.folders(tmp_path)

    def following(*done):
        return trials._next(recipe, stages, {stage: set(steps) for stage, steps in zip(stages, done, strict=True)})

    assert following([], []) == 1
    assert following([1, 2], []) == 3
    assert following([3, 4], []) == 1  # the export is left, then the second stage begins
    (stages[0] / "policy").mkdir(parents=True)
    assert following([4], [2]) == 3
    assert following([4], [3]) == 0
    assert trials._went_on(3, "resuming\niteration 3/4  reward 1\n") == []
    assert trials._went_on(3, "resuming\niteration 2/4  reward 1\n") == ["went on with iteration 2, not with 3"]
    assert trials._went_on(3, "ended before\n") == []


def test_the_table_counts_moments_and_damages():
    row = trials.Trial(1, 0, ["SIGKILL before a save, time 2, then cut file", "SIGKILL after 0.5 of the time"], 3, 1)
    wrong = dataclasses.replace(row, faults=["pause while playing, time 1"], wrong=["x"], iterations_again=0)
    text = trials.table([dataclasses.asdict(row), dataclasses.asdict(wrong)])
    for line in ("| SIGKILL at any time | 1 | 0 |", "| SIGKILL before a save | 1 | 0 |", "| cut file | 1 | 0 |"):
        assert line in text
    assert "| pause while playing | 1 | 1 |" in text and "3 faults in 2 runs; 1 iterations" in text

"""Runs of a study: real ones, several at a time; finished ones are kept, a stopped lab goes on."""

import dataclasses
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
from spicejax.run.store import record

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
    assert runs.finish(planned, 2) == []
    return planned


def test_every_run_is_finished_and_measured(study):
    assert all(run.finished for run in study)
    slow, fast = map(runs.measured, study)
    assert [row["iteration"] for row in fast] == [0, 2] == [row["iteration"] for row in slow]
    assert slow[0]["eval/accuracy"] == fast[0]["eval/accuracy"], "both start from the model of the seed"
    played = [json.loads(line) for line in (study[0].folder / "metrics.jsonl").read_text().splitlines()]
    mean = sum(row["reasoner/pass_rate"] for row in played) / len(played)
    assert slow[0]["reasoner/pass_rate"] == pytest.approx(mean, rel=1e-5) == slow[1]["reasoner/pass_rate"]


def test_finished_runs_are_not_repeated(study):
    times = [(run.folder / "summary.json").stat().st_mtime_ns for run in study]
    assert runs.finish(study, 2) == []
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
        f"arm = studies.Arm('rlvr_nano'); run = runs.Run('a', arm, 0, Path({str(tmp_path)!r}, 'a'), {tuple(fields)}); "
        "runs.finish([run], 1)"
    )
    run, words = Run("a", Arm("rlvr_nano"), 0, tmp_path / "a", tuple(fields)), [sys.executable, "-c", script]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as lab:
        deadline = time.monotonic() + PATIENCE
        while not (run.folder / "metrics.jsonl").exists():
            assert lab.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        lab.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in lab.communicate(timeout=PATIENCE)[1]
    done = len((run.folder / "metrics.jsonl").read_text().splitlines())
    assert not run.finished and 0 < done < 40
    assert runs.finish([run], 1) == []
    assert run.finished and len((run.folder / "metrics.jsonl").read_text().splitlines()) == 40


def test_a_run_that_fails_is_returned_beside_one_that_is_finished(study, tmp_path):
    broken = Run("broken", Arm("rlvr_nano", ("model.path=/nowhere",)), 0, tmp_path / "broken")
    assert runs.finish([broken, study[0]], 1) == [broken]
    assert "/nowhere" in broken.log.read_text()


def test_a_finished_run_of_another_recipe_is_not_taken(study):
    other = dataclasses.replace(study[0], arm=Arm("rlvr_nano", ("learner.beta2=0.5",)))
    with pytest.raises(ValueError, match=r"another recipe \(.*learner.beta2: 0.99 -> 0.5"):
        runs.finish([other], 1)


def test_a_finished_run_is_found_again_by_its_own_words(tmp_path, monkeypatch):
    """Its questions by a name from here, the date of its first start, a field that is younger."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    run = Run("mine", Arm("rlvr_nano"), 0, tmp_path / "mine", ("eval.tasks=mine.jsonl",))
    record.write(run.folder, *run.configured)
    file = run.folder / "config.json"
    saved = json.loads(file.read_text())
    assert saved["eval"]["tasks"] == str(tmp_path / "mine.jsonl")
    saved["model"]["date"] = "2026-01-01"
    del saved["seats"]
    file.write_text(json.dumps(saved))
    run.require_same()
    with pytest.raises(ValueError, match=r"another recipe \(iterations: 48 -> 5\)"):
        dataclasses.replace(run, fields=(*run.fields, "iterations=5")).require_same()


def test_the_start_of_a_chain_is_that_of_the_stage_that_starts_anew(tmp_path):
    """The Strong Challenger's own run comes first, and is another policy's."""
    run = Run("strong", Arm("strong_challenger_nano"), 0, tmp_path)
    for stage, folder in enumerate(run.stages, 1):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        write = {
            "evaluations": [{"iteration": at, "eval/accuracy": stage + at / 100} for at in (0, 96)],
            "metrics": [{"iteration": at, "reasoner/pass_rate": stage + at / 100} for at in range(96)],
        }
        for name, rows in write.items():
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, last = runs.measured(run)
    assert (first["stage"], first["before"], first["eval/accuracy"], last["eval/accuracy"]) == (2, 0, 2.0, 2.96)
    assert (first["reasoner/pass_rate"], last["reasoner/pass_rate"]) == (2.015, 2.935)

"""AceSearcher's chain on the nano world: it plays and is evaluated; killed in any stage it ends with the same bytes."""

import functools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import PATIENCE
from tiny_runs import WORLD, last_step, rows

from spicejax import commands, configs
from spicejax.run import chain

ROOT = Path(__file__).parents[2]
ask = functools.partial(commands.run, "ask")
TINY = WORLD | {
    "nano.documents": "200", "buckets.rows": "24", "acesearcher.questions": "4", "iterations": "1", "eval.every": "0",
}  # fmt: skip


def test_a_round_tells_what_it_played_and_is_evaluated_by_plans(cache, tmp_path, capsys):
    """A model this small has hardly a right answer, so hardly a pair."""
    words = [f"{key}={value}" for key, value in TINY.items()] + [f"nano.cache={cache}"]
    stages = chain.override(configs.stages("acesearcher_nano")[1:2], words)
    summary = chain.run(stages, tmp_path / "run")
    assert (summary["name"], summary["iterations"]) == ("acesearcher_nano_round", 1)
    told = rows(tmp_path / "run" / "tasks.jsonl")
    assert len(told) == 4 and all(len(row["plans"]) == 3 for row in told)
    plans = [plan for row in told for plan in row["plans"]]
    assert all(("rejected" in plan) != ("rewards" in plan) for plan in plans)
    first = rows(tmp_path / "run" / "evaluations.jsonl")
    assert [row["iteration"] for row in first] == [0, 1] and "eval/accuracy/facts_2" in first[0]
    assert ask([f"--model={tmp_path / 'run'}", "--question=home of bako?", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert reply["question"] == "home of bako?" and reply["steps"][0]["plan"], "it is planned first"
    assert ask([f"--model={tmp_path / 'run'}", "--question=home of bako?"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Answer: ")
    about = [f"--model={tmp_path / 'run'}", "--question=home of bako?", "--json"]
    assert ask([*about, "--context=home of bako is dafe.", "acesearcher.kind=document"]) == 0
    reply = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not any(step.get("shown") for step in reply["steps"]), "the text is there: nothing is looked up"
    assert ask([*about, "acesearcher.kind=claim"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["steps"][0]["plan"]
    assert ask([f"--model={tmp_path / 'run'}", f"--question={'home of ' * 200}bako?"]) == 2
    assert "question 1 makes a prompt of more than 56 tokens" in capsys.readouterr().err


SHORT = {"1.iterations": "64", "2.iterations": "3", "3.iterations": "2", "checkpoint.every": "1", "eval.every": "0"}


@pytest.fixture(scope="module")
def start(cache):
    """Starts the real nano chain, a few iterations a round, in a folder."""

    def words(workdir) -> list[str]:
        script = [sys.executable, str(ROOT / "launch" / "tpu_run.py"), "--config=acesearcher_nano"]
        return [*script, f"--workdir={workdir}", f"nano.cache={cache}", *(f"{k}={v}" for k, v in SHORT.items())]

    return words


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("whole")
    done = subprocess.run(start(workdir), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]
    return workdir


def size(path: Path) -> int:
    """Bytes of a file, 0 where it has just gone."""
    return path.stat().st_size if path.exists() else 0


@pytest.mark.slow  # five runs of the real nano chain
@pytest.mark.parametrize("seen", ["1/metrics.jsonl", "1/.policy.writing-*/*", "2/metrics.jsonl", "3/metrics.jsonl"])
def test_killed_in_any_stage_the_same_command_ends_with_the_same_bytes(start, whole, tmp_path, seen):
    stage = seen[0]
    learnt = rows(whole / stage / "metrics.jsonl")
    assert all(row["learner/steps"] > 0 for row in learnt), "or nothing is compared"
    run = functools.partial(subprocess.Popen, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process, deadline = run(start(tmp_path)), time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None and not any(map(size, tmp_path.glob(seen))):
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    assert run(start(tmp_path)).wait(timeout=PATIENCE) == 0
    for each in "123":
        assert last_step(tmp_path / each) == last_step(whole / each), f"stage {each}"

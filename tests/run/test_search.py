"""A run that searches, Search Self-Play on the nano world with its pool: its retriever hangs, dies and comes back."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from processes import PATIENCE, ROOT, free_port
from serving import serving
from tiny_runs import SEARCH, last_step, rows

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.worlds.nano import maker

CHANGES = {"ssp.answers": "8", "ssp.verify": "false", "iterations": "5", "checkpoint.every": "2"}
TINY = [f"{key}={value}" for key, value in (SEARCH | CHANGES).items()]


def start(workdir, cache, *more):
    words = [sys.executable, ROOT / "launch" / "tpu_run.py", "--config=ssp_nano", f"--workdir={workdir}",
             f"nano.cache={cache}", *TINY, *more]  # fmt: skip
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, cwd=ROOT, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}, **pipes)


def world(cache):
    """Paths of the nano world that these runs play in."""
    cfg = configuration.parse(configs.load("ssp_nano"), [*TINY, f"nano.cache={cache}"])
    return maker.prepare(cfg.nano, cfg.seed)


def until(pipe, said):
    """Read on to a line that says it."""
    line = next((line for line in pipe if said in line), None)
    assert line is not None, f"never said {said!r}"
    return line


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """An uninterrupted run that searches by itself."""
    workdir = tmp_path_factory.mktemp("whole")
    assert commands.run("train", ["--config=ssp_nano", f"--workdir={workdir}", f"nano.cache={cache}", *TINY]) == 0
    return workdir


def test_a_run_tells_every_transcript(whole):
    summary = json.loads((whole / "summary.json").read_text())
    told = rows(whole / "tasks.jsonl")
    turns = [turn for row in told for turn in row["transcript"]]
    assert len(told) == summary["questions_proposed"] == 40
    assert sum("query" in turn for turn in turns) > 10 and any(turn.get("shown") for turn in turns)
    assert 0 < summary["questions_valid"] < 40
    assert last_step(whole)[2]["game"]["kept"], "or no buffer is compared"


def test_its_policy_is_evaluated_as_in_training(whole, cache, tmp_path, capsys):
    words = [
        f"--model={whole}",
        f"--questions={world(cache).held_out}",
        "--json",
        "--judge=self",
        f"--out={tmp_path}",
    ]
    capsys.readouterr()
    assert commands.run("evaluate", words) == 0
    found, items = json.loads(capsys.readouterr().out), rows(tmp_path / "items.jsonl")
    assert found["questions"] == len(items) == 16 and found == json.loads((tmp_path / "scores.json").read_text())
    assert found["scores"]["verifier"]["mean"] == json.loads((whole / "summary.json").read_text())["accuracy_end"]
    assert 0 <= found["scores"]["judge"]["mean"] <= 1
    assert found["scores"]["searches"]["mean"] == np.mean([item["searches"] for item in items]) > 0
    assert any("query" in turn for item in items for turn in item["transcript"])
    assert commands.run("evaluate", [f"--model={cache}", "--questions=facts:plain"]) == 2
    assert "add --config=NAME" in capsys.readouterr().err


@pytest.mark.slow  # four starts of a run
def test_hanging_killed_and_back_again_it_is_bitwise_the_uninterrupted_run(whole, cache, tmp_path):
    corpus, port = world(cache).documents, free_port()
    remote = ["retrieval.engine=http", f"retrieval.url=http://127.0.0.1:{port}/retrieve", "checkpoint.every=0"]
    with serving(corpus, port) as server:
        run = start(tmp_path, cache, *remote, "retrieval.timeout=10")
        until(run.stdout, "iteration 1/5")
        server.send_signal(signal.SIGSTOP)
        assert "no answer in time (retrieval.timeout); trying again in 1 s (2 of 10)" in until(run.stderr, "trying")
        server.send_signal(signal.SIGCONT)
        until(run.stdout, "iteration 2/5")
        server.kill()
        until(run.stderr, "trying again in 1 s (2 of 10)")
        run.kill()  # in the middle of a rollout
        run.wait()
    with serving(corpus, port) as server:
        run = start(tmp_path, cache, *remote, "retrieval.tries=2")
        until(run.stdout, "iteration 3/5")
        server.kill()
        _, err = run.communicate(timeout=PATIENCE)
        assert run.returncode == 2
        assert err.strip().splitlines()[-1].startswith(f"error: retriever http://127.0.0.1:{port}/retrieve: ")
        assert "2 times in a row" in err
    saved = max((tmp_path / "checkpoints").glob("0*"))
    assert int(saved.name) in (3, 4), "what was trained before the server went is kept"
    with serving(corpus, port):
        _, err = (run := start(tmp_path, cache, *remote)).communicate(timeout=PATIENCE)
        assert run.returncode == 0, err[-3000:]
    assert last_step(tmp_path) == last_step(whole)
    assert rows(tmp_path / "tasks.jsonl") == rows(whole / "tasks.jsonl")

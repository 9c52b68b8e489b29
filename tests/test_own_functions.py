"""docs/own_game.md: its verifier and its retriever, as they stand on the page, from a folder outside the package."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonl
import pytest
from tiny_runs import SEARCH, WORLD, saved

from spicejax import commands, outside
from spicejax import config as configuration
from spicejax.configs import rlvr_nano, ssp_nano
from spicejax.retrieval.source import RetrievalConfig, open_search
from spicejax.run import evaluate
from spicejax.run.store.checkpoint import Checkpoints
from spicejax.score.verifiers import Verifier
from spicejax.types import Task

PAGE = Path(__file__).parents[1] / "docs" / "own_game.md"
FILES = dict(re.findall(r'```python title="([\w.]+)"\n(.*?)```', PAGE.read_text(), re.DOTALL))
PASSAGES = ("Zita lives in Bako.", "Bako is a town in Timu.", "Numo has three rivers.")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder, where the commands are given."""
    monkeypatch.chdir(tmp_path)
    for name in ("near.py", "overlap.py"):
        (tmp_path / name).write_text(FILES[name])
    jsonl.write(tmp_path / "passages.jsonl", [{"text": text} for text in PASSAGES])
    return tmp_path


def test_the_verifier_of_the_page_judges(folder):
    near = outside.load("near.py:near", "verifier")
    assert dataclasses.replace(rlvr_nano.CONFIG, verifier=near).verifier == f"{folder}/near.py:near"
    with Verifier(workers=1, function=near) as verifier:
        pairs = [("99.5", "100"), ("98", "100"), ("bako ", "Bako"), ("x", "1"), (None, "1")]
        verdicts = verifier.check([(text, Task("?", gold, "Float")) for text, gold in pairs])
    assert [(v.correct, v.how) for v in verdicts] == [
        (True, "verifier"), (False, "verifier"), (True, "verifier"), (False, "verifier"), (False, "none"),
    ]  # fmt: skip


def test_the_retriever_of_the_page_finds(folder):
    by_overlap = outside.load("overlap.py:by_overlap", "retrieval.engine")
    retrieval = RetrievalConfig(engine=by_overlap, corpus="passages.jsonl")
    cfg = dataclasses.replace(ssp_nano.CONFIG, retrieval=retrieval)
    assert cfg.retrieval is not None and cfg.retrieval.engine == f"{folder}/overlap.py:by_overlap"
    found = open_search(cfg.retrieval, None)(["Bako lives", "nothing"], 2)  # pyright: ignore[reportArgumentType]
    assert [[passage.text for passage in row] for row in found] == [[PASSAGES[0], PASSAGES[1]], []]


def test_the_command_of_the_page_writes_passages():
    command = re.search(r'python -c "(.*?)" > passages.jsonl', PAGE.read_text(), re.DOTALL)
    assert command, "the page writes passages.jsonl by another command"
    written = subprocess.run(
        [sys.executable, "-c", command[1]], capture_output=True, text=True, check=True, timeout=600
    )
    rows = [json.loads(line) for line in written.stdout.splitlines()]
    assert {"title": "tira", "text": "chief of tira is nosu."} in rows


def test_code_that_a_work_folder_alone_names_is_not_run(folder, tmp_path):
    run, told = saved(tmp_path / "run"), f"verifier={folder}/near.py:near"
    cfg, _ = evaluate.config_for(str(run), None, [told])
    assert cfg.verifier == f"{folder}/near.py:near"
    with Checkpoints(run / "checkpoints", config=configuration.to_json(cfg)) as checkpoints:
        checkpoints.save(2, {"params": {}}, {})
    (folder / "near.py").write_text("raise SystemExit('code of a run folder was run')")
    with pytest.raises(ValueError, match=f"{told}: code from outside .* runs where you name it: add {told}"):
        evaluate.config_for(str(run), None, [])
    assert evaluate.config_for(str(run), None, ["verifier=math_verify"])[0].verifier == "math_verify"
    assert evaluate.config_for(str(run), dataclasses.replace(cfg), [])[0] == cfg


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "words", "changes", "seen"),
    [
        (
            "rlvr_nano",
            ["verifier=near.py:near"],
            WORLD | {"rlvr.questions": "4", "rlvr.group_size": "4"},
            "verdict/verifier",
        ),
        (
            "ssp_nano",
            ["retrieval.engine=overlap.py:by_overlap", "retrieval.corpus=passages.jsonl"],
            SEARCH | {"ssp.answers": "8", "ssp.verify": "false"},
            "search/queries",
        ),
    ],
)
def test_its_commands_run(folder, cache, capsys, recipe, words, changes, seen):
    words = [*words, f"nano.cache={cache}", "iterations=2", *(f"{key}={value}" for key, value in changes.items())]
    assert commands.run("train", [f"--config={recipe}", "--workdir=run", *words]) == 0
    assert any(row.get(seen) for row in jsonl.read(folder / "run" / "metrics.jsonl"))
    (folder / "q.jsonl").write_text('{"question": "home of zita?", "answer": "bako", "answer_type": "String"}\n')
    assert commands.run("evaluate", ["--model=run", "--questions=q.jsonl", "--json", words[0]]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["questions"] == 1
    (folder / words[0].partition("=")[2].partition(":")[0]).unlink()
    assert commands.run("report", ["run"]) == 0
    assert commands.run("evaluate", ["--model=run", "--questions=q.jsonl", words[0]]) == 2
    assert f"error: {words[0].partition('=')[0]}=" in capsys.readouterr().err

"""Benchmarks asked of a real (nano) model by the command: the table, several samples, what is kept, two in pairs."""

import json

import jsonl
import pytest

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.run.resolve import resolve


@pytest.fixture(scope="module")
def nano(cache):
    return resolve(configuration.override(configs.load("rlvr_nano"), {"nano.cache": str(cache)}), make_world=True).cfg


def test_benchmarks_are_asked_kept_and_compared(nano, tmp_path, capsys):
    rows = [json.loads(line) for line in open(nano.eval.tasks)][:24]
    asked = [
        {"id": row["id"] + str(k), "question": row["question"], "answer": row["answer"]} for k, row in enumerate(rows)
    ]
    data = tmp_path / "data"
    data.mkdir()
    jsonl.write(data / "gsm8k.jsonl", asked)
    jsonl.write(data / "aime24.jsonl", asked[:3])
    words = [f"--model={nano.model.path}", "--config=rlvr_nano", "--benchmarks=aime24,gsm8k", f"--data_dir={data}"]
    assert commands.run("evaluate", [*words, f"--out={tmp_path / 'a'}"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("|  | AIME24 | GSM8K | average |") and "mean of 32 samples" in printed
    kept, items = json.loads((tmp_path / "a" / "scores.json").read_text()), jsonl.read(tmp_path / "a" / "items.jsonl")
    assert [item["suite"] for item in items] == ["aime24"] * 3 + ["gsm8k"] * 24
    assert all(len(item["predictions"]) == 32 for item in items[:3]), "each of its own"
    assert any(len(set(item["predictions"])) > 1 for item in items[:3])
    mean = sum(item["scores"]["verifier"] for item in items[3:]) / 24
    assert kept["benchmarks"]["gsm8k"]["mean"] == pytest.approx(mean) and 0.1 < mean < 0.95
    assert (tmp_path / "a" / "table.md").read_text() == printed
    assert "\\begin{tabular}" in (tmp_path / "a" / "table.tex").read_text()
    one = ["--benchmarks=gsm8k", "--most=8", f"--out={tmp_path / 'b'}"]
    assert commands.run("evaluate", [*words[:2], *one, words[3]]) == 0
    alone = capsys.readouterr().out
    for beside in ([*words[:2], "--benchmarks=gsm8k", "--most=8", words[3]], [f"--results={tmp_path / 'b'}"]):
        assert commands.run("evaluate", [*beside, f"--versus={tmp_path / 'b'}"]) == 0
        printed = capsys.readouterr().out
        assert printed.splitlines()[2].split("|")[2:] == alone.splitlines()[2].split("|")[2:]
        assert "| gsm8k | +0.000 | +0.000 to +0.000 | 0, 0 | 1 |" in printed


def test_a_recipe_whose_seats_are_made_by_its_chain(nano, tmp_path, capsys):
    jsonl.write(tmp_path / "q.jsonl", [{"question": "2+3=?", "answer": "5"}])
    words = [f"--model={nano.model.path}", "--config=r_zero_nano", f"--questions={tmp_path / 'q.jsonl'}", "--json"]
    assert commands.run("evaluate", words) == 0 and json.loads(capsys.readouterr().out)["questions"] == 1


@pytest.mark.parametrize(("words", "said"), [
    (["--benchmarks=gsm8k"], "--data_dir=benchmarks: there is no such folder"),
    (["--benchmarks=gsm9k"], "there is no such benchmark; choose from amc23"),
    ([], "--questions=QUESTIONS.jsonl is missing (or --benchmarks=NAME,..."),
    (["--questions=q.jsonl", "--rollouts=4", "--judge=self"], "--judge=self judges answers; leave --rollouts and"),
    (["--examples=e.jsonl", "--judge=server"], "--judge=server judges answers; leave --rollouts and --examples out"),
    (["--examples=e.jsonl", "--rollouts=4"], "--rollouts=4 grades questions; leave --examples out"),
])  # fmt: skip
def test_what_cannot_be_asked_is_said_before_a_model_is_read(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert commands.run("evaluate", ["--model=nowhere", "--config=rlvr_nano", *words]) == 2
    assert said in capsys.readouterr().err

"""The questions of a run as a data set: what is in it, its card, and that it can be a corpus again."""

import hashlib
import json

import pyarrow.parquet
import pytest
from huggingface_hub import DatasetCard

from spicejax import commands
from spicejax.data import questions


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    tasks = [
        {"iteration": 0, "document_id": "a", "format": "Integer", "question": "1+1?", "answer": "2", "pass_rate": 0.5},
        {"iteration": 1, "document_id": "a", "format": "Integer", "question": "1+1?", "answer": "2", "pass_rate": 1.0},
        {"iteration": 1, "document_id": "a", "format": "String", "question": "Who?", "answer": "Bo", "pass_rate": None},
        {"iteration": 1, "document_id": "a", "format": "String", "question": "Why?", "answer": "So", "pass_rate": 1.0},
        {"iteration": 1, "document_id": "a", "rejected": "no_json", "text": "..."},
    ]
    (folder / "metrics.jsonl").write_text('{"iteration": 0}\n')
    (folder / "documents.jsonl").write_text(json.dumps({"iteration": 0, "id": "a", "title": "", "text": "Text"}) + "\n")
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task | {"reward": 0.5}) + "\n" for task in tasks))
    return folder


def test_parquet_with_a_card(run, tmp_path):
    assert commands.run("tasks", [str(run), f"--out={tmp_path / 'out'}"]) == 0
    rows = pyarrow.parquet.read_table(tmp_path / "out" / "data" / "train.parquet").to_pylist()
    assert [row["question"] for row in rows] == ["1+1?", "Who?", "Why?"]
    assert rows[0]["pass_rate"] == 0.5 and rows[1]["pass_rate"] is None
    assert rows[0]["document_sha256"] == hashlib.sha256(b"Text").hexdigest()
    card = DatasetCard.load(tmp_path / "out" / "README.md")
    assert card.data.task_categories == ["question-answering"] and "3 questions" in card.text
    assert commands.run("tasks", [str(run), f"--out={tmp_path / 'out'}"]) == 2


def test_a_range_as_lines_is_read_as_questions_again(run, tmp_path, capsys):
    words = [str(run), f"--out={tmp_path / 'out'}", "--jsonl"]
    assert commands.run("tasks", [*words, "--solved=0.9,0.1"]) == 2
    assert "--solved=0.9,0.1: give two pass rates" in capsys.readouterr().err
    assert commands.run("tasks", [*words, "--solved=0.2,0.3"]) == 2
    assert "has no valid task solved 0.2,0.3" in capsys.readouterr().err
    assert commands.run("tasks", [*words, "--solved=0.1,0.9"]) == 0
    (item,) = questions.load_items(tmp_path / "out" / "tasks.jsonl")
    assert (item.task.question, item.task.answer, item.task.answer_type) == ("1+1?", "2", "Integer")

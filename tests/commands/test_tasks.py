"""The questions of a run as a data set: what is in it, its card, and that it can be a corpus again."""

import hashlib
import json

import huggingface_hub
import jsonl
import pyarrow.parquet
import pytest
from huggingface_hub import DatasetCard

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.data import questions


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    tasks = [
        {"iteration": 0, "document_id": "a", "format": "Integer", "question": "1+1?", "answer": "2", "pass_rate": 0.5,
         "correct": [True, False]},
        {"iteration": 1, "document_id": "a", "format": "Integer", "question": "1+1?", "answer": "2", "pass_rate": 1.0},
        {"iteration": 1, "document_id": "a", "format": "String", "question": "Who?", "answer": "Bo", "pass_rate": None},
        {"iteration": 1, "document_id": "a", "format": "String", "question": "Why?", "answer": "So", "pass_rate": 1.0},
        {"iteration": 1, "document_id": "a", "rejected": "no_json", "text": "..."},
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text('{"iteration": 0}\n')
    (folder / "documents.jsonl").write_text(json.dumps({"iteration": 0, "id": "a", "title": "", "text": "Text"}) + "\n")
    jsonl.write(folder / "tasks.jsonl", (task | {"reward": 0.5} for task in tasks))
    return folder


def test_parquet_with_a_card(run, tmp_path, capsys):
    (run / "config.json").write_text(json.dumps(configuration.to_json(configs.load("spice_nano"))))
    assert commands.run("tasks", [str(run), f"--out={tmp_path / 'out'}"]) == 0
    rows = pyarrow.parquet.read_table(tmp_path / "out" / "data" / "train.parquet").to_pylist()
    assert [row["question"] for row in rows] == ["1+1?", "Who?", "Why?"]
    assert rows[0]["pass_rate"] == 0.5 and rows[1]["pass_rate"] is None
    assert rows[0]["document_sha256"] == hashlib.sha256(b"Text").hexdigest() and rows[0]["document_id"] == "a"
    assert (rows[0]["config"], rows[0]["iteration"], rows[0]["verdicts"]) == ("spice_nano", 0, [True, False])
    assert rows[1]["verdicts"] is None and "document_text" not in rows[0]
    card = DatasetCard.load(tmp_path / "out" / "README.md")
    assert card.data.task_categories == ["question-answering"] and "3 questions" in card.text
    assert all(f"| `{name}` |" in card.text for name in rows[0]) and "No licence is named yet" in card.text
    assert "the card names no licence: give --license=ID" in capsys.readouterr().out
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


def test_a_task_that_was_never_answered_has_no_pass_rate(run, tmp_path, capsys):
    words = [str(run), f"--out={tmp_path / 'out'}", "--jsonl", "--solved=0,0.1"]
    assert commands.run("tasks", words) == 2 and "has no valid task solved 0,0.1" in capsys.readouterr().err
    later = {"iteration": 2, "document_id": "a", "format": "String", "question": "Who?", "answer": "Bo"}
    with (run / "tasks.jsonl").open("a") as file:
        file.writelines(json.dumps(later | {"pass_rate": rate}) + "\n" for rate in (0.0, None, 0.05))
    assert commands.run("tasks", words) == 0
    (row,) = jsonl.read(tmp_path / "out" / "tasks.jsonl")
    assert (row["question"], row["iteration"], row["pass_rate"]) == ("Who?", 2, 0.0)


def test_the_card_names_the_licence_and_the_file(run, tmp_path, capsys):
    words = [str(run), f"--out={tmp_path / 'out'}", "--license=cc-by-4.0", "--source_text", "--jsonl"]
    assert commands.run("tasks", [*words, "--license=CC BY 4.0"]) == 2
    assert "--license=CC BY 4.0: give an identifier of the Hub" in capsys.readouterr().err
    assert commands.run("tasks", words) == 0
    card = DatasetCard.load(tmp_path / "out" / "README.md")  # raises where the YAML is none
    (part,) = card.data.configs[0]["data_files"]
    assert card.data.license == "cc-by-4.0" and (tmp_path / "out" / part["path"]).is_file()
    assert set(card.data.to_dict()) == {"license", "task_categories", "size_categories", "tags", "configs"}
    assert card.data.to_dict()["size_categories"] == ["n<1K"] and "3 rows, 0.00 MB." in card.text
    assert "Licence: cc-by-4.0." in card.text and "names no licence" not in capsys.readouterr().out
    assert "that a model wrote in self-play" in card.text
    assert DatasetCard(str(card)).data.to_dict() == card.data.to_dict()
    row = json.loads((tmp_path / "out" / part["path"]).read_text().splitlines()[0])
    assert row["document_text"] == "Text"
    told = {name for name in row if f"| `{name}` |" in card.text}
    assert told == set(row)
    (run / "documents.jsonl").unlink()
    assert commands.run("tasks", [str(run), f"--out={tmp_path / 'more'}", "--source_text"]) == 2
    assert "--source_text: " in capsys.readouterr().err and not (tmp_path / "more").exists()
    assert commands.run("tasks", [str(run), f"--out={tmp_path / 'more'}", "--push=name"]) == 2
    assert capsys.readouterr().err == "error: --push=name: give ORG/NAME\n"


def test_a_data_set_is_pushed_as_one(run, tmp_path, monkeypatch, capsys):
    told = []
    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", lambda _, name, **more: told.append((name, more)))
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", lambda _, **more: told.append(more) or "https://there")
    words = [str(run), f"--out={tmp_path / 'out'}", "--push=somebody/questions", "--private"]
    assert commands.run("tasks", words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "https://there"
    assert told == [
        ("somebody/questions", {"repo_type": "dataset", "private": True, "exist_ok": True}),
        {"folder_path": tmp_path / "out", "repo_id": "somebody/questions", "repo_type": "dataset"},
    ]


def test_given_questions_are_not_said_to_be_written_by_a_model(run, tmp_path):
    fields = {"corpus.source": "/somewhere/of/mine/questions.jsonl"}
    cfg = configuration.override(configs.load("rlvr_nano"), fields)
    (run / "config.json").write_text(json.dumps(configuration.to_json(cfg)))
    assert commands.run("tasks", [str(run), f"--out={tmp_path / 'out'}"]) == 0
    card = DatasetCard.load(tmp_path / "out" / "README.md")
    assert "3 questions of questions.jsonl that a model was trained on" in card.text
    assert "synthetic" not in card.data.tags and "/somewhere" not in str(card)

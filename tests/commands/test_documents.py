"""spicejax documents on what a run wrote."""

import json

import jsonl

from spicejax import commands
from spicejax.run.store.metrics import MetricsWriter
from spicejax.types import Document


def test_documents_are_found_by_id_and_written_once(tmp_path, capsys):
    a, b, c = (Document(id=name, title=f"Title {name}", text=f"Text {name}") for name in "abc")
    writer = MetricsWriter(tmp_path)
    writer.documents(0, [a, b])
    writer.metrics(0, {})
    writer.documents(1, [b, c])
    writer.close()
    resumed = MetricsWriter(tmp_path, resume_step=1)
    resumed.documents(1, [a, c, c])
    resumed.close()
    rows = jsonl.read(tmp_path / "documents.jsonl")
    assert [(row["iteration"], row["id"]) for row in rows] == [(0, "a"), (0, "b"), (1, "c")]
    assert commands.run("documents", [str(tmp_path), "b"]) == 0
    assert capsys.readouterr().out == "b  Title b\n\nText b\n\n"
    assert commands.run("documents", [str(tmp_path), "--json", "c"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "Text c"
    assert commands.run("documents", [str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["a\tTitle a", "b\tTitle b", "c\tTitle c"]
    assert commands.run("documents", [str(tmp_path), "d"]) == 2
    assert "has read no document 'd'" in capsys.readouterr().err


def test_of_a_chain_the_last_stage_that_read_some(tmp_path, capsys):
    for number, lines in {1: 1, 2: 2, 3: 0}.items():
        writer = MetricsWriter(tmp_path / "chain" / str(number))
        writer.documents(0, [Document(id=f"{number}{k}", title="", text="") for k in range(lines)])
        writer.metrics(0, {})
        writer.close()
    for stage in ("1", "2", "3"):
        assert (tmp_path / "chain" / stage / "documents.jsonl").is_file()
    assert commands.run("documents", [str(tmp_path / "chain")]) == 0
    said = capsys.readouterr()
    assert said.out.split() == ["20", "21"]
    assert said.err == f"{tmp_path / 'chain'} is a chain: stage 2 is read, the last that has a documents.jsonl\n"
    for name, words in {"documents": [], "tasks": [f"--out={tmp_path / 'out'}"]}.items():
        (tmp_path / "other" / "1").mkdir(parents=True, exist_ok=True)
        assert commands.run(name, [str(tmp_path / "other"), *words]) == 2
        assert f"none of its 1 stages has a {name}.jsonl; train on" in capsys.readouterr().err

"""spicejax documents on what a run wrote."""

import json

from spicejax import commands
from spicejax.run.metrics import MetricsWriter
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
    rows = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert [(row["iteration"], row["id"]) for row in rows] == [(0, "a"), (0, "b"), (1, "c")]
    assert commands.run("documents", [str(tmp_path), "b"]) == 0
    assert capsys.readouterr().out == "b  Title b\n\nText b\n\n"
    assert commands.run("documents", [str(tmp_path), "--json", "c"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "Text c"
    assert commands.run("documents", [str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["a\tTitle a", "b\tTitle b", "c\tTitle c"]
    assert commands.run("documents", [str(tmp_path), "d"]) == 2
    assert "has read no document 'd'" in capsys.readouterr().err

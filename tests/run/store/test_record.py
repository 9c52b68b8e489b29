"""What a run notes of its start, and that its configuration is read again as it was."""

import datetime
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import ROOT
from tiny_models import write_tokenizer

from spicejax import config as configuration
from spicejax import configs
from spicejax.report import card, places
from spicejax.run import lengths
from spicejax.run.store import checkpoint, record
from spicejax.run.store.checkpoint import Checkpoints
from spicejax.text import render, tokens

HERE = Path(record.__file__).parents[2]


@pytest.mark.parametrize(
    ("called", "told"),
    [
        ("/usr/local/bin/spicejax", "spicejax train --config=x 'a.b=c d'"),
        (HERE / "__main__.py", "python -m spicejax train --config=x 'a.b=c d'"),
        (ROOT / "launch" / "tpu_run.py", "python launch/tpu_run.py train --config=x 'a.b=c d'"),
        ("launch/tpu_run.py", "python launch/tpu_run.py train --config=x 'a.b=c d'"),
        ("/usr/lib/python3/dist-packages/ipykernel_launcher.py", "from Python"),
        ("/usr/lib/python3/dist-packages/pytest/__main__.py", "from Python"),
        ("mine.py", "from Python"),
        ("-c", "from Python"),
        ("", "from Python"),
    ],
)
def test_the_command_is_what_was_typed(monkeypatch, called, told):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", [str(called), "train", "--config=x", "a.b=c d"])
    assert record.command() == told


def model(folder: Path, template: str) -> str:
    """A tokenizer with this chat template."""
    folder.mkdir()
    write_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(template)
    return str(folder)


def test_the_date_of_templates_is_that_of_the_first_start(tmp_path, monkeypatch, caplog):
    class Day(datetime.date):
        @classmethod
        def today(cls):
            return cls(2026, 11, 25)

    def at(path, **more):
        return configuration.override(configs.load("rlvr_smollm2"), {"model.path": path, **more})

    writes, plain = model(tmp_path / "a", "{{ strftime_now('%d') }}"), model(tmp_path / "b", "{{ messages }}")
    monkeypatch.setattr(datetime, "date", Day)
    caplog.set_level("INFO")
    first, run = record.dated(at(writes), tmp_path / "run"), tmp_path / "run"
    assert first.model.date == "2026-11-25" and "writes the date: 2026-11-25 for all of this run" in caplog.text
    record.write(run, first)
    monkeypatch.setattr(Day, "today", classmethod(lambda cls: cls(2026, 11, 26)))
    assert record.dated(at(writes), run) == first, "resumed"
    assert record.dated(at(writes), tmp_path / "other").model.date == "2026-11-26"
    assert record.dated(at(plain), tmp_path / "other").model.date == ""
    assert record.dated(at(writes, **{"model.date": "2024-07-26"}), run).model.date == "2024-07-26"
    old = record.read(run)
    del old["model"]["date"]
    (run / record.CONFIG).write_text(json.dumps(old))
    assert record.dated(at(writes), run).model.date == "", "a run of before goes on as it began"
    (run / record.CONFIG).unlink()
    kept = places.kept(configuration.to_json(first), run)
    with Checkpoints(run / "checkpoints", config=kept) as checkpoints:
        checkpoints.save(1, {"params": np.zeros(2)}, {})
    monkeypatch.setattr(checkpoint.ocp, "Checkpointer", lambda *_: pytest.fail("all processes would wait there"))
    assert record.dated(at(writes), run) == first, "the configuration is lost, and a checkpoint has it"
    with pytest.raises(ValueError, match="model.date=tomorrow: give a day as 2024-07-26"):
        at(writes, **{"model.date": "tomorrow"})


def test_all_voices_of_a_run_say_its_date(tmp_path):
    paths = [model(tmp_path / name, "{{ strftime_now('%d %b %Y') }}") for name in "ab"]
    changes = {"model.path": paths[0], "seats.challenger": paths[1], "model.date": "2026-02-03"}
    cfg = configuration.override(configs.load("spice_smollm2"), changes)
    for chat_format in lengths.chat_formats(cfg, tokens.load(paths[0])).values():
        said = render.render(chat_format.tokenizer, [{"role": "user", "content": "a"}], chat_format.template)
        assert chat_format.tokenizer.decode(said) == "03 Feb 2026"


def test_a_start_from_a_notebook_is_told_in_the_card(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/ipykernel_launcher.py", "-f", "/home/somebody/kernel-1.json"])
    record.write(tmp_path, configs.load("spice_nano"))
    start = json.loads((tmp_path / "starts.jsonl").read_text())
    assert start["command"] == "from Python" and "somebody" not in str(start)
    (tmp_path / "out").mkdir()
    card.write(tmp_path / "out", tmp_path, step=1, name="out")
    text = (tmp_path / "out" / "README.md").read_text()
    assert "- **Started**: from Python\n" in text and "Command" not in text

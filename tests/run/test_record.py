"""What a run notes of its start, and that its configuration is read again as it was."""

import json
import sys
from pathlib import Path

import pytest
from processes import ROOT

from spicejax import configs
from spicejax.report import card
from spicejax.run import record

HERE = Path(record.__file__).parents[1]


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


def test_a_start_from_a_notebook_is_told_in_the_card(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/ipykernel_launcher.py", "-f", "/home/somebody/kernel-1.json"])
    record.write(tmp_path, configs.load("spice_nano"))
    start = json.loads((tmp_path / "starts.jsonl").read_text())
    assert start["command"] == "from Python" and "somebody" not in str(start)
    (tmp_path / "out").mkdir()
    card.write(tmp_path / "out", tmp_path, step=1, name="out")
    text = (tmp_path / "out" / "README.md").read_text()
    assert "- **Started**: from Python\n" in text and "Command" not in text

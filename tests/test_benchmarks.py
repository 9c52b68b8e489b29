"""benchmarks/: each can be started after a change of the package."""

import importlib
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_it_finds_what_it_imports(name):
    if name == "notebooks":
        pytest.importorskip("nbclient")
    assert importlib.import_module(name).__doc__


def test_a_word_that_is_not_known_is_named():
    with pytest.raises(SystemExit, match="unknown 'w3'; choose from w1, w2"):
        importlib.import_module("harness").chosen("w1,w3", ["w1", "w2"])


def test_programs_are_run_beside_what_the_flight_check_says(tmp_path, monkeypatch, capsys):
    """A model of a million parameters, whose prompts take two pieces, so that one begins with another's."""
    names = [f"challenger_{kind}" for kind in ("prefill", "insert", "decode")] + ["train_step"]
    row = {"hbm_gib": 1.0, "beside_gib": 0.5, "seconds": 0.1, "trips": 1}
    said = {"config": "spice_nano", "topology": "here", "kv_tokens": 0, "programs": [row | {"name": n} for n in names]}
    (tmp_path / "said.json").write_text(json.dumps(said))
    words = ["flight", f"--said={tmp_path / 'said.json'}", "--repeats=1", "--steps=2", "buckets.prefill_chunk=40"]
    monkeypatch.setattr("sys.argv", words)
    importlib.import_module("flight").main()
    made = json.loads(capsys.readouterr().out)["programs"]
    assert [program["program"] for program in made] == names
    assert all(program["ms"] > 0 and program["said_gib"] == 0.5 for program in made)


def test_what_a_command_keeps_is_seen(tmp_path, monkeypatch, capfd):
    code = "import time; kept = []\nwhile True: kept += [open('/dev/null'), bytearray(2**20)]; time.sleep(0.05)"
    words = ["soak", "--hours=0.002", "--every=0.2", "--settling=0.5", f"--out={tmp_path / 'looks'}"]
    monkeypatch.setattr("sys.argv", [*words, sys.executable, "-c", code])
    assert importlib.import_module("soak").main() == 0
    growth = {}
    for line in capfd.readouterr().out.splitlines()[2:7]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        growth[cells[0]] = float(cells[-1])
    assert growth["descriptors"] > 0 < growth["memory mib"]
    assert growth["threads"] == growth["processes"] == growth["temporary files"] == 0

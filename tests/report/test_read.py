"""Files of a run that somebody or something has changed: every reader reads the rest, and says what is left out."""

import json
import random

import pytest

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.report import card, page, read

ODD = (None, True, -1, 10**400, float("nan"), float("inf"), "text", "\ud800", [1, [2]], {"a": {"b": 1}}, [], {})
LINES = {
    "metrics": {"iteration": 1, "reasoner/pass_rate": 0.5, "rejected/no_json": 2, "time/play": 1.0, "time/update": 1.0,
                "learner/steps": 1, "challenger/valid": 0.5},
    "evaluations": {"iteration": 1, "eval/accuracy": 0.5, "time/evaluate": 1.0},
    "tasks": {"iteration": 1, "document_id": "d", "question": "Who?", "answer": "Bo", "format": "String",
              "pass_rate": 0.5, "reward": 1.0, "said": ["Bo", None], "correct": [True, False], "text": "t"},
    "documents": {"iteration": 0, "id": "d", "title": "T", "text": "Text"},
    "starts": {"time": "now", "command": "spicejax train", "versions": {"jax": "0.10"}, "devices": "1 cpu"},
}  # fmt: skip


def odd_lines(row):
    """Each field gone, each of an odd kind, and lines that are no objects."""
    for name in row:
        yield json.dumps({key: value for key, value in row.items() if key != name})
        yield from (json.dumps(row | {name: value}) for value in ODD)
    yield from ("5", "null", "[]", '"x"', "{", "\x00\xff", "[" * 10_000, json.dumps(row)[:-5], "")


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name, row in LINES.items():
        lines = [json.dumps(row | {"iteration": 0} if "iteration" in row else row), *odd_lines(row), json.dumps(row)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")
    cfg = configuration.to_json(configs.load("spice_nano"))
    (folder / "config.json").write_text(json.dumps(cfg))
    (folder / "summary.json").write_text('{"seconds": 3, "seconds/playing": "x", "seconds/updating": 1}')
    return folder


def test_every_reader_reads_what_is_a_row(run, tmp_path, capsys, caplog):
    read._tell.cache_clear()
    (tmp_path / "out").mkdir()
    card.write(tmp_path / "out", run, step=1, name="x")
    for words in (
        ("report", str(run)),
        ("report", str(run), f"--out={tmp_path / 'r.html'}"),
        ("documents", str(run)),
        ("documents", str(run), "d"),
        ("tasks", str(run), f"--out={tmp_path / 'a'}"),
        ("tasks", str(run), f"--out={tmp_path / 'b'}", "--jsonl", "--source_text"),
    ):
        assert commands.run(words[0], words[1:]) == 0, (words, capsys.readouterr().err)
    assert "eval/accuracy | 0.500" in (tmp_path / "out" / "README.md").read_text()
    said = [record.getMessage() for record in caplog.records] + capsys.readouterr().err.splitlines()
    told = [line for line in said if line.endswith("they are left out")]
    assert len(told) == len(LINES) and len(set(told)) == len(told), told


@pytest.mark.parametrize("name", LINES)
def test_one_odd_row_is_no_end_of_the_page(tmp_path, name):
    """Each alone, drawn by lot: the page is made of it and the rows around."""
    draw = random.Random(name)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(configuration.to_json(configs.load("spice_nano"))))
    for file, row in LINES.items():
        (folder / f"{file}.jsonl").write_text(json.dumps(row) + "\n")
    for line in draw.sample(list(odd_lines(LINES[name])), 2):
        (folder / f"{name}.jsonl").write_text(f"{line}\n{json.dumps(LINES[name])}\n")
        assert page.render([read.open_run(folder)]).encode()


@pytest.mark.parametrize(
    "config",
    [[], {"model": 5, "corpus": "x", "eval": [], "iterations": "many", "name": 3, "nano": True}, {"iterations": {}}],
)
def test_an_odd_configuration_is_none(run, tmp_path, config):
    (run / "config.json").write_text(json.dumps(config))
    (tmp_path / "out").mkdir()
    card.write(tmp_path / "out", run, step=1, name="x")
    assert page.render([read.open_run(run)]).encode()

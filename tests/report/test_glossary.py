"""report/glossary.py: every quantity that a recorded run wrote is explained."""

import json
from pathlib import Path

import pytest

from spicejax.games.catalogue import GAMES
from spicejax.report import glossary

RUNS = Path(__file__).parents[2] / "docs" / "runs"
RECORDED = [file for name in ("metrics", "evaluations") for file in RUNS.rglob(f"{name}.jsonl")]


def test_what_recorded_runs_wrote():
    names = {key for file in RECORDED for line in file.read_text().splitlines() for key in json.loads(line)}
    assert len(names) > 100
    assert not {name for name in names if not glossary.meaning(name)}


@pytest.mark.parametrize("game", GAMES.values(), ids=[cls.__name__ for cls in GAMES])
def test_what_reports_draw(game):
    names = {name for panel in game.panels for name, _ in panel.series}
    assert not {name for name in names if not glossary.meaning(name)}


def test_what_the_loop_counts():
    assert glossary.meaning("search/queries_empty") and glossary.meaning("search/queries")


def test_unknown():
    assert glossary.meaning("nobody/knows") == ""

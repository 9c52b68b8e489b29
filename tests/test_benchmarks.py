"""benchmarks/: each can be started after a change of the package."""

import importlib
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

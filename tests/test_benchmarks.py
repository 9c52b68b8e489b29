"""benchmarks/: each can be started after a change of the package, and recorded runs give their table."""

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


def test_the_table_of_recorded_runs():
    changes = {("whole", 0): (0.2, 0.6), ("whole", 1): (0.4, 0.6), ("half", 0): (0.2, 0.3)}
    rows = [
        {"run": run, "seed": seed, "iteration": iteration, "eval/accuracy": accuracy}
        for (run, seed), (start, end) in changes.items()
        for iteration, accuracy in ((0, start), (8, 0.9), (16, end))
    ]
    head, _, line, paired = importlib.import_module("seeds").summarize(rows).splitlines()
    assert head == "|  | whole | half |"
    assert line == "| held-out | 0.300 → 0.600 (+0.300 ± 1.271) | 0.200 → 0.300 (+0.100) |"
    assert paired == "| held-out of the first minus it, seed by seed |  | +0.300 |"


def test_a_word_that_is_not_known_is_named():
    with pytest.raises(SystemExit, match="unknown 'w3'; choose from w1, w2"):
        importlib.import_module("harness").chosen("w1,w3", ["w1", "w2"])

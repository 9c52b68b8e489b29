"""Comparison of runs: equal ones, and each thing that may differ."""

import shutil

import pytest
from finished import run

from spicejax.endurance import compare


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole"))


def test_runs_that_took_another_time_are_the_same(whole, tmp_path):
    assert compare.differences([whole], [run(tmp_path / "a", seconds=7.0)]) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"array": (1.0, 2.0000002)}, r"1 of 1 arrays, such as ['w']"),
        ({"array": (1.0, -0.0)}, r"1 of 1 arrays, such as ['w']"),
        ({"tokens": 6}, "the state's counters"),
        ({"accuracy": 0.25}, "the summary's accuracy_end"),
        ({"reward": 0.25}, "metrics.jsonl differs in 1 lines, first in line 1: reward"),
    ],
)
def test_what_differs_is_named(whole, tmp_path, change, line):
    assert compare.differences([whole], [run(tmp_path / "a", **change)]) == [line]


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ('{"iteration": 0, "reward": 1', '{"iteration": 0, "reward": 2', "no row"),
        ('{"iteration": 0, "reward": 0.5}', '{"iteration": 0, "rew', "iteration, no row, reward"),
        ('{"iteration": 0, "kl": NaN}', '{"iteration": 0, "kl": Infinity}', "kl"),
        ('{"iteration": 0, "kl": 1e17}', '{"iteration": 0, "kl": 1e18}', "kl"),
        ('{"iteration": 0, "mode": "a"}', '{"iteration": 0, "mode": "b"}', "mode"),
        ('{"iteration": 0, "answer": ["a"]}', '{"iteration": 0, "answer": ["b"]}', "answer"),
        ('{"iteration": "0"}', '{"iteration": 0}', "iteration"),
    ],
)
def test_lines_are_compared_as_they_stand(tmp_path, one, other, key):
    """A report leaves these out, or takes them for equal."""
    runs = [run(tmp_path / name) for name in ("a", "b")]
    for folder, line in zip(runs, (one, other), strict=True):
        (folder / "tasks.jsonl").write_text(f"{line}\n")
    assert compare.differences([runs[0]], [runs[0]]) == []
    found = compare.differences([runs[0]], [runs[1]])
    assert found == [f"tasks.jsonl differs in 1 lines, first in line 1: {key}"]
    (runs[1] / "tasks.jsonl").write_text(one)
    assert "differs in 1 lines" in compare.differences([runs[0]], [runs[1]])[0], "without the end of its line"


def test_lines_steps_and_files_that_are_not_there(whole, tmp_path):
    other = run(tmp_path / "a")
    (other / "policy" / "weights").write_bytes(b"v")
    (other / "metrics.jsonl").write_text("")
    (other / "checkpoints" / "00000002.partial").mkdir()
    for name in ("checkpoints/superseded.00000002.0", "tasks.discarded.jsonl"):
        (other / name).write_text("")
    shutil.move(other / "checkpoints" / "00000003", other / "checkpoints" / "00000004")
    assert compare.differences([whole, whole], [whole, other]) == [
        f"{whole.name}: checkpoints [3], not [4]",
        f"{whole.name}: metrics.jsonl has 1 lines, not 0",
        f"{whole.name}: file policy/weights",
        f"{whole.name}: checkpoints/00000002.partial is in one of them alone",
    ]

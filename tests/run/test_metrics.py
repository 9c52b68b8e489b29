"""The files of a run: never an iteration twice, never half a line, never the end of the run."""

import io
import json
import logging
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from spicejax.run.metrics import MetricsWriter

ROOT = Path(__file__).resolve().parents[2]


def rows(path: Path) -> list[dict]:
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def make_writer(workdir: Path, resume_step: int = 0, stream: io.StringIO | None = None) -> MetricsWriter:
    return MetricsWriter(workdir, resume_step=resume_step, stream=stream or io.StringIO())


def record(writer: MetricsWriter, iterations: range, run: str = "a") -> None:
    for i in iterations:
        writer.tasks(i, [{"question": f"{run}{i}.{k}"} for k in range(2)])
        writer.metrics(i, {"run": run})
        if i % 2:
            writer.evaluation(i + 1, {"run": run})
    writer.close()


def test_values(tmp_path):
    writer = make_writer(tmp_path)
    writer.metrics(0, {"a": 1.5, "b": jnp.float32(2), "c": np.array([1, 2]), "d": "é\n", "e": None, "f": True})
    writer.metrics(1, {"nan": math.nan, "inf": jnp.inf, "list": [np.float32("nan"), -math.inf, {"x": np.int64(3)}]})
    assert rows(tmp_path / "metrics.jsonl") == [
        {"iteration": 0, "a": 1.5, "b": 2.0, "c": [1, 2], "d": "é\n", "e": None, "f": True},
        {"iteration": 1, "nan": None, "inf": None, "list": [None, None, {"x": 3}]},
    ]
    assert writer.failures == 0


def test_an_iteration_is_written_once(tmp_path):
    writer = make_writer(tmp_path)
    record(writer, range(3))
    with pytest.raises(ValueError, match="iteration 2 of metrics.jsonl is already written"):
        writer.metrics(2, {})


@pytest.mark.parametrize("resume_step", [0, 1, 2, 4, 6])
def test_resume_sets_aside_what_comes_again(tmp_path, resume_step):
    """Killed after 6 iterations, resumed from `resume_step`: the files read as if never stopped, nothing is lost."""
    record(make_writer(tmp_path), range(6))
    record(make_writer(tmp_path, resume_step), range(resume_step, 8), "b")
    found = rows(tmp_path / "metrics.jsonl")
    assert [(r["iteration"], r["run"]) for r in found] == [(i, "a" if i < resume_step else "b") for i in range(8)]
    tasks = [r["question"] for r in rows(tmp_path / "tasks.jsonl")]
    assert tasks == [f"{'a' if i < resume_step else 'b'}{i}.{k}" for i in range(8) for k in range(2)]
    evaluations = [(r["iteration"], r["run"]) for r in rows(tmp_path / "evaluations.jsonl")]
    assert evaluations == [(i, "a" if i <= resume_step and resume_step else "b") for i in (2, 4, 6, 8)]
    aside = tmp_path / "metrics.discarded.jsonl"
    assert (
        [r["iteration"] for r in rows(aside)] == list(range(resume_step, 6)) if resume_step < 6 else not aside.exists()
    )


def test_torn_lines_are_set_aside(tmp_path):
    record(make_writer(tmp_path), range(3))
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])  # killed within a write
    with open(tmp_path / "tasks.jsonl", "ab") as out:
        out.write(b'\xff\x00{"iteration": 1')
    record(make_writer(tmp_path, 3), range(3, 5), "b")
    assert [r["iteration"] for r in rows(path)] == [0, 1, 3, 4]
    assert (tmp_path / "metrics.discarded.jsonl").read_text().startswith('{"iteration": 2')
    assert len(rows(tmp_path / "tasks.jsonl")) == 10


def test_full_disk_is_told_once_and_leaves_whole_lines(tmp_path):
    code = """
        import io, resource, sys
        from spicejax.run.metrics import MetricsWriter
        writer = MetricsWriter(sys.argv[1], stream=io.StringIO())
        for i in range(60):
            limit = 1000 if i < 40 else -1
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
            writer.metrics(i, {"text": "x" * 70})
            writer.tasks(i, [{"text": "x" * 700}])
            writer.summary({"text": "x" * (2000 if i == 20 else 10)})
        print(writer.failures)
    """
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(code)]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    numbers = [r["iteration"] for r in rows(tmp_path / "metrics.jsonl")]
    assert numbers == [*range(len(numbers) - 20), *range(40, 60)] and 5 < len(numbers) - 20 < 12
    lost = 40 - (len(numbers) - 20) + 39 + 1  # of metrics, of tasks, one summary
    assert done.stdout.strip() == str(lost), done.stderr
    assert done.stderr.count("training goes on") == 1
    assert json.loads((tmp_path / "summary.json").read_text()) == {"text": "x" * 10}


def test_unwritable_workdir_and_closed_stream(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    stream = io.StringIO()
    stream.close()
    writer = make_writer(tmp_path / "file" / "run", stream=stream)
    with caplog.at_level(logging.WARNING):
        for i in range(3):
            writer.metrics(i, {"a": 1})
            writer.progress({"iteration": i})
            writer.summary({})
            writer.show("text")
    writer.close()
    assert writer.failures >= 12 and len(caplog.records) <= 1


def test_progress_plain():
    stream = io.StringIO()
    writer = MetricsWriter(Path(os.devnull), stream=stream)
    writer.progress({"iteration": "3/60", "reward": 0.123456, "pass_rate": None, "eta_seconds": 3725.0})
    writer.progress({"iteration": "4/60", "eta_seconds": 75})
    writer.show("text\nof two lines")
    assert (
        stream.getvalue() == "iteration 3/60  reward 0.1235  eta 1h02m\niteration 4/60  eta 1m15s\ntext\nof two lines\n"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    writer = make_writer(tmp_path, stream=stream)
    writer.progress({"iteration": "3/60"})
    writer.progress({"iteration": "4/60", "reward": 0.123456})
    writer.show("text")
    writer.close()
    assert stream.getvalue() == "\riteration 3/60\x1b[K\riteration 4/60  rew\x1b[K\ntext\n"

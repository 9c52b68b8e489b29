"""The files of a run: never an iteration twice, never half a line, never the end of the run."""

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
from processes import PATIENCE, ROOT

from spicejax.run import train
from spicejax.run.store import metrics
from spicejax.run.store.metrics import MetricsWriter


def rows(path: Path) -> list[dict]:
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def make_writer(workdir: Path, resume_step: int = 0) -> MetricsWriter:
    return MetricsWriter(workdir, resume_step=resume_step)


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


@pytest.mark.parametrize(("start", "counters", "made_again"), [
    (0, {}, True), (0, {"accuracy_start": 0.5}, False), (2, {}, False), (2, {"unevaluated": True}, True),
])  # fmt: skip
def test_an_evaluation_is_written_again_where_it_is_made_again(tmp_path, start, counters, made_again):
    writer = make_writer(tmp_path)
    writer.evaluation(start, {"run": "a"})
    writer.close()
    assert train._evaluation_due(start, counters) == made_again
    writer = MetricsWriter(tmp_path, resume_step=start, evaluated=start + (not made_again))
    if made_again:
        writer.evaluation(start, {"run": "b"})
    writer.close()
    assert rows(tmp_path / "evaluations.jsonl") == [{"iteration": start, "run": "b" if made_again else "a"}]


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


def test_torn_lines_are_set_aside_and_a_lost_newline_is_none(tmp_path):
    record(make_writer(tmp_path), range(3))
    for name, cut in (("metrics", 9), ("evaluations", 1)):  # killed within a write
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(path.read_bytes()[:-cut])
    with open(tmp_path / "tasks.jsonl", "ab") as out:
        out.write(b'\xff\x00{"iteration": 1')
    writer = make_writer(tmp_path, 3)
    record(writer, range(3, 5), "b")
    assert [r["iteration"] for r in rows(tmp_path / "metrics.jsonl")] == [0, 1, 3, 4]
    assert [r["iteration"] for r in rows(tmp_path / "evaluations.jsonl")] == [2, 4]
    assert (tmp_path / "metrics.discarded.jsonl").read_text().startswith('{"iteration": 2')
    assert len(rows(tmp_path / "tasks.jsonl")) == 10
    assert writer.gaps() == {"log_failures": 0, "iterations_missing": 1, "lines_lost": 2}


def test_full_disk_is_told_once_and_what_waits_is_written_when_it_is_free(tmp_path):
    code = """
        import io, resource, sys
        from spicejax.run.store.metrics import MetricsWriter
        writer = MetricsWriter(sys.argv[1])
        for i in range(60):
            limit = 1000 if i < 40 else -1
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
            writer.metrics(i, {"text": "x" * 70})
            writer.tasks(i, [{"text": "x" * 700}])
            writer.summary({"text": "x" * (2000 if i == 20 else 10)})
            if i == 39:
                written = open(sys.argv[1] + "/metrics.jsonl").read().splitlines()
                print(len(written), writer.gaps()["iterations_missing"])
        print(writer.failures, writer.gaps()["iterations_missing"])
    """
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(code)]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    for name in ("metrics", "tasks"):
        assert [r["iteration"] for r in rows(tmp_path / f"{name}.jsonl")] == list(range(60))
    written, missing, failures, missing_then = map(int, done.stdout.split())
    assert 5 < written < 12 and (missing, missing_then) == (40 - written, 0)
    assert failures == 40 - written + 39 + 1 + 2, done.stderr  # of metrics, of tasks, one summary, the gaps' own try
    assert done.stderr.count("training goes on") == 1
    assert json.loads((tmp_path / "summary.json").read_text()) == {"text": "x" * 10}


def test_what_was_written_is_flushed_to_the_disk_once(tmp_path, monkeypatch):
    flushed, refused = [], []
    real = os.fsync

    def fsync(descriptor):
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        if name in refused:
            raise OSError(5, "Input/output error")
        flushed.append(name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    writer = make_writer(tmp_path)
    record(writer, range(2))
    assert not flushed
    refused.append("tasks.jsonl")
    writer.sync()
    assert {name for name in flushed if name.endswith("jsonl")} == {"metrics.jsonl", "evaluations.jsonl", "items.jsonl"}
    refused.clear(), flushed.clear()
    writer.sync()
    assert "tasks.jsonl" in flushed and "metrics.jsonl" not in flushed and writer.failures == 1
    flushed.clear()
    writer.sync()
    assert not flushed
    record(writer, range(2, 3))
    writer.sync()
    assert {"tasks.jsonl", "metrics.jsonl"} <= set(flushed) and "evaluations.jsonl" not in flushed
    flushed.clear()
    make_writer(tmp_path, 3).sync()
    assert "evaluations.jsonl" in flushed, "an earlier process may have written it last"


def test_what_waits_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "KEPT_BYTES", 1000)
    writer = make_writer(tmp_path)
    (tmp_path / "metrics.jsonl").mkdir()  # stands in the way
    for i in range(20):
        writer.metrics(i, {"text": "x" * 300})
    (tmp_path / "metrics.jsonl").rmdir()
    assert writer.gaps() == {"log_failures": 20, "iterations_missing": 16, "lines_lost": 16}
    assert [r["iteration"] for r in rows(tmp_path / "metrics.jsonl")] == [16, 17, 18, 19]


def test_what_could_not_be_set_aside_at_the_start_is_later(tmp_path):
    record(make_writer(tmp_path), range(4))
    obstacle = tmp_path / "metrics.jsonl.draft"
    obstacle.mkdir()
    writer = make_writer(tmp_path, 2)
    writer.metrics(2, {"run": "b"})
    obstacle.rmdir()
    writer.close()
    assert [(r["iteration"], r["run"]) for r in rows(tmp_path / "metrics.jsonl")] == [(0, "a"), (1, "a"), (2, "b")]
    assert writer.gaps() == {"log_failures": 2, "iterations_missing": 0, "lines_lost": 0}


@pytest.mark.parametrize(
    ("harm", "missing"),
    [
        (lambda lines: lines, []),
        (lambda lines: [*lines[:-1], lines[-1][:9]], [7]),  # torn
        (lambda lines: [lines[0], *lines[4:7]], [1, 2, 3, 7]),
        (lambda lines: [], list(range(8))),
    ],
)
def test_missing_iterations_are_told_and_counted(tmp_path, caplog, harm, missing):
    record(make_writer(tmp_path), range(8))
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join(harm(path.read_text().splitlines())) + "\n")
    writer = make_writer(tmp_path, 8)
    shown = ", ".join(map(str, missing[:5])) + (", .." if len(missing) > 5 else "")
    told = [f"{path} lacks {len(missing)} of the 8 iterations before this start ({shown})"] if missing else []
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == told
    record(writer, range(8, 10))
    assert writer.gaps() | {"lines_lost": 0} == {"log_failures": 0, "iterations_missing": len(missing), "lines_lost": 0}


def test_a_silent_writer_keeps_nothing(tmp_path, caplog):
    writer = MetricsWriter(tmp_path, resume_step=3, silent=True)
    record(writer, range(3, 5))
    assert writer.gaps() == {"log_failures": 0, "iterations_missing": 0, "lines_lost": 0}
    assert not list(tmp_path.iterdir()) and not caplog.records


def test_unwritable_workdir(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    writer = make_writer(tmp_path / "file" / "run")
    with caplog.at_level(logging.WARNING):
        for i in range(3):
            writer.metrics(i, {"a": 1})
            writer.summary({})
    writer.close()
    assert writer.failures >= 6 and len(caplog.records) <= 1


def test_the_progress_line():
    values = {"iteration": "3/60", "reward": 0.123456, "pass_rate": None, "eta_seconds": 3725.0}
    assert metrics.progress_line(values) == "iteration 3/60  reward 0.1235  eta 1h02m"
    assert metrics.progress_line({"eta_seconds": 75}) == "eta 1m15s"
    assert metrics.bars([0.0] * 8 + [0.5, 1.0, 0.19]) == "█ ▁ ▁"

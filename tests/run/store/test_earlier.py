"""What an earlier run left: its loss is said, nothing begins anew over it in silence, set aside it stays whole."""

import json
import shutil

import pytest

from spicejax import configs
from spicejax.run import chain, train
from spicejax.run.host.lock import Lock, LockedError
from spicejax.run.store import earlier, record
from spicejax.run.store.metrics import MetricsWriter


def logs(folder, iterations, saved=None):
    """The logs of a run; `saved`: iterations of its newest checkpoint."""
    writer = MetricsWriter(folder)
    for k in range(iterations):
        writer.tasks(k, [{"question": f"{k}.{i}"} for i in range(2)])
        writer.metrics(k, {})
    if saved is not None:
        writer.saved(saved)
    writer.close()
    return writer


@pytest.mark.parametrize(("iterations", "saved"), [(3, 2), (0, 2)])
def test_nothing_begins_anew_where_checkpoints_are_gone(tmp_path, iterations, saved):
    logs(tmp_path, iterations, saved)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint in .*checkpoints; mount .* --restart"):
        earlier.require_checkpoints(tmp_path, [])
    earlier.require_checkpoints(tmp_path, [4])


@pytest.mark.parametrize(("iterations", "saved"), [(3, 0), (0, None)])
def test_what_was_never_saved_is_made_again(tmp_path, iterations, saved, caplog):
    logs(tmp_path, iterations, saved)
    with caplog.at_level("INFO"):
        earlier.require_checkpoints(tmp_path, [])
    assert (f"{iterations} iterations were made and none was saved" in caplog.text) == (iterations > 0)


def test_an_older_copy_of_the_checkpoints_is_told(tmp_path, caplog):
    logs(tmp_path, 9, 8)
    earlier.require_checkpoints(tmp_path, [4, 8])
    assert not caplog.records
    earlier.require_checkpoints(tmp_path, [2, 4])
    assert "a checkpoint after 8 iterations was saved there, and the newest is now after 4" in caplog.text


def test_the_loop_refuses_before_it_builds_anything(tmp_path):
    logs(tmp_path, 3, 2)
    cfg = configs.load("spice_nano")
    with pytest.raises(FileNotFoundError, match="--restart"):
        train.train(cfg, str(tmp_path))  # a text is a path too
    assert not (tmp_path / "config.json").exists()


def test_setting_aside_loses_nothing_and_leaves_what_is_not_the_runs(tmp_path, caplog):
    def contents(folder):
        return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    logs(tmp_path, 3, 2)
    record.write(tmp_path, configs.load("spice_nano"))
    for path in ("checkpoints/00000002/x", "policy/config.json", "report.html", "metrics.discarded.jsonl"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    before = contents(tmp_path)
    (tmp_path / "compilation_cache").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    earlier.set_aside(tmp_path)
    assert contents(tmp_path / "set_aside.1") == before
    assert {path.name for path in tmp_path.iterdir()} == {"set_aside.1", "compilation_cache", "notes.txt"}
    earlier.set_aside(tmp_path)
    logs(tmp_path, 1)
    earlier.set_aside(tmp_path)
    assert {path.name for path in tmp_path.glob("set_aside.*")} == {"set_aside.1", "set_aside.2"}
    assert contents(tmp_path / "set_aside.1") == before


def test_a_run_that_goes_on_is_not_set_aside(tmp_path):
    logs(tmp_path, 1)
    (tmp_path / "checkpoints").mkdir()
    lock = Lock(tmp_path / "checkpoints")
    with pytest.raises(LockedError):
        earlier.set_aside(tmp_path)
    lock.release()
    assert (tmp_path / "metrics.jsonl").is_file() and not list(tmp_path.glob("set_aside*"))


def test_a_chain_restarts_as_a_whole_and_refuses_a_stage_without_its_start(tmp_path, monkeypatch):
    began = []

    def trained(cfg, folder, **_):
        began.append(folder.name)
        (folder / "checkpoints" / "00000001").mkdir(parents=True)
        return {"complete": True}

    monkeypatch.setattr(train, "train", trained)
    monkeypatch.setattr(chain.export, "write_policy", lambda folder, out, finish: out.mkdir())
    monkeypatch.setattr(chain.page, "write", lambda folder: [])
    stages = configs.stages("sft_rlvr_nano")
    chain.run(stages, tmp_path)
    shutil.rmtree(tmp_path / "1")
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path}/2 has begun from a model that {tmp_path}/1/policy"):
        chain.run(stages, tmp_path)
    assert began == ["1", "2"]
    chain.run(stages, tmp_path, resume="restart")
    assert began == ["1", "2", "1", "2"] and (tmp_path / "2" / "set_aside.1" / "checkpoints" / "00000001").is_dir()


@pytest.mark.parametrize(
    ("harm", "lost"),
    [
        (lambda lines: [], 8),  # emptied
        (None, 8),  # deleted
        (lambda lines: ["junk"] * 8, 8),
        (lambda lines: [*lines[:3], "{", *lines[4:]], 1),
        (lambda lines: lines, 0),
    ],
)
def test_lost_tasks_are_told_and_counted(tmp_path, caplog, harm, lost):
    before = logs(tmp_path, 4).lines
    assert before["tasks"] == 8
    path = tmp_path / "tasks.jsonl"
    lines = path.read_text().splitlines()
    path.unlink() if harm is None else path.write_text("".join(f"{line}\n" for line in harm(lines)))
    writer = MetricsWriter(tmp_path, resume_step=4, lines=json.loads(json.dumps(before)))
    told = [r.getMessage() for r in caplog.records if f"{path} lacks {lost} of the 8 lines" in r.getMessage()]
    assert len(told) == (lost > 0) and writer.gaps()["lines_lost"] == lost
    writer.close()

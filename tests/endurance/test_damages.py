"""Damages: each is seen, and taken back; many of them, and one that is not seen."""

import random

import jax.numpy as jnp
import pytest

from spicejax.endurance import damages
from spicejax.run.store import manifest
from spicejax.run.store.checkpoint import CheckpointError, Checkpoints


def saved(folder, steps=(1, 2)):
    """Checkpoints of two small arrays."""
    with Checkpoints(folder, config={"name": "r"}) as checkpoints:
        for step in steps:
            state = {"a": jnp.full(32, step), "b": jnp.full((4, 4), 0.5 + step)}
            checkpoints.save(step, state, {"counters": {}, "step": step})


@pytest.mark.parametrize("kind", [kind for kind in damages.DAMAGES if kind not in ("torn logs", "damaged policy")])
def test_damage_is_seen_and_taken_back(kind, tmp_path):
    saved(tmp_path / "checkpoints")
    seen = 0
    for seed in range(12):
        done = damages.damage(kind, tmp_path / "checkpoints", random.Random(seed))
        with Checkpoints(tmp_path / "checkpoints", config={}) as checkpoints:
            assert checkpoints.latest_good() == (1 if done else 2), (kind, seed)
            if done:
                assert done[0] == 2
                done[1]()
            assert checkpoints.latest_good() == 2
        seen += done is not None
    assert seen > 3


def test_the_only_step_damaged_is_refused(tmp_path):
    saved(tmp_path / "checkpoints", steps=(1,))
    done = damages.damage("cut file", tmp_path / "checkpoints", random.Random(1))
    assert done is not None and done[0] == 1
    with (
        Checkpoints(tmp_path / "checkpoints", config={}) as checkpoints,
        pytest.raises(CheckpointError, match="all are damaged"),
    ):
        checkpoints.latest_good()


def test_torn_logs_end_in_half_a_line_and_nothing_saved_is_not_damaged(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 0}\n')
    done = damages.damage("torn logs", tmp_path / "checkpoints", random.Random(0))
    assert done is not None and done[0] is None
    assert (tmp_path / "metrics.jsonl").read_text().endswith('"cut')
    assert damages.damage("cut file", tmp_path / "checkpoints", random.Random(0)) is None


@pytest.fixture
def chain(tmp_path):
    """Work folders of a chain of two, the first with a policy."""
    for stage in ("1", "2"):
        saved(tmp_path / "run" / stage / "checkpoints")
    policy = tmp_path / "run" / "1" / "policy"
    policy.mkdir()
    (policy / "weights").write_bytes(bytes(range(256)))
    manifest.note(policy)
    return [tmp_path / "run" / "1", tmp_path / "run" / "2"]


def test_many_damages_are_all_seen_and_the_run_is_left_alone(chain, tmp_path):
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    for left in ("1/checkpoints/7", "3/checkpoints/1"):  # by a call that was killed
        (tmp_path / "copy" / left).mkdir(parents=True)
    done, wrong = damages.many(chain, tmp_path / "copy", 100, 3)
    assert done.total() == 100 and done.keys() == set(damages.DAMAGES) - {"torn logs"} and wrong == []
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert not (tmp_path / "copy").exists() and damages.many(chain, tmp_path / "copy", 100, 3)[0] == done


def test_a_damage_that_is_not_seen_is_told(chain, tmp_path, monkeypatch):
    (chain[0] / "policy" / manifest.NAME).unlink()  # as older versions left it
    done, wrong = damages.many(chain, tmp_path / "copy", 60, 0)
    assert len(wrong) == done["damaged policy"] > 0 and all(line.endswith("damaged policy: not seen") for line in wrong)
    monkeypatch.setattr(manifest, "fault", lambda folder, **_: None)
    done, wrong = damages.many(chain, tmp_path / "copy", 60, 0)
    assert len(wrong) == 60

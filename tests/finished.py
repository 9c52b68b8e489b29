"""A work folder as a finished run leaves it, without one."""

import json

import jax.numpy as jnp

from spicejax.run.store.checkpoint import Checkpoints


def run(folder, *, array=(1.0, 2.0), seconds=1.0, tokens=5, reward=0.5, accuracy=0.5):
    """A work folder with a checkpoint, metrics and a policy."""
    counters = {"totals": {"tokens": tokens}, "seconds": seconds, "stages": {"playing": seconds}}
    with Checkpoints(folder / "checkpoints", config={}) as checkpoints:
        checkpoints.save(3, {"w": jnp.asarray(array)}, {"items": {"next": 3}, "counters": counters})
    (folder / "metrics.jsonl").write_text(json.dumps({"iteration": 0, "reward": reward, "time/play": seconds}) + "\n")
    (folder / "summary.json").write_text(json.dumps({"iterations": 3, "seconds": seconds, "accuracy_end": accuracy}))
    (folder / "policy").mkdir()
    (folder / "policy" / "weights").write_bytes(b"w")
    return folder

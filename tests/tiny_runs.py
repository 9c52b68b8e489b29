"""Overrides that make a configuration of the nano world a run of seconds, and what a run left behind."""

import dataclasses
import json
from pathlib import Path

import jax
import jsonl
import numpy as np
import orbax.checkpoint as ocp
from tiny_models import QWEN3, random_params, write_tokenizer

from spicejax import config as configuration
from spicejax import configs
from spicejax.models import hf
from spicejax.run.store import record
from spicejax.run.store.checkpoint import Checkpoints

rows = jsonl.read
WORLD = {
    "nano.warm_tokens": "100000", "nano.row_length": "128", "nano.rows": "4", "nano.documents": "64",
    "nano.held_out": "16",
    "nano.architecture.d_model": "32", "nano.architecture.num_layers": "2", "nano.architecture.d_ff": "48",
    "nano.architecture.head_dim": "8", "buckets.rows": "16", "learner.rows": "4", "learner.min_micro_batches": "2",
    "checkpoint.every": "1",
}  # fmt: skip
SPICE = WORLD | {
    "spice.documents": "4", "spice.group_size": "4", "spice.max_attempts": "8", "eval.probe_documents": "0",
    "eval.every": "0",
}  # fmt: skip
SEARCH = WORLD | {"nano.row_length": "160", "buckets.prompt": "124", "eval.every": "0"}


def saved(workdir: Path, *, steps: int = 1, seed: int = 1) -> Path:
    """A work folder as a run on questions leaves it, of a random model: checkpoint and configuration, no training."""
    shape, model = dataclasses.replace(QWEN3, vocab_size=260, max_position=512), workdir / "first"
    hf.save(model, shape, random_params(shape))
    write_tokenizer(model)
    changes = {"model.path": str(model), "rlvr.max_new": "8", "buckets.prompt": "256", "buckets.rows": "12"}
    cfg = configuration.override(configs.load("rlvr_smollm2"), changes)
    state = {"params": random_params(dataclasses.replace(shape, param_dtype=cfg.model.param_dtype), seed)}
    with Checkpoints(workdir / "checkpoints", config=configuration.to_json(cfg)) as checkpoints:
        checkpoints.save(steps, state, {})
    record.write(workdir, cfg)
    return workdir


def last_step(workdir: Path) -> tuple[str, dict, dict]:
    """Name, bytes of every array and host state of the last step."""
    step = max((workdir / "checkpoints").glob("0*"))
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(ocp.PyTreeCheckpointer().restore(step / "state")):
        arrays[jax.tree_util.keystr(path)] = np.asarray(leaf).tobytes()
    extra = json.loads((step / "extra.json").read_text())
    del extra["counters"]["seconds"], extra["counters"]["stages"]
    return step.name, arrays, extra

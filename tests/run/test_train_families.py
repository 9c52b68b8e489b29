"""Families with windows through a whole run: killed and resumed bit for bit, exported, equal in transformers."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import kill_after
from tiny_models import full_logits
from tiny_runs import WORLD, last_step

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.models import hf
from spicejax.run import train
from spicejax.run.store import export

# Windows of less than a prompt: responses in slots see a part of it.
FAMILIES = {
    "mistral": {"sliding_window": "9", "tie_embeddings": "False"},
    "gemma3_text": {"sliding_window": "9", "full_every": "2", "sliding_theta": "100", "query_scalar": "6"},
}
SMALL = WORLD | {"rlvr.questions": "8", "rlvr.group_size": "4", "eval.every": "0", "iterations": "3"}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_of_a_family_with_windows(cache, tmp_path, family):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    shape = {f"nano.architecture.{name}": value for name, value in (FAMILIES[family] | {"family": family}).items()}
    changes = SMALL | shape | {"nano.cache": str(cache)}
    train.train(configuration.override(configs.load("rlvr_nano"), changes), tmp_path / "whole")
    words = ["--config=rlvr_nano", f"--workdir={tmp_path / 'parts'}", *(f"{k}={v}" for k, v in changes.items())]
    kill_after([sys.executable, "-m", "spicejax", "train", *words], tmp_path / "parts" / "metrics.jsonl", 1)
    assert commands.run("train", words) == 0
    assert last_step(tmp_path / "parts") == last_step(tmp_path / "whole")
    assert commands.run("export", [f"--run={tmp_path / 'parts'}", f"--out={tmp_path / 'out'}"]) == 0
    cfg, params = hf.load(tmp_path / "out")
    assert (cfg.family, cfg.sliding_window) == (family, 9)
    _, first = hf.load(export.read_run(tmp_path / "parts").source)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(jnp.any(a != b)), params, first))), "all of it learns"
    ids = np.arange(3, 43)[None]
    with torch.no_grad():
        theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")(torch.tensor(ids)).logits.numpy()
    ours = full_logits(cfg, params, jnp.asarray(ids))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * np.abs(theirs).max())

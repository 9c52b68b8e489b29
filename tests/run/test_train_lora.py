"""A run that trains adapters: what its checkpoints hold, resuming bit for bit, and its export."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_runs import SPICE

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.models import hf, lora, transformer
from spicejax.run import train
from spicejax.run.build import build
from spicejax.run.store import export
from spicejax.run.store.checkpoint import Checkpoints

SMALL = SPICE | {
    "iterations": "2", "learner.layout": "shared_prompt", "learner.prompt_areas": "96", "learner.slot_length": "24",
    "learner.slots": "4", "learner.kl_coef": "0.1", "learner.epochs": "2", "model.lora.rank": "2",
    "model.lora.targets": "q,up",
}  # fmt: skip


@pytest.mark.slow
def test_a_run_of_adapters_resumes_bit_for_bit_and_exports_merged(cache, tmp_path):
    cfg = configuration.override(configs.load("spice_nano"), SMALL | {"nano.cache": str(cache)})
    train.train(cfg, tmp_path / "whole")
    train.train(dataclasses.replace(cfg, iterations=1), tmp_path / "parts")
    train.train(cfg, tmp_path / "parts")
    _, shape, whole, tokenizer = export.load_run(tmp_path / "whole")
    _, _, parts, _ = export.load_run(tmp_path / "parts")
    jax.tree.map(np.testing.assert_array_equal, whole, parts)
    with Checkpoints(tmp_path / "whole" / "checkpoints", config={}) as checkpoints:
        saved = checkpoints.saved_config()
        folder = checkpoints.path(checkpoints.latest_good())
    size = sum(f.stat().st_size for f in (folder / "state").rglob("*") if f.is_file())
    assert saved["model"]["lora"]["rank"] == 2
    assert size < 4 * transformer.num_params(shape), "a checkpoint holds the adapters, not the base"
    # The export is a plain model that is not the one it started from.
    export.write(tmp_path / "out", shape, whole, tokenizer, dtype="float32")
    plain, params = hf.load(tmp_path / "out")
    assert plain.lora is None and jax.tree.structure(params) == jax.tree.structure(transformer.abstract_params(plain))
    base = build(cfg, tmp_path / "fresh")
    changed = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), params, lora.split(base.params)[0])
    assert changed["layers"]["attn"]["q"] and changed["layers"]["mlp"]["up"]
    assert not changed["embed"] and not changed["layers"]["attn"]["v"]
    # The adapters by themselves, as PEFT reads them, give the merged model.
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    words = [f"--run={tmp_path / 'whole'}", f"--out={tmp_path / 'adapter'}", "--adapter"]
    assert commands.run("export", words) == 0
    first = transformers.AutoModelForCausalLM.from_pretrained(export.read_run(tmp_path / "whole").source)
    theirs = peft.PeftModel.from_pretrained(first, str(tmp_path / "adapter"))
    ids = np.arange(3, 35)[None]
    with torch.no_grad():
        logits = theirs(torch.tensor(ids)).logits.numpy()
    hidden = transformer.hidden_states(plain, params, jnp.asarray(ids), jnp.arange(32)[None])
    ours = transformer.logits(plain, params, hidden)
    np.testing.assert_allclose(ours, logits, rtol=1e-4, atol=1e-4)
    card = (tmp_path / "adapter" / "README.md").read_text()
    assert "library_name: peft" in card and "Parameters trained**: adapters" in card
    assert commands.run("export", [*words[:1], f"--out={tmp_path / 'out'}", "--adapter"]) == 2

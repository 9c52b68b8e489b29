"""Adapters written for PEFT give, in PEFT, the logits of the merged model."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import LLAMA

from spicejax.models import hf, lora, peft, transformer


def test_peft_computes_what_is_merged(tmp_path):
    targets = tuple(lora.MATRICES)
    theirs, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    adapters = lora.LoraConfig(rank=3, alpha=5.0, targets=targets)
    params = transformer.init(dataclasses.replace(LLAMA, lora=adapters), jax.random.key(0))
    base, drawn = lora.split(params)
    drawn = jax.tree.map(lambda x: jax.random.normal(jax.random.key(x.size), x.shape) / 8, drawn)  # B begins at zero
    hf.save(tmp_path / "base", LLAMA, base, dtype="float32")
    peft.save(tmp_path / "adapter", LLAMA, adapters, drawn, base=str(tmp_path / "base"))
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    model = theirs.PeftModel.from_pretrained(model, str(tmp_path / "adapter"))
    ids = np.arange(24)[None] % LLAMA.vocab_size
    with torch.no_grad():
        wanted = model(torch.tensor(ids)).logits.numpy()
    merged = lora.merge(adapters, lora.join(base, drawn))
    hidden = transformer.hidden_states(LLAMA, merged, jnp.asarray(ids), jnp.arange(24)[None])
    np.testing.assert_allclose(transformer.logits(LLAMA, merged, hidden), wanted, rtol=1e-4, atol=1e-4)
    plain = transformer.hidden_states(LLAMA, base, jnp.asarray(ids), jnp.arange(24)[None])
    assert np.abs(np.asarray(transformer.logits(LLAMA, base, plain)) - wanted).max() > 0.1

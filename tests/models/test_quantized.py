"""Matrices in 8 bits against their dequantized selves, in the model, the sampler and the layout."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import qwix
from tiny_models import GEMMA3, QWEN2, QWEN3, full_logits, random_params

from spicejax import configs, sharding
from spicejax.generate import weights
from spicejax.models import lora, quantized, transformer
from spicejax.models.lora import LoraConfig


def dequantized(params):
    def whole(x):
        return qwix.dequantize(x) if isinstance(x, qwix.QArray) else x

    return jax.tree.map(whole, params, is_leaf=lambda x: isinstance(x, qwix.QArray))


@pytest.mark.parametrize("base", [QWEN2, GEMMA3], ids=lambda c: c.family)
def test_the_model_is_that_of_the_dequantized_matrices(base):
    params = random_params(base)
    small = quantized.quantize(params, "float32")
    matrices = [x for x in jax.tree.leaves(small["layers"]) if x.dtype == jnp.int8]
    assert len(matrices) == len(lora.MATRICES) and all(int(jnp.abs(m).max()) == 127 for m in matrices)
    tokens = jnp.arange(14).reshape(2, 7)
    found, same = full_logits(base, small, tokens), full_logits(base, dequantized(small), tokens)
    scale = float(jnp.abs(same).max())
    np.testing.assert_allclose(found, same, atol=1e-5 * scale)
    off = float(jnp.abs(found - full_logits(base, params, tokens)).max()) / scale
    assert 0 < off < 0.05, "rounded, and not by more than 8 bits explain"


def test_every_entry_is_within_half_a_step():
    params = random_params(QWEN3)
    small = quantized.quantize(params, "bfloat16")
    for name, (module, contracted) in lora.MATRICES.items():
        matrix, found = params["layers"][module][name], small["layers"][module][name]
        assert found.scale.dtype == jnp.float32 and set(found.scale.shape[1 : 1 + contracted]) == {1}
        assert bool(jnp.all(jnp.abs(qwix.dequantize(found) - matrix) <= 0.5001 * found.scale)), name
    assert small["embed"].dtype == jnp.bfloat16


def test_adapters_stay_beside_quantized_matrices():
    shape = dataclasses.replace(QWEN3, lora=LoraConfig(rank=3, alpha=6.0))
    small = quantized.quantize(random_params(shape, 1), "float32")
    tokens = jnp.arange(14).reshape(2, 7)
    same = full_logits(shape, dequantized(small), tokens)
    np.testing.assert_allclose(full_logits(shape, small, tokens), same, atol=1e-5 * float(jnp.abs(same).max()))
    base, adapters = lora.split(small)
    bare = full_logits(shape, lora.join(base, jax.tree.map(jnp.zeros_like, adapters)), tokens)
    assert float(jnp.abs(bare - same).max()) > 0, "the adapters count"


def test_the_sampler_copy_is_quantized_and_lies_on_the_mesh():
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    query = weights.copier(QWEN3, mesh, "int8")(random_params(QWEN3))["layers"]["attn"]["q"]
    assert query.qvalue.dtype == jnp.int8 and query.qvalue.sharding.mesh == mesh
    assert query.shape == transformer.abstract_params(QWEN3)["layers"]["attn"]["q"].shape


def test_a_missing_library_and_a_missing_correction_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "qwix", None)
    with pytest.raises(ModuleNotFoundError, match="spicejax.int8."):
        quantized.quantize(random_params(QWEN3), "float32")
    cfg = configs.load("spice_nano")
    for change in ({"sampler_weights": "int8"}, {"buckets": dataclasses.replace(cfg.buckets, cache="int8")}):
        with pytest.raises(ValueError, match=r"=int8 .*learner\.tis_cap"):
            dataclasses.replace(cfg, **change, learner=dataclasses.replace(cfg.learner, tis_cap=0.0))

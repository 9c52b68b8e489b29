"""Adapters against the plain model: nothing at first, merged = unmerged, cached = full, shapes and names."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import GEMMA3, QWEN2, QWEN3, full_logits, random_params

from spicejax.models import lora, transformer
from spicejax.models.lora import LoraConfig

LORA = LoraConfig(rank=3, alpha=6.0)


def with_adapters(base, cfg: LoraConfig = LORA, seed: int = 1):
    """Config and parameters whose adapters are random in both factors."""
    shape = dataclasses.replace(base, lora=cfg)
    return shape, random_params(shape, seed)


def test_fresh_adapters_change_nothing():
    params = random_params(QWEN3)
    shape = dataclasses.replace(QWEN3, lora=LORA)
    fresh = lora.split(transformer.init(shape, jax.random.key(0)))[1]
    assert all(float(jnp.abs(x).max()) > 0 for x in jax.tree.leaves(fresh) if x.shape[1] != LORA.rank), "A is drawn"
    tokens = jnp.arange(14).reshape(2, 7)
    both = full_logits(shape, lora.join(params, fresh), tokens)
    np.testing.assert_array_equal(both, full_logits(QWEN3, params, tokens))


@pytest.mark.parametrize("base", [QWEN2, GEMMA3], ids=lambda c: c.family)
def test_merged_equals_unmerged(base):
    shape, params = with_adapters(base)
    tokens = jnp.arange(14).reshape(2, 7)
    expected = full_logits(shape, params, tokens)
    merged = lora.merge(LORA, params)
    scale = float(jnp.abs(expected).max())
    np.testing.assert_allclose(full_logits(base, merged, tokens), expected, atol=2e-5 * scale)
    plain = full_logits(base, lora.split(params)[0], tokens)
    assert float(jnp.abs(plain - expected).max()) > 1e-2 * scale, "the adapters do nothing"
    assert jax.tree.map(jnp.shape, merged) == jax.tree.map(jnp.shape, transformer.abstract_params(base))


@pytest.mark.parametrize("target", list(lora.MATRICES))
def test_each_matrix_by_hand(target):
    """W + alpha / r * A B of one matrix and layer in numpy; no other leaf changes."""
    cfg = LoraConfig(rank=2, alpha=5.0, targets=(target,))
    _, params = with_adapters(QWEN3, cfg)
    base, adapters = lora.split(params)
    module, inner = lora.MATRICES[target]
    pair, matrix = adapters["layers"][module][f"{target}_lora"], np.asarray(base["layers"][module][target])
    assert len(jax.tree.leaves(adapters)) == 2
    a, b = np.float64(pair["a"][1]).reshape(-1, 2), np.float64(pair["b"][1]).reshape(2, -1)
    expected = matrix[1] + 2.5 * (a @ b).reshape(matrix[1].shape)
    merged = lora.merge(cfg, params)
    np.testing.assert_allclose(merged["layers"][module][target][1], expected, rtol=1e-5, atol=1e-6)
    assert pair["a"].shape[1:-1] == matrix.shape[1 : 1 + inner]
    merged["layers"][module][target] = base["layers"][module][target]
    jax.tree.map(np.testing.assert_array_equal, merged, base)


def test_split_and_join_are_inverse_and_axes_match():
    shape, params = with_adapters(QWEN2)
    base, adapters = lora.split(params)
    jax.tree.map(np.testing.assert_array_equal, lora.join(base, adapters), params)
    assert jax.tree.structure(base) == jax.tree.structure(transformer.abstract_params(QWEN2))
    axes = transformer.param_axes(shape)
    assert jax.tree.structure(params) == jax.tree.structure(axes, is_leaf=lambda x: isinstance(x, tuple))
    assert all(jax.tree.leaves(jax.tree.map(lambda leaf, names: len(names) == leaf.ndim, params, axes)))
    assert axes["layers"]["attn"]["o_lora"] == {
        "a": ("layers", "heads", "head_dim", None),
        "b": ("layers", None, "embed"),
    }


def test_adapters_are_float32_beside_bfloat16_weights():
    shape = dataclasses.replace(QWEN3, lora=LORA, dtype="bfloat16", param_dtype="bfloat16")
    base, adapters = lora.split(transformer.abstract_params(shape))
    assert {x.dtype for x in jax.tree.leaves(base)} == {jnp.dtype("bfloat16")}
    assert {x.dtype for x in jax.tree.leaves(adapters)} == {jnp.dtype("float32")}
    merged = jax.eval_shape(lambda p: lora.merge(LORA, p), transformer.abstract_params(shape))
    assert {x.dtype for x in jax.tree.leaves(merged)} == {jnp.dtype("bfloat16")}


@pytest.mark.parametrize(
    ("change", "message"),
    [({"rank": 0}, "rank=0"), ({"alpha": -1.0}, "alpha=-1.0"), ({"targets": ("query",)}, "lora.targets=.*'query'")],
)
def test_bad_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        LoraConfig(**change)

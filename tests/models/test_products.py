"""Products in bfloat16: their values and gradients, what XLA:CPU makes of them, what remat keeps of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import QWEN3, random_params

from spicejax.models import products, transformer


def operands(dtype):
    rng = np.random.default_rng(0)
    return (jnp.asarray(rng.normal(size=shape), dtype) for shape in ((2, 5, 6, 8), (6, 8, 3, 4), (2, 5, 3, 4)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_and_gradients_are_those_of_float32(dtype):
    """To the rounding of one result."""
    x, matrix, grad = operands(dtype)
    wide = [a.astype(jnp.float32) for a in (x, matrix, grad)]
    out, back = jax.vjp(lambda x, m: products.contract(x, m, 2), x, matrix)
    expected, wide_back = jax.vjp(lambda x, m: jnp.tensordot(x, m, 2), *wide[:2])
    for a, b in zip((out, *back(grad)), (expected, *wide_back(wide[2])), strict=True):
        assert a.dtype == dtype
        limit = 2**-8 if dtype == "bfloat16" else 1e-6
        np.testing.assert_allclose(a.astype(jnp.float32), b, rtol=limit, atol=limit)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="about the CPU's compiler")
def test_no_operand_is_made_float32_on_cpu():
    x, matrix, _ = operands("bfloat16")
    gradient = jax.grad(lambda x, m: jnp.sum(products.contract(x, m, 2).astype(jnp.float32) ** 2), (0, 1))
    text = jax.jit(gradient).lower(x, matrix).as_text()
    found = [line for line in text.splitlines() if "dot_general" in line]
    assert len(found) == 3
    assert all(line.count("bf16>") == 2 and "f32>" in line.split("->")[1] for line in found), found


def test_remat_of_dots_keeps_products_in_bfloat16(capsys):
    cfg = dataclasses.replace(QWEN3, dtype="bfloat16")
    params, tokens = random_params(cfg), jnp.ones((1, 8), jnp.int32)

    def saved(remat):
        model = dataclasses.replace(cfg, remat=remat)
        jax.ad_checkpoint.print_saved_residuals(
            lambda p: transformer.hidden_states(model, p, tokens, jnp.arange(8)[None]), params
        )
        return capsys.readouterr().out.count(f"bf16[{cfg.num_layers},8,{cfg.d_ff}]")

    assert saved("dots") >= 2 > saved("layer")  # gate and up


def test_bits_are_the_matrices_and_a_loop_over_them_makes_no_float32_stack():
    cfg = dataclasses.replace(QWEN3, dtype="bfloat16", param_dtype="bfloat16", num_layers=5)
    params, tokens = random_params(cfg), jnp.arange(24).reshape(2, 12)
    positions = jnp.broadcast_to(jnp.arange(12), tokens.shape)

    @jax.jit
    def read(params):
        return transformer.extend(cfg, params, tokens, positions)

    stacked = transformer.matrix_bits(params)
    assert stacked["layers"]["mlp"]["up"].dtype == jnp.uint16
    for plain, ours in zip(jax.tree.leaves(read(params)), jax.tree.leaves(read(stacked)), strict=True):
        np.testing.assert_allclose(ours.astype(jnp.float32), plain.astype(jnp.float32), rtol=2**-6, atol=2**-6)
    assert f"f32[5,{cfg.d_model},{cfg.d_ff}]" not in read.lower(stacked).compile().as_text()
    wide = transformer.matrix_bits(random_params(dataclasses.replace(cfg, param_dtype="float32")))
    assert {x.dtype for x in jax.tree.leaves(wide)} == {jnp.dtype("float32")}

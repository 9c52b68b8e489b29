"""Token log-probabilities by chunks of the vocabulary: value, gradient, memory, and a vocabulary split over devices."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import python, simulated
from tiny_models import QWEN3, random_params

from spicejax.models import scoring, transformer
from spicejax.models.scoring import _chunks, label_logprobs

BATCH, LENGTH, WIDTH, VOCAB = 2, 7, 12, 97


def drawn(dtype=jnp.float32):
    rng = np.random.default_rng(0)
    hidden = jnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)), dtype)
    table = jnp.asarray(rng.normal(size=(VOCAB, WIDTH)), jnp.float32)
    return hidden, table, jnp.asarray(rng.integers(0, VOCAB, (BATCH, LENGTH)), jnp.int32)


def plain(hidden, table, targets, sharpness):
    """log_softmax of all logits, in float32 from operands of hidden's dtype."""
    scores = jnp.einsum("btd,vd->btv", hidden, table.astype(hidden.dtype), preferred_element_type=jnp.float32)
    return jnp.take_along_axis(jax.nn.log_softmax(scores * sharpness), targets[..., None], -1)[..., 0]


def value_and_grad(function, hidden, table, targets):
    weights = jnp.asarray(np.random.default_rng(1).normal(size=targets.shape), jnp.float32)

    def loss(hidden, table):
        out = function(hidden, table, targets, jnp.float32(1.3))
        return jnp.sum(out * weights), out

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(hidden, table)


@pytest.mark.parametrize("chunk", [1, 13, 97, 1000])
def test_value_and_gradient_are_the_plain_ones(chunk):
    """97 is prime: every chunk but the whole needs padding entries."""
    arrays = drawn()
    expected = value_and_grad(plain, *arrays)
    got = value_and_grad(lambda *a: label_logprobs(*a, chunk), *arrays)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk", [13, 97])
def test_entries_that_no_token_has_count_nowhere(chunk):
    """A hole in the middle and a padded end: the numbers of a table without these rows, which get no gradient."""
    hidden, table, _ = drawn()
    used = np.r_[0:20, 23:90]
    places = jnp.asarray(np.random.default_rng(2).integers(0, len(used), (BATCH, LENGTH)))
    (_, expected), (d_hidden, d_table) = value_and_grad(plain, hidden, table[used], places)
    (_, got), grads = value_and_grad(
        lambda *a: label_logprobs(*a, chunk, (20, 23, 90, 97)),
        hidden,
        table.at[90:].set(9.0),
        jnp.asarray(used)[places],
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grads[0], d_hidden, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grads[1][used], d_table, rtol=1e-5, atol=1e-5)
    assert not grads[1][20:23].any() and not grads[1][90:].any()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("filled", [0, 3, 5, 7])
def test_the_front_of_each_row_alone(filled, frozen, monkeypatch):
    """Steps of three positions: values and gradients of those up to `filled`, none behind their step."""
    monkeypatch.setattr(scoring, "BLOCK", 3)
    hidden, table, targets = drawn()
    front = jnp.arange(LENGTH) < filled
    (_, expected), (d_hidden, d_whole) = value_and_grad(
        lambda *a: jnp.where(front, label_logprobs(*a, 13), 0), hidden, table, targets
    )
    (_, got), (d_front, d_table) = value_and_grad(
        lambda h, t, y, s: jnp.where(
            front, scoring.front_logprobs(h, t, y, jnp.int32(filled), s, 13, frozen=frozen), 0
        ),
        hidden,
        table,
        targets,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(d_front, d_hidden, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(d_table, d_whole * (not frozen), rtol=1e-5, atol=1e-5)
    behind = scoring.front_logprobs(hidden, table, targets, jnp.int32(filled), jnp.float32(1.0), 13)
    assert not behind[:, max(1, -(-filled // 3)) * 3 :].any()


def test_bfloat16_operands_are_summed_in_float32():
    """The table's gradient stays float32, to the rounding of its bfloat16 factors."""
    hidden, table, targets = drawn(jnp.bfloat16)
    (_, expected), grads = value_and_grad(plain, hidden, table, targets)
    (_, got), (d_hidden, d_table) = value_and_grad(lambda *a: label_logprobs(*a, 10), hidden, table, targets)
    assert (got.dtype, d_hidden.dtype, d_table.dtype) == (jnp.float32, jnp.bfloat16, jnp.float32)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(grads, (d_hidden, d_table), strict=True):
        np.testing.assert_allclose(np.float32(b), np.float32(a), atol=2**-7 * float(jnp.abs(a).max()))


def test_extreme_logits_stay_finite():
    hidden, table, targets = drawn()
    out, grads = value_and_grad(lambda *a: label_logprobs(*a, 10), hidden * 1e4, table, targets)
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((out, grads)))


@pytest.mark.parametrize("tie", [True, False])
def test_no_array_of_all_logits_in_either_pass(tie):
    """In the optimised program of a gradient step: nothing as large as B x T x V."""
    cfg = dataclasses.replace(QWEN3, tie_embeddings=tie, vocab_size=640)
    params = random_params(cfg)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, cfg.vocab_size, (4, 40)), jnp.int32)

    def loss(params, chunk):
        hidden = params["embed"][tokens]
        return jnp.sum(transformer.token_logprobs(cfg, params, hidden, tokens, chunk=chunk))

    def sizes(chunk):
        text = jax.jit(jax.grad(functools.partial(loss, chunk=chunk))).lower(params).compile().as_text()
        found = [part.split("]")[0].split(",") for part in text.split("f32[")[1:]]
        return max(int(np.prod([int(d) for d in dims if d])) for dims in found)

    logits = tokens.size * cfg.vocab_size
    assert sizes(0) >= logits, "the plain path is meant to make them"
    assert sizes(80) <= logits / 4


def test_chunks_divide_the_vocabularies_we_use():
    for vocab, chunk in ((151936, 8192), (128256, 8192), (49152, 8192)):
        count = _chunks(vocab, chunk)
        assert vocab % count == 0 and chunk / 2 <= vocab / count <= chunk


@pytest.mark.slow
def test_a_vocabulary_split_over_devices():
    """data x fsdp x tensor = 2 x 2 x 2 with the output layer split over tensor and fsdp: the same numbers."""
    program = """
        import jax, jax.numpy as jnp, numpy as np, flax.linen as nn
        from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
        from spicejax.models.scoring import label_logprobs
        mesh = Mesh(np.asarray(jax.devices()).reshape(2, 2, 2), ("data", "fsdp", "tensor"),
                    axis_types=(AxisType.Auto,) * 3)
        rng = np.random.default_rng(0)
        hidden, table = (rng.normal(size=s).astype(np.float32) for s in ((4, 6, 16), (96, 16)))
        targets = rng.integers(0, 40, (4, 6)).astype(np.int32)
        def loss(hidden, table):
            return jnp.sum(jnp.sin(label_logprobs(hidden, table, targets, jnp.float32(1.0), 24, (43, 50, 90, 96))))
        one = jax.device_get(jax.jit(jax.value_and_grad(loss, (0, 1)))(hidden, table))
        with jax.set_mesh(mesh), nn.logical_axis_rules((("batch", ("data", "fsdp")), ("act_vocab", "tensor"))):
            places = NamedSharding(mesh, P(("data", "fsdp"))), NamedSharding(mesh, P("tensor", "fsdp"))
            many = jax.jit(jax.value_and_grad(loss, (0, 1)), out_shardings=(None, places))(
                *(jax.device_put(a, p) for a, p in zip((hidden, table), places)))
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(jax.device_get(many))):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        print("equal")
        """
    assert python(program, XLA_FLAGS=simulated(8)) == "equal"

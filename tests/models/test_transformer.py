"""The decoder against itself: cache, segments, padding, chunks, gradients, shapes and names."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import GEMMA3, LLAMA, MISTRAL, QWEN2, QWEN3, full_logits, random_params

from spicejax.models import cache, transformer
from spicejax.models.attention import Slots
from spicejax.models.cache import Context
from spicejax.models.transformer import TransformerConfig

extend = jax.jit(transformer.extend, static_argnums=0)


def tokens_of(batch: int, length: int, seed: int = 3) -> jax.Array:
    return jax.random.randint(jax.random.key(seed), (batch, length), 0, QWEN3.vocab_size)


def empty_cache(cfg: TransformerConfig, rows: int, slots: int) -> cache.KVCache:
    """A cache whose slots hold garbage, which must not be seen."""
    made = cache.init_cache(cfg.num_layers, rows, cfg.num_kv_heads, slots, cfg.head_dim, "float32")
    return jax.tree.map(lambda x: jnp.full_like(x, 7.0), made)


@functools.partial(jax.jit, static_argnums=0, static_argnames=("chunk",))
def token_loss(cfg, params, tokens, segment_ids=None, **kwargs):
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden = transformer.hidden_states(cfg, params, tokens, positions, segment_ids=segment_ids)
    return transformer.token_logprobs(cfg, params, hidden, tokens, **kwargs)


def test_param_axes_match_the_tree(cfg):
    params, axes = transformer.abstract_params(cfg), transformer.param_axes(cfg)
    same = jax.tree.map(lambda leaf, names: len(names) == leaf.ndim, params, axes)
    assert all(jax.tree.leaves(same))
    assert jax.tree.structure(params) == jax.tree.structure(axes, is_leaf=lambda x: isinstance(x, tuple))
    count = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
    assert transformer.num_params(cfg) == count


def test_init_scales():
    cfg = dataclasses.replace(QWEN3, d_model=128, num_layers=8, d_ff=256)
    params = jax.jit(transformer.init, static_argnums=0)(cfg, jax.random.key(0))
    assert jax.tree.map(lambda a: (a.shape, a.dtype), params) == jax.tree.map(
        lambda a: (a.shape, a.dtype), transformer.abstract_params(cfg)
    )
    mlp = params["layers"]["mlp"]
    assert np.std(params["embed"]) == pytest.approx(0.02, rel=0.05)
    assert np.std(mlp["up"]) == pytest.approx(0.02, rel=0.05)
    assert np.std(mlp["down"]) == pytest.approx(0.02 / 4, rel=0.05)
    assert np.std(params["layers"]["attn"]["o"]) == pytest.approx(0.02 / 4, rel=0.05)
    assert not np.allclose(mlp["up"][0], mlp["up"][1]), "layers share one draw"


@pytest.mark.parametrize(
    ("base", "prompt"), [(QWEN3, 1), (QWEN2, 5), (MISTRAL, 5), (GEMMA3, 1)], ids=lambda x: getattr(x, "family", x)
)
def test_cached_decode_equals_full_forward(base, prompt):
    """Prefill, then one token at a time."""
    params, tokens = random_params(base), tokens_of(2, 11)
    expected = full_logits(base, params, tokens)
    store = empty_cache(base, 2, 16)
    pieces, at = [], 0
    while at < tokens.shape[1]:
        count = prompt if at == 0 else 1
        positions = jnp.broadcast_to(jnp.arange(at, at + count), (2, count))
        seen = Context(store, jnp.broadcast_to(jnp.arange(16) < at, (2, 16)), jnp.arange(16)[None])
        hidden, new = extend(base, params, tokens[:, at : at + count], positions, (seen,))
        store = cache.write(store, new, at)
        pieces.append(transformer.logits(base, params, hidden))
        at += count
    np.testing.assert_allclose(jnp.concatenate(pieces, 1), expected, atol=2e-5 * float(jnp.abs(expected).max()))


@pytest.mark.parametrize(("base", "cut"), [(QWEN3, False), (QWEN3, True), (GEMMA3, False), (GEMMA3, True)])
def test_rows_that_share_a_prefix_equal_rows_of_their_own(base, cut):
    """Two prompts of different lengths, three rows each, own tokens in a second cache, two new tokens at once."""
    params, prompts, own, new = random_params(base), tokens_of(2, 6), tokens_of(6, 4, seed=3), tokens_of(6, 2, seed=4)
    lengths = np.array([6, 4])
    prefix, suffix = empty_cache(base, 2, 8), empty_cache(base, 6, 5)
    _, entries = extend(base, params, prompts, jnp.broadcast_to(jnp.arange(6), (2, 6)))
    prefix = Context(cache.write(prefix, entries, 0), jnp.arange(8) < lengths[:, None], jnp.arange(8)[None])
    offsets = np.repeat(lengths, 3)[:, None]
    _, entries = extend(base, params, own, offsets + jnp.arange(4), (prefix,))
    suffix = Context(
        cache.write(suffix, entries, 1), jnp.broadcast_to(jnp.arange(5) >= 1, (6, 5)), offsets - 1 + jnp.arange(5)
    )
    hidden, written = extend(base, params, new, offsets + 4 + jnp.arange(2), (prefix, suffix))
    if cut:
        layers, *caches = (transformer.unstack(x, base.num_layers) for x in (params["layers"], prefix[0], suffix[0]))
        context = [(Context(p, *prefix[1:]), Context(s, *suffix[1:])) for p, s in zip(*caches, strict=True)]
        run = jax.jit(transformer.extend_layers, static_argnums=0)
        places = offsets + 4 + jnp.arange(2)
        rotation = tuple(table[places] for table in transformer.rotations(base, 12))
        hidden, parts = run(base, params, layers, new, places, rotation, context)
        for a, b in zip(written, jax.tree.map(lambda *x: jnp.concatenate(x), *parts), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, atol=1e-5)
    got = transformer.logits(base, params, hidden)
    for row in range(6):
        whole = jnp.concatenate([prompts[row // 3, : lengths[row // 3]], own[row], new[row]])[None]
        expected = full_logits(base, params, whole)[0, -2:]
        np.testing.assert_allclose(got[row], expected, atol=2e-5 * float(jnp.abs(expected).max()))


@pytest.mark.parametrize("base", [QWEN2, MISTRAL, GEMMA3], ids=lambda c: c.family)
def test_segments_are_isolated(base):
    """Two sequences packed in one row score as they do alone, and padding between and after changes nothing."""
    params = random_params(base)
    first, second = tokens_of(1, 5, seed=1), tokens_of(1, 7, seed=2)
    row = jnp.concatenate([first, second, jnp.full((1, 4), 9)], axis=1)
    segments = jnp.array([[1] * 5 + [2] * 7 + [0] * 4])
    positions = jnp.array([[*range(5), *range(7), *range(4)]])
    run = jax.jit(transformer.hidden_states, static_argnums=0)
    got = transformer.logits(base, params, run(base, params, row, positions, segment_ids=segments))
    scale = float(jnp.abs(got).max())
    np.testing.assert_allclose(got[:, :5], full_logits(base, params, first), atol=2e-5 * scale)
    np.testing.assert_allclose(got[:, 5:12], full_logits(base, params, second), atol=2e-5 * scale)
    mixed = transformer.logits(base, params, run(base, params, row, positions))
    assert float(jnp.abs(mixed[:, 5:12] - got[:, 5:12]).max()) > 1e-2 * scale, "without segments the second sees both"


@pytest.mark.parametrize("base", [MISTRAL, GEMMA3], ids=lambda c: c.family)
def test_windows_reach_from_slots_into_the_prompt(base):
    """Two prompts in an area of 9, three responses in two slots of 6: each scores as a row of its own."""
    params, prompts = random_params(base), [tokens_of(1, n, seed=n) for n in (6, 3)]
    responses = [(1, tokens_of(1, 4, seed=7)), (2, tokens_of(1, 2, seed=8)), (1, tokens_of(1, 5, seed=9))]
    row = jnp.concatenate([*prompts, *(response for _, response in responses), jnp.zeros((1, 1), int)], axis=1)
    segments = jnp.array([[1] * 6 + [2] * 3 + [1] * 4 + [2] * 2 + [1] * 5 + [0]])
    positions = jnp.array([[*range(6), *range(3), *range(6, 10), *range(3, 5), *range(6, 11), 0]])
    run = jax.jit(transformer.hidden_states, static_argnums=0, static_argnames="slots")
    hidden = run(base, params, row, positions, segment_ids=segments, slots=Slots(prompt=9, length=6))
    got, at = transformer.logits(base, params, hidden), 9
    for segment, response in responses:
        prompt = prompts[segment - 1]
        expected = full_logits(base, params, jnp.concatenate([prompt, response], axis=1))[:, prompt.shape[1] :]
        found = got[:, at : at + response.shape[1]]
        np.testing.assert_allclose(found, expected, atol=2e-5 * float(jnp.abs(expected).max()))
        at += response.shape[1]


def test_gradients_finite_and_free_of_remat():
    """With a row of nothing but padding in the batch, whose loss is masked out."""
    params, tokens = random_params(QWEN3), tokens_of(2, 6)
    segments = jnp.array([[1, 1, 2, 2, 2, 0], [0] * 6])

    def loss(p, cfg):
        return jnp.sum(token_loss(cfg, p, tokens, segments) * (segments > 0))

    grad = jax.jit(jax.grad(loss), static_argnums=1)
    plain, saved = grad(params, QWEN3), grad(params, dataclasses.replace(QWEN3, remat="dots"))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(plain))
    assert all(float(jnp.abs(leaf).max()) > 0 for leaf in jax.tree.leaves(plain)), "a parameter gets no gradient"
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), plain, saved)


def test_bfloat16_stays_close_and_scores_in_float32():
    params, tokens = random_params(LLAMA), tokens_of(2, 9)
    half = dataclasses.replace(LLAMA, dtype="bfloat16")
    exact, rough = token_loss(LLAMA, params, tokens), token_loss(half, params, tokens)
    assert rough.dtype == jnp.float32
    _, entries = extend(half, params, tokens, jnp.broadcast_to(jnp.arange(9), (2, 9)))
    assert entries.k.dtype == jnp.bfloat16
    assert 0 < float(jnp.abs(exact - rough).mean()) < 0.05 * float(jnp.abs(exact).mean())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_kv_heads": 4}, "num_heads=6 is not a multiple of num_kv_heads=4"),
        ({"head_dim": 7}, "head_dim=7"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"rope_theta": 0.0}, "rope_theta=0.0"),
        ({"family": "llama", "d_model": 40}, "d_model=40 is not a multiple of num_heads=6"),
    ],
)
def test_bad_configs_say_the_fix(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(QWEN3, **change)

"""The KV cache: precisions, writing, and attention over parts against attention over the whole."""

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spicejax.models import attention, cache


def entries(seed: int, rows: int = 2, slots: int = 5) -> cache.KVCache:
    draw = np.random.default_rng(seed)
    k = draw.normal(size=(3, rows, 2, 8, slots)) * 10.0 ** draw.integers(-2, 2, (3, rows, 2, 1, slots))
    return cache.KVCache(
        jnp.asarray(k, jnp.float32), jnp.asarray(draw.normal(size=(3, rows, 2, slots, 8)), jnp.float32)
    )


@pytest.mark.parametrize("dtype", get_args(cache.CacheDtype))
def test_write_puts_entries_in_place_and_leaves_the_rest(dtype):
    empty = cache.init_cache(3, 2, 2, 9, 8, dtype)
    got = cache.write(empty, entries(0), 3)
    new = cache.encode(entries(0), empty.k.dtype)
    np.testing.assert_array_equal(got.k[..., 3:8], new.k)
    np.testing.assert_array_equal(got.v[..., 3:8, :], new.v)
    assert not got.k[..., :3].any() and not got.k[..., 8:].any() and not got.v[..., 8:, :].any()
    if dtype == "int8":
        np.testing.assert_array_equal(got.k_scale[..., 3:8], new.k_scale)


@pytest.mark.parametrize("dtype", get_args(cache.CacheDtype))
def test_rows_are_written_each_at_its_own_start(dtype):
    old, new = (cache.encode(entries(seed, rows=4, slots=slots), jnp.dtype(dtype)) for seed, slots in ((0, 9), (1, 5)))
    starts = np.array([0, 3, 7, 12])
    got = cache.write_rows(old, entries(1, rows=4), jnp.asarray(starts))
    for row, start in enumerate(starts):
        for name, axis in (("k", 3), ("v", 2), ("k_scale", 2), ("v_scale", 2)):
            if (was := getattr(old, name)) is not None:
                want = np.moveaxis(np.array(was[:, row]), axis, 0)
                want[start : start + 5] = np.moveaxis(np.array(getattr(new, name)[:, row]), axis, 0)[
                    : max(0, 9 - start)
                ]
                np.testing.assert_array_equal(np.moveaxis(np.array(getattr(got, name)[:, row]), axis, 0), want)


def test_int8_is_within_half_a_step_of_each_tokens_largest_entry():
    whole = entries(1)
    small = cache.encode(whole, jnp.dtype(jnp.int8))
    back = small.k * small.k_scale[:, :, :, None]
    step = jnp.abs(whole.k).max(axis=3, keepdims=True) / 127
    assert float((jnp.abs(back - whole.k) / step).max()) <= 0.5 + 1e-3
    assert int(jnp.abs(small.k).max(axis=3).min()) == 127, "the largest entry of every token uses the whole range"
    zero = cache.encode(jax.tree.map(jnp.zeros_like, whole), jnp.dtype(jnp.int8))
    assert bool(jnp.isfinite(zero.k_scale).all()) and not zero.k.any()


@pytest.mark.parametrize("share", [1, 3])
def test_merged_parts_equal_one_softmax(share):
    """Against plain numpy over the keys of both parts; a part that shows nothing changes nothing."""
    draw = np.random.default_rng(2)
    rows, heads = 2, 4
    query = draw.normal(size=(rows * share, 1, heads, 8)).astype(np.float32) * 3
    first, second = (jax.tree.map(lambda x: x[0], entries(s)) for s in (3, 4))
    mask = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 0, 0]], bool)

    def part(kv, mask):
        return attention.partial_attention(jnp.asarray(query), kv, jnp.asarray(mask)[:, None])

    parts = [part(first, mask), part(second, np.ones((2, 5), bool)), part(second, np.zeros((2, 5), bool))]
    got = np.asarray(attention.merge(parts))
    for b in range(rows * share):
        u = b // share
        for h in range(heads):
            keys = np.concatenate([first.k[u, h // 2].T[mask[u]], second.k[u, h // 2].T])
            values = np.concatenate([first.v[u, h // 2][mask[u]], second.v[u, h // 2]])
            scores = keys @ query[b, 0, h] / np.sqrt(8)
            weights = np.exp(scores - scores.max())
            np.testing.assert_allclose(got[b, 0, h], weights @ values / weights.sum(), atol=1e-5)


def test_int8_attention_is_close_to_float32():
    whole = entries(5, slots=40)
    small = cache.encode(whole, jnp.dtype(jnp.int8))
    query = jax.random.normal(jax.random.key(0), (2, 1, 4, 8))
    mask = jnp.ones((2, 1, 40), bool)

    def run(kv):
        return attention.merge([attention.partial_attention(query, jax.tree.map(lambda x: x[0], kv), mask)])

    gap = float(jnp.abs(run(whole) - run(small)).max())
    assert 0 < gap < 0.05

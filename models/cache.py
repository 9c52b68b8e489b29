"""The KV cache of all layers: its precisions, writing to it, and what a token may see of it.

Keys are transposed ([K, h, S], values are [K, S, h]), so that both products of attention run along the innermost axis:
on CPU this is about twice as fast as [K, S, h] for both. An int8 cache keeps its newest tokens in a window with the
forward pass's precision. A full window is rounded and moved as one block, because XLA:TPU writes a single column of an
8-bit array by copying the whole array.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

CacheDtype = Literal["float32", "bfloat16", "int8"]

_SLOT_AXES = (4, 3, 3, 3)  # of k, v, k_scale, v_scale


class KVCache(NamedTuple):
    """Keys (after rotation) and values of all layers, or of one, without L: U rows of S slots.

    int8 entries carry one scale for each token and head, others none.
    """

    k: Num[Array, "*L U K h S"]
    v: Num[Array, "*L U K S h"]
    k_scale: Float[Array, "*L U K S"] | None = None
    v_scale: Float[Array, "*L U K S"] | None = None


class Context(NamedTuple):
    """A cache of U rows, the slots in it that may be attended to, and the positions of their tokens, for windows."""

    cache: KVCache
    mask: Bool[Array, "U S"]
    positions: Int[Array, "#U S"]


def init_cache(layers: int, rows: int, kv_heads: int, slots: int, head_dim: int, dtype: CacheDtype) -> KVCache:
    """An empty cache of `slots` tokens a row."""
    k = jnp.zeros((layers, rows, kv_heads, head_dim, slots), dtype)
    v = jnp.zeros((layers, rows, kv_heads, slots, head_dim), dtype)
    if dtype != "int8":
        return KVCache(k, v)
    scale = jnp.zeros((layers, rows, kv_heads, slots), jnp.float32)
    return KVCache(k, v, scale, scale)


def token_bytes(layers: int, kv_heads: int, head_dim: int, dtype: CacheDtype) -> int:
    """Bytes of one token's keys and values in all layers."""
    cache = jax.eval_shape(lambda: init_cache(layers, 1, kv_heads, 1, head_dim, dtype))
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(cache))


def write(
    cache: KVCache, new: KVCache, start: Int[Array, ""] | int, where: Bool[Array, "#U #T"] | None = None
) -> KVCache:
    """Put the T slots of `new` (compute dtype) at `start` of every row, in the cache's precision.

    Args:
      where: the slots of `new` that are written; the others keep what they held.
    """
    parts: list[Any] = list(cache)
    for i, (value, axis) in enumerate(zip(encode(new, cache.k.dtype), _SLOT_AXES, strict=True)):
        if value is None:
            continue
        if where is not None:
            old = jax.lax.dynamic_slice_in_dim(parts[i], start, value.shape[axis], axis)
            others = [n for n in range(value.ndim) if n not in (1, axis)]
            value = jnp.where(jnp.expand_dims(where, others), value, old)
        parts[i] = jax.lax.dynamic_update_slice_in_dim(parts[i], value, start, axis)
    return KVCache(*parts)


def write_columns(cache: KVCache, new: KVCache, columns: Int[Array, "U T"]) -> KVCache:
    """As `write`, each token of each row at its own slot; S = not at all."""

    def put(old: Array, value: Array, axis: int) -> Array:
        # Chosen, not scattered: XLA:TPU turns a whole cache for a scatter, and back.
        others = [n for n in range(old.ndim) if n not in (1, axis)]
        for i in range(columns.shape[1]):
            here = jnp.expand_dims(jnp.arange(old.shape[axis]) == columns[:, i : i + 1], others)
            old = jnp.where(here, jax.lax.slice_in_dim(value, i, i + 1, axis=axis), old)
        return old

    values = zip(cache, encode(new, cache.k.dtype), _SLOT_AXES, strict=True)
    parts: list[Any] = [None if old is None or value is None else put(old, value, axis) for old, value, axis in values]
    return KVCache(*parts)


def write_rows(cache: KVCache, new: KVCache, starts: Int[Array, "U"]) -> KVCache:
    """As `write`, each row at its own start; slots beyond the cache's end are dropped."""

    def put(old: Array, value: Array, axis: int) -> Array:
        # Turned into place and chosen, not scattered: XLA:GPU cannot compile a scatter whose rows are its second axis.
        room, count = [(0, 0)] * old.ndim, value.shape[axis]
        room[axis] = (0, max(0, old.shape[axis] - count))
        since = jnp.arange(old.shape[axis]) - starts[:, None]
        here = jnp.expand_dims((since >= 0) & (since < count), [n for n in range(old.ndim) if n not in (1, axis)])
        placed = jax.lax.slice_in_dim(_turned(jnp.pad(value, room), starts, axis), 0, old.shape[axis], axis=axis)
        return jnp.where(here, placed, old)

    values = zip(cache, encode(new, cache.k.dtype), _SLOT_AXES, strict=True)
    parts: list[Any] = [None if old is None or value is None else put(old, value, axis) for old, value, axis in values]
    return KVCache(*parts)


def first_slots(cache: KVCache, slots: int) -> KVCache:
    """The first slots of every row."""
    parts: list[Any] = [
        None if x is None else jax.lax.slice_in_dim(x, 0, slots, axis=axis)
        for x, axis in zip(cache, _SLOT_AXES, strict=True)
    ]
    return KVCache(*parts)


def rotated(cache: KVCache, starts: Int[Array, "U"]) -> KVCache:
    """Every row as a ring of slots, rotated so that its own `starts` slot comes first."""
    parts: list[Any] = [
        None if x is None else _turned(x, -starts, axis) for x, axis in zip(cache, _SLOT_AXES, strict=True)
    ]
    return KVCache(*parts)


def _turned(x: Array, by: Int[Array, "U"], axis: int) -> Array:
    """Every row's slots moved on by so many, the last ones to the front."""
    return jax.vmap(lambda row, shift: jnp.roll(row, shift, axis - 1), (1, 0), 1)(x, by)


def encode(new: KVCache, dtype: jnp.dtype) -> KVCache:
    """`new` in the precision of a cache; int8 has one scale for each token and head, largest entry = 127."""
    if dtype != jnp.int8:
        return KVCache(new.k.astype(dtype), new.v.astype(dtype))
    k, k_scale = _quantize(new.k, axis=3)
    v, v_scale = _quantize(new.v, axis=4)
    return KVCache(k, v, k_scale, v_scale)


def decode(cache: KVCache, dtype: Any) -> KVCache:
    """The entries of one layer without scales, in `dtype` where they are integers."""
    if cache.k_scale is None or cache.v_scale is None:
        return cache
    k, v = cache.k * cache.k_scale[:, :, None], cache.v * cache.v_scale[..., None]
    return KVCache(k.astype(dtype), v.astype(dtype))


def _quantize(x: Array, axis: int) -> tuple[Array, Array]:
    x32 = x.astype(jnp.float32)
    scale = jnp.max(jnp.abs(x32), axis=axis) / 127
    rounded = jnp.round(x32 / jnp.expand_dims(jnp.where(scale > 0, scale, 1.0), axis))
    return rounded.astype(jnp.int8), scale

"""Softmax attention of the training pass without scores in memory: the backward pass computes them again.

It does so part by part from each query's log-sum-exp. XLA:CPU copies an operand transposed before a product that
contracts its left operand's first axis, or several axes: every large operand lies here as the product takes it.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Masked scores get a large finite value, never -inf: a row with nothing to attend to then gives a finite average where
# -inf would give NaN.
MASKED = -0.7 * float(jnp.finfo(jnp.float32).max)


class Part(NamedTuple):
    """Keys that the queries attend to: the T queries, in order, are N equal runs, and run n sees key[:, :, n].

    A query sees the keys of its own segment.
    """

    key: Float[Array, "B K N S h"]
    value: Float[Array, "B K N S h"]
    segment_ids: Int[Array, "B N S"]
    positions: Int[Array, "B N S"] | None = None


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def attend(
    query: Float[Array, "B K T G h"],
    segment_ids: Int[Array, "B T"],
    positions: Int[Array, "B T"] | None,
    parts: tuple[Part, ...],
    offsets: tuple[int | None, ...],
    window: int | None,
) -> Float[Array, "B K T G h"]:
    """Softmax over the keys of all parts together, in float32; the G queries of a token share a key head.

    Every query must see a key, at least its own: the gradients of one that sees none have no meaning.

    Args:
      offsets: for each part where its runs of queries start among its keys: query r of a run sees key s where
        s <= offset + r. None = all of them.
      window: a query sees the keys less than this many positions before its own; None = all, positions are not read.
    """
    return _forward(query, segment_ids, positions, parts, offsets, window)[0]


def _scores(
    query: Array, segment_ids: Array, positions: Array | None, part: Part, offset: int | None, window: int | None
) -> Float[Array, "B K N R G S"]:
    batch, heads, tokens, group, width = query.shape
    runs, keys = part.key.shape[2:4]
    rows = query.reshape(batch, heads, runs, -1, width)
    scores = jnp.einsum("bknmh,bknsh->bknms", rows, part.key, preferred_element_type=jnp.float32) * width**-0.5
    seen = segment_ids.reshape(batch, runs, -1)[..., None] == part.segment_ids[:, :, None]
    if offset is not None:
        seen &= offset + jnp.arange(tokens // runs)[:, None] >= jnp.arange(keys)
    if window is not None and positions is not None and part.positions is not None:
        seen &= positions.reshape(batch, runs, -1)[..., None] - part.positions[:, :, None] < window
    return jnp.where(seen[:, None, :, :, None], scores.reshape(batch, heads, runs, -1, group, keys), MASKED)


def _by_run(x: Float[Array, "B K T G"], scores: Float[Array, "B K N R G S"]) -> Float[Array, "B K N R G 1"]:
    return x.reshape(*scores.shape[:-1], 1)


def _forward(
    query: Array,
    segment_ids: Array,
    positions: Array | None,
    parts: tuple[Part, ...],
    offsets: tuple[int | None, ...],
    window: int | None,
) -> tuple:
    scores = [
        _scores(query, segment_ids, positions, part, offset, window)
        for part, offset in zip(parts, offsets, strict=True)
    ]
    top = functools.reduce(jnp.maximum, [jnp.max(s, axis=-1).reshape(query.shape[:-1]) for s in scores])
    total, out = jnp.zeros(top.shape), jnp.zeros(query.shape)
    for part, own in zip(parts, scores, strict=True):
        weights = jnp.exp(own - _by_run(top, own))
        total = total + jnp.sum(weights, axis=-1).reshape(top.shape)
        flat = weights.reshape(*own.shape[:3], -1, own.shape[-1]).astype(part.value.dtype)
        summed = jnp.einsum("bknms,bknsh->bknmh", flat, part.value, preferred_element_type=jnp.float32)
        out = out + summed.reshape(query.shape)
    out = (out / total[..., None]).astype(query.dtype)
    return out, (query, segment_ids, positions, parts, out, top + jnp.log(total))


def _backward(offsets: tuple[int | None, ...], window: int | None, kept: tuple, grad: Array) -> tuple:
    query, segment_ids, positions, parts, out, normaliser = kept
    shift = jnp.sum(grad.astype(jnp.float32) * out.astype(jnp.float32), axis=-1)  # sum over keys of weight * d weight
    d_query, d_parts = jnp.zeros(query.shape), []
    for part, offset in zip(parts, offsets, strict=True):
        own = _scores(query, segment_ids, positions, part, offset, window)
        flat, rows = (*own.shape[:3], -1, own.shape[-1]), (*own.shape[:3], -1, query.shape[-1])
        weights = jnp.exp(own - _by_run(normaliser, own))
        d_out, q = grad.reshape(rows).astype(part.value.dtype), query.reshape(rows)
        d_weights = jnp.einsum("bknmh,bknsh->bknms", d_out, part.value, preferred_element_type=jnp.float32)
        d_scores = weights * (d_weights.reshape(own.shape) - _by_run(shift, own)) * query.shape[-1] ** -0.5
        d_scores = d_scores.reshape(flat).astype(query.dtype)
        from_keys = jnp.einsum("bknms,bknsh->bknmh", d_scores, part.key, preferred_element_type=jnp.float32)
        d_query = d_query + from_keys.reshape(query.shape)
        d_key = _over_queries(q, d_scores).astype(part.key.dtype)
        d_value = _over_queries(d_out, weights.reshape(flat).astype(part.value.dtype)).astype(part.value.dtype)
        d_parts.append(Part(d_key, d_value, *map(_no_gradient, part[2:])))
    return d_query.astype(query.dtype), _no_gradient(segment_ids), _no_gradient(positions), tuple(d_parts)


def _over_queries(rows: Float[Array, "B K N M h"], scores: Float[Array, "B K N M S"]) -> Float[Array, "B K N S h"]:
    """scores^T rows. On the right, the scores are taken by XLA:CPU as they lie; on the left it transposes them."""
    product = jax.lax.dot_general(
        rows, scores, (((3,), (3,)), ((0, 1, 2), (0, 1, 2))), preferred_element_type=jnp.float32
    )
    return product.swapaxes(3, 4)


def _no_gradient(ids: Array | None) -> Any:
    return None if ids is None else np.zeros(ids.shape, jax.dtypes.float0)


attend.defvjp(_forward, _backward)

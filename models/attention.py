"""Grouped-query attention: the training door (causal, segments) and the cache door (parts merged by log-sum-exp)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

# "xla" runs everywhere. A further kernel (Pallas splash on TPU, cuDNN flash on GPU) is one more branch in
# `causal_attention`: that is why it receives segment ids and not a mask, which such kernels cannot take.
AttentionKernel = Literal["xla"]
ATTENTION_KERNELS: tuple[str, ...] = get_args(AttentionKernel)

# Masked scores get a large finite value, never -inf: a row with nothing to attend to then gives a uniform, finite
# average and a finite gradient where -inf would give NaN.
MASKED = -0.7 * float(jnp.finfo(jnp.float32).max)


def causal_mask(length: int, segment_ids: Int[Array, "B T"] | None) -> Bool[Array, "rows T T"]:
    """True where query t may attend to key s: s <= t and the same segment, where those are given (else rows = 1)."""
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))[None]
    if segment_ids is None:
        return causal
    return causal & (segment_ids[:, :, None] == segment_ids[:, None, :])


def causal_attention(
    query: Float[Array, "B T H h"],
    key: Float[Array, "B T K h"],
    value: Float[Array, "B T K h"],
    segment_ids: Int[Array, "B T"] | None,
    *,
    kernel: AttentionKernel = "xla",
) -> Float[Array, "B T H h"]:
    """Attend causally by index within a segment; segment 0 is padding and only sees padding."""
    if kernel != "xla":
        raise ValueError(f"attention kernel {kernel!r} is not known; use one of {ATTENTION_KERNELS}")
    mask = causal_mask(query.shape[1], segment_ids)
    return masked_attention(query, key.swapaxes(1, 2), value.swapaxes(1, 2), mask)


def masked_attention(
    query: Float[Array, "B T H h"],
    key: Float[Array, "B K S h"],
    value: Float[Array, "B K S h"],
    mask: Bool[Array, "rows T S"],
) -> Float[Array, "B T H h"]:
    """softmax(q k^T / sqrt(h)) v where the mask is true, softmax in float32; query head i reads kv head i // (H/K).

    rows is B, or 1 for a mask that all rows share. A row with no true entry gives the mean of all values: finite, to
    be ignored by the caller.
    """
    grouped = _group(query, key.shape[1])
    scores = jnp.einsum("btkgh,bksh->bkgts", grouped, key, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(_masked(scores, mask, query.shape[-1]), axis=-1).astype(value.dtype)
    return jnp.einsum("bkgts,bksh->btkgh", weights, value).reshape(query.shape)


class LayerKV(NamedTuple):
    """Keys (after rotation) and values of one layer, U rows of S slots.

    Keys stand transposed: then both products of attention read S or h in the innermost axis, which on CPU is worth a
    factor of 3 to 4. int8 entries carry one scale for each token and head, others none.
    """

    k: Num[Array, "U K h S"]
    v: Num[Array, "U K S h"]
    k_scale: Float[Array, "U K S"] | None = None
    v_scale: Float[Array, "U K S"] | None = None


class Partial(NamedTuple):
    """Attention over a part of the keys: enough to merge it with the other parts (log-sum-exp). All float32."""

    top: Float[Array, "B T H"]  # largest score
    total: Float[Array, "B T H"]  # sum of exp(score - top)
    out: Float[Array, "B T H h"]  # sum of exp(score - top) * value


def partial_attention(query: Float[Array, "B T H h"], kv: LayerKV, mask: Bool[Array, "rows times S"]) -> Partial:
    """Attend to U rows of keys, each read by B / U rows of queries in turn: row b reads row b // (B / U).

    The queries that share a row and a kv head are the rows of one matmul, so that shared keys are read once.

    Args:
      mask: true = may attend; rows is U or 1. times is 1 for a mask that all queries share, or T where B = U.
    """
    batch, length, heads, head_dim = query.shape
    rows, kv_heads = kv.k.shape[:2]
    share, per_head, slots = batch // rows * length, heads // kv_heads, kv.k.shape[3]
    dtype = query.dtype if kv.k.dtype == jnp.int8 else kv.k.dtype
    grouped = query.reshape(rows, share, kv_heads, per_head, head_dim).swapaxes(1, 2)
    flat = grouped.reshape(rows, kv_heads, share * per_head, head_dim).astype(dtype)
    scores = jnp.einsum("ukmh,ukhs->ukms", flat, kv.k.astype(dtype), preferred_element_type=jnp.float32)
    if kv.k_scale is not None:
        scores = scores * kv.k_scale[:, :, None]
    scores = scores.reshape(rows, kv_heads, share, per_head, slots) * head_dim**-0.5
    scores = jnp.where(mask[:, None, :, None, :], scores, MASKED).reshape(rows, kv_heads, share * per_head, slots)
    top = jnp.max(scores, axis=-1)
    weights = jnp.exp(scores - top[..., None])
    total = jnp.sum(weights, axis=-1)
    if kv.v_scale is not None:
        weights = weights * kv.v_scale[:, :, None]
    out = jnp.einsum("ukms,uksh->ukmh", weights.astype(dtype), kv.v.astype(dtype), preferred_element_type=jnp.float32)

    def ungroup(x: Array) -> Array:
        return x.reshape(rows, kv_heads, share, per_head, -1).swapaxes(1, 2).reshape(batch, length, heads, -1)

    return Partial(ungroup(top)[..., 0], ungroup(total)[..., 0], ungroup(out))


def merge(parts: Sequence[Partial]) -> Float[Array, "B T H h"]:
    """Attention over all parts together, in float32. At least one part must let each query see a key."""
    top = functools.reduce(jnp.maximum, [p.top for p in parts])
    factors = [jnp.exp(p.top - top) for p in parts]
    total = sum(p.total * f for p, f in zip(parts, factors, strict=True))
    return sum(p.out * (f / total)[..., None] for p, f in zip(parts, factors, strict=True))  # pyright: ignore


def _group(query: Float[Array, "B T H h"], kv_heads: int) -> Float[Array, "B T K G h"]:
    batch, length, heads, head_dim = query.shape
    return query.reshape(batch, length, kv_heads, heads // kv_heads, head_dim)


def _masked(scores: Float[Array, "B K G T S"], mask: Bool[Array, "rows T S"], head_dim: int) -> Array:
    return jnp.where(mask[:, None, None], scores * head_dim**-0.5, MASKED)

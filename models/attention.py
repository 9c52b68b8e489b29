"""Grouped-query attention: the training door (causal, segments) and the cache door (explicit mask), one layout."""

from __future__ import annotations

from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

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


def step_attention(
    query: Float[Array, "B 1 H h"],
    cached: tuple[Float[Array, "B K S h"], Float[Array, "B K S h"]],
    new: tuple[Float[Array, "B K 1 h"], Float[Array, "B K 1 h"]],
    mask: Bool[Array, "B 1 S"],
    new_mask: Bool[Array, "B 1 1"],
) -> Float[Array, "B 1 H h"]:
    """`masked_attention` of one token per row over the cache and over its own key, which is not yet in the cache.

    Reading the cache without writing it first is what keeps it out of the loop over layers: written there, XLA copies
    it once per layer.
    """
    grouped, head_dim = _group(query, new[0].shape[1]), query.shape[-1]
    old_scores = _masked(_scores(grouped, cached[0]), mask, head_dim)
    new_scores = _masked(_scores(grouped, new[0]), new_mask, head_dim)
    top = jnp.maximum(jnp.max(old_scores, axis=-1, keepdims=True), new_scores)
    old_weights, new_weights = jnp.exp(old_scores - top), jnp.exp(new_scores - top)
    total = jnp.sum(old_weights, axis=-1, keepdims=True) + new_weights
    out = _average(old_weights / total, cached[1]) + _average(new_weights / total, new[1])
    return out.reshape(query.shape).astype(new[1].dtype)


def _group(query: Float[Array, "B T H h"], kv_heads: int) -> Float[Array, "B T K G h"]:
    batch, length, heads, head_dim = query.shape
    return query.reshape(batch, length, kv_heads, heads // kv_heads, head_dim)


def _masked(scores: Float[Array, "B K G T S"], mask: Bool[Array, "rows T S"], head_dim: int) -> Array:
    return jnp.where(mask[:, None, None], scores * head_dim**-0.5, MASKED)


# One query per row is a batched matrix-vector product: on CPU, XLA's dot_general is 4-7 times slower there than a plain
# multiply and sum, which fuses into one pass over the cache. The platform is the one lowered for, which need not be
# this machine's: programs are also compiled here for TPUs that are elsewhere.


def _scores(query: Float[Array, "B 1 K G h"], key: Float[Array, "B K S h"]) -> Float[Array, "B K G 1 S"]:
    def product(query: Array, key: Array) -> Array:
        return jnp.einsum("btkgh,bksh->bkgts", query, key, preferred_element_type=jnp.float32)

    def multiply_and_sum(query: Array, key: Array) -> Array:
        query32 = query[:, 0, :, :, None, :].astype(jnp.float32)  # [B K G 1 h]
        return jnp.sum(query32 * key[:, :, None].astype(jnp.float32), axis=-1)[:, :, :, None, :]

    return jax.lax.platform_dependent(query, key, cpu=multiply_and_sum, default=product)


def _average(weights: Float[Array, "B K G 1 S"], value: Float[Array, "B K S h"]) -> Float[Array, "B 1 K G h"]:
    def product(weights: Array, value: Array) -> Array:
        cast = weights.astype(value.dtype)
        return jnp.einsum("bkgts,bksh->btkgh", cast, value, preferred_element_type=jnp.float32)

    def multiply_and_sum(weights: Array, value: Array) -> Array:
        return jnp.sum(weights[:, :, :, 0, :, None] * value[:, :, None].astype(jnp.float32), axis=-2)[:, None]

    return jax.lax.platform_dependent(weights, value, cpu=multiply_and_sum, default=product)

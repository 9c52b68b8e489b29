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
    """True where query t may attend to key s: s <= t and, where segments are given (else rows = 1), the same segment."""
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

    rows is B, or 1 for a mask that all rows share.
    A row of the mask with no true entry gives the mean of all values: finite, to be ignored by the caller.
    """
    batch, length, heads, head_dim = query.shape
    kv_heads = key.shape[1]
    grouped = query.reshape(batch, length, kv_heads, heads // kv_heads, head_dim)
    # One query per row is a batched matrix-vector product: on CPU, XLA's dot_general is 4-7 times slower there than
    # a plain multiply and sum, which fuses into one pass over the cache.
    reduce_form = length == 1 and jax.default_backend() == "cpu"
    attend = _attend_one if reduce_form else _attend_many
    return attend(grouped, key, value, mask).reshape(batch, length, heads, head_dim)


def _softmax(scores: Float[Array, "B K G T S"], mask: Bool[Array, "rows T S"], head_dim: int) -> Array:
    scores = jnp.where(mask[:, None, None], scores * head_dim**-0.5, MASKED)
    return jax.nn.softmax(scores, axis=-1)


def _attend_many(query: Array, key: Array, value: Array, mask: Array) -> Float[Array, "B T K G h"]:
    scores = jnp.einsum("btkgh,bksh->bkgts", query, key, preferred_element_type=jnp.float32)
    weights = _softmax(scores, mask, query.shape[-1]).astype(value.dtype)
    return jnp.einsum("bkgts,bksh->btkgh", weights, value)


def _attend_one(query: Array, key: Array, value: Array, mask: Array) -> Float[Array, "B 1 K G h"]:
    query32 = query[:, 0, :, :, None, :].astype(jnp.float32)  # [B K G 1 h]
    scores = jnp.sum(query32 * key[:, :, None].astype(jnp.float32), axis=-1)[:, :, :, None, :]  # [B K G 1 S]
    weights = _softmax(scores, mask, query.shape[-1])[:, :, :, 0, :, None]  # [B K G S 1]
    out = jnp.sum(weights * value[:, :, None].astype(jnp.float32), axis=-2)
    return out[:, None].astype(value.dtype)

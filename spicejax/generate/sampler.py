"""How a token is drawn: temperature, top-k, top-p and min-p, and one draw per row by inversion.

Inversion goes over blocks of 128 tokens and takes two uniform numbers per row: on CPU a Gumbel number for each entry
of the vocabulary took longer than the matrix products. Blocks lie within 16 equal parts of a large vocabulary, so that
logits that are split over chips are summed where they are.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

_BLOCK = 128  # tokens summed before the cumulative sum; a cumulative sum over the vocabulary is slow everywhere


@dataclasses.dataclass(frozen=True)
class SamplerConfig:
    """How tokens are drawn. None of these numbers is compiled in."""

    temperature: float = 1.0  # 0 = greedy
    top_k: int = 0  # keep the k likeliest tokens; 0 = all
    top_p: float = 1.0  # keep the smallest set of tokens with this mass; 1 = all
    min_p: float = 0.0  # drop tokens less likely than min_p x the likeliest; 0 = none

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature={self.temperature}: must be 0 (greedy) or positive")
        if self.top_k < 0:
            raise ValueError(f"top_k={self.top_k}: must be 0 (off) or positive")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p}: must lie in (0, 1]")
        if not 0 <= self.min_p < 1:
            raise ValueError(f"min_p={self.min_p}: must lie in [0, 1)")

    @property
    def filtered(self) -> bool:
        """Whether any tokens are excluded, which costs a sort of the vocabulary per step."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    def knobs(self) -> Knobs:
        """The numbers as arrays of fixed types."""
        return Knobs(np.float32(self.temperature), np.int32(self.top_k), np.float32(self.top_p), np.float32(self.min_p))


class Knobs(NamedTuple):
    """`SamplerConfig` as traced scalars."""

    temperature: Any
    top_k: Any
    top_p: Any
    min_p: Any


def keep_mask(logits: Float[Array, "B V"], knobs: Knobs) -> Bool[Array, "B V"]:
    """Tokens that top-k, top-p and min-p keep, each applied to the whole distribution; the likeliest is always kept."""
    vocab = logits.shape[-1]
    ordered = -jnp.sort(-logits, axis=-1)
    probs = jax.nn.softmax(ordered, axis=-1)
    before = jnp.cumsum(probs, axis=-1) - probs  # mass of the likelier tokens
    k = jnp.where(knobs.top_k > 0, knobs.top_k, vocab)
    kept = (jnp.arange(vocab) < k) & (before < knobs.top_p) & (probs >= knobs.min_p * probs[:, :1])
    kept = kept.at[:, 0].set(True)
    count = jnp.sum(kept, axis=-1)  # each rule cuts a tail, so the kept tokens are a prefix
    threshold = jnp.take_along_axis(ordered, count[:, None] - 1, axis=-1)
    return logits >= threshold


def draw(
    logits: Float[Array, "B V"], keys: Array, knobs: Knobs, *, filtered: bool
) -> tuple[Int[Array, "B"], Float[Array, "B"], Float[Array, "B"]]:
    """Draw one token per row by inversion; return it with its plain and its sampled logprob (0 when greedy).

    Two uniform numbers a row, for a block of tokens and for the token in it, instead of one Gumbel number for each
    token of the vocabulary.
    """
    greedy = knobs.temperature == 0
    scaled = logits / jnp.where(greedy, 1.0, knobs.temperature)
    if filtered:
        scaled = jnp.where(keep_mask(scaled, knobs), scaled, -jnp.inf)
    top = jnp.max(scaled, axis=-1, keepdims=True)
    weights = jnp.exp(scaled - top)
    batch, vocab = logits.shape
    parts = _parts(vocab)
    by_part = weights.reshape(batch, parts, vocab // parts)
    blocks = jnp.pad(by_part, ((0, 0), (0, 0), (0, -by_part.shape[-1] % _BLOCK))).reshape(batch, -1, _BLOCK)
    mass = jnp.sum(blocks, axis=-1)
    uniform = jax.vmap(lambda k: jax.random.uniform(k, (2,), jnp.float32))(keys)
    block = _invert(mass, uniform[:, 0])
    inside = jnp.take_along_axis(blocks, block[:, None, None], axis=1)[:, 0]
    part, place = jnp.divmod(block, blocks.shape[1] // parts)
    drawn = part * (vocab // parts) + place * _BLOCK + _invert(inside, uniform[:, 1])
    # The first of the largest, as argmax says, which on CPU is ten times slower than this minimum.
    best = jnp.min(jnp.where(scaled == top, jnp.arange(vocab, dtype=jnp.int32), vocab - 1), axis=-1)
    token = jnp.where(greedy, best, drawn).astype(jnp.int32)

    def at_token(x: Float[Array, "B V"]) -> Float[Array, "B"]:
        return jnp.take_along_axis(x, token[:, None], axis=-1)[:, 0]

    sampled = at_token(scaled) - top[:, 0] - jnp.log(jnp.sum(mass, axis=-1))
    return token, at_token(logits) - jax.nn.logsumexp(logits, axis=-1), jnp.where(greedy, 0.0, sampled)


def _parts(vocab: int) -> int:
    """Equal parts of the vocabulary, each cut into blocks by itself: a split over up to 16 chips stays where it is.

    The same on every mesh, since a token depends on the blocks. Padding parts to whole blocks costs at most an eighth.
    """
    return next(n for n in (16, 8, 4, 2, 1) if n == 1 or (vocab % n == 0 and vocab // n >= 8 * _BLOCK))


def _invert(weights: Float[Array, "B N"], uniform: Float[Array, "B"]) -> Int[Array, "B"]:
    """The first index whose cumulative weight exceeds uniform x total; its weight is never 0."""
    cumulative = jnp.cumsum(weights, axis=-1)
    index = jnp.sum(cumulative <= uniform[:, None] * cumulative[:, -1:], axis=-1)
    last = jnp.max(jnp.where(weights > 0, jnp.arange(weights.shape[-1]), 0), axis=-1)  # rounding must not pass it
    return jnp.minimum(index, last).astype(jnp.int32)

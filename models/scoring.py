"""Log-probabilities of given tokens without the logits of the whole vocabulary, forward and backward.

The vocabulary is cut into chunks (`learner.vocab_chunk`); one log-sum-exp per token is kept. The chunks are not of
positions, so that the gradient of a table that is split over chips is summed over chips once, not once per chunk.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from spicejax.models.attention import MASKED
from spicejax.models.layers import constrain

SHARES, BLOCK = 8, 128  # `front_logprobs` takes so many eighths of a row, not less than so many positions each


def label_logprobs(
    hidden: Float[Array, "B T D"],
    table: Float[Array, "V D"],
    targets: Int[Array, "B T"],
    sharpness: Float[Array, ""],
    chunk: int,
    unused: tuple[int, ...] = (),
) -> Float[Array, "B T"]:
    """log softmax(sharpness * hidden table^T)[target], [B, T] in float32, `chunk` vocabulary entries at a time; those
    that are `unused`, see TransformerConfig, are left out.

    Products take operands of hidden's dtype and are accumulated in float32. The forward pass keeps the log-sum-exp of
    each position and no logits; the backward pass makes each chunk's logits again. Both gradients are summed in
    float32; that of `table` comes out in its own dtype, that of `sharpness` is 0.
    """
    # One axis for all positions, as in `quantized.project`.
    rows, count = hidden.reshape(-1, hidden.shape[-1]), _chunks(table.shape[0], chunk)
    scored: Any = _label_logprobs(rows, table, targets.reshape(-1), sharpness, count, unused)
    return scored.reshape(targets.shape)


def front_logprobs(
    hidden: Float[Array, "B T D"],
    table: Float[Array, "V D"],
    targets: Int[Array, "B T"],
    filled: Int[Array, ""],
    sharpness: Float[Array, ""],
    chunk: int,
    unused: tuple[int, ...] = (),
    *,
    frozen: bool = False,
) -> Float[Array, "B T"]:
    """`label_logprobs` of the first `filled` positions of each row, and 0 or what they have for those behind.

    Work is done for as many eighths of a row as hold `filled`, which is known when the program runs: it has a branch
    for each. A `frozen` table gets no gradient.
    """
    count = _chunks(table.shape[0], chunk)
    scored: Any = _front_logprobs(hidden, table, targets, filled, sharpness, count, unused, frozen)
    return scored


def masked(scores: Float[Array, "... C"], entries: Int[Array, "C"], unused: tuple[int, ...]) -> Float[Array, "... C"]:
    """Scores of some vocabulary entries, those that are `unused` (see TransformerConfig) made impossible."""
    if not unused:
        return scores
    first, end = np.reshape(unused, (-1, 2)).T
    gone = jnp.any((first <= entries[:, None]) & (entries[:, None] < end), axis=-1)
    return jnp.where(gone, MASKED, scores)


def _chunks(vocab: int, chunk: int) -> int:
    """How many chunks: a divisor of the vocabulary where a close one exists, so that nothing is padded."""
    least = -(-vocab // chunk)
    return next((n for n in range(least, 2 * least) if vocab % n == 0), least)


def _pieces(table: Float[Array, "V D"], count: int) -> Float[Array, "count C D"]:
    """Chunk j holds entries j, count + j, 2 count + j ...: each shard of a vocabulary has a part of every chunk."""
    padded = jnp.pad(table, ((0, -table.shape[0] % count), (0, 0)))
    return padded.reshape(-1, count, table.shape[1]).swapaxes(0, 1)


def _logits(
    hidden: Array, piece: Array, sharpness: Array, j: Array, count: int, vocab: int, unused: tuple[int, ...]
) -> tuple[Array, Array]:
    """Logits of chunk j, [N, C], and the vocabulary entries they belong to, [C]. Padding entries are masked."""
    entries = j + count * jnp.arange(piece.shape[0], dtype=jnp.int32)
    scores = jnp.einsum("nd,cd->nc", hidden, piece, preferred_element_type=jnp.float32)
    scores = constrain(scores * sharpness, "batch", "act_vocab")
    return masked(jnp.where(entries < vocab, scores, MASKED), entries, unused), entries


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _label_logprobs(
    hidden: Array, table: Array, targets: Array, sharpness: Array, count: int, unused: tuple[int, ...]
) -> Array:
    return _forward(hidden, table, targets, sharpness, count, unused)[0]


def _forward(
    hidden: Array, table: Array, targets: Array, sharpness: Array, count: int, unused: tuple[int, ...]
) -> tuple[Array, tuple]:
    vocab = table.shape[0]

    def add(carry: tuple[Array, Array, Array], xs: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], None]:
        top, total, chosen = carry
        scores, entries = _logits(hidden, xs[1], sharpness, xs[0], count, vocab, unused)
        higher = jnp.maximum(top, jnp.max(scores, axis=-1))
        total = total * jnp.exp(top - higher) + jnp.sum(jnp.exp(scores - higher[..., None]), axis=-1)
        # A comparison instead of a gather: it fuses, and works where the vocabulary is split over devices.
        chosen = chosen + jnp.sum(jnp.where(targets[..., None] == entries, scores, 0.0), axis=-1)
        return (higher, total, chosen), None

    start = (jnp.full(targets.shape, MASKED), jnp.zeros(targets.shape), jnp.zeros(targets.shape))
    (top, total, chosen), _ = jax.lax.scan(
        add, start, (jnp.arange(count, dtype=jnp.int32), _pieces(table.astype(hidden.dtype), count))
    )
    normaliser = top + jnp.log(total)
    return chosen - normaliser, (hidden, table, targets, sharpness, normaliser)


def _backward(count: int, unused: tuple[int, ...], kept: tuple, grad: Array) -> tuple:
    hidden, table, targets, sharpness, normaliser = kept
    grad = (grad * sharpness)[..., None]

    def add(d_hidden: Array, xs: tuple[Array, Array]) -> tuple[Array, Array]:
        scores, entries = _logits(hidden, xs[1], sharpness, xs[0], count, table.shape[0], unused)
        hit = targets[..., None] == entries
        d_scores = (grad * (hit - jnp.exp(scores - normaliser[..., None]))).astype(hidden.dtype)
        d_hidden = d_hidden + jnp.einsum("nc,cd->nd", d_scores, xs[1], preferred_element_type=jnp.float32)
        d_piece = jnp.einsum("nc,nd->cd", d_scores, hidden, preferred_element_type=jnp.float32)
        return d_hidden, d_piece.astype(table.dtype)

    xs = (jnp.arange(count, dtype=jnp.int32), _pieces(table.astype(hidden.dtype), count))
    d_hidden, d_pieces = jax.lax.scan(add, jnp.zeros(hidden.shape, jnp.float32), xs)
    d_table = d_pieces.swapaxes(0, 1).reshape(-1, table.shape[1])[: table.shape[0]]
    return d_hidden.astype(hidden.dtype), d_table, np.zeros(targets.shape, jax.dtypes.float0), jnp.zeros_like(sharpness)


_label_logprobs.defvjp(_forward, _backward)


def _front(length: int, filled: Array, part: Callable[[int], Any]) -> Any:
    """`part` of the least static number of positions, of a few, that is not below `filled`."""
    step = max(BLOCK, -(-length // SHARES))
    sizes = [*range(step, length, step), length]
    index = jnp.sum(filled > jnp.asarray(sizes[:-1], jnp.int32))
    return jax.lax.switch(index, [functools.partial(part, size) for size in sizes])


def _flat(x: Array, size: int) -> Array:
    """The first positions of every row, rows and positions in one axis."""
    return x[:, :size].reshape(-1, *x.shape[2:])


def _whole(part: Array, like: Array) -> Array:
    """The reverse of `_flat`, 0 behind them."""
    part = part.reshape(like.shape[0], -1, *part.shape[1:])
    return jnp.pad(part, ((0, 0), (0, like.shape[1] - part.shape[1]), *((0, 0),) * (part.ndim - 2)))


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6, 7))
def _front_logprobs(
    hidden: Array,
    table: Array,
    targets: Array,
    filled: Array,
    sharpness: Array,
    count: int,
    unused: tuple[int, ...],
    frozen: bool,
) -> Array:
    return _front_forward(hidden, table, targets, filled, sharpness, count, unused, frozen)[0]


def _front_forward(
    hidden: Array,
    table: Array,
    targets: Array,
    filled: Array,
    sharpness: Array,
    count: int,
    unused: tuple[int, ...],
    frozen: bool,
) -> tuple[Array, tuple]:
    def part(size: int) -> tuple[Array, Array]:
        scored, kept = _forward(_flat(hidden, size), table, _flat(targets, size), sharpness, count, unused)
        return _whole(scored, targets), _whole(kept[-1], targets)

    scored, normaliser = _front(targets.shape[1], filled, part)
    return scored, (hidden, table, targets, filled, sharpness, normaliser)


def _front_backward(count: int, unused: tuple[int, ...], frozen: bool, kept: tuple, grad: Array) -> tuple:
    hidden, table, targets, filled, sharpness, normaliser = kept

    def part(size: int) -> tuple[Array, ...]:
        of_part = _flat(hidden, size), table, _flat(targets, size), sharpness, _flat(normaliser, size)
        d_hidden, d_table, *_ = _backward(count, unused, of_part, _flat(grad, size))
        return _whole(d_hidden, targets), *(() if frozen else (d_table,))

    d_hidden, *d_table = _front(targets.shape[1], filled, part)
    nothing = np.zeros(targets.shape, jax.dtypes.float0), np.zeros((), jax.dtypes.float0)
    return d_hidden, *(d_table or [jnp.zeros_like(table)]), *nothing, jnp.zeros_like(sharpness)


_front_logprobs.defvjp(_front_forward, _front_backward)

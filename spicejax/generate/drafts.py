"""Drafts without a model: the tokens that followed, elsewhere, what a row has just written.

A token is a function of its logits and of (row, t), so that a draft changes no text: the tokens of one pass are kept as
far as they are the ones drafted.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

SUFFIX = 4  # most tokens that are looked up
NONE = -1  # no token


def known(width: int, row: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> np.ndarray:
    """int32 [width]: what is quoted, the row's own parts last, behind as much as there is room for of other rows of its
    prompt, the newest last.
    """
    found = np.full(width, NONE, np.int32)
    end = width
    for piece in (*reversed(row), *(part for text in reversed(others) for part in ([NONE], text))):
        begin = max(0, end - len(piece))
        found[begin:end] = piece[len(piece) - (end - begin) :]
        end = begin
        if not end:
            break
    return found


def draft(known: Int[Array, "B M"], text: Int[Array, "B R"], lengths: Int[Array, "B"], count: int) -> Int[Array, "B k"]:
    """The `count` tokens after the latest place, in `known` and the text so far, of the longest suffix of the row.

    Args:
      text: a row's tokens; the first `lengths` of them are written.
    """
    rows = jnp.concatenate([known, text], axis=1)
    end = known.shape[1] + lengths[:, None]  # place of the next token
    places = jnp.arange(rows.shape[1])
    matched = jnp.zeros(rows.shape, jnp.int32)
    for back in range(SUFFIX, 0, -1):
        last = jnp.take_along_axis(rows, end - back, axis=1)
        before = jnp.where(places >= back, jnp.roll(rows, back, axis=1), NONE)
        matched = jnp.where((before == last) & (last != NONE), 1 + matched, 0)
    best = jnp.argmax(jnp.where(places < end, matched * rows.shape[1] + places, -1), axis=1)
    at = best[:, None] + jnp.arange(count) % (end - best[:, None])  # what repeats goes on repeating
    return jnp.maximum(jnp.take_along_axis(rows, at, axis=1), 0)

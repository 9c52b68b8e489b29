"""Fused attention on NVIDIA GPUs, in Pallas on Triton: of the training pass (segments, slots, grouped heads), and over
one part of a KV cache.

FlashAttention-2 (arXiv:2307.08691): no scores in memory, forward or backward. A block of queries goes through the
blocks of keys that its layout lets it see: the prompt area up to itself, and its own slot. No two programs add to the
same numbers, so that a gradient is the same in every run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int

from spicejax.models.attention import BY_HEAD, BY_ROW, Partial, Slots, over_devices
from spicejax.models.blockwise import MASKED
from spicejax.models.cache import KVCache

BLOCK = 64  # most tokens of a block of queries or keys; a power of two that divides the prompt area and the slots
SMALLEST = 16  # side of a product on tensor cores
SHORTEST = 32  # of a training pass: narrower blocks that four warps share have been compiled wrong
WARPS, STAGES = 4, 2
PROGRAMS = (
    256  # at least so many, by cutting the keys of a cache: a card runs one or two on each of its 100 to 200 cores
)


class Layout(NamedTuple):
    """Of a row: `prompt` tokens, then slots of `slot` tokens each, in blocks of `side` tokens; all of it static."""

    length: int
    prompt: int
    slot: int
    side: int

    def keys(self, block: Any) -> tuple[Any, Any]:
        """How many blocks of keys a block of queries sees, and which is the j-th of them."""
        lead, slot = self.prompt // self.side, max(1, self.slot // self.side)
        in_slot = block >= lead
        shared = jnp.where(in_slot, lead, block + 1)
        own = lead + (block - lead) // slot * slot
        count = shared + jnp.where(in_slot, block + 1 - own, 0)
        return count, lambda j: jnp.where(j < shared, j, own + j - shared)

    def queries_end(self, block: Any) -> Any:
        """The block behind the last one of queries that see this block of keys; the first is the block itself."""
        lead, slot = self.prompt // self.side, max(1, self.slot // self.side)
        return jnp.where(block < lead, self.length // self.side, lead + ((block - lead) // slot + 1) * slot)


def attention(
    query: Float[Array, "B T H h"],
    key: Float[Array, "B T K h"],
    value: Float[Array, "B T K h"],
    segment_ids: Int[Array, "B T"] | None,
    slots: Slots | None,
    *,
    interpret: bool = False,
) -> Float[Array, "B T H h"]:
    """`attention.causal_attention` without windows; `interpret` runs it anywhere, slowly, for tests.

    Under a mesh each device works on its own rows and heads (`attention.over_devices`).
    Raises: ValueError for a head_dim that is no power of two from 16 to 256 (128 in float32), and for a prompt area or
      slots whose lengths 32 does not divide.
    """
    length = query.shape[1]
    if slots is not None:
        slots.count(length)
    side = block_side(query.shape[-1], query.dtype, slots)
    padded = length + -length % side
    layout = Layout(padded, padded if slots is None else slots.prompt, 0 if slots is None else slots.length, side)
    segments = jnp.ones(query.shape[:2], jnp.int32) if segment_ids is None else segment_ids

    def local(query: Array, key: Array, value: Array, segments: Array) -> Array:
        arrays = (jnp.pad(x, ((0, 0), (0, padded - length), (0, 0), (0, 0))) for x in (query, key, value))
        ids = jnp.pad(segments, ((0, 0), (0, padded - length)))
        out: Any = _attend(*arrays, ids, layout, interpret)
        return out[:, :length]

    names = (BY_HEAD, BY_HEAD, BY_HEAD, BY_ROW)
    arrays = query, key, value, segments
    return over_devices(local, arrays, names, BY_HEAD, rows=query.shape[0], heads=key.shape[2])


def block_side(width: int, dtype: Any, slots: Slots | None = None) -> int:
    """Tokens of a block of the training pass, by what a card's registers and shared memory hold.

    Raises: ValueError as `attention`.
    """
    size = width * jnp.dtype(dtype).itemsize
    if not SMALLEST <= width <= 256 or width & (width - 1) or size > 512:
        raise ValueError(
            f"attention='flash' needs a head_dim of 16, 32, 64, 128 or 256, 128 at most in float32, got {width} in "
            f"{jnp.dtype(dtype).name}; use 'xla'"
        )
    largest = BLOCK if size < 512 else SHORTEST
    side = largest if slots is None else math.gcd(largest, slots.prompt, slots.length)
    if side < SHORTEST:
        raise ValueError(
            f"attention='flash' needs a prompt area and slots of whole blocks of {SHORTEST} tokens, got "
            f"{slots and (slots.prompt, slots.length)}; use 'xla'"
        )
    return side


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _attend(query: Array, key: Array, value: Array, ids: Array, layout: Layout, interpret: bool) -> Array:
    return _forward(query, key, value, ids, layout, interpret)[0]


def _forward(query: Array, key: Array, value: Array, ids: Array, layout: Layout, interpret: bool) -> tuple:
    batch, length, heads, width = query.shape
    block, whole, numbers = _specs(layout, heads // key.shape[2], width)
    out, normaliser = _call(
        functools.partial(_forward_kernel, layout=layout),
        "flash_forward",
        (batch, heads, length // layout.side),
        [block, whole, whole, pl.BlockSpec((None, length), lambda b, n, i: (b, 0))],
        [block, numbers],
        [query, jax.ShapeDtypeStruct((batch, heads, length), jnp.float32)],
        interpret,
    )(query, key, value, ids)
    return out, (query, key, value, ids, out, normaliser)


def _backward(layout: Layout, interpret: bool, kept: tuple, grad: Array) -> tuple:
    query, key, value, ids, out, normaliser = kept
    batch, length, heads, width = query.shape
    group = heads // key.shape[2]
    shift = jnp.sum(grad.astype(jnp.float32) * out.astype(jnp.float32), axis=-1).swapaxes(1, 2)
    block, whole, numbers = _specs(layout, group, width)
    row = pl.BlockSpec((None, length), lambda b, n, i: (b, 0))
    (d_query,) = _call(
        functools.partial(_query_kernel, layout=layout),
        "flash_dq",
        (batch, heads, length // layout.side),
        [block, whole, whole, row, block, numbers, numbers],
        [block],
        [query],
        interpret,
    )(query, key, value, ids, grad, normaliser, shift)
    grouped = pl.BlockSpec((None, length, group, width), lambda b, n, i: (b, 0, n, 0))
    of_group = pl.BlockSpec((None, group, length), lambda b, n, i: (b, n, 0))
    d_key, d_value = _call(
        functools.partial(_key_kernel, layout=layout, group=group),
        "flash_dkv",
        (batch, key.shape[2], length // layout.side),
        [grouped, block, block, row, grouped, of_group, of_group],
        [block, block],
        [key, value],
        interpret,
    )(query, key, value, ids, grad, normaliser, shift)
    return d_query, d_key, d_value, None


_attend.defvjp(_forward, _backward)


def _specs(layout: Layout, group: int, width: int) -> tuple[pl.BlockSpec, pl.BlockSpec, pl.BlockSpec]:
    """A block of a head's tokens; all keys of the head that `group` heads of queries share; a number for each token."""
    return (
        pl.BlockSpec((None, layout.side, None, width), lambda b, n, i: (b, i, n, 0)),
        pl.BlockSpec((None, layout.length, None, width), lambda b, n, i: (b, 0, n // group, 0)),
        pl.BlockSpec((None, None, layout.side), lambda b, n, i: (b, n, i)),
    )


def _call(kernel: Any, name: str, grid: Any, takes: Any, gives: Any, like: Sequence[Any], interpret: bool) -> Any:
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in like]
    return pl.pallas_call(
        kernel,
        out_shape=shapes,
        grid=grid,
        in_specs=takes,
        out_specs=gives,
        name=name,
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=STAGES),
    )


def _indices(block: Any, side: int) -> Array:
    return block * side + jnp.arange(side)


def _seen(queries: Array, keys: Array, query_ids: Array, key_ids: Array) -> Array:
    return (queries >= keys) & (query_ids == key_ids)


def _forward_kernel(
    query_ref: Any, key_ref: Any, value_ref: Any, ids_ref: Any, out_ref: Any, normaliser_ref: Any, *, layout: Layout
) -> None:
    """The answers of one block of queries of one head, and log of the sum of exp of each one's scores."""
    side, block = layout.side, pl.program_id(2)
    query = query_ref[...]
    query_ids, at = ids_ref[pl.ds(block * side, side)], _indices(block, side)
    count, number = layout.keys(block)

    def step(j: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        top, total, out = carry
        other = number(j)
        here = pl.ds(other * side, side)
        key, value = key_ref[here, :], value_ref[here, :]
        seen = _seen(at[:, None], _indices(other, side)[None], query_ids[:, None], ids_ref[here][None])
        scores = jnp.where(seen, triton.dot(query, key, trans_b=True) * query.shape[-1] ** -0.5, MASKED)
        new_top = jnp.maximum(top, jnp.max(scores, axis=1))
        weights, rest = jnp.exp(scores - new_top[:, None]), jnp.exp(top - new_top)
        out = out * rest[:, None] + triton.dot(weights.astype(value.dtype), value)
        return new_top, total * rest + jnp.sum(weights, axis=1), out

    empty = jnp.full(side, MASKED), jnp.zeros(side), jnp.zeros(query.shape, jnp.float32)
    top, total, out = jax.lax.fori_loop(0, count, step, empty)
    out_ref[...] = (out / total[:, None]).astype(out_ref.dtype)
    normaliser_ref[...] = top + jnp.log(total)


def _query_kernel(
    query_ref: Any, key_ref: Any, value_ref: Any, ids_ref: Any, grad_ref: Any, normaliser_ref: Any, shift_ref: Any,
    out_ref: Any, *, layout: Layout,
) -> None:  # fmt: skip
    """The gradient of one block of queries of one head."""
    side, block = layout.side, pl.program_id(2)
    query, grad, scale = query_ref[...], grad_ref[...], query_ref.shape[-1] ** -0.5
    query_ids, at = ids_ref[pl.ds(block * side, side)], _indices(block, side)
    normaliser, shift = normaliser_ref[...], shift_ref[...]
    count, number = layout.keys(block)

    def step(j: Any, out: Array) -> Array:
        other = number(j)
        here = pl.ds(other * side, side)
        key, value = key_ref[here, :], value_ref[here, :]
        seen = _seen(at[:, None], _indices(other, side)[None], query_ids[:, None], ids_ref[here][None])
        scores = triton.dot(query, key, trans_b=True) * scale
        weights = jnp.where(seen, jnp.exp(scores - normaliser[:, None]), 0.0)
        slopes = weights * (triton.dot(grad, value, trans_b=True) - shift[:, None]) * scale
        return out + triton.dot(slopes.astype(key.dtype), key)

    out = jax.lax.fori_loop(0, count, step, jnp.zeros(query.shape, jnp.float32))
    out_ref[...] = out.astype(out_ref.dtype)


def _key_kernel(
    query_ref: Any, key_ref: Any, value_ref: Any, ids_ref: Any, grad_ref: Any, normaliser_ref: Any, shift_ref: Any,
    key_out_ref: Any, value_out_ref: Any, *, layout: Layout, group: int,
) -> None:  # fmt: skip
    """The gradients of one block of keys and values of one head, summed over the `group` heads that read it."""
    side, block = layout.side, pl.program_id(2)
    key, value, scale = key_ref[...], value_ref[...], key_ref.shape[-1] ** -0.5
    key_ids, at = ids_ref[pl.ds(block * side, side)], _indices(block, side)
    runs = layout.queries_end(block) - block

    def step(j: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        d_key, d_value = carry
        head, other = j // runs, block + j % runs
        here = pl.ds(other * side, side)
        query, grad = query_ref[here, head, :], grad_ref[here, head, :]
        seen = _seen(_indices(other, side)[None], at[:, None], ids_ref[here][None], key_ids[:, None])
        scores = triton.dot(key, query, trans_b=True) * scale
        weights = jnp.where(seen, jnp.exp(scores - normaliser_ref[head, here][None]), 0.0)
        d_value = d_value + triton.dot(weights.astype(grad.dtype), grad)
        slopes = weights * (triton.dot(value, grad, trans_b=True) - shift_ref[head, here][None]) * scale
        return d_key + triton.dot(slopes.astype(query.dtype), query), d_value

    zero = jnp.zeros(key.shape, jnp.float32)
    d_key, d_value = jax.lax.fori_loop(0, group * runs, step, (zero, zero))
    key_out_ref[...] = d_key.astype(key_out_ref.dtype)
    value_out_ref[...] = d_value.astype(value_out_ref.dtype)


def partial_attention(
    query: Float[Array, "B T H h"], kv: KVCache, mask: Bool[Array, "rows 1 S"], *, interpret: bool = False
) -> Partial:
    """`attention.partial_attention` where all queries of a row of keys share its mask.

    Entries are read once, and of a row only the blocks from its first visible key to its last.

    Raises: ValueError for a head_dim that is no power of two from 16 to 256 (128 in float32).
    """
    block_side(query.shape[-1], query.dtype)
    rows, heads = kv.k.shape[:2]
    mask = jnp.broadcast_to(mask[:, 0], (rows, mask.shape[-1]))
    arrays = query, mask, *(x for x in kv if x is not None)
    names = BY_HEAD, ("batch", None), *[("batch", "heads")] * (len(arrays) - 2)
    local = functools.partial(_partial, interpret=interpret)
    out: Any = BY_HEAD[:3], BY_HEAD[:3], BY_HEAD
    return over_devices(local, arrays, names, Partial(*out), rows=rows, heads=heads)


def _partial(query: Array, mask: Array, *cache: Array, interpret: bool) -> Partial:
    """`partial_attention` of the rows and heads of one device."""
    kv = KVCache(*cache)
    product = query.dtype if kv.k.dtype == jnp.int8 else kv.k.dtype
    batch, length, heads, width = query.shape
    rows, kv_heads, _, slots = kv.k.shape
    share, group = batch // rows * length, heads // kv_heads
    flat = (
        query.astype(product)
        .reshape(rows, share, kv_heads, group, width)
        .swapaxes(1, 2)
        .reshape(rows, kv_heads, -1, width)
    )
    tall = min(BLOCK, max(SMALLEST, 1 << (share * group - 1).bit_length()))  # queries of a program
    flat = jnp.pad(flat, ((0, 0), (0, 0), (0, -flat.shape[2] % tall), (0, 0)))
    blocks = flat.shape[2] // tall
    pieces = -(-slots // BLOCK)
    seen = jnp.any(jnp.pad(mask, ((0, 0), (0, pieces * BLOCK - slots))).reshape(rows, pieces, BLOCK), axis=-1)
    ends = jnp.argmax(seen, axis=-1), pieces - jnp.argmax(seen[:, ::-1], axis=-1)  # of a row's visible blocks
    bounds = jnp.where(jnp.any(seen, axis=-1, keepdims=True), jnp.stack(ends, axis=-1), 0).astype(jnp.int32)
    cuts = min(pieces, -(-PROGRAMS // (rows * kv_heads * blocks)))
    span = -(-pieces // cuts)  # blocks of keys of a program
    grid = rows * kv_heads, blocks, cuts

    def of(*rest: Any) -> Any:
        return lambda n, i, c: (n // kv_heads, n % kv_heads, *(i if x == "i" else c if x == "c" else 0 for x in rest))

    takes = [
        pl.BlockSpec((None, None, tall, width), of("i", 0)),
        pl.BlockSpec((None, slots), lambda n, i, c: (n // kv_heads, 0)),
        pl.BlockSpec((None, 2), lambda n, i, c: (n // kv_heads, 0)),
        pl.BlockSpec((None, None, width, slots), of(0, 0)),
        pl.BlockSpec((None, None, slots, width), of(0, 0)),
        *[pl.BlockSpec((None, None, slots), of(0))] * (len(cache) - 2),
    ]
    numbers = pl.BlockSpec((None, None, None, tall), of("c", "i"))
    size = (rows, kv_heads, cuts, flat.shape[2])
    top, total, out = pl.pallas_call(
        functools.partial(_part_kernel, slots=slots, span=span),
        out_shape=[*[jax.ShapeDtypeStruct(size, jnp.float32)] * 2, jax.ShapeDtypeStruct((*size, width), jnp.float32)],
        grid=grid,
        in_specs=takes,
        out_specs=[numbers, numbers, pl.BlockSpec((None, None, None, tall, width), of("c", "i", 0))],
        name="flash_part",
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=STAGES),
    )(flat, mask, bounds, *cache)
    highest = jnp.max(top, axis=2)
    factors = jnp.exp(top - highest[:, :, None])

    def ungroup(x: Array) -> Array:
        x = x[:, :, : share * group].reshape(rows, kv_heads, share, group, -1)
        return x.swapaxes(1, 2).reshape(batch, length, heads, -1)

    total, out = jnp.sum(total * factors, axis=2), jnp.sum(out * factors[..., None], axis=2)
    return Partial(ungroup(highest)[..., 0], ungroup(total)[..., 0], ungroup(out))


def _part_kernel(
    query_ref: Any, mask_ref: Any, bounds_ref: Any, key_ref: Any, value_ref: Any, *refs: Any, slots: int, span: int
) -> None:
    """A block of queries that share a kv head, over those of `span` blocks of its keys that lie between the bounds."""
    *scales, top_ref, total_ref, out_ref = refs
    query, first = query_ref[...], pl.program_id(2) * span
    scale = query.shape[-1] ** -0.5

    def step(j: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        top, total, out = carry
        here, at = pl.ds(j * BLOCK, BLOCK), _indices(j, BLOCK)
        inside = at < slots
        key = triton.load(key_ref.at[:, here], mask=inside[None], other=0).astype(query.dtype)
        scores = triton.dot(query, key) * scale
        if scales:
            scores = scores * triton.load(scales[0].at[here], mask=inside, other=0.0)[None]
        seen = triton.load(mask_ref.at[here], mask=inside, other=False)
        scores = jnp.where(seen[None], scores, MASKED)
        new_top = jnp.maximum(top, jnp.max(scores, axis=1))
        weights, rest = jnp.exp(scores - new_top[:, None]), jnp.exp(top - new_top)
        total = total * rest + jnp.sum(weights, axis=1)
        if scales:
            weights = weights * triton.load(scales[1].at[here], mask=inside, other=0.0)[None]
        value = triton.load(value_ref.at[here, :], mask=inside[:, None], other=0).astype(query.dtype)
        return new_top, total, out * rest[:, None] + triton.dot(weights.astype(query.dtype), value)

    empty = jnp.full(query.shape[0], MASKED), jnp.zeros(query.shape[0]), jnp.zeros(query.shape, jnp.float32)
    begin, end = jnp.maximum(first, bounds_ref[0]), jnp.minimum(first + span, bounds_ref[1])
    top, total, out = jax.lax.fori_loop(begin, jnp.maximum(begin, end), step, empty)
    top_ref[...], total_ref[...], out_ref[...] = top, total, out


# Products of a block of scores in each program.
_PRODUCTS = {"flash_forward": 2, "flash_dq": 3, "flash_dkv": 4}


def flops(
    name: str, operands: Sequence[tuple[int, ...]], slots: Mapping[int, Slots], dtype: Any = jnp.bfloat16
) -> float | None:
    """FLOPs of one call of a program of this module; None for other kernels.

    Of a part of a cache all keys are counted: how many a step sees is known when it runs.

    Args:
      name: of the kernel in the compiled module.
      operands: their dimensions; the first is the query, [rows, T, H, h].
      slots: layout of rows by their length; other lengths are plain causal.
    """
    products = next((n for part, n in _PRODUCTS.items() if part in name), None)
    if products is None:
        return "flash_part" in name and 4.0 * math.prod(operands[0]) * operands[1][-1] or None
    rows, length, heads, width = operands[0]
    found = slots.get(length)
    side = block_side(width, dtype, found)
    prompt, slot = (length, 0) if found is None else (found.prompt, found.length)
    lead, own = prompt // side, slot // side
    blocks = lead * (lead + 1) // 2
    if own:
        blocks += (length - prompt) // slot * (own * lead + own * (own + 1) // 2)
    return 2.0 * products * rows * heads * width * side**2 * blocks

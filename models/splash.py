"""Pallas splash attention on TPU, by JAX's own kernel: of the training pass (segments, slots, grouped heads), and of
many queries over one part of a KV cache.
"""

from __future__ import annotations

import concurrent.futures
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask_info as mask_info
from jaxtyping import Array, Bool, Float, Int

from spicejax.models import cache as caching
from spicejax.models.attention import BY_HEAD, BY_ROW, Partial, Slots, over_devices
from spicejax.models.cache import KVCache

LANES = 128  # rows are padded to a multiple of it
BLOCK = 512  # side of the blocks of longer rows


class SlotMask(masks._ComputableMask):  # noqa: SLF001  # the only way to a mask that the kernel computes itself
    """`attention.causal_mask` of slots or a window, computed block by block from indices; without either causal."""

    def __init__(self, length: int, slots: Slots | None, window: int | None) -> None:
        self.layout = slots, window

        def allowed(query: Any, key: Any) -> Any:  # indices: arrays of the kernel, or of numpy
            causal = query >= key
            if slots is None:
                return causal if window is None else causal & (query - key < window)
            same = (query - slots.prompt) // slots.length == (key - slots.prompt) // slots.length
            return causal & (same | (key < slots.prompt))

        super().__init__(shape=(length, length), mask_function=allowed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotMask) and (self.shape, self.layout) == (other.shape, other.layout)

    def __hash__(self) -> int:
        return hash((type(self), self.shape, self.layout))


def attention(
    query: Float[Array, "B T H h"],
    key: Float[Array, "B T K h"],
    value: Float[Array, "B T K h"],
    segment_ids: Int[Array, "B T"] | None,
    slots: Slots | None,
    window: int | None = None,
    *,
    interpret: bool = False,
) -> Float[Array, "B T H h"]:
    """`attention.causal_attention` by one splash call a row; `interpret` runs it anywhere, slowly, for tests.

    Under a mesh each device works on its own rows and heads (`attention.over_devices`).
    Raises: ValueError for heads whose width is no multiple of 64, and for a window together with slots.
    """
    if slots is not None and window is not None:
        raise ValueError("attention='splash' knows indices, which in slots are not positions; use 'xla' for windows")
    if query.shape[-1] % 64:
        raise ValueError(f"attention='splash' needs a head_dim of 64 or a multiple, got {query.shape[-1]}; use 'xla'")
    if slots is not None:
        slots.count(query.shape[1])
    segments = jnp.ones(query.shape[:2], jnp.int32) if segment_ids is None else segment_ids
    length = query.shape[1]
    padded = length + -length % (BLOCK if length > BLOCK else LANES)
    kernel = _kernel(padded, query.shape[2] // key.shape[2], slots, window, interpret)
    local = functools.partial(_rows, kernel=kernel, pad=padded - length)
    names = (BY_HEAD, BY_HEAD, BY_HEAD, BY_ROW)
    arrays = query, key, value, segments
    return over_devices(local, arrays, names, BY_HEAD, rows=query.shape[0], heads=key.shape[2])


def _rows(query: Array, key: Array, value: Array, segments: Array, *, kernel: Any, pad: int) -> Array:
    """`attention` of the rows and heads of one device; `kernel` is from `_kernel`."""
    batch, length, _, head_dim = query.shape
    kv_heads = key.shape[2]
    grouped = (query * head_dim**-0.5).astype(query.dtype).reshape(batch, length, kv_heads, -1, head_dim)
    grouped = jnp.pad(grouped, ((0, 0), (0, pad), (0, 0), (0, 0), (0, 0))).transpose(0, 2, 3, 1, 4)
    key, value = (jnp.pad(x, ((0, 0), (0, pad), (0, 0), (0, 0))).swapaxes(1, 2) for x in (key, value))
    segments = jnp.pad(segments, ((0, 0), (0, pad)))
    over_heads = jax.vmap(kernel, in_axes=(0, 0, 0, None))
    out = jax.vmap(over_heads)(grouped, key, value, kernels.SegmentIds(q=segments, kv=segments))
    return out[..., :length, :].transpose(0, 3, 1, 2, 4).reshape(query.shape)


def reads(query: Array, kv: KVCache) -> bool:
    """Whether `partial_attention` takes these: queries that fill a block, keys in whole blocks."""
    shared = query.shape[0] // kv.k.shape[0] * query.shape[1]
    return shared >= LANES and kv.k.shape[3] % LANES == 0 and query.shape[-1] % 64 == 0


def partial_attention(
    query: Float[Array, "B T H h"], kv: KVCache, mask: Bool[Array, "rows 1 S"], *, interpret: bool = False
) -> Partial:
    """`attention.partial_attention` where all queries of a row of keys share its mask, of what `reads` allows.

    Blocks of keys that no row sees are not read. The output is rounded to the precision of the entries.
    """
    rows, heads = kv.k.shape[:2]
    mask = jnp.broadcast_to(mask[:, 0], (rows, mask.shape[-1]))
    arrays = query, mask, *(x for x in kv if x is not None)
    names = BY_HEAD, BY_ROW, *[("batch", "heads")] * (len(arrays) - 2)
    local = functools.partial(_partial, interpret=interpret)
    out: Any = BY_HEAD[:3], BY_HEAD[:3], BY_HEAD
    return over_devices(local, arrays, names, Partial(*out), rows=rows, heads=heads)


def _partial(query: Array, mask: Array, *cache: Array, interpret: bool) -> Partial:
    """`partial_attention` of the rows and heads of one device."""
    key, value, *_ = caching.decode(KVCache(*cache), query.dtype)
    rows, kv_heads, head_dim, slots = key.shape
    length = query.shape[0] // rows * query.shape[1]
    padded = length + -length % (BLOCK if length > BLOCK else LANES)
    side, across = min(BLOCK, padded), math.gcd(BLOCK, slots)
    grouped = (query * head_dim**-0.5).astype(key.dtype).reshape(rows, length, kv_heads, -1, head_dim)
    grouped = jnp.pad(grouped, ((0, 0), (0, padded - length), (0, 0), (0, 0), (0, 0))).transpose(0, 2, 3, 1, 4)
    # A query must meet a block, if only to see nothing of it.
    seen = mask.reshape(rows, -1, across).any((0, 2)).at[0].set(True)
    index = jnp.arange(len(seen))
    following = jax.lax.cummin(jnp.where(seen, index, len(seen)), reverse=True) % len(seen)

    def each(x: Array) -> Array:
        return jnp.broadcast_to(x.astype(jnp.int32), (1, padded // side, len(seen)))

    blocks = mask_info.MaskInfo(
        data_next=each(following), block_mask=each(2 * seen), mask_next=None, partial_mask_blocks=None, q_sequence=None
    )
    sizes = kernels.BlockSizes(block_q=side, block_kv=across, k_layout=kernels.QKVLayout.SEQ_MINOR)
    kernel = kernels.SplashAttentionKernel(
        blocks, None, None, block_sizes=sizes, is_mqa=True, save_residuals=True, interpret=interpret,
        mask_value=kernels.DEFAULT_MASK_VALUE, attn_logits_soft_cap=None, residual_checkpoint_name=None,
        mask_function=None,
    )  # fmt: skip
    ids = kernels.SegmentIds(q=jnp.ones((rows, padded), jnp.int32), kv=mask.astype(jnp.int32))
    over_heads = jax.vmap(kernel, in_axes=(0, 0, 0, None))
    out, (normaliser,) = jax.vmap(over_heads)(grouped, key.swapaxes(2, 3), value, ids)

    def ungroup(x: Array) -> Array:
        x = x[:, :, :, :length].astype(jnp.float32)
        return jnp.moveaxis(x, 3, 1).reshape(*query.shape[:3], *x.shape[4:])

    top = ungroup(normaliser)
    return Partial(top, jnp.ones_like(top), ungroup(out))


# Products of a block of scores in each of the kernel's three programs: q k^T and p v; then those of the gradients.
_PRODUCTS = {"splash_mqa_fwd": 2, "splash_mqa_dq": 3, "splash_mqa_dkv": 4}


def flops(
    name: str, operands: Sequence[tuple[int, ...]], slots: Mapping[int, Slots], window: int | None = None
) -> float | None:
    """FLOPs of one call of a splash program, blocks that the mask leaves empty not counted; None for other kernels.

    Of a part of a cache all keys are counted: how many a pass sees is known when it runs.

    Args:
      name: of the custom call in the compiled module.
      operands: their dimensions; the third is the query, [rows, kv heads, group, T, h], perhaps without axes of 1.
      slots: layout of rows by their length before padding; other lengths are plain causal.
      window: of all layers.
    """
    products = next((n for part, n in _PRODUCTS.items() if name.startswith(part)), None)
    if products is None or len(operands) < 3 or len(operands[2]) < 2:
        return None
    *heads, padded, head_dim = operands[2]
    if len(operands) > 3 and operands[3][-2:] != operands[2][-2:]:  # keys of a cache stand the other way
        return 4.0 * math.prod(operands[2]) * operands[3][-1]
    side = min(BLOCK, padded)
    found = next((s for length, s in slots.items() if length <= padded < length + side), None)
    return 2.0 * products * math.prod(heads) * head_dim * side**2 * _blocks(padded, side, found, window)


def _blocks(length: int, side: int, slots: Slots | None, window: int | None) -> int:
    """Blocks of [length, length] in which some query may see some key."""
    total = 0
    for first in range(0, length, side):
        last = first + side - 1
        keys = set(range(0 if window is None else max(0, first - window + 1) // side, last // side + 1))
        if slots is not None and first >= slots.prompt:
            own = first - (first - slots.prompt) % slots.length
            keys = set(range((slots.prompt - 1) // side + 1)) | set(range(own // side, last // side + 1))
        total += len(keys)
    return total


@functools.lru_cache(maxsize=32)
def _kernel(
    length: int, group: int, slots: Slots | None, window: int | None, interpret: bool
) -> kernels.SplashAttentionKernel:
    """The kernel of a kv head and its `group` query heads. Its tables are numpy: no trace can leak into the cache."""
    side = min(BLOCK, length)
    names = "block_q block_kv block_kv_compute block_q_dkv block_kv_dkv block_kv_dkv_compute block_q_dq block_kv_dq"
    sizes = kernels.BlockSizes(**dict.fromkeys(names.split(), side))  # pyright: ignore[reportArgumentType]

    def make() -> kernels.SplashAttentionKernel:
        mask = masks.MultiHeadMask([SlotMask(length, slots, window)] * group)
        kernel = kernels.make_splash_mqa_single_device(mask, block_sizes=sizes, interpret=interpret)
        return jax.tree.map(np.asarray, kernel)

    # In a thread of its own neither a trace nor a mesh (of chips that may not be attached) is in force.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()

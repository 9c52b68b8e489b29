"""Grouped-query attention: of the training pass (segments, slots), and over KV caches (parts merged by log-sum-exp)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from spicejax.models import blockwise
from spicejax.models.blockwise import MASKED
from spicejax.models.cache import KVCache

# Kernels of the training pass and of prompts. "xla" runs everywhere and is the reference; "splash" is Pallas on TPU;
# "flash" is Pallas on NVIDIA GPUs, "cudnn" fused attention of the training pass there (bfloat16 only); "auto" takes the
# backend's own where it can, else "xla" (no whole step was seen with "flash": it is taken where it is named). When
# compiling for a TPU that is not attached, name the kernel: "auto" asks which backend runs this process.
AttentionKernel = Literal["auto", "xla", "splash", "flash", "cudnn"]

# The causal pass goes through its queries in at most this many blocks, each against the keys up to its end. All but the
# last have at least SHORTEST_BLOCK tokens.
BLOCKS = 4
SHORTEST_BLOCK = 128

# Scores of a row and head that exist at a time: slots take turns where all of theirs together are more.
AREA = 2**24


@dataclasses.dataclass(frozen=True)
class Slots:
    """Layout of a row whose responses share prompts: `prompt` tokens, then slots of `length` tokens each.

    A token sees the earlier tokens of its segment that stand in the prompt area or in its own slot: responses in
    different slots share a prompt and do not see each other.
    """

    prompt: int  # P, tokens of the prompt area
    length: int  # R, tokens of a slot

    def count(self, row: int) -> int:
        """Slots of a row of `row` tokens; ValueError where they do not fill it."""
        slots, left = divmod(row - self.prompt, self.length)
        if left or slots < 1:
            raise ValueError(f"a row of {row} tokens is not {self.prompt} prompt tokens and slots of {self.length}")
        return slots


def causal_mask(
    length: int,
    segment_ids: Int[Array, "B T"] | None,
    slots: Slots | None = None,
    window: int | None = None,
    positions: Int[Array, "B T"] | None = None,
) -> Bool[Array, "rows T T"]:
    """True where query t may attend to key s: s <= t, in the same segment and slot where given; rows is B or 1.

    With a window it sees that many tokens, itself the last; distances are those of `positions`, by default indices.
    """
    index = jnp.arange(length)
    allowed = index[:, None] >= index[None, :]
    if slots is not None:
        slot = (index - slots.prompt) // slots.length
        allowed &= (index < slots.prompt)[None, :] | (slot[:, None] == slot[None, :])
    allowed = allowed[None]
    if window is not None:
        places = index[None] if positions is None else positions
        allowed &= places[:, :, None] - places[:, None, :] < window
    if segment_ids is None:
        return allowed
    return allowed & (segment_ids[:, :, None] == segment_ids[:, None, :])


def causal_attention(
    query: Float[Array, "B T H h"],
    key: Float[Array, "B T K h"],
    value: Float[Array, "B T K h"],
    segment_ids: Int[Array, "B T"] | None,
    *,
    slots: Slots | None = None,
    kernel: AttentionKernel = "auto",
    window: int | None = None,
    positions: Int[Array, "B T"] | None = None,
) -> Float[Array, "B T H h"]:
    """Attend causally by index within a segment (and slot); segment 0 is padding and only sees padding.

    The output of padding is finite and has no meaning. Raises ValueError for a kernel that cannot do this.

    Args:
      window: newest tokens of its segment that a token sees, itself among them; None = all.
      positions: of the tokens in their segments. A window needs them with slots, where indices are no distances.
    """
    if kernel == "auto":
        kernel = _native_kernel(query, slots)
    if kernel == "splash" and (slots is None or window is None):  # its masks know indices alone
        from spicejax.models import splash  # pallas is slow to import and only TPUs need it

        return splash.attention(query, key, value, segment_ids, slots, window)  # pyright: ignore[reportArgumentType]  # symlink
    if kernel == "flash" and window is None:
        from spicejax.models import flash  # pallas is slow to import and only GPUs need it

        return flash.attention(query, key, value, segment_ids, slots)  # pyright: ignore[reportArgumentType]  # symlink
    if kernel == "cudnn":
        alone = segment_ids is None and slots is None and window is None
        mask = None if alone else causal_mask(query.shape[1], segment_ids, slots, window, positions)
        return _cudnn_attention(query, key, value, mask)
    return _blockwise_attention(query, key, value, segment_ids, slots, window, positions)


Names = tuple[str | None, ...]
BY_HEAD, BY_ROW = ("batch", None, "heads", None), ("batch", None)  # [B, T, N, h] and [B, T]


def over_devices(
    local: Callable[..., Any], arrays: Sequence[Array], names: Sequence[Names], out: Any, *, rows: int, heads: int
) -> Any:
    """Call `local` on each device's rows and heads of the arrays, whose axes are named batch, heads or None.

    Under a mesh (`jax.set_mesh` with flax's logical axis rules) batch and act_heads are split as the rules say where
    they divide `rows` and `heads`, the rest is whole; without one all of it is called at once.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return local(*arrays)
    axes = {"batch": _split(mesh, "batch", rows), "heads": _split(mesh, "act_heads", heads), None: None}

    def spec(named: Names) -> PartitionSpec:
        return PartitionSpec(*(axes[name] for name in named))

    outs = jax.tree.map(spec, out, is_leaf=lambda x: isinstance(x, tuple) and not isinstance(x[0], tuple))
    return jax.shard_map(local, in_specs=tuple(map(spec, names)), out_specs=outs, check_vma=False)(*arrays)


def _split(mesh: jax.sharding.AbstractMesh, logical: str, size: int) -> tuple[str, ...] | None:
    """Mesh axes that the logical axis rules split `logical` over; None without any, or where `size` does not divide."""
    named = nn.logical_to_mesh_axes((logical,))  # pyright: ignore[reportPrivateImportUsage]
    axes = named[0] if named else None
    axes = (axes,) if isinstance(axes, str) else tuple(axes or ())
    ways = int(np.prod([mesh.shape[a] for a in axes]))
    return axes if axes and size % ways == 0 else None


def _native_kernel(query: Array, slots: Slots | None) -> AttentionKernel:
    backend, head_dim = jax.default_backend(), query.shape[-1]
    if backend == "tpu" and head_dim % 64 == 0:
        return "splash"
    if slots is not None:
        return "xla"  # cuDNN would score every slot against every other
    if backend == "gpu" and query.dtype == jnp.bfloat16 and head_dim % 8 == 0 and head_dim <= 128:
        return "cudnn"
    return "xla"


def _cudnn_attention(query: Array, key: Array, value: Array, mask: Bool[Array, "rows T T"] | None) -> Array:
    """Fused on the GPU, without the work above the diagonal.

    Segments and slots become a [rows, 1, T, T] bias, which takes memory and skips no work.
    """
    if query.dtype != jnp.bfloat16:
        raise ValueError(f"attention='cudnn' works in bfloat16, not {query.dtype}; use dtype='bfloat16' or 'xla'")
    mask = None if mask is None else mask[:, None]
    return jax.nn.dot_product_attention(query, key, value, mask=mask, is_causal=True, implementation="cudnn")


def _blockwise_attention(
    query: Array,
    key: Array,
    value: Array,
    segment_ids: Array | None,
    slots: Slots | None,
    window: int | None,
    positions: Array | None,
) -> Array:
    """In plain XLA, without most of the masked work: no slot meets another, and a block meets few unseen keys."""
    batch, length, heads, head_dim = query.shape
    kv_heads = key.shape[2]
    q = query.reshape(batch, length, kv_heads, heads // kv_heads, head_dim).swapaxes(1, 2)
    k, v = key.swapaxes(1, 2), value.swapaxes(1, 2)
    ids = jnp.zeros((batch, length), jnp.int32) if segment_ids is None else segment_ids
    places = None
    if window is not None:
        places = jnp.broadcast_to(jnp.arange(length), ids.shape) if positions is None else positions
    lead = length if slots is None else slots.prompt

    def part(first: int, end: int) -> blockwise.Part:
        run = None if places is None else places[:, None, first:end]
        return blockwise.Part(k[:, :, None, first:end], v[:, :, None, first:end], ids[:, None, first:end], run)

    def queries(first: int, end: int) -> tuple[Array, Array, Array | None]:
        return q[:, :, first:end], ids[:, first:end], None if places is None else places[:, first:end]

    size = max(-(-lead // BLOCKS), min(SHORTEST_BLOCK, lead))
    out = []
    for start in range(0, lead, size):
        end = min(start + size, lead)
        first = 0 if window is None else max(0, start - window + 1)
        out.append(blockwise.attend(*queries(start, end), (part(first, end),), (start - first,), window))
    if slots is not None:
        count, size = slots.count(length), slots.length
        room = max(1, AREA // (size * (lead + size)))  # slots at a time
        turns = next(n for n in range(1, count + 1) if count % n == 0 and (count // n <= room or n == count))
        prompt = part(0, lead)

        def dealt(x: Array, axis: int) -> Array:
            """The slots of each turn, [turns, ..., slots, tokens, ...]."""
            tail = jax.lax.slice_in_dim(x, lead, None, axis=axis)
            return jnp.moveaxis(tail.reshape(*x.shape[:axis], turns, -1, size, *x.shape[axis + 1 :]), axis, 0)

        def turn(own: tuple[blockwise.Part, Array], keys: Array, values: Array) -> Array:
            slot, queries = own

            def joined(x: Array, axis: int) -> Array:
                return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])

            seen = prompt._replace(key=keys.astype(k.dtype), value=values.astype(v.dtype)), slot
            run = None if slot.positions is None else joined(slot.positions, 1)
            return blockwise.attend(joined(queries, 2), joined(slot.segment_ids, 1), run, seen, (None, 0), window)

        # The gradients of what all turns see are summed in float32.
        wide = prompt.key.astype(jnp.float32), prompt.value.astype(jnp.float32)
        slot = blockwise.Part(dealt(k, 2), dealt(v, 2), dealt(ids, 1), None if places is None else dealt(places, 1))
        answers = jax.lax.map(lambda own: turn(own, *wide), (slot, dealt(q, 2)))
        out.append(jnp.moveaxis(answers, 0, 2).reshape(*q.shape[:2], -1, *q.shape[3:]))
    return jnp.concatenate(out, axis=2).swapaxes(1, 2).reshape(query.shape)


class Partial(NamedTuple):
    """Attention over a part of the keys: enough to merge it with the other parts (log-sum-exp). All float32."""

    top: Float[Array, "B T H"]  # largest score
    total: Float[Array, "B T H"]  # sum of exp(score - top)
    out: Float[Array, "B T H h"]  # sum of exp(score - top) * value


def partial_attention(
    query: Float[Array, "B T H h"], kv: KVCache, mask: Bool[Array, "rows times S"], kernel: AttentionKernel = "xla"
) -> Partial:
    """Attend to U rows of keys, each read by B / U rows of queries in turn: row b reads row b // (B / U).

    The queries that share a row and a kv head are the rows of one matmul, so that shared keys are read once.

    Args:
      mask: true = may attend; rows is U or 1. times is 1 for a mask that all queries share, or (B / U) * T.
      kernel: "flash" of more than a few keys, or "splash" of many queries, where all queries share their mask; "auto"
        as in the training pass; else in plain XLA.
    """
    if kernel == "auto":
        kernel = _native_kernel(query, None)
    if kernel == "splash" and mask.shape[1] == 1:
        from spicejax.models import splash

        if splash.reads(query, kv):
            return splash.partial_attention(query, kv, mask)  # pyright: ignore[reportReturnType]  # symlink
    beyond = kv.k.dtype == jnp.int8 and kv.k.size > 2**31  # bytes that Triton's offsets of 32 bits reach
    if kernel == "flash" and mask.shape[1] == 1 and mask.shape[2] > 1 and not beyond:
        from spicejax.models import flash

        return flash.partial_attention(query, kv, mask)  # pyright: ignore[reportReturnType]  # symlink
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

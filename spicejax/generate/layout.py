"""The engine's shapes: buckets of prompts, rows of one turn or several, what fits into the memory for KV entries."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple

import jax

from spicejax import sharding
from spicejax.generate import engine
from spicejax.models import cache as caching
from spicejax.models.transformer import TransformerConfig

CacheChoice = Literal["compute", "float32", "bfloat16", "int8"]

# Newest tokens of each response that an int8 cache keeps in the precision of the forward pass. XLA:TPU writes a single
# column of an 8-bit array through copies of the whole; this many it writes in place.
WINDOW = 128

# Most rows that share one copy of a prompt when all samples of a call have a row of their own. With 32 a prompt four
# times as long as its responses takes an eighth of what they take; more would only be another shape to compile.
WIDEST = 32


@dataclasses.dataclass(frozen=True)
class Buckets:
    """The shapes the sampler is compiled for. Few and fixed: after each was met once nothing compiles again."""

    prompt: tuple[int, ...]  # prompt lengths in tokens, ascending; the last is the longest prompt accepted
    rows: int  # row slots: responses written at the same time
    refill: float = 0.125  # share of the row slots that must be free before waiting work is put into them
    prefill_chunk: int = 512  # tokens that each part of the mesh prefills at once; long prompts go in such pieces
    cache: CacheChoice = "compute"  # precision of the KV entries; compute = that of the forward pass
    kv_tokens: int = 0  # most tokens whose KV entries are held at once, prompts and responses; fewer rows then. 0 = any

    def __post_init__(self) -> None:
        if not self.prompt or list(self.prompt) != sorted(set(self.prompt)) or self.prompt[0] < 1:
            raise ValueError(f"prompt buckets {self.prompt}: give ascending positive lengths such as (128, 512)")
        for name, least in (("rows", 1), ("prefill_chunk", 1), ("kv_tokens", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        if not 0 <= self.refill <= 1:
            raise ValueError(f"refill={self.refill}: give a share of the rows, 0 to 1")

    def fit(self, length: int) -> int:
        """Smallest bucket that holds `length` tokens."""
        if length <= self.prompt[-1]:
            return next(bucket for bucket in self.prompt if length <= bucket)
        raise ValueError(f"a prompt of {length} tokens exceeds the largest bucket, {self.prompt[-1]}; add a larger one")


@dataclasses.dataclass(frozen=True)
class Talk:
    """What rows of several turns may take, in tokens."""

    turns: int  # most turns of the model
    turn: int  # of one turn
    shown: int  # put behind one turn
    total: int  # of a row behind its prompt


class Work(NamedTuple):
    """What one engine is to write: responses to prompts of one bucket."""

    bucket: int  # most tokens of a prompt
    prompts: int
    samples: int  # of each
    max_new: int  # most tokens of a response, or of a turn
    talk: Talk | None = None  # rows of several turns

    @property
    def behind(self) -> int:
        """Most KV entries behind a prompt."""
        return self.max_new + (self.talk.total if self.talk else 0)


def layout_for(cfg: TransformerConfig, buckets: Buckets, mesh: jax.sharding.Mesh, work: Work) -> engine.Layout:
    """The engine's shape for some work.

    Where samples wait for a row, prompt slots are as narrow as `rows_a_prompt` says; where all have one, wide, so that
    a prompt is held as seldom as possible. These are all shapes there are.
    """
    narrow = _layout(cfg, buckets, mesh, work, rows_a_prompt(buckets, work))
    most = max(buckets.kv_tokens, narrow.prompts * _slot_tokens(narrow))
    for group in range(min(WIDEST, work.samples, buckets.rows), narrow.group, -1):
        if work.samples % group == 0:
            wide = _layout(cfg, buckets, mesh, work, group)
            holds_all = work.prompts * work.samples <= wide.rows and wide.shards == narrow.shards
            if holds_all and (not buckets.kv_tokens or wide.prompts * _slot_tokens(wide) <= most):
                return wide
    return narrow


def _layout(cfg: TransformerConfig, buckets: Buckets, mesh: jax.sharding.Mesh, work: Work, group: int) -> engine.Layout:
    """The engine's shape with `group` row slots of each prompt slot."""
    ways = sharding.ways(mesh, 0)
    pieces = -(-work.bucket // buckets.prefill_chunk)
    chunk = -(-work.bucket // pieces)
    talk = work.talk or Talk(turns=1, turn=0, shown=0, total=0)
    window = work.max_new if work.talk else min(WINDOW, work.max_new)  # a turn is kept whole until it is history
    shape = engine.Layout(
        model=cfg,
        prompts=buckets.rows // group,
        group=group,
        prefix=pieces * chunk,
        suffix=work.max_new,
        window=window if buckets.cache == "int8" else 0,
        lanes=1,
        chunk=chunk,
        cache=cfg.dtype if buckets.cache == "compute" else buckets.cache,
        mesh=mesh,
        turns=talk.turns,
        history=talk.total,
        shown=talk.shown,
    )
    prompts = shape.prompts
    if buckets.kv_tokens:
        # At least one slot for each part of the mesh: a slot less and every part would hold all of them.
        prompts = min(prompts, max(ways, buckets.kv_tokens // _slot_tokens(shape)))
    if prompts > ways:
        prompts -= prompts % ways  # so that each part of the mesh holds whole prompt slots
    shards = sharding.ways(mesh, prompts)
    lanes = shards * max(1, min(prompts // shards, buckets.prefill_chunk // chunk))
    most = min(prompts * group // shards, buckets.prefill_chunk // talk.shown) if talk.shown else 0
    readers = shards * max(1, most) if talk.shown else 0
    return dataclasses.replace(shape, prompts=prompts, lanes=lanes, readers=readers)


def _slot_tokens(shape: engine.Layout) -> int:
    """What a prompt slot and its rows take, in tokens of the cache's precision; those of a window take more."""
    if not shape.window:
        return shape.prefix + shape.group * (shape.history + shape.suffix)
    cfg = shape.model
    whole, small = (caching.token_bytes(1, cfg.num_kv_heads, cfg.head_dim, dtype) for dtype in (cfg.dtype, shape.cache))
    return shape.prefix + shape.group * (shape.history + shape.ring + math.ceil(shape.window * whole / small))


def rows_a_prompt(buckets: Buckets, work: Work) -> int:
    """Row slots of a prompt slot, a divisor of `samples` where one is large enough.

    A prompt slot takes its next prompt when all its rows are done: with all samples of a prompt side by side it would
    wait for the longest of them, with two rows that take one sample after the other it hardly waits (lengths geometric,
    mean a sixth of the longest, 8 samples: 36 % of the rows' steps write a token, against 85 %). More rows only where
    prompts would else take more memory than half of the responses.
    """
    least, samples = max(2, -(-2 * work.bucket // work.behind)), work.samples
    return min(next((g for g in range(least, samples) if samples % g == 0), samples), buckets.rows)

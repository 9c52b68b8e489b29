"""The engine's shape: from buckets, limits and the memory for KV entries to a `Layout`.

Where every sample has a lane, prefixes are wide and hold all samples of a prompt. A prompt with more samples than a
prefix has lanes stands in several prefixes: it is computed once and copied.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import jax

from spicejax import sharding
from spicejax.models import cache as caching
from spicejax.models.transformer import TransformerConfig

CacheChoice = Literal["compute", "float32", "bfloat16", "int8"]

# Newest tokens of each response that an int8 cache keeps in the precision of the forward pass. XLA:TPU copies a whole
# 8-bit array to write one column of it, but writes this many columns in place.
WINDOW = 128

# Most lanes that share one copy of a prompt when every sample of a call has its own lane. With 32, a prompt four times
# as long as its responses takes an eighth of their memory; more would only be another shape to compile.
WIDEST = 32


@dataclasses.dataclass(frozen=True)
class Buckets:
    """The shapes that the sampler is compiled for. They are few and fixed: each compiles once."""

    prompt: tuple[int, ...]  # prompt lengths in tokens, ascending; the last is the longest prompt accepted
    rows: int  # responses written at the same time
    refill: float = 0.125  # share of these rows that must be free before waiting work takes them
    prefill_chunk: int = 512  # tokens that each part of the mesh prefills at once; longer prompts are cut into pieces
    cache: CacheChoice = "compute"  # precision of the KV entries; compute = that of the forward pass
    # shares of the KV memory in which a call's last responses go on, when none waits; () = they end where they began
    tails: tuple[float, ...] = (0.125, 0.03125)
    drafts: int = 0  # tokens of each of these last responses that are guessed from what it may quote; no text changes
    kv_tokens: int = 0  # most tokens whose KV entries are held at once, prompts and responses; fewer rows then. 0 = any

    def __post_init__(self) -> None:
        if not self.prompt or list(self.prompt) != sorted(set(self.prompt)) or self.prompt[0] < 1:
            raise ValueError(f"prompt buckets {self.prompt}: give ascending positive lengths such as (128, 512)")
        for name, least in (("rows", 1), ("prefill_chunk", 1), ("kv_tokens", 0), ("drafts", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        if not 0 <= self.refill <= 1:
            raise ValueError(f"refill={self.refill}: give a share of the rows, 0 to 1")
        if self.drafts and not self.tails:
            raise ValueError(
                f"drafts={self.drafts} without tails, where alone there are any: give tails such as (0.125,)"
            )
        if self.drafts and self.cache == "int8":
            raise ValueError(f"drafts={self.drafts} with cache=int8, whose window all rows fill together: give 0")
        if list(self.tails) != sorted(self.tails, reverse=True) or not all(0 < share < 1 for share in self.tails):
            raise ValueError(f"tails {self.tails}: give descending shares between 0 and 1 such as (0.25,)")

    def with_share(self, share: float) -> Buckets:
        """The same with that share of the KV cache, which stays bounded where it is."""
        return dataclasses.replace(self, kv_tokens=max(1, int(self.kv_tokens * share)) if self.kv_tokens else 0)

    def fit(self, length: int) -> int:
        """Smallest bucket that holds `length` tokens."""
        if length <= self.prompt[-1]:
            return next(bucket for bucket in self.prompt if length <= bucket)
        raise ValueError(f"a prompt of {length} tokens exceeds the largest bucket, {self.prompt[-1]}; add a larger one")

    def piece(self, bucket: int) -> int:
        """Tokens of each piece that prompts of this bucket are computed in; shorter ones would leave more padding where
        prompts come one by one.
        """
        return -(-bucket // -(-bucket // self.prefill_chunk))

    def prefilling(self, bucket: int) -> int:
        """Most tokens of prompts of this bucket that a part of the mesh holds while it computes prompts."""
        piece = self.piece(bucket)
        together = max(1, self.prefill_chunk // piece)
        return (together + (piece < bucket)) * -(-bucket // piece) * piece


@dataclasses.dataclass(frozen=True)
class TurnLimits:
    """Limits of a rollout of several turns, in tokens."""

    turns: int  # most turns of the model
    turn: int  # most tokens of one turn
    observation: int  # most tokens of one observation, which follows a turn
    total: int  # most tokens after the prompt


class Work(NamedTuple):
    """The responses that one engine is to write: all prompts of one bucket."""

    bucket: int  # most tokens of a prompt
    prompts: int
    samples: int  # of each
    max_new: int  # most tokens of a response, or of a turn
    turn_limits: TurnLimits | None = None  # None = one turn

    @property
    def lane_tokens(self) -> int:
        """Most KV entries after a prompt."""
        return self.max_new + (self.turn_limits.total if self.turn_limits else 0)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The static shape of an engine. Each program compiles once for a layout."""

    model: TransformerConfig
    prompts: int  # U, prefixes: prompts held at once
    group: int  # G, lanes of each prefix; lane b reads prefix b // G
    prefix: int  # P, tokens that a prefix holds, a multiple of `chunk`
    suffix: int  # R, most new tokens of a response or turn
    window: int  # newest tokens of a lane that are kept in the precision of the forward pass; 0 = `cache` holds all
    prefills: int  # N, prompts prefilled at once
    chunk: int  # C, tokens of each of them prefilled at once
    cache: caching.CacheDtype  # precision of the KV entries
    mesh: jax.sharding.Mesh
    turns: int = 1  # most turns of a response; the next three are 0 where it is 1
    history: int = 0  # H, most tokens before the last turn
    observation: int = 0  # C', most tokens of an observation
    appends: int = 0  # N', observations that are computed at once
    drafts: int = 0  # k, tokens of a lane that are drafted and computed together with the one to be fed
    known: int = 0  # M, tokens that drafts are looked up in, besides the text

    @property
    def lanes(self) -> int:
        """B, lanes in all."""
        return self.prompts * self.group

    @property
    def ring(self) -> int:
        """Columns for the tokens older than the window, a multiple of it that holds the suffix; 0 = none."""
        return -(-self.suffix // self.window) * self.window if 0 < self.window < self.suffix else 0

    @property
    def recent(self) -> int:
        """W, columns of the ring that decoding writes."""
        return self.window or self.suffix

    @property
    def shards(self) -> int:
        """Parts of the mesh that hold different prefixes; a prompt is prefilled where it stays."""
        return sharding.ways(self.mesh, self.prompts)

    def reach(self, length: int) -> int:
        """Columns of a history to read if it holds `length` tokens: one, two, three or four quarters of all."""
        step = -(-self.history // 4)
        return min(self.history, max(1, -(-length // step)) * step) if self.history else 0

    def sharding_of(self, shape: tuple[int, ...]) -> jax.sharding.NamedSharding:
        """Sharding of an array of this shape: caches by lane and head, others by their first axis."""
        if len(shape) > 2:
            return sharding.kv_cache(self.mesh, shape[1], self.model.num_kv_heads)
        return sharding.rows(self.mesh, shape[0]) if shape else sharding.replicated(self.mesh)

    @property
    def long(self) -> int:
        """Tokens that a row may still write, from which on it pays to go on in an engine with fewer lanes.

        That is a program to compile, which takes longer where layers are written out.
        """
        return max(64, 8 * self.model.num_layers) if self.by_layer else 64

    def fewer(self, lanes: int, drafts: int = 0) -> Layout:
        """The shape of an engine of so many of these lanes, each with a prefix of its own."""
        appends = max(self.shards, min(self.appends, lanes)) if self.appends else 0
        known = self.prefix + self.history + 2 * self.suffix if drafts else 0
        return dataclasses.replace(
            self, prompts=lanes, group=1, prefills=self.shards, appends=appends, drafts=drafts, known=known
        )

    @property
    def filling(self) -> Layout:
        """What prefill compiles for: engines that differ in their lanes alone share the program."""
        alone = {"group": 1, "suffix": 1, "window": 0, "turns": 1, "drafts": 0, "known": 0}
        return dataclasses.replace(self, prompts=self.shards, history=0, observation=0, appends=0, **alone)

    def constrain(self, tree: Any) -> Any:
        """Constrain every array of the tree to its `sharding_of`."""
        return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, self.sharding_of(x.shape)), tree)

    @property
    def platform(self) -> str:
        return sharding.platform(self.mesh)

    @property
    def by_layer(self) -> bool:
        """Whether caches are one array a layer, and decoding writes its layers out (see `transformer.extend_layers`).

        On CPUs and GPUs: inside a loop XLA copies each layer that it takes out of a stack before a product there.
        """
        return self.platform in ("cpu", "gpu")


def whole(cfg: TransformerConfig, buckets: Buckets, mesh: jax.sharding.Mesh, work: Work) -> Layout:
    """The largest engine for such work that `buckets` allow.

    Where samples wait for a lane, a prefix has `lanes_per_prefix` lanes; where none wait, as many as possible, so that
    few copies of a prompt are held.
    """
    narrow = _layout(cfg, buckets, mesh, work, lanes_per_prefix(buckets, work))
    budget = max(buckets.kv_tokens, narrow.prompts * prefix_tokens(narrow))
    for group in range(min(WIDEST, work.samples, buckets.rows), narrow.group, -1):
        if work.samples % group == 0:
            wide = _layout(cfg, buckets, mesh, work, group)
            holds_all = work.prompts * work.samples <= wide.lanes and wide.shards == narrow.shards
            if holds_all and (not buckets.kv_tokens or wide.prompts * prefix_tokens(wide) <= budget):
                return wide
    return narrow


def layout_for(cfg: TransformerConfig, buckets: Buckets, mesh: jax.sharding.Mesh, work: Work) -> Layout:
    """The engine's shape for some work: of `whole` a half, a quarter or an eighth where that holds all of it.

    Its prompts are computed by the same program. Responses that end before they are `Layout.long` are not worth
    another one to decode them.
    """
    shape = most = whole(cfg, buckets, mesh, work)
    needed = -(-work.prompts * work.samples // most.group)
    for part in (2, 4, 8) if work.lane_tokens >= most.long else ():
        prompts = most.prompts // part
        if prompts >= max(needed, 1) and prompts % most.shards == 0:
            shape = dataclasses.replace(most, prompts=prompts, appends=min(most.appends, prompts * most.group))
    return shape


def tails_of(shape: Layout, most: Layout, buckets: Buckets, drafts: int) -> list[Layout]:
    """The engines for a call's last lanes, smaller than `shape` and than one another, the largest first.

    They have these shares of the KV memory of `most`, the `whole` engine, so that calls of any size share them.
    """
    tails: list[Layout] = []
    for share in buckets.tails:
        lanes = int(share * most.prompts * prefix_tokens(most) / prefix_tokens(most.fewer(most.shards)))
        lanes -= lanes % most.shards
        parts = sharding.ways(most.mesh, lanes)  # more than the engine has, where its prefixes were too few to split
        if 0 < lanes < (tails[-1] if tails else shape).lanes and parts == most.shards:
            tails.append(most.fewer(lanes, drafts))
    return tails


def _layout(cfg: TransformerConfig, buckets: Buckets, mesh: jax.sharding.Mesh, work: Work, group: int) -> Layout:
    """The engine's shape with `group` lanes of each prefix."""
    ways = sharding.ways(mesh, 0)
    chunk = buckets.piece(work.bucket)
    limits = work.turn_limits or TurnLimits(turns=1, turn=0, observation=0, total=0)
    window = work.max_new if work.turn_limits else min(WINDOW, work.max_new)  # a turn stays whole until it is history
    shape = Layout(
        model=cfg,
        prompts=buckets.rows // group,
        group=group,
        prefix=-(-work.bucket // chunk) * chunk,
        suffix=work.max_new,
        window=window if buckets.cache == "int8" else 0,
        prefills=1,
        chunk=chunk,
        cache=cfg.dtype if buckets.cache == "compute" else buckets.cache,
        mesh=mesh,
        turns=limits.turns,
        history=limits.total,
        observation=limits.observation,
    )
    prompts = shape.prompts
    if buckets.kv_tokens:
        # At least one prefix for each part of the mesh: with fewer, every part would hold all of them.
        prompts = min(prompts, max(ways, buckets.kv_tokens // prefix_tokens(shape)))
    if prompts > ways:
        prompts -= prompts % ways  # so that each part of the mesh holds whole prefixes
    shards = sharding.ways(mesh, prompts)
    prefills = shards * max(1, min(prompts // shards, buckets.prefill_chunk // chunk))
    appends = 0
    if limits.observation:
        appends = shards * max(1, min(prompts * group // shards, buckets.prefill_chunk // limits.observation))
    return dataclasses.replace(shape, prompts=prompts, prefills=prefills, appends=appends)


def prefix_tokens(shape: Layout) -> int:
    """Memory of a prefix and its lanes, in tokens of the cache's precision; a window's tokens take more."""
    if not shape.window:
        return shape.prefix + shape.group * (shape.history + shape.suffix)
    cfg = shape.model
    full, small = (caching.token_bytes(1, cfg.num_kv_heads, cfg.head_dim, dtype) for dtype in (cfg.dtype, shape.cache))
    return shape.prefix + shape.group * (shape.history + shape.ring + math.ceil(shape.window * full / small))


def lanes_per_prefix(buckets: Buckets, work: Work) -> int:
    """Lanes of each prefix where samples wait: a divisor of `samples` where one is large enough.

    A prefix takes its next prompt when all its lanes are done. With a lane for every sample of the prompt it waits for
    the longest; two lanes that take one sample after the other hardly wait (8 samples, geometric lengths with a mean of
    a sixth of the longest: 85 % of the lanes' steps write a token, against 36 %). There are more than two only where
    prompts would otherwise take more than half the memory of the responses.
    """
    least, samples = max(2, -(-2 * work.bucket // work.lane_tokens)), work.samples
    return min(next((g for g in range(least, samples) if samples % g == 0), samples), buckets.rows)

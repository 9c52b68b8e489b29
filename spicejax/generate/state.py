"""What an engine holds: the host's input to a call, and what stays on the devices between calls."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from spicejax.generate import drafts
from spicejax.generate.layout import Layout
from spicejax.generate.sampler import Knobs
from spicejax.models import cache as caching

# A cache of all layers: one of each layer, or one of them all (`Layout.by_layer`). L below is a part's layers.
Parts = tuple[caching.KVCache, ...]


class Lanes(NamedTuple):
    """The host's input to `decode`: numpy arrays there, jax arrays on the devices."""

    fresh: Any  # bool [B], starts a turn now; the others continue
    first_token: Any  # int [B], last token before the turn: fed first, since no cache has its KV entry
    row_ids: Any  # int [B], names the random stream: same id and key, same text
    turns: Any  # int [B], turns already written
    history_lengths: Any  # int [B], tokens of these turns and of their observations
    limits: Any  # int [B], most new tokens, 1 to R
    prefix_lengths: Any  # int [U], tokens of the prompt but its last; 0 or more
    waiting: Any  # int [U], samples of the prompt that wait for a lane
    known: Any  # int [B, M], what drafts are looked up in
    refill_at: Any  # int, return when this many lanes could take new work; 0 = when all are done


class Observations(NamedTuple):
    """The observations that follow the turns of some lanes: numpy arrays on the host, jax arrays on the devices."""

    lanes: Any  # int [shards, N' / shards], counted within the shard; from B / shards on = none (padding)
    # int [N', C'], right-padded: the turn's last token, which was never fed, and the observation but its last token
    tokens: Any
    prefix_lengths: Any  # int [N'], as in `Lanes`
    history_lengths: Any  # int [N'], as they were when the turn was written


class Caches(NamedTuple):
    """The KV entries that decoding reads and does not write."""

    prefix: Parts  # [L, U, K, P, h], prompts
    history: Parts | None  # [L, B, K, H, h], earlier turns; None where there is one turn


class Drawing(NamedTuple):
    """How tokens are drawn, and which tokens end a turn."""

    transitions: Any  # int16 [V, S], the stop machine (see `generate/stops.py`)
    keys: Any  # typed PRNG keys of this iteration and role, one for each turn
    knobs: Knobs


class Output(NamedTuple):
    """The tokens of each lane's turn so far, right-padded with 0."""

    tokens: Int[Array, "B R"]
    logprobs: Float[Array, "B R"]  # plain model: temperature 1, nothing cut
    sample_logprobs: Float[Array, "B R"]  # distribution the token was drawn from; 0 when greedy
    lengths: Int[Array, "B"]  # the stop token counts
    stopped: Bool[Array, "B"]  # by stop token or string
    done: Bool[Array, "B"]  # stopped or at its limit; an empty lane counts as done
    passes: Int[Array, "B"]  # of the model that wrote them; since the lane moved, if it did
    finite: Bool[Array, ""]  # no NaN or infinite logit was met


class State(NamedTuple):
    """What stays on the device between two calls of `decode`, besides `Caches`."""

    step: Int[Array, ""]  # tokens decoded since the engine began
    token: Int[Array, "B"]  # to be fed next
    machine: Int[Array, "B"]  # state of the stop machine
    begun: Int[Array, "B"]  # step at which the turn started
    recent: Parts  # [L, B, K, W, h]: a ring of the newest tokens
    older: Parts | None  # the same for older tokens, moved here W at a time; None where the window holds all
    out: Output


def new_cache(layout: Layout, rows: int, slots: int, dtype: caching.CacheDtype | None = None) -> Parts:
    """An empty cache, by default in the engine's precision."""
    cfg = layout.model
    parts, layers = (cfg.num_layers, 1) if layout.by_layer else (1, cfg.num_layers)
    size = layers, rows, cfg.num_kv_heads, slots, cfg.head_dim, dtype or layout.cache
    return tuple(caching.init_cache(*size) for _ in range(parts))


def no_lanes(layout: Layout) -> Lanes:
    """Host arrays for lanes of which none has begun."""

    def zeros(count: int) -> np.ndarray:
        return np.zeros(count, np.int32)

    return Lanes(
        fresh=np.zeros(layout.lanes, bool),
        first_token=zeros(layout.lanes),
        row_ids=zeros(layout.lanes),
        turns=zeros(layout.lanes),
        history_lengths=zeros(layout.lanes),
        limits=zeros(layout.lanes),
        prefix_lengths=zeros(layout.prompts),
        waiting=zeros(layout.prompts),
        known=np.full((layout.lanes, layout.known), drafts.NONE, np.int32),
        refill_at=np.int32(0),
    )


def no_observations(layout: Layout) -> Observations:
    """Host arrays of padding alone."""
    shards, count = layout.shards, layout.appends
    return Observations(
        lanes=np.tile(layout.lanes // shards + np.arange(count // shards, dtype=np.int32), (shards, 1)),
        tokens=np.zeros((count, layout.observation), np.int32),
        prefix_lengths=np.zeros(count, np.int32),
        history_lengths=np.zeros(count, np.int32),
    )


def init(layout: Layout) -> tuple[Caches, State]:
    """Empty caches and lanes."""
    rows, width = layout.lanes, layout.suffix
    zeros = jnp.zeros(rows, jnp.int32)
    out = Output(
        tokens=jnp.zeros((rows, width), jnp.int32),
        logprobs=jnp.zeros((rows, width), jnp.float32),
        sample_logprobs=jnp.zeros((rows, width), jnp.float32),
        lengths=zeros,
        stopped=jnp.zeros(rows, bool),
        done=jnp.ones(rows, bool),
        passes=zeros,
        finite=jnp.array(True),
    )
    recent = new_cache(layout, rows, layout.recent, layout.model.dtype if layout.window else None)
    older = new_cache(layout, rows, layout.ring) if layout.ring else None
    history = new_cache(layout, rows, layout.history) if layout.history else None
    caches = Caches(new_cache(layout, layout.prompts, layout.prefix), history)
    return layout.constrain((caches, State(jnp.int32(0), zeros, zeros, zeros, recent, older, out)))

"""The decoding engine on the device: prefixes, lanes, and the programs that fill and advance them.

A prefix holds the KV entries of one prompt. G lanes read it, and each writes one response at a time. `prefill` computes
prompts, `insert` stores them in prefixes, `decode` writes tokens until enough lanes are free. A lane of several turns
has a history between its prompt and the turn that it writes: `append` moves a finished turn there and computes the
observation that follows it. The host assigns prompts and samples to prefixes and lanes (`schedule.py`).

Decode attention reads a prefix for all its lanes in one product and each lane's own tokens apart, and merges the two
by log-sum-exp. The decode step feeds a prompt's last token, so that prefill computes no logits. All lanes write the
same column of a ring, so that lanes of any age share the batch without a scatter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from spicejax import sharding
from spicejax.generate import drafts
from spicejax.generate.layout import Layout
from spicejax.generate.sampler import SamplerConfig, draw
from spicejax.generate.state import (
    Caches,
    Drawing,
    Lanes,
    Observations,
    Output,
    Parts,
    State,
    init,
    new_cache,
    no_lanes,
    no_observations,
)
from spicejax.generate.stops import ACCEPT
from spicejax.models import cache as caching
from spicejax.models import transformer
from spicejax.types import Params


def prefill(
    layout: Layout,
    params: Params,
    kept: caching.KVCache | None,
    known: Int[Array, ""],
    tokens: Int[Array, "N P"],
    lengths: Int[Array, "N"],
) -> tuple[Parts, caching.KVCache | None]:
    """Compute the KV entries [L, N, K, P, h] of N right-padded prompts, `chunk` tokens of each at a time.

    No matrix of scores is larger than chunk x P. Chunks after the longest prompt are skipped. No logits are computed,
    since `decode` feeds the last token of each prompt.

    Args:
      kept: entries [L, shards, K, P, h] of a prompt that each part of the mesh computed before; None = one chunk.
      known: chunks that all N prompts begin with as those do. They are taken over, and since chunks are cut at the
        same places the entries are the very same as without.
    Returns: the entries, and what the next call gets as `kept`: those of each part's first prompt.
    """
    count, bucket = tokens.shape
    columns = jnp.arange(bucket)
    params = _for_loops(layout, params)

    def piece(i: Int[Array, ""] | int, cache: caching.KVCache, *, alone: bool = False) -> caching.KVCache:
        start = i * layout.chunk
        part = jax.lax.dynamic_slice_in_dim(tokens, start, layout.chunk, axis=1)
        positions = jnp.broadcast_to(start + jnp.arange(layout.chunk, dtype=jnp.int32), part.shape)
        before = caching.Context(cache, jnp.broadcast_to(columns < start, (count, bucket)), columns[None])
        _, new = transformer.extend(layout.model, params, part, positions, () if alone else (before,))
        return layout.constrain(caching.write(cache, new, start))

    if kept is None:
        empty = layout.constrain(_stacked(new_cache(layout, count, bucket)))
        return layout.constrain(_parts(layout, piece(0, empty, alone=True))), None
    begun = layout.constrain(jax.tree.map(lambda x: jnp.repeat(x, count // layout.shards, axis=1), kept))
    cache = jax.lax.fori_loop(known, -(-jnp.max(lengths) // layout.chunk), piece, begun)
    first = jax.tree.map(lambda x: _by_shard(layout, x, 1)[:, :, 0], cache)
    return layout.constrain((_parts(layout, cache), first))


def nothing_kept(layout: Layout) -> caching.KVCache | None:
    """The first `kept` of `prefill`."""
    if layout.prefix == layout.chunk:
        return None
    return layout.constrain(_stacked(new_cache(layout, layout.shards, layout.prefix)))


def insert(layout: Layout, cache: Parts, new: Parts, places: Int[Array, "shards N"]) -> Parts:
    """Write the first columns of some prefixes (prefilled prompts) or of some lanes' histories.

    Args:
      places: prefix or lane of each, counted within its shard, no two the same; what a shard does not have = none.
    """

    def put(old: Array, fresh: Array) -> Array:
        # A scatter for each shard, so that no entry crosses the network. XLA:GPU, asked for determinism, would sort
        # what it writes if places were not unique: half a minute of compiling.
        at = tuple(slice(0, n) for n in fresh.shape[2:])
        write = jax.vmap(
            lambda o, f, s: o.at[:, s, *at].set(f, mode="drop", unique_indices=True), in_axes=(1, 1, 0), out_axes=1
        )
        return write(_by_shard(layout, old, 1), _by_shard(layout, fresh, 1), places).reshape(old.shape)

    return layout.constrain(jax.tree.map(put, cache, new))


def gather(layout: Layout, tree: Any, places: Int[Array, "shards N"], axis: int) -> Any:
    """Pick prefixes or lanes, counted within their shard, along `axis` of every array; padding gets any of them."""

    def one(x: Array) -> Array:
        pick = jax.vmap(lambda y, s: y.take(s, 0, mode="clip"))
        return pick(_by_shard(layout, x, 0), places).reshape(places.size, *x.shape[1:])

    def layers(x: Array) -> Array:
        # One after the other: XLA:TPU turns what it gathers from, and would hold all of it twice.
        return jax.lax.map(one, x)

    return layout.constrain(jax.tree.map(layers if axis else one, tree))


def move(layout: Layout, caches: Caches, state: State, places: np.ndarray) -> tuple[Caches, State]:
    """Move some lanes to an engine of so few, `layout.fewer`. What is given is deleted, array by array.

    Args:
      places: int [shards, N / shards], lanes counted within the shard; B / shards = an empty lane.
    """
    lanes, prefixes = (sharding.put_global(x, layout.sharding_of(x.shape)) for x in (places, places // layout.group))

    def take(tree: Any, places: Any, axis: int) -> Any:
        def one(x: Array) -> Array:
            taken = gather_jit(layout, x, places, axis)
            x.delete()
            return taken

        return jax.tree.map(one, tree)

    recent, older, history = take((state.recent, state.older, caches.history), lanes, 1)
    prefix = take(caches.prefix, prefixes, 1)
    token, machine, begun = take((state.token, state.machine, state.begun), lanes, 0)
    rows = take(state.out._replace(finite=None), lanes, 0)
    empty = places.reshape(-1) == layout.lanes // layout.shards
    out = rows._replace(done=rows.done | empty, passes=jnp.zeros_like(begun), finite=state.out.finite)
    return Caches(prefix, history), State(state.step, token, machine, begun, recent, older, out)


def _for_loops(layout: Layout, params: Params) -> Params:
    """The parameters as the platform reads them in a loop over layers."""
    return transformer.matrix_bits(params) if layout.platform == "cpu" else params


def _by_shard(layout: Layout, x: Array, axis: int) -> Array:
    return x.reshape(*x.shape[:axis], layout.shards, x.shape[axis] // layout.shards, *x.shape[axis + 1 :])


def append(
    layout: Layout,
    params: Params,
    prefix: Parts,
    history: Parts,
    state: State,
    observations: Observations,
    *,
    reach: int,
) -> Parts:
    """Add the finished turns of some lanes, and the observations that follow them, to the histories.

    The turns' KV entries are moved from the ring; only those of `observations.tokens` are computed.

    Args:
      reach: columns that hold the histories afterwards.
    """
    begun, written = gather(layout, (state.begun, state.out.lengths), observations.lanes, 0)
    held = state.recent, tuple(caching.first_slots(part, reach) for part in history)
    turn, before = map(_stacked, gather(layout, held, observations.lanes, 1))
    prompt = _stacked(gather(layout, prefix, observations.lanes // layout.group, 1))
    # What the ring holds after the turn's end is overwritten or masked.
    before = caching.write_rows(before, caching.rotated(turn, begun % layout.recent), observations.history_lengths)
    known = observations.history_lengths + written
    columns, old, begins = jnp.arange(layout.prefix), jnp.arange(reach), observations.prefix_lengths[:, None]
    context = (
        caching.Context(prompt, columns < begins, columns[None]),
        caching.Context(before, old < known[:, None], begins + old),
    )
    positions = (observations.prefix_lengths + known)[:, None] + jnp.arange(layout.observation, dtype=jnp.int32)
    params = _for_loops(layout, params)
    _, new = transformer.extend(layout.model, params, observations.tokens, positions, context)
    return insert(layout, history, _parts(layout, caching.write_rows(before, new, known)), observations.lanes)


def decode(
    layout: Layout,
    params: Params,
    caches: Caches,
    state: State,
    lanes: Lanes,
    drawing: Drawing,
    *,
    filtered: bool,
    reach: int,
) -> tuple[State, Output]:
    """Start the fresh lanes and decode until `refill_at` lanes could take new work, or all are done.

    The stream of lane b is `fold_in(fold_in(keys[turns[b]], row_ids[b]), t)`: a text depends neither on its neighbours
    nor on its lane, its padding or the step at which it started.

    Args:
      filtered: whether `drawing.knobs` exclude any tokens.
      reach: columns that hold the histories; all of them except on CPU, since taking fewer copies them.
    Returns: the state, and its output replicated on every device for the host to read.
    """
    forward = (_forward_by_layer if layout.by_layer else _forward)(layout, params)
    row_keys = jax.vmap(jax.random.fold_in)(drawing.keys[lanes.turns], lanes.row_ids)
    prompt, earlier = jnp.arange(layout.prefix), jnp.arange(reach)  # columns of a prefix and of a history
    prompt_lengths = jnp.repeat(lanes.prefix_lengths, layout.group)
    fixed = (  # mask and positions of what the loop does not write
        (prompt < lanes.prefix_lengths[:, None], prompt[None]),
        (earlier < lanes.history_lengths[:, None], prompt_lengths[:, None] + earlier),
    )
    turn_starts = prompt_lengths + lanes.history_lengths
    nothing = (None,) * len(caches.prefix)
    histories = tuple(caching.first_slots(part, reach) for part in caches.history) if caches.history else nothing
    state = _begin(state, lanes)

    def step(older: Parts | None, state: State) -> State:
        t = state.out.lengths
        guesses = drafts.draft(lanes.known, state.out.tokens, t, layout.drafts) if layout.drafts else t[:, None][:, :0]
        ahead = jnp.arange(1 + layout.drafts)
        positions = turn_starts[:, None] + t[:, None] + ahead
        column, rings = _rings(layout, state.step, t)
        if layout.drafts:  # lanes are at columns of their own
            column = (state.begun + t)[:, None] + ahead
            age = t[:, None] - 1 - (jnp.arange(layout.recent) - state.begun[:, None]) % layout.recent
            rings = [(age >= 0, age)]
        first = positions[:, :1]
        visible = (*fixed, *((mask, first - 1 - age) for mask, age in rings))
        contexts = [
            [caching.Context(cache, *seen) for cache, seen in zip(part, visible, strict=False) if cache is not None]
            for part in zip(caches.prefix, histories, state.recent, older or nothing, strict=True)
        ]
        fed = jnp.concatenate([state.token[:, None], guesses], axis=1)
        hidden, new, column = forward(fed, positions, contexts, column)
        pairs = zip(state.recent, new, strict=True)
        if layout.drafts:
            writes = ~state.out.done[:, None] & (t[:, None] + ahead < layout.suffix)
            column = jnp.where(writes, column % layout.recent, layout.recent)
            recent = tuple(layout.constrain(caching.write_columns(cache, x, column)) for cache, x in pairs)
        else:
            writes = ~state.out.done[:, None] if layout.history else None  # a finished turn stays for `append`
            recent = tuple(layout.constrain(caching.write(cache, x, column, writes)) for cache, x in pairs)
        token, machine, live = state.token, state.machine, jnp.array(True)
        out = state.out._replace(passes=state.out.passes + ~state.out.done)
        scores = transformer.logits(layout.model, params, hidden)  # the vocabulary is read once
        for i in range(1 + layout.drafts):
            logits = scores[:, i]
            drawn = draw(logits, jax.vmap(jax.random.fold_in)(row_keys, t + i), drawing.knobs, filtered=filtered)
            reached = drawing.transitions[drawn[0], machine].astype(jnp.int32)
            out = _record(out, logits, live, reached == ACCEPT, lanes.limits, drawn)
            token, machine = (jnp.where(live, *of) for of in ((drawn[0], token), (jnp.maximum(reached, 0), machine)))
            if i < layout.drafts:
                live = live & ~out.done & (drawn[0] == guesses[:, i])
        return State(state.step + 1, token, machine, state.begun, recent, None, out)

    state = _run(layout, lanes, step, state)
    state = state._replace(out=layout.constrain(state.out))  # as it came: otherwise the next call is another program
    return state, jax.lax.with_sharding_constraint(state.out, sharding.replicated(layout.mesh))


def _parts(layout: Layout, cache: caching.KVCache) -> Parts:
    return transformer.unstack(cache, layout.model.num_layers) if layout.by_layer else (cache,)


def _stacked(parts: Parts) -> caching.KVCache:
    """All layers together."""
    first, *others = parts
    return jax.tree.map(lambda *layers: jnp.concatenate(layers), *parts) if others else first


# (tokens [B, T], positions [B, T], contexts of each part, column to write) -> hidden states, new KV entries of each
# part, the column again. A part is one layer or all layers.
Forward = Callable[[Array, Array, list[list[caching.Context]], Array], tuple[Array, Sequence[caching.KVCache], Array]]


def _forward(layout: Layout, params: Params) -> Forward:
    """All layers in one call."""

    def forward(tokens: Array, positions: Array, contexts: list[list[caching.Context]], column: Array):
        hidden, new = transformer.extend(layout.model, params, tokens, positions, contexts[0])
        return hidden, (new,), column

    return forward


def _forward_by_layer(layout: Layout, params: Params) -> Forward:
    """Layers cut before the decoding loop, so that XLA reads them in place (see `transformer.extend_layers`)."""
    cfg = layout.model
    layers = transformer.unstack(params["layers"], cfg.num_layers)
    rotations = transformer.rotations(cfg, layout.prefix + layout.history + layout.suffix + 1)

    def forward(tokens: Array, positions: Array, contexts: list[list[caching.Context]], column: Array):
        rotation = tuple(table[positions] for table in rotations)
        hidden, new = transformer.extend_layers(cfg, params, layers, tokens, positions, rotation, contexts)
        # The same column, but known only after the last layer: XLA sees that all reads come first and writes in place.
        return hidden, new, jnp.minimum(column, column + jnp.isnan(hidden[0, 0, 0]))

    return forward


def _rings(layout: Layout, step: Int[Array, ""], t: Int[Array, "B"]) -> tuple[Array, list[tuple[Array, Array]]]:
    """The column to write; of each ring, recent and older, a mask of the t tokens that a lane has so far, and how many
    tokens it has since.

    All lanes write the same column of a ring. A turn has at most R tokens, so a lane needs the t columns before this
    one, whenever it started: no scatter by lane, and nothing to clear at a refill.
    """
    age = (step - 1 - jnp.arange(layout.recent)) % layout.recent
    column = step % layout.recent
    rings = [(age < t[:, None], age)]
    if layout.ring:  # column j holds the last step of a finished window that equals j modulo the ring
        age = column + (step - column - 1 - jnp.arange(layout.ring)) % layout.ring
        rings.append(((age >= layout.window) & (age < t[:, None]), age))
    return column, rings


def _run(layout: Layout, lanes: Lanes, step: Callable[[Parts | None, State], State], state: State) -> State:
    """Take steps until enough lanes are free; `step` gets the older tokens first, which grow when a window ends."""

    def unfinished(state: State) -> Bool[Array, ""]:
        free = jnp.sum(state.out.done.reshape(layout.prompts, layout.group), axis=-1)
        usable = jnp.where(free == layout.group, free, jnp.minimum(free, lanes.waiting))
        enough = (lanes.refill_at > 0) & (jnp.sum(usable) >= lanes.refill_at)
        return ~enough & ~jnp.all(state.out.done)

    def window(state: State) -> State:
        """Take steps to the end of a window or of the call, then copy the new tokens to the older ones."""
        older, first = state.older, state.step

        def inside(state: State) -> Bool[Array, ""]:
            return unfinished(state) & ((state.step == first) | (state.step % layout.window != 0))

        state = jax.lax.while_loop(inside, functools.partial(step, older), state._replace(older=None))
        last = state.step - 1
        written = jnp.arange(layout.window) <= last % layout.window
        start = (last - last % layout.window) % layout.ring
        pairs = zip(older or (), state.recent, strict=True)
        return state._replace(
            older=tuple(layout.constrain(caching.write(o, new, start, written[None])) for o, new in pairs)
        )

    if layout.ring:
        return jax.lax.while_loop(unfinished, window, state)
    return jax.lax.while_loop(unfinished, functools.partial(step, state.older), state._replace(older=None))


def _begin(state: State, lanes: Lanes) -> State:
    fresh, out = lanes.fresh, state.out
    return state._replace(
        token=jnp.where(fresh, lanes.first_token, state.token),
        machine=jnp.where(fresh, 0, state.machine),
        begun=jnp.where(fresh, state.step, state.begun),
        out=out._replace(
            tokens=jnp.where(fresh[:, None], 0, out.tokens),
            logprobs=jnp.where(fresh[:, None], 0.0, out.logprobs),
            sample_logprobs=jnp.where(fresh[:, None], 0.0, out.sample_logprobs),
            lengths=jnp.where(fresh, 0, out.lengths),
            stopped=out.stopped & ~fresh,
            done=out.done & ~fresh,
            passes=jnp.where(fresh, 0, out.passes),
        ),
    )


def _record(
    out: Output, logits: Array, live: Array, accepted: Array, limits: Array, drawn: tuple[Array, Array, Array]
) -> Output:
    """Append one token to every live lane that is not done."""
    token, logprob, sample_logprob = drawn
    live = live & ~out.done
    at = live[:, None] & (jnp.arange(out.tokens.shape[1]) == out.lengths[:, None])
    lengths = out.lengths + live
    stop = live & accepted
    return out._replace(
        tokens=jnp.where(at, token[:, None], out.tokens),
        logprobs=jnp.where(at, logprob[:, None], out.logprobs),
        sample_logprobs=jnp.where(at, sample_logprob[:, None], out.sample_logprobs),
        lengths=lengths,
        stopped=out.stopped | stop,
        done=out.done | stop | (lengths >= limits),
        finite=out.finite & jnp.all(jnp.isfinite(jnp.where(live[:, None], logits, 0.0))),
    )


init_jit = jax.jit(init, static_argnames="layout")
nothing_kept_jit = jax.jit(nothing_kept, static_argnames="layout")
prefill_jit = jax.jit(prefill, static_argnames="layout", donate_argnames="kept")
insert_jit = jax.jit(insert, static_argnames="layout", donate_argnames="cache")
gather_jit = jax.jit(gather, static_argnames=("layout", "axis"))
append_jit = jax.jit(append, static_argnames=("layout", "reach"), donate_argnames="history")
decode_jit = jax.jit(decode, static_argnames=("layout", "filtered", "reach"), donate_argnames="state")


class Program(NamedTuple):
    """One program of the hot loop, ready to be lowered."""

    name: str
    lower: Callable[[], jax.stages.Lowered]
    arguments: tuple[Any, ...]  # those that are not static: abstract, with their shardings


def programs(layout: Layout, params: Params, *, stop_states: int, filtered: bool) -> list[Program]:
    """The programs of a layout with abstract arguments, to be compiled ahead of time for the devices of its mesh.

    Args:
      params: abstract parameters (ShapeDtypeStruct) with their shardings.
      stop_states: states of the stop machine; 1 without stop strings.
    """

    def struct(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=layout.sharding_of(shape))

    def abstract(tree: Any) -> Any:
        return jax.tree.map(lambda x: struct(x.dtype, *x.shape), tree)

    prefills, shards = layout.prefills, layout.shards
    caches, state = abstract(jax.eval_shape(functools.partial(init, layout)))
    new = abstract(jax.eval_shape(lambda: new_cache(layout, prefills, layout.prefix)))
    kept = abstract(jax.eval_shape(functools.partial(nothing_kept, layout)))
    prompts = struct(jnp.int32), struct(jnp.int32, prefills, layout.prefix), struct(jnp.int32, prefills)
    stops = jax.ShapeDtypeStruct(
        (layout.model.vocab_size, stop_states), jnp.int16, sharding=sharding.replicated(layout.mesh)
    )
    keys = abstract(jax.eval_shape(lambda: jax.random.split(jax.random.key(0), layout.turns)))
    drawing = Drawing(stops, keys, abstract(SamplerConfig().knobs()))
    lanes = abstract(no_lanes(layout))
    bound: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
        ("prefill", prefill_jit, (params, kept, *prompts), {}),
        ("insert", insert_jit, (caches.prefix, new, struct(jnp.int32, shards, prefills // shards)), {}),
        ("decode", decode_jit, (params, caches, state, lanes, drawing),
         {"filtered": filtered, "reach": layout.history}),
    ]  # fmt: skip
    if layout.history:
        arguments = (params, *caches, state, abstract(no_observations(layout)))
        bound.append(("append", append_jit, arguments, {"reach": layout.history}))
    return [
        Program(name, functools.partial(jitted.lower, layout, *arguments, **static), arguments)
        for name, jitted, arguments, static in bound
    ]

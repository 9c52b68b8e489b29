"""The decoding engine on the device: prompt slots, row slots, and the three programs that fill and advance them.

U prompt slots hold the KV entries of one prompt each, once for all rows of the slot; each has G row slots, which hold a
response each. `prefill` computes prompts, `insert` puts them into slots, `decode` writes tokens until enough
slots are free again. A row of several turns has a history of its own, between its prompt and the turn that it is
writing: `append` puts a finished turn there, and what the row is shown. The host decides who sits where
(`schedule.py`); nothing here depends on it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from spicejax import sharding
from spicejax.generate.sampler import Knobs, draw
from spicejax.generate.stops import ACCEPT
from spicejax.models import cache as caching
from spicejax.models import transformer
from spicejax.types import Params


@dataclasses.dataclass(frozen=True)
class Layout:
    """The static shape of an engine. One layout, one compilation of each program."""

    model: transformer.TransformerConfig
    prompts: int  # U, prompt slots
    group: int  # G, row slots of each prompt slot; row slot b belongs to prompt slot b // G
    prefix: int  # P, tokens a prompt slot holds, a multiple of `chunk`
    suffix: int  # R, most new tokens of a row
    window: int  # newest tokens of a row that are kept in the precision of the forward pass; 0 = `cache` holds all
    lanes: int  # N, prompts prefilled at once
    chunk: int  # C, tokens of each of them prefilled at once
    cache: caching.CacheDtype  # precision of the KV entries
    mesh: jax.sharding.Mesh
    turns: int = 1  # most turns of a row; the next three are 0 where it is one
    history: int = 0  # H, most tokens of a row before its last turn
    shown: int = 0  # C', most tokens that are put behind a turn
    readers: int = 0  # N', rows that are shown something at once

    @property
    def rows(self) -> int:
        """B, row slots in all."""
        return self.prompts * self.group

    @property
    def ring(self) -> int:
        """Columns for the tokens behind the window, a multiple of it that holds the suffix; 0 = there are none."""
        return -(-self.suffix // self.window) * self.window if 0 < self.window < self.suffix else 0

    @property
    def recent(self) -> int:
        """W, columns of the ring that decoding writes."""
        return self.window or self.suffix

    @property
    def shards(self) -> int:
        """Parts of the mesh that hold prompt slots of their own; a prompt is prefilled where it stays."""
        return sharding.ways(self.mesh, self.prompts)

    def reach(self, length: int) -> int:
        """Columns of a history to read where so many tokens stand in it: a quarter of all, or two, three, four."""
        step = -(-self.history // 4)
        return min(self.history, max(1, -(-length // step)) * step) if self.history else 0

    def place(self, shape: tuple[int, ...]) -> jax.sharding.NamedSharding:
        """Where an array of the engine lies, by its shape: caches by row and head, others by their first axis."""
        if len(shape) > 2:
            return sharding.kv_cache(self.mesh, shape[1], self.model.num_kv_heads)
        return sharding.rows(self.mesh, shape[0]) if shape else sharding.replicated(self.mesh)

    def keep(self, tree: Any) -> Any:
        """The tree, its arrays held where they lie."""
        return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, self.place(x.shape)), tree)

    def new_cache(self, rows: int, slots: int, dtype: caching.CacheDtype | None = None) -> caching.KVCache:
        """An empty cache, by default in the engine's precision."""
        cfg = self.model
        return caching.init_cache(cfg.num_layers, rows, cfg.num_kv_heads, slots, cfg.head_dim, dtype or self.cache)


class Rows(NamedTuple):
    """What the host says of the slots at each call of `decode`: numpy arrays there, jax arrays on the devices."""

    fresh: Any  # bool [B], begins now; the others go on
    first_token: Any  # int [B], last token before the turn: fed first, since no cache has its KV entry
    row_ids: Any  # int [B], names the row's random stream: same id and key, same text
    turns: Any  # int [B], turns that the row has behind it
    history_lengths: Any  # int [B], tokens of these turns, and shown behind them
    limits: Any  # int [B], most new tokens, 1 to R
    prefix_lengths: Any  # int [U], tokens of the prompt but its last; 0 or more
    waiting: Any  # int [U], samples of the slot's prompt that wait for a row slot
    refill_at: Any  # int, return when this many row slots could take new work; 0 = when all rows are done


class Shown(NamedTuple):
    """What is put behind the turns of some rows: numpy arrays on the host, jax arrays on the devices."""

    rows: Any  # int [shards, N' / shards], row slots, counted within the shard; B / shards = none (a filler)
    tokens: (
        Any  # int [N', C'], right-padded: the turn's last token, which was never fed, and what is shown but its last
    )
    prefix_lengths: Any  # int [N'], as in Rows
    history_lengths: Any  # int [N'], as they were when the turn was written


class Caches(NamedTuple):
    """The KV entries that decoding reads and does not write."""

    prefix: caching.KVCache  # [L, U, K, P, h], prompts
    history: caching.KVCache | None  # [L, B, K, H, h], turns behind the rows; None where rows have one turn


class Drawing(NamedTuple):
    """How tokens are drawn, and which end a row."""

    transitions: Any  # int16 [V, S], the stop machine (see `generate/stops.py`)
    keys: Any  # typed PRNG keys of this iteration and role, one for each turn
    knobs: Knobs


class Output(NamedTuple):
    """What the rows' turns say so far, right-padded with 0 after `lengths`."""

    tokens: Int[Array, "B R"]
    logprobs: Float[Array, "B R"]  # plain model: temperature 1, nothing cut
    sample_logprobs: Float[Array, "B R"]  # distribution the token was drawn from; 0 when greedy
    lengths: Int[Array, "B"]  # the stop token counts
    stopped: Bool[Array, "B"]  # by stop token or string
    done: Bool[Array, "B"]  # stopped or at its limit; an empty slot counts as done
    finite: Bool[Array, ""]  # no NaN or infinite logit was met


class State(NamedTuple):
    """Everything that lives on the device between two calls, the prefix apart."""

    step: Int[Array, ""]  # tokens decoded since the engine began
    token: Int[Array, "B"]  # to be fed next
    machine: Int[Array, "B"]  # state of the stop machine
    begun: Int[Array, "B"]  # step at which the turn began
    recent: Any  # KVCache [L, B, K, W, h]: a ring of the newest tokens; inside the loop on CPU one [1, ..] a layer
    older: Any  # the same of the tokens before, moved here W at a time; None where the window holds all
    out: Output


def init_prefix(layout: Layout) -> caching.KVCache:
    """Empty prompt slots."""
    return layout.keep(layout.new_cache(layout.prompts, layout.prefix))


def init_history(layout: Layout) -> caching.KVCache | None:
    """Empty histories of the row slots; None where rows have one turn."""
    return layout.keep(layout.new_cache(layout.rows, layout.history)) if layout.history else None


def init_state(layout: Layout) -> State:
    """Empty row slots."""
    rows, width = layout.rows, layout.suffix
    zeros = jnp.zeros(rows, jnp.int32)
    out = Output(
        tokens=jnp.zeros((rows, width), jnp.int32),
        logprobs=jnp.zeros((rows, width), jnp.float32),
        sample_logprobs=jnp.zeros((rows, width), jnp.float32),
        lengths=zeros,
        stopped=jnp.zeros(rows, bool),
        done=jnp.ones(rows, bool),
        finite=jnp.array(True),
    )
    recent = layout.new_cache(rows, layout.recent, layout.model.dtype if layout.window else None)
    older = layout.new_cache(rows, layout.ring) if layout.ring else None
    return layout.keep(State(jnp.int32(0), zeros, zeros, zeros, recent, older, out))


def prefill(layout: Layout, params: Params, tokens: Int[Array, "N P"], lengths: Int[Array, "N"]) -> caching.KVCache:
    """KV entries [L, N, K, P, h] of N right-padded prompts, `chunk` tokens of each at a time.

    No matrix of scores is larger than chunk x P, chunks after the longest length are left out, and no logits are
    computed: the last token of a prompt is fed by `decode`.
    """
    lanes, bucket = tokens.shape
    slot = jnp.arange(bucket)

    def piece(i: Int[Array, ""] | int, cache: caching.KVCache, *, alone: bool = False) -> caching.KVCache:
        start = i * layout.chunk
        part = jax.lax.dynamic_slice_in_dim(tokens, start, layout.chunk, axis=1)
        positions = jnp.broadcast_to(start + jnp.arange(layout.chunk, dtype=jnp.int32), part.shape)
        before = caching.Context(cache, jnp.broadcast_to(slot < start, (lanes, bucket)))
        _, new = transformer.extend(layout.model, params, part, positions, () if alone else (before,))
        return layout.keep(caching.write(cache, new, start))

    empty = layout.keep(layout.new_cache(lanes, bucket))
    if bucket == layout.chunk:
        return piece(0, empty, alone=True)
    return jax.lax.fori_loop(0, -(-jnp.max(lengths) // layout.chunk), piece, empty)


def insert(
    layout: Layout, cache: caching.KVCache, new: caching.KVCache, slots: Int[Array, "shards lanes"]
) -> caching.KVCache:
    """Put prefilled prompts into prompt slots, or histories into row slots: their first columns.

    Args:
      slots: slot of each, counted within its shard; as many as a shard has = none (a filler).
    """

    def put(old: Array, fresh: Array) -> Array:
        # A scatter for each shard, so that no entry crosses the network.
        columns = tuple(slice(0, n) for n in fresh.shape[2:])
        place = jax.vmap(lambda o, f, s: o.at[:, s, *columns].set(f, mode="drop"), in_axes=(1, 1, 0), out_axes=1)
        return place(_by_shard(layout, old, 1), _by_shard(layout, fresh, 1), slots).reshape(old.shape)

    return layout.keep(jax.tree.map(put, cache, new))


def take(layout: Layout, tree: Any, slots: Int[Array, "shards lanes"], axis: int) -> Any:
    """Of arrays with slots along `axis` those that are asked for, counted within their shard; a filler gets any."""

    def one(x: Array) -> Array:
        pick = jax.vmap(lambda y, s: y.take(s, axis, mode="clip"), in_axes=(axis, 0), out_axes=axis)
        return pick(_by_shard(layout, x, axis), slots).reshape(*x.shape[:axis], slots.size, *x.shape[axis + 1 :])

    return layout.keep(jax.tree.map(one, tree))


def _by_shard(layout: Layout, x: Array, axis: int) -> Array:
    return x.reshape(*x.shape[:axis], layout.shards, x.shape[axis] // layout.shards, *x.shape[axis + 1 :])


def append(
    layout: Layout,
    params: Params,
    prefix: caching.KVCache,
    history: caching.KVCache,
    state: State,
    shown: Shown,
    *,
    reach: int,
) -> caching.KVCache:
    """Histories with the finished turns of some rows behind them, and with what these rows are shown.

    The turn's entries move here from the ring; computed are only those of `shown.tokens`.

    Args:
      reach: columns that hold the histories then.
    """
    begun, written = take(layout, (state.begun, state.out.lengths), shown.rows, 0)
    turn, before = take(layout, (state.recent, caching.first(history, reach)), shown.rows, 1)
    prompt = take(layout, prefix, shown.rows // layout.group, 1)
    # What the ring holds behind the turn's end is overwritten, or masked.
    before = caching.write_rows(before, caching.turned(turn, begun % layout.recent), shown.history_lengths)
    known = shown.history_lengths + written
    context = (
        caching.Context(prompt, jnp.arange(layout.prefix) < shown.prefix_lengths[:, None]),
        caching.Context(before, jnp.arange(reach) < known[:, None]),
    )
    positions = (shown.prefix_lengths + known)[:, None] + jnp.arange(layout.shown, dtype=jnp.int32)
    _, new = transformer.extend(layout.model, params, shown.tokens, positions, context)
    return insert(layout, history, caching.write_rows(before, new, known), shown.rows)


def decode(
    layout: Layout,
    params: Params,
    caches: Caches,
    state: State,
    rows: Rows,
    drawing: Drawing,
    *,
    filtered: bool,
    reach: int,
) -> tuple[State, Output]:
    """Start the fresh rows and decode until `refill_at` row slots could take new work, or all rows are done.

    The stream of row b is `fold_in(fold_in(keys[turns[b]], row_ids[b]), t)`: its text depends neither on its neighbours
    nor on when it started, padding or slots.

    Args:
      filtered: whether `knobs` cut any tokens.
      reach: columns that hold the histories; elsewhere than on CPU all, since fewer would be a copy.
    Returns: the state, and its output once more, whole on every device, for the host to read.
    """
    by_layer, layers = reads_in_place(layout), layout.model.num_layers
    forward = (_forward_by_layer if by_layer else _forward)(layout, params)
    row_keys = jax.vmap(jax.random.fold_in)(drawing.keys[rows.turns], rows.row_ids)
    masks = jnp.arange(layout.prefix) < rows.prefix_lengths[:, None], jnp.arange(reach) < rows.history_lengths[:, None]
    offsets = jnp.repeat(rows.prefix_lengths, layout.group) + rows.history_lengths

    def cut(tree: Any) -> tuple[Any, ...]:  # what one call of attention reads: each layer by itself, or all
        return transformer.unstack(tree, layers) if by_layer else (tree,)

    caches = Caches(caches.prefix, caching.first(caches.history, reach) if caches.history else None)
    prefixes, histories = map(cut, caches)
    state = _begin(state, rows)
    state = state._replace(recent=cut(state.recent), older=cut(state.older))

    def step(older: tuple[caching.KVCache | None, ...], state: State) -> State:
        t = state.out.lengths
        column, rings = _rings(layout, state.step, t)
        contexts = [
            [caching.Context(c, mask) for c, mask in zip(parts, (*masks, *rings), strict=False) if c is not None]
            for parts in zip(prefixes, histories, state.recent, older, strict=True)
        ]
        hidden, new, column = forward(state.token[:, None], (offsets + t)[:, None], contexts, column)
        writes = ~state.out.done[:, None] if layout.history else None  # a finished turn stays for `append`
        recent = tuple(
            layout.keep(caching.write(old, x, column, writes)) for old, x in zip(state.recent, new, strict=True)
        )
        logits = transformer.logits(layout.model, params, hidden[:, 0])
        drawn = draw(logits, jax.vmap(jax.random.fold_in)(row_keys, t), drawing.knobs, filtered=filtered)
        machine = drawing.transitions[drawn[0], state.machine].astype(jnp.int32)
        out = _record(state.out, logits, machine == ACCEPT, rows.limits, drawn)
        return State(state.step + 1, drawn[0], jnp.maximum(machine, 0), state.begun, recent, None, out)

    state = _run(layout, rows, step, state)
    state = state._replace(recent=_stacked(state.recent), older=_stacked(state.older) if layout.ring else None)
    whole = sharding.replicated(layout.mesh)
    return state, jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, whole), state.out)


# One token of each row: (tokens [B, 1], positions [B, 1], contexts of each part, column to write) to hidden states, new
# entries of each part, and the column again.
Forward = Callable[[Array, Array, list[list[caching.Context]], Array], tuple[Array, Sequence[caching.KVCache], Array]]


def _forward(layout: Layout, params: Params) -> Forward:
    """All layers in one loop: a single part."""

    def forward(tokens: Array, positions: Array, contexts: list[list[caching.Context]], column: Array):
        hidden, new = transformer.extend(layout.model, params, tokens, positions, contexts[0])
        return hidden, (new,), column

    return forward


def _forward_by_layer(layout: Layout, params: Params) -> Forward:
    """Layers cut before the loop, a part each: XLA:CPU reads them in place (see `transformer.extend_layers`)."""
    cfg = layout.model
    layers = transformer.unstack(params["layers"], cfg.num_layers)
    rotations = transformer.rotations(cfg, layout.prefix + layout.history + layout.suffix + 1)

    def forward(tokens: Array, positions: Array, contexts: list[list[caching.Context]], column: Array):
        rotation = tuple(table[positions] for table in rotations)
        hidden, new = transformer.extend_layers(cfg, params, layers, tokens, rotation, contexts)
        # The same column, but known after the last layer only: seeing that all is read before, XLA writes in place.
        return hidden, new, jnp.minimum(column, column + jnp.isnan(hidden[0, 0, 0]))

    return forward


def _rings(layout: Layout, step: Int[Array, ""], t: Int[Array, "B"]) -> tuple[Int[Array, ""], list[Bool[Array, "B _"]]]:
    """The column to write, and those of each ring, recent and older, that hold one of the t tokens of a row so far.

    All rows write the same column of a ring. A row is never older than R, so what it still needs is the t columns
    before this one, whenever it began: no scatter by row, and nothing to clear at a refill.
    """
    age = (step - 1 - jnp.arange(layout.recent)) % layout.recent
    column = step % layout.recent
    masks = [age < t[:, None]]
    if layout.ring:  # column j holds the last step of a finished window that is j modulo the ring
        age = column + (step - column - 1 - jnp.arange(layout.ring)) % layout.ring
        masks.append((age >= layout.window) & (age < t[:, None]))
    return column, masks


def _run(layout: Layout, rows: Rows, step: Callable[[Any, State], State], state: State) -> State:
    """Take steps until enough row slots are free; the older tokens, its first argument, move as a window ends."""

    def go_on(state: State) -> Bool[Array, ""]:
        free = jnp.sum(state.out.done.reshape(layout.prompts, layout.group), axis=-1)
        usable = jnp.where(free == layout.group, free, jnp.minimum(free, rows.waiting))
        enough = (rows.refill_at > 0) & (jnp.sum(usable) >= rows.refill_at)
        return ~enough & ~jnp.all(state.out.done)

    def window(state: State) -> State:
        """Steps to the end of a window, or to the end of the call; then what is new joins the older tokens."""
        older, begun = state.older, state.step

        def inside(state: State) -> Bool[Array, ""]:
            return go_on(state) & ((state.step == begun) | (state.step % layout.window != 0))

        state = jax.lax.while_loop(inside, functools.partial(step, older), state._replace(older=None))
        last = state.step - 1
        written = jnp.arange(layout.window) <= last % layout.window
        start = (last - last % layout.window) % layout.ring
        pairs = zip(older, state.recent, strict=True)
        return state._replace(older=tuple(layout.keep(caching.write(o, new, start, written[None])) for o, new in pairs))

    if layout.ring:
        return jax.lax.while_loop(go_on, window, state)
    return jax.lax.while_loop(go_on, functools.partial(step, state.older), state._replace(older=None))


def reads_in_place(layout: Layout) -> bool:
    """Whether decoding cuts the layers before its loop (see `transformer.extend_layers`)."""
    return layout.mesh.devices.flat[0].platform == "cpu"


def _begin(state: State, rows: Rows) -> State:
    fresh, out = rows.fresh, state.out
    return state._replace(
        token=jnp.where(fresh, rows.first_token, state.token),
        machine=jnp.where(fresh, 0, state.machine),
        begun=jnp.where(fresh, state.step, state.begun),
        out=out._replace(
            tokens=jnp.where(fresh[:, None], 0, out.tokens),
            logprobs=jnp.where(fresh[:, None], 0.0, out.logprobs),
            sample_logprobs=jnp.where(fresh[:, None], 0.0, out.sample_logprobs),
            lengths=jnp.where(fresh, 0, out.lengths),
            stopped=out.stopped & ~fresh,
            done=out.done & ~fresh,
        ),
    )


def _record(out: Output, logits: Array, accepted: Array, limits: Array, drawn: tuple[Array, Array, Array]) -> Output:
    """Append one token to every row that is not done."""
    token, logprob, sample_logprob = drawn
    live = ~out.done
    here = live[:, None] & (jnp.arange(out.tokens.shape[1]) == out.lengths[:, None])
    lengths = out.lengths + live
    stop = live & accepted
    return Output(
        tokens=jnp.where(here, token[:, None], out.tokens),
        logprobs=jnp.where(here, logprob[:, None], out.logprobs),
        sample_logprobs=jnp.where(here, sample_logprob[:, None], out.sample_logprobs),
        lengths=lengths,
        stopped=out.stopped | stop,
        done=out.done | stop | (lengths >= limits),
        finite=out.finite & jnp.all(jnp.isfinite(jnp.where(live[:, None], logits, 0.0))),
    )


def _stacked(layers: tuple[caching.KVCache, ...]) -> caching.KVCache:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *layers)


init_prefix_jit = jax.jit(init_prefix, static_argnames="layout")
init_history_jit = jax.jit(init_history, static_argnames="layout")
init_state_jit = jax.jit(init_state, static_argnames="layout")
prefill_jit = jax.jit(prefill, static_argnames="layout")
insert_jit = jax.jit(insert, static_argnames="layout", donate_argnames="cache")
append_jit = jax.jit(append, static_argnames=("layout", "reach"), donate_argnames="history")
decode_jit = jax.jit(decode, static_argnames=("layout", "filtered", "reach"), donate_argnames="state")


class Program(NamedTuple):
    """One program of the hot loop, ready to be lowered."""

    name: str
    lower: Callable[[], jax.stages.Lowered]
    arguments: tuple[Any, ...]  # those that are not static: abstract, with their shardings


def programs(layout: Layout, params: Params, *, stop_states: int, filtered: bool) -> list[Program]:
    """The programs of one layout with abstract arguments, to be compiled ahead of time for the devices of its mesh.

    Args:
      params: abstract parameters (ShapeDtypeStruct) with their shardings.
      stop_states: states of the stop machine; 1 without stop strings.
    """

    def struct(dtype: Any, *shape: int, where: Any = None) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=where or layout.place(shape))

    def placed(make: Callable[[], Any]) -> Any:
        return jax.tree.map(lambda s: struct(s.dtype, *s.shape), jax.eval_shape(make))

    lanes, shards = layout.lanes, layout.shards
    by_row, by_prompt = struct(jnp.int32, layout.rows), struct(jnp.int32, layout.prompts)
    rows = Rows(
        fresh=struct(bool, layout.rows),
        first_token=by_row,
        row_ids=by_row,
        turns=by_row,
        history_lengths=by_row,
        limits=by_row,
        prefix_lengths=by_prompt,
        waiting=by_prompt,
        refill_at=struct(jnp.int32),
    )
    knobs = Knobs(struct(jnp.float32), struct(jnp.int32), struct(jnp.float32), struct(jnp.float32))
    keys = placed(lambda: jax.random.split(jax.random.key(0), layout.turns))
    stops = struct(jnp.int16, layout.model.vocab_size, stop_states, where=sharding.replicated(layout.mesh))
    prefix, history, state = (
        placed(functools.partial(make, layout)) for make in (init_prefix, init_history, init_state)
    )
    new = placed(lambda: layout.new_cache(lanes, layout.prefix))
    whole = {"reach": layout.history}
    bound = (
        ("prefill", prefill_jit, (params, struct(jnp.int32, lanes, layout.prefix), struct(jnp.int32, lanes)), {}),
        ("insert", insert_jit, (prefix, new, struct(jnp.int32, shards, lanes // shards)), {}),
        (
            "decode",
            decode_jit,
            (params, Caches(prefix, history), state, rows, Drawing(stops, keys, knobs)),
            whole | {"filtered": filtered},
        ),
    )
    if layout.history:
        readers = struct(jnp.int32, layout.readers)
        shown = Shown(
            struct(jnp.int32, shards, layout.readers // shards),
            struct(jnp.int32, layout.readers, layout.shown),
            readers,
            readers,
        )
        bound += (("append", append_jit, (params, prefix, history, state, shown), whole),)
    return [
        Program(name, functools.partial(door.lower, layout, *arguments, **more), arguments)
        for name, door, arguments, more in bound
    ]

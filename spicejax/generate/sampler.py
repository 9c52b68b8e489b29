"""The in-graph sampler: one jitted call prefills the prompts and decodes with a KV cache until every row stopped."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from spicejax.generate.stops import ACCEPT
from spicejax.models import transformer
from spicejax.types import Params


@dataclasses.dataclass(frozen=True)
class SamplerConfig:
    """How tokens are drawn. Changing any of these numbers never compiles again."""

    temperature: float = 1.0  # 0 = greedy
    top_k: int = 0  # keep the k likeliest tokens; 0 = all
    top_p: float = 1.0  # keep the smallest set of tokens with this mass; 1 = all
    min_p: float = 0.0  # drop tokens less likely than min_p x the likeliest; 0 = none

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature={self.temperature}: must be 0 (greedy) or positive")
        if self.top_k < 0:
            raise ValueError(f"top_k={self.top_k}: must be 0 (off) or positive")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p}: must lie in (0, 1]")
        if not 0 <= self.min_p < 1:
            raise ValueError(f"min_p={self.min_p}: must lie in [0, 1)")

    @property
    def filtered(self) -> bool:
        """Whether any tokens are cut, which costs a sort of the vocabulary per step."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


class Knobs(NamedTuple):
    """`SamplerConfig` as traced scalars."""

    temperature: Float[Array, ""] | float
    top_k: Int[Array, ""] | int
    top_p: Float[Array, ""] | float
    min_p: Float[Array, ""] | float


class Prompts(NamedTuple):
    """U distinct prompts and the B rows drawn from them."""

    tokens: Int[Array, "U P"]  # right-padded
    lengths: Int[Array, "U"]  # at least 1
    index: Int[Array, "B"]  # prompt of each row
    row_ids: Int[Array, "B"]  # names the row's random stream: same id and key, same text
    active: Bool[Array, "B"]  # False = filler row, not sampled


class Samples(NamedTuple):
    """Responses, right-padded with 0 after `lengths`."""

    tokens: Int[Array, "B R"]
    logprobs: Float[Array, "B R"]  # plain model: temperature 1, nothing cut
    sample_logprobs: Float[Array, "B R"]  # distribution the token was drawn from; 0 when greedy
    lengths: Int[Array, "B"]  # the stop token counts
    stopped: Bool[Array, "B"]  # by stop token or string; False = ran into `limit`
    finite: Bool[Array, ""]  # no NaN or infinite logit was met


class _State(NamedTuple):
    t: Int[Array, ""]
    token: Int[Array, "B"]
    machine: Int[Array, "B"]
    done: Bool[Array, "B"]
    cache: transformer.KVCache
    out: Samples


def keep_mask(logits: Float[Array, "B V"], knobs: Knobs) -> Bool[Array, "B V"]:
    """Tokens that top-k, top-p and min-p leave, each judged on the whole distribution; the likeliest always stays."""
    vocab = logits.shape[-1]
    ordered = -jnp.sort(-logits, axis=-1)
    probs = jax.nn.softmax(ordered, axis=-1)
    before = jnp.cumsum(probs, axis=-1) - probs  # mass of the likelier tokens
    k = jnp.where(knobs.top_k > 0, knobs.top_k, vocab)
    kept = (jnp.arange(vocab) < k) & (before < knobs.top_p) & (probs >= knobs.min_p * probs[:, :1])
    kept = kept.at[:, 0].set(True)
    count = jnp.sum(kept, axis=-1)  # the three rules cut a tail, so the kept ones are a prefix
    threshold = jnp.take_along_axis(ordered, count[:, None] - 1, axis=-1)
    return logits >= threshold


def draw(
    logits: Float[Array, "B V"], keys: Array, knobs: Knobs, *, filtered: bool
) -> tuple[Int[Array, "B"], Float[Array, "B"], Float[Array, "B"]]:
    """Draw one token per row by the Gumbel trick; return it with its plain and its sampled logprob."""
    greedy = knobs.temperature == 0
    scaled = logits / jnp.where(greedy, 1.0, knobs.temperature)
    if filtered:
        scaled = jnp.where(keep_mask(scaled, knobs), scaled, -jnp.inf)
    noise = jax.vmap(lambda k: jax.random.gumbel(k, logits.shape[-1:], jnp.float32))(keys)
    token = jnp.argmax(jnp.where(greedy, logits, scaled + noise), axis=-1).astype(jnp.int32)

    def pick(x: Float[Array, "B V"]) -> Float[Array, "B"]:
        return jnp.take_along_axis(x, token[:, None], axis=-1)[:, 0] - jax.nn.logsumexp(x, axis=-1)

    return token, pick(logits), jnp.where(greedy, 0.0, pick(scaled))


def sample(
    cfg: transformer.TransformerConfig,
    params: Params,
    prompts: Prompts,
    transitions: Int[Array, "V S"],
    key: Array,
    knobs: Knobs,
    limit: Int[Array, ""],
    *,
    max_new: int,
    filtered: bool,
) -> Samples:
    """Sample a response to every active row.

    Each distinct prompt is prefilled once and its KV entries are handed to its rows. Row b's stream is
    `fold_in(fold_in(key, row_ids[b]), t)`, so its text depends neither on its neighbours nor on padding.

    Args:
      transitions: the stop machine (see `generate/stops.py`).
      key: typed PRNG key of this iteration and role.
      limit: most new tokens, at most `max_new` (the static size of the buffers).
    """
    num_prompts, bucket = prompts.tokens.shape
    batch = prompts.index.shape[0]
    slots = bucket + max_new
    row_keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(prompts.row_ids)

    positions = jnp.broadcast_to(jnp.arange(bucket, dtype=jnp.int32), (num_prompts, bucket))
    causal = positions[:, :, None] >= positions[:, None, :]
    in_prompt = positions < prompts.lengths[:, None]
    hidden, cache = transformer.decode_hidden(
        cfg,
        params,
        prompts.tokens,
        positions,
        transformer.init_cache(cfg, num_prompts, bucket),
        jnp.int32(0),
        causal & in_prompt[:, None, :],
    )
    last = jnp.take_along_axis(hidden, (prompts.lengths - 1)[:, None, None], axis=1)[:, 0]
    first_logits = transformer.logits(cfg, params, last)[prompts.index]
    room = ((0, 0), (0, 0), (0, 0), (0, max_new), (0, 0))
    cache = jax.tree.map(lambda x: jnp.pad(jnp.take(x, prompts.index, axis=1), room), cache)
    prompt_lengths = prompts.lengths[prompts.index]
    slot = jnp.arange(slots, dtype=jnp.int32)

    def emit(state: _State, logits: Float[Array, "B V"]) -> _State:
        """Draw token t of every row that is not done."""
        keys = jax.vmap(lambda k: jax.random.fold_in(k, state.t))(row_keys)
        token, logprob, sample_logprob = draw(logits, keys, knobs, filtered=filtered)
        machine = transitions[token, state.machine].astype(jnp.int32)
        live = ~state.done
        stop = live & (machine == ACCEPT)
        out = state.out
        column = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=state.t, axis=1)
        out = Samples(
            tokens=column(out.tokens, jnp.where(live, token, 0)[:, None]),
            logprobs=column(out.logprobs, jnp.where(live, logprob, 0.0)[:, None]),
            sample_logprobs=column(out.sample_logprobs, jnp.where(live, sample_logprob, 0.0)[:, None]),
            lengths=out.lengths + live,
            stopped=out.stopped | stop,
            finite=out.finite & jnp.all(jnp.isfinite(jnp.where(live[:, None], logits, 0.0))),
        )
        return _State(
            state.t + 1, token, jnp.where(live, jnp.maximum(machine, 0), 0), state.done | stop, state.cache, out
        )

    def step(state: _State) -> _State:
        """Feed token t - 1 and draw token t."""
        written = state.t - 1
        mask = (slot < prompt_lengths[:, None]) | ((slot >= bucket) & (slot <= bucket + written))
        hidden, cache = transformer.decode_hidden(
            cfg,
            params,
            state.token[:, None],
            (prompt_lengths + written)[:, None],
            state.cache,
            bucket + written,
            mask[:, None, :],
        )
        return emit(state._replace(cache=cache), transformer.logits(cfg, params, hidden[:, 0]))

    empty = Samples(
        tokens=jnp.zeros((batch, max_new), jnp.int32),
        logprobs=jnp.zeros((batch, max_new), jnp.float32),
        sample_logprobs=jnp.zeros((batch, max_new), jnp.float32),
        lengths=jnp.zeros(batch, jnp.int32),
        stopped=jnp.zeros(batch, bool),
        finite=jnp.array(True),
    )
    start = _State(
        jnp.int32(0), jnp.zeros(batch, jnp.int32), jnp.zeros(batch, jnp.int32), ~prompts.active, cache, empty
    )
    state = emit(start, first_logits)
    state = jax.lax.while_loop(lambda s: (s.t < limit) & ~jnp.all(s.done), step, state)
    return state.out


sample_jit = jax.jit(sample, static_argnames=("cfg", "max_new", "filtered"))

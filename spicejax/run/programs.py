"""The compiled programs of one training iteration, as something that can be lowered: the only place of the flight check
that knows the signatures of sampler and learner.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from spicejax import sharding
from spicejax.generate import sampler
from spicejax.learn import learner
from spicejax.models import transformer
from spicejax.run.config import RunConfig
from spicejax.types import Batch

Tree = Any  # of jax.ShapeDtypeStruct with shardings


@dataclasses.dataclass(frozen=True)
class Program:
    """One jitted function with its shapes, and how an iteration uses it."""

    name: str
    lower: Callable[[], jax.stages.Lowered]
    calls: float  # per iteration
    arguments: dict[str, Tree]  # by what they are: parameters, optimizer, kv_cache, batch
    beside: dict[str, Tree] = dataclasses.field(default_factory=dict)  # in HBM while it runs, but no argument
    trips: float = 1  # of loops whose bound is traced, such as the micro-batches of a step
    kernels: dict[str, float] = dataclasses.field(default_factory=dict)  # FLOPs of a kernel's call, by part of its name
    model_flops: float = 0.0  # 2N a token forward, 6N trained, over all chips: to check the compiled number against


class Load(NamedTuple):
    """What one iteration asks of the programs when every response runs to its limit: an upper bound."""

    challenger_prompts: int  # of the longest bucket
    reasoner_prompts: int  # of the shortest
    steps: int  # optimizer steps
    micro: int  # micro-batches of a step


def load(cfg: RunConfig) -> Load:
    """Count an iteration: every document gets a valid task in the first round, every kept task is valid."""
    spice, learn = cfg.spice, cfg.learner
    per_document = spice.reasoner_tasks_per_document or spice.group_size
    challenger = 0 if spice.fixed_challenger else spice.documents * spice.group_size
    reasoner = spice.documents * per_document * spice.group_size
    steps = math.ceil((challenger + reasoner) / (learn.trajectories_per_update or challenger + reasoner)) * learn.epochs
    longest = cfg.corpus.max_tokens + spice.challenger_max_new
    shortest = cfg.prompt_buckets[0] + spice.reasoner_max_new
    rows = challenger / max(1, learn.row_length // longest) + reasoner / max(1, learn.row_length // shortest)
    return Load(
        challenger_prompts=spice.documents,
        reasoner_prompts=spice.documents * spice.group_size,
        steps=steps,
        micro=math.ceil(rows * learn.epochs / steps / learn.rows),
    )


def programs(cfg: RunConfig, model: transformer.TransformerConfig, mesh: jax.sharding.Mesh) -> list[Program]:
    """Every program of the hot loop on the devices of `mesh`; nothing is allocated.

    Args:
      model: the architecture; precision and remat are those of `cfg.model`.
    """
    model = dataclasses.replace(model, dtype=cfg.model.dtype, param_dtype=cfg.model.param_dtype, remat=cfg.model.remat)
    speaker = dataclasses.replace(model, param_dtype=cfg.model.dtype)
    speaking = sharding.make_mesh(cfg.sampler_mesh, list(mesh.devices.flat)) if cfg.sampler_mesh else mesh
    state = _state(cfg, model, mesh)
    weights = _parameters(speaker, speaking)
    training = {"parameters": state.params, "optimizer": state.opt_state}
    counts, spice = load(cfg), cfg.spice
    choices = 2 if spice.task_type == "model" and not spice.no_corpus else 1  # a document's prompt is read once more
    sampling = functools.partial(_sampling, cfg, speaker, speaking, weights, training)
    return [
        Program(
            "reshard",
            lambda: _reshard(speaker, weights).lower(state.params),
            1,
            {"parameters": state.params},
            {"optimizer": state.opt_state},
        ),
        *sampling("challenger", cfg.prompt_buckets[-1], spice.challenger_max_new, counts.challenger_prompts, choices),
        *sampling("reasoner", cfg.prompt_buckets[0], spice.reasoner_max_new, counts.reasoner_prompts, 1),
        *_learning(cfg, model, mesh, state, counts),
    ]


def _abstract(shape: tuple[int, ...], dtype: Any, place: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=place)


def _made(kind: Any, *leaves: Any) -> Any:
    """A tuple type of ours around abstract arrays or shardings instead of arrays."""
    return kind(*leaves)


def _parameters(model: transformer.TransformerConfig, mesh: jax.sharding.Mesh) -> Tree:
    shapes = transformer.abstract_params(model)
    places = sharding.param_shardings(mesh, transformer.param_axes(model), shapes)
    return jax.tree.map(lambda x, place: _abstract(x.shape, x.dtype, place), shapes, places)


def _state(cfg: RunConfig, model: transformer.TransformerConfig, mesh: jax.sharding.Mesh) -> learner.TrainState:
    """The abstract TrainState; moments lie where their parameters lie."""
    params = _parameters(model, mesh)
    optimizer = learner.make_optimizer(cfg.learner)
    state = jax.eval_shape(lambda p: learner.init_state(p, optimizer), params)
    whole = sharding.replicated(mesh)
    moments = optax.tree_utils.tree_map_params(
        optimizer,
        lambda moment, like: _abstract(moment.shape, moment.dtype, like.sharding),
        state.opt_state,
        params,
        transform_non_params=lambda x: _abstract(x.shape, x.dtype, whole),
    )
    scalar = _abstract((), jnp.int32, whole)
    return _made(learner.TrainState, scalar, params, moments, scalar)


def _sizes(model: transformer.TransformerConfig, batch: int) -> dict[str, int]:
    return {
        "batch": batch,
        "act_heads": model.num_heads,
        "act_kv_heads": model.num_kv_heads,
        "act_mlp": model.d_ff,
        "act_vocab": model.vocab_size,
    }


def _reshard(model: transformer.TransformerConfig, weights: Tree) -> Any:
    """The learner's float32 weights -> the sampler's copy: its precision, its layout."""
    places = jax.tree.map(lambda x: x.sharding, weights)
    return jax.jit(lambda params: jax.tree.map(lambda p: p.astype(model.dtype), params), out_shardings=places)


def _sampling(
    cfg: RunConfig,
    model: transformer.TransformerConfig,
    mesh: jax.sharding.Mesh,
    weights: Tree,
    training: dict[str, Tree],
    role: str,
    bucket: int,
    max_new: int,
    prompts: int,
    readings: int,
) -> list[Program]:
    """Prefill and one decoding step of a role."""
    rows, samples = cfg.rows_per_call, cfg.spice.group_size
    distinct = rows // samples
    at_prompt = functools.partial(_abstract, place=sharding.rows(mesh, distinct))
    at_row = functools.partial(_abstract, place=sharding.rows(mesh, rows))
    scalar = functools.partial(_abstract, (), place=sharding.replicated(mesh))
    shape = (model.num_layers, rows, model.num_kv_heads, bucket + max_new, model.head_dim)
    place = sharding.kv_cache(mesh, shape)
    cache = _made(transformer.KVCache, *(_abstract(shape, jnp.dtype(model.dtype), place),) * 2)
    calls = math.ceil(prompts / distinct)
    size = transformer.num_params(model)

    def prefill() -> jax.stages.Lowered:
        with sharding.activations(mesh, _sizes(model, distinct)):
            places = (sharding.rows(mesh, rows), _made(transformer.KVCache, place, place))
            fn = jax.jit(functools.partial(_prefill, model, samples, max_new), out_shardings=places)
            return fn.lower(weights, at_prompt((distinct, bucket), jnp.int32), at_prompt((distinct,), jnp.int32))

    def decode() -> jax.stages.Lowered:
        with sharding.activations(mesh, _sizes(model, rows)):
            key = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), rows))
            knobs = _made(sampler.Knobs, *(scalar(dtype=t) for t in (jnp.float32, jnp.int32, jnp.float32, jnp.float32)))
            fn = functools.partial(_decode, model, cfg.sampler.filtered, bucket)
            row = at_row((rows,), jnp.int32)
            return jax.jit(fn, donate_argnums=1).lower(
                weights, cache, row, row, scalar(dtype=jnp.int32), at_row((rows,), key.dtype), knobs
            )

    return [
        Program(
            f"{role}_prefill",
            prefill,
            calls * readings,
            {"sampler_parameters": weights},
            training,
            model_flops=2.0 * size * distinct * bucket,
        ),
        Program(
            f"{role}_decode",
            decode,
            calls * max_new,
            {"sampler_parameters": weights, "kv_cache": cache},
            training,
            model_flops=2.0 * size * rows,
        ),
    ]


def _prefill(
    model: transformer.TransformerConfig, samples: int, room: int, params: Tree, tokens: jax.Array, lengths: jax.Array
) -> tuple[jax.Array, transformer.KVCache]:
    """What `sampler.sample` does before its loop: read U prompts, hand each one's cache to its rows."""
    count, bucket = tokens.shape
    positions = jnp.broadcast_to(jnp.arange(bucket, dtype=jnp.int32), (count, bucket))
    mask = (positions[:, :, None] >= positions[:, None, :]) & (positions < lengths[:, None])[:, None, :]
    empty = transformer.init_cache(model, count, bucket)
    hidden, cache = transformer.decode_hidden(model, params, tokens, positions, empty, jnp.int32(0), mask)
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    logits = jnp.repeat(transformer.logits(model, params, last), samples, axis=0)
    pad = ((0, 0), (0, 0), (0, 0), (0, room), (0, 0))
    return logits, jax.tree.map(lambda x: jnp.pad(jnp.repeat(x, samples, axis=1), pad), cache)


def _decode(
    model: transformer.TransformerConfig,
    filtered: bool,
    bucket: int,
    params: Tree,
    cache: transformer.KVCache,
    token: jax.Array,
    lengths: jax.Array,
    written: jax.Array,
    keys: jax.Array,
    knobs: sampler.Knobs,
) -> tuple[tuple[jax.Array, ...], transformer.KVCache]:
    """One trip of the loop of `sampler.sample`: feed a token of every row and draw the next."""
    slot = jnp.arange(cache.k.shape[3], dtype=jnp.int32)
    mask = (slot < lengths[:, None]) | ((slot >= bucket) & (slot <= bucket + written))
    hidden, cache = transformer.decode_hidden(
        model, params, token[:, None], (lengths + written)[:, None], cache, bucket + written, mask[:, None, :]
    )
    logits = transformer.logits(model, params, hidden[:, 0])
    return sampler.draw(logits, keys, knobs, filtered=filtered), cache


def _learning(
    cfg: RunConfig,
    model: transformer.TransformerConfig,
    mesh: jax.sharding.Mesh,
    state: learner.TrainState,
    counts: Load,
) -> list[Program]:
    """The optimizer step, and the pass for old log-probabilities where there are several steps an iteration."""
    learn = cfg.learner
    on_policy = learn.trajectories_per_update == 0 and learn.epochs == 1
    doors = learner.make_learner(
        model, learn, learner.make_optimizer(learn), temperature=cfg.sampler.temperature, on_policy=on_policy
    )
    shape = (1 << (counts.micro - 1).bit_length(), learn.rows, learn.row_length)
    place = sharding.rows(mesh, learn.rows, axis=1)
    batch = Batch(*(_abstract(shape, t, place) for t in (jnp.int32,) * 3 + (jnp.float32,) * 5))
    micro = _abstract((), jnp.int32, sharding.replicated(mesh))
    tokens = float(transformer.num_params(model)) * counts.micro * learn.rows * learn.row_length

    def lower(door: Any, subject: Tree) -> jax.stages.Lowered:
        with sharding.activations(mesh, _sizes(model, learn.rows)):
            return door.lower(subject, batch, micro)

    arguments = {"parameters": state.params, "optimizer": state.opt_state, "batch": batch}
    train = Program(
        "train_step",
        lambda: lower(doors.step, state),
        counts.steps,
        arguments,
        trips=counts.micro,
        model_flops=6 * tokens,
    )
    if on_policy:
        return [train]
    score = Program(
        "score",
        lambda: lower(doors.score, state.params),
        counts.steps,
        {"parameters": state.params, "batch": batch},
        {"optimizer": state.opt_state},
        trips=counts.micro,
        model_flops=2 * tokens,
    )
    return [score, train]

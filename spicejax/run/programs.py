"""The compiled programs of one training iteration: the weights' copy for the sampler, which the loop makes, and all of
them in a form that can be lowered: the flight check's only place that knows the signatures of sampler and learner.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from spicejax import sharding
from spicejax.generate import engine, policy
from spicejax.learn import learner
from spicejax.learn.packing import RowShape
from spicejax.models import cache as caching
from spicejax.models import lora, quantized, transformer
from spicejax.models.attention import Slots
from spicejax.run import hlo
from spicejax.run.config import RunConfig, WeightChoice
from spicejax.types import Batch, Params

log = logging.getLogger("spicejax")

Tree = Any  # of jax.ShapeDtypeStruct with shardings


@dataclasses.dataclass(frozen=True)
class Program:
    """One jitted function with its shapes, and how an iteration uses it."""

    name: str
    lower: Callable[[], jax.stages.Lowered]
    calls: float  # per iteration
    arguments: dict[str, Tree]  # by what they are: parameters, optimizer, kv_cache, batch
    beside: dict[str, Tree] = dataclasses.field(default_factory=dict)  # in HBM while it runs, but no argument
    # of loops whose bound is traced, such as the micro-batches of a step; then of those inside them
    trips: tuple[float, ...] = (1,)
    kernels: hlo.KernelFlops | None = None  # FLOPs of kernels that do not state them
    model_flops: float = 0.0  # 2N a token forward, 6N trained, over all chips: to check the compiled number against
    rows: int = 0  # prompts or responses computed at the same time


class Load(NamedTuple):
    """What one iteration asks of the programs when every task of the first round is valid."""

    challenger_groups: int  # prompts of the longest bucket, each with group_size responses
    reasoner_groups: int  # prompts of the shortest, answered
    trained_groups: tuple[int, int]  # of Challenger and Reasoner, learnt from
    steps: int  # optimizer steps


def load(cfg: RunConfig) -> Load:
    """Count an iteration: every document gets its tasks in the first round, every kept task is valid."""
    spice, learn = cfg.spice, cfg.learner
    per_document = spice.reasoner_tasks_per_document or spice.group_size
    trained = (0 if spice.fixed_challenger else spice.documents, spice.documents * per_document)
    trajectories = sum(trained) * spice.group_size
    steps = math.ceil(trajectories / (learn.trajectories_per_update or trajectories)) * learn.epochs
    return Load(spice.documents, spice.documents * spice.group_size, trained, steps)


def micro_batches(cfg: RunConfig, counts: Load) -> list[int]:
    """Micro-batches of a step for each kind of row, at the longest responses."""
    learn, spice = cfg.learner, cfg.spice
    groups = [n * learn.epochs / counts.steps for n in counts.trained_groups]
    prompts = (cfg.corpus.max_tokens, cfg.prompt_buckets[0])
    longest = (spice.challenger_max_new, spice.reasoner_max_new)
    rows = dict.fromkeys(learn.shapes, 0.0)
    for n, prompt, response in zip(groups, prompts, longest, strict=True):
        shape = next((s for s in learn.shapes if s.prompt >= prompt), learn.shapes[-1])
        if shape.prompt:
            rows[shape] += n * math.ceil(spice.group_size / shape.slots)
        else:
            rows[shape] += n * spice.group_size / max(1, shape.row_length // (prompt + response))
    return [max(1, math.ceil(n / learn.rows)) for n in rows.values()]


def speaker(model: transformer.TransformerConfig) -> transformer.TransformerConfig:
    """The model as the sampler holds it: weights in the precision of the forward pass."""
    return dataclasses.replace(model, param_dtype=model.dtype)


def reshard(
    model: transformer.TransformerConfig, mesh: jax.sharding.Mesh, weights: WeightChoice = "compute"
) -> Callable[[Params], Params]:
    """The jitted copy of the learner's parameters for the sampler: its precision, its layout.

    Args:
      model: the speaker.
      weights: int8 = quantized matrices.
    """
    places = jax.tree.map(lambda x: x.sharding, _spoken(model, mesh, weights))
    return jax.jit(functools.partial(_copy, model.dtype, weights), out_shardings=places)


def _copy(dtype: transformer.DType, weights: WeightChoice, params: Params) -> Params:
    if weights == "int8":
        return quantized.quantize(params, dtype)
    return jax.tree.map(lambda p: p.astype(dtype), params)


def _spoken(model: transformer.TransformerConfig, mesh: jax.sharding.Mesh, weights: WeightChoice) -> Tree:
    """The sampler's copy in abstract arrays."""
    shapes = jax.eval_shape(functools.partial(_copy, model.dtype, weights), transformer.abstract_params(model))
    return _placed(shapes, sharding.param_shardings(mesh, transformer.param_axes(model), shapes))


def sized(
    cfg: RunConfig,
    model: transformer.TransformerConfig,
    mesh: jax.sharding.Mesh,
    speaking: jax.sharding.Mesh,
    capacity: float,
) -> RunConfig:
    """The configuration with `kv_tokens` bounded by what `sampler_memory` leaves of each device while sampling.

    A device then holds what `resting` names, the sampler's weights, the KV cache, and the prompts of one prefill.

    Args:
      capacity: memory of a device, in bytes; infinite = unknown, no bound.
    """
    if not cfg.sampler_memory or math.isinf(capacity):
        return cfg
    model = _configured(cfg, model)
    taken = resting(cfg, model, mesh, speaking), _spoken(speaker(model), speaking, cfg.sampler_weights)
    cache = cfg.model.dtype if cfg.kv_cache == "compute" else cfg.kv_cache
    token = caching.token_bytes(model.num_layers, model.num_kv_heads, model.head_dim, cache)
    heads = speaking.shape["tensor"] if model.num_kv_heads % speaking.shape["tensor"] == 0 else 1
    room = cfg.sampler_memory * capacity - sum(map(sharding.device_bytes, taken))
    each = int(room * heads / token) - max(cfg.prefill_chunk, cfg.prompt_buckets[-1])
    if each <= 0:
        log.warning(
            "sampler_memory=%g of a device are %.1f GiB; weights, optimizer and the prompts of one prefill take them "
            "all. It will run out of memory: raise mesh.fsdp or sampler_mesh.tensor, or take a larger slice",
            cfg.sampler_memory,
            cfg.sampler_memory * capacity / 2**30,
        )
    tokens = max(1, each) * sharding.ways(speaking, 0)
    return dataclasses.replace(cfg, kv_tokens=min(tokens, cfg.kv_tokens or tokens))


def as_is(cfg: RunConfig, model: transformer.TransformerConfig) -> bool:
    """Whether the sampler reads the learner's own parameters instead of a copy."""
    return cfg.sampler_mesh is None and model.dtype == model.param_dtype and cfg.sampler_weights == "compute"


def resting(
    cfg: RunConfig, model: transformer.TransformerConfig, mesh: jax.sharding.Mesh, speaking: jax.sharding.Mesh
) -> dict[str, Tree]:
    """What lies on the devices while the policy samples, beside the weights it samples with.

    Args:
      model: with the run's precision and adapters.
    """
    params = _parameters(model, mesh)
    state, _ = _state(cfg, model, params, mesh)
    shared = as_is(cfg, model)
    held: dict[str, Tree] = {} if shared else {"parameters": params}
    held["optimizer"] = state.opt_state
    if cfg.keeps_initial:
        held["initial"] = state.params  # of adapters, what is frozen is shared
    if not shared and (cfg.spice.fixed_challenger or cfg.eval.probe_documents):
        held["initial_copy"] = _spoken(speaker(model), speaking, cfg.sampler_weights)  # the other player
    return held


def programs(cfg: RunConfig, model: transformer.TransformerConfig, mesh: jax.sharding.Mesh) -> list[Program]:
    """Every program of the hot loop on the devices of `mesh`; nothing is allocated.

    Args:
      model: the architecture; precision, remat, kernel and adapters are those of `cfg.model`.
    """
    model = _configured(cfg, model)
    if model.attention == "auto" and mesh.devices.flat[0].platform == "tpu" and model.head_dim % 64 == 0:
        model = dataclasses.replace(model, attention="splash")  # what auto takes on the chip itself
    speaking = sharding.make_mesh(cfg.sampler_mesh, list(mesh.devices.flat)) if cfg.sampler_mesh else mesh
    params = _parameters(model, mesh)
    weights = _spoken(speaker(model), speaking, cfg.sampler_weights)
    state, frozen = _state(cfg, model, params, mesh)
    initial = {"initial": state.params} if cfg.keeps_initial else {}
    training = resting(cfg, model, mesh, speaking)
    counts, spice = load(cfg), cfg.spice
    sampling = functools.partial(_sampling, cfg, speaker(model), speaking, weights, training)
    copying = Program(
        "reshard",
        lambda: reshard(speaker(model), speaking, cfg.sampler_weights).lower(params),  # pyright: ignore[reportFunctionMemberAccess]
        1,
        {"parameters": params},
        {"optimizer": state.opt_state} | initial,
    )
    longest, shortest, group = cfg.prompt_buckets[-1], cfg.prompt_buckets[0], spice.group_size
    choosing = spice.task_type == "model" and not spice.no_corpus
    return [
        *(() if as_is(cfg, model) else (copying,)),
        *(sampling("task_type", longest, 1, spice.challenger_max_new, spice.documents) if choosing else ()),
        *sampling("challenger", longest, group, spice.challenger_max_new, counts.challenger_groups),
        *sampling("reasoner", shortest, group, spice.reasoner_max_new, counts.reasoner_groups),
        *_learning(cfg, model, mesh, params, state, frozen, counts, initial),
    ]


def _configured(cfg: RunConfig, model: transformer.TransformerConfig) -> transformer.TransformerConfig:
    """The architecture with precision, remat, kernel and adapters of the run."""
    return dataclasses.replace(
        model,
        dtype=cfg.model.dtype,
        param_dtype=cfg.model.param_dtype,
        remat=cfg.model.remat,
        unroll_layers=cfg.model.unroll_layers,
        attention=cfg.model.attention,
        lora=cfg.model.lora,
    )


def _abstract(shape: tuple[int, ...], dtype: Any, place: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=place)


def _parameters(model: transformer.TransformerConfig, mesh: jax.sharding.Mesh) -> Tree:
    shapes = transformer.abstract_params(model)
    return _placed(shapes, sharding.param_shardings(mesh, transformer.param_axes(model), shapes))


def _placed(shapes: Tree, places: Any) -> Tree:
    return jax.tree.map(lambda x, place: _abstract(x.shape, x.dtype, place), shapes, places)


def _state(
    cfg: RunConfig, model: transformer.TransformerConfig, params: Tree, mesh: jax.sharding.Mesh
) -> tuple[learner.TrainState, Tree]:
    """The abstract TrainState and what it does not train; moments lie where their parameters lie."""
    frozen, trained = lora.split(params) if model.lora is not None else ({}, params)
    optimizer = learner.make_optimizer(cfg.learner)
    state = jax.eval_shape(lambda p: learner.init_state(p, optimizer), trained)
    whole = sharding.replicated(mesh)
    moments = optax.tree_utils.tree_map_params(
        optimizer,
        lambda moment, like: _abstract(moment.shape, moment.dtype, like.sharding),
        state.opt_state,
        trained,
        transform_non_params=lambda x: _abstract(x.shape, x.dtype, whole),
    )
    scalar: Any = _abstract((), jnp.int32, whole)
    return learner.TrainState(scalar, trained, moments, scalar), frozen


def _sampling(
    cfg: RunConfig,
    model: transformer.TransformerConfig,
    mesh: jax.sharding.Mesh,
    weights: Tree,
    training: dict[str, Tree],
    role: str,
    bucket: int,
    samples: int,
    max_new: int,
    prompts: int,
) -> list[Program]:
    """The engine's programs for one role: prompts are loaded, then all their responses decoded."""
    layout = policy.layout(model, cfg.buckets(), mesh, bucket=bucket, prompts=prompts, samples=samples, max_new=max_new)
    found = engine.programs(model, layout, weights, stop_states=1, filtered=cfg.sampler.filtered)
    size = transformer.num_params(model)
    loads = math.ceil(prompts / layout.lanes)
    steps = max(1.0, prompts * samples / layout.rows) * max_new  # slots that become free are filled again
    batch = {"prefill": layout.lanes, "insert": layout.lanes, "decode": layout.rows}

    def lower(program: engine.Program) -> jax.stages.Lowered:
        with sharding.activations(mesh, transformer.activation_sizes(model, batch[program.name])):
            return program.lower()

    _, prefix, state, *_ = next(program.arguments for program in found if program.name == "decode")
    copy, responses = {"sampler_parameters": weights}, (state.recent, state.older)
    slots = {"kv_cache": (prefix, responses)}
    pieces = math.ceil(layout.prefix / layout.chunk)
    reading, writing = 2.0 * size * layout.lanes * layout.prefix, 2.0 * size * layout.rows * steps
    inserting = {"kv_cache": prefix}, training | copy | {"responses": responses}
    # A cache with a window is written by a loop over windows and one over their steps.
    decoding = (steps / layout.window, layout.window) if layout.ring else (steps,)
    uses: dict[str, tuple[float, tuple[float, ...], float, dict[str, Tree], dict[str, Tree]]] = {
        "prefill": (loads, (pieces,), reading, copy, training | slots),
        "insert": (loads, (1,), 0.0, *inserting),
        "decode": (1, decoding, writing, copy | slots, training),
    }
    found_programs = []
    for program in found:
        calls, trips, flops, inside, beside = uses[program.name]
        lowering = functools.partial(lower, program)
        name, rows = f"{role}_{program.name}", batch[program.name]
        found_programs.append(Program(name, lowering, calls, inside, beside, trips, None, flops, rows))
    return found_programs


def _learning(
    cfg: RunConfig,
    model: transformer.TransformerConfig,
    mesh: jax.sharding.Mesh,
    params: Tree,
    state: learner.TrainState,
    frozen: Tree,
    counts: Load,
    initial: dict[str, Tree],
) -> list[Program]:
    """The optimizer step, and the pass for old log-probabilities where there are several steps an iteration."""
    from spicejax.models import splash  # pallas is slow to import and the loop does without

    learn = cfg.learner
    on_policy = learn.trajectories_per_update == 0 and learn.epochs == 1
    doors = learner.make_learner(
        model, learn, learner.make_optimizer(learn), temperature=cfg.sampler.temperature, on_policy=on_policy
    )
    used = micro_batches(cfg, counts)
    slots = {s.row_length: Slots(s.prompt, s.slot_length) for s in learn.shapes if s.prompt}
    kernels = functools.partial(splash.flops, slots=slots)
    place = sharding.rows(mesh, learn.rows, axis=1)
    batches = tuple(_batch(learn, shape, n, place) for shape, n in zip(learn.shapes, used, strict=True))
    scalar = _abstract((), jnp.int32, sharding.replicated(mesh))
    size = float(transformer.num_params(model))

    def lower(door: Any, *arguments: Any) -> jax.stages.Lowered:
        with sharding.activations(mesh, transformer.activation_sizes(model, learn.rows)):
            return door.lower(*arguments)

    train = Program(
        "train_step",
        lambda: lower(doors.step, state, batches, (scalar,) * len(batches), frozen),
        counts.steps,
        {"parameters": params, "optimizer": state.opt_state, "batch": batches},
        initial,
        trips=(max(used),),
        kernels=kernels,
        model_flops=6 * size * sum(n * learn.rows * s.row_length for n, s in zip(used, learn.shapes, strict=True)),
    )
    if on_policy:
        return [train]
    scores = [
        Program(
            f"score_{shape.row_length}",
            functools.partial(lower, doors.score, params, batch, scalar),
            counts.steps,
            {"parameters": params, "batch": batch},
            {"optimizer": state.opt_state} | initial,
            trips=(n,),
            kernels=kernels,
            model_flops=2 * size * n * learn.rows * shape.row_length,
        )
        for shape, batch, n in zip(learn.shapes, batches, used, strict=True)
    ]
    return [*scores, train]


def _batch(learn: learner.LearnerConfig, shape: RowShape, micro: int, place: Any) -> Batch:
    """An abstract batch as `packing` lays it out: a power of two times min_micro_batches."""
    laid = learn.min_micro_batches
    while laid < micro:
        laid *= 2
    return Batch.filled(
        lambda size, dtype: _abstract(size, dtype, place), (laid, learn.rows), shape.row_length, shape.scored
    )

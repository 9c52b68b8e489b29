"""The compiled programs of one training iteration in a form that can be lowered: the only place that knows the
signatures of sampler and learner.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from spicejax import sharding
from spicejax.flight import hlo
from spicejax.games.game import Ask
from spicejax.generate import engine, weights
from spicejax.generate.layout import Layout, Work, whole
from spicejax.generate.weights import Tree
from spicejax.learn import learner
from spicejax.learn.losses import LOSSES
from spicejax.learn.packing import RowShape
from spicejax.models import transformer
from spicejax.models.attention import Slots
from spicejax.models.transformer import TransformerConfig
from spicejax.run.config import RunConfig
from spicejax.run.resolve import Resolved
from spicejax.types import Batch


@dataclasses.dataclass(frozen=True)
class Program:
    """One jitted function with its shapes, and how an iteration uses it."""

    name: str
    lower: Callable[[], jax.stages.Lowered]
    calls: float  # per iteration, on average
    arguments: dict[str, Tree]  # by what they are: parameters, optimizer, kv_cache, batch
    beside: dict[str, Tree] = dataclasses.field(default_factory=dict)  # in HBM while it runs, but no argument
    # of loops whose bound is traced, such as the micro-batches of a step; then of those inside them
    trips: tuple[float, ...] = (1,)
    kernels: hlo.KernelFlops | None = None  # FLOPs of kernels that do not state them
    model_flops: float = 0.0  # 2N a token forward, 6N trained, over all chips: to check the compiled number against
    rows: int = 0  # prompts or responses computed at the same time


def programs(resolved: Resolved) -> list[Program]:
    """Every program of the hot loop on the devices of the meshes; nothing is allocated."""
    cfg, model = resolved.cfg, resolved.model
    if sharding.platform(resolved.mesh) == "tpu":
        seats = {role: _on_chip(seat) for role, seat in resolved.seats.items()}
        resolved = dataclasses.replace(resolved, model=_on_chip(model), seats=seats)
    params = weights.parameters(resolved.model, resolved.mesh)
    state, kept = resolved.state[0], resolved.resident
    copying = Program(
        "reshard",
        lambda: weights.copier(resolved.model, resolved.sampler_mesh, cfg.sampler_weights).lower(params),  # pyright: ignore[reportFunctionMemberAccess]
        1,
        {"parameters": params},
        {"optimizer": state.opt_state} | kept,
    )
    asked = [program for ask in cfg.asks if ask.samples for program in _sampling(resolved, ask)]
    return [*(() if resolved.shares_weights or not asked else (copying,)), *asked, *_learning(resolved, kept)]


def _on_chip(model: TransformerConfig) -> TransformerConfig:
    """With the kernel that "auto" takes on a TPU."""
    splash = model.attention == "auto" and model.head_dim % 64 == 0
    return dataclasses.replace(model, attention="splash") if splash else model


def prompt_length(cfg: RunConfig, ask: Ask) -> int:
    """Bucket of an ask's prompts."""
    return cfg.buckets.prompt[-1 if ask.prompt == "document" else 0]


def engine_layout(resolved: Resolved, ask: Ask) -> Layout:
    """The largest engine for an ask: evaluations, which ask more, take it where the game's calls take less."""
    role, longest = ask.seat or ask.role, ask.turn_limits.turn if ask.turn_limits else ask.max_new
    work = Work(prompt_length(resolved.cfg, ask), ask.prompts, ask.samples, longest, ask.turn_limits)
    if role in resolved.seats:
        return whole(resolved.seats[role], resolved.seat_buckets(role), resolved.sampler_mesh, work)
    return whole(weights.sampled(resolved.model), resolved.cfg.buckets, resolved.sampler_mesh, work)


def optimizer_steps(cfg: RunConfig) -> int:
    """Optimizer steps of an iteration: on all lessons together, or on those of each role of `role_order`."""
    learn, lessons = cfg.learner, Counter[str]()
    for ask in cfg.asks:
        each = 1 if learn.lesson == "pair" else ask.group or ask.samples
        lessons[ask.role if learn.role_order else ""] += ask.trained * each
    return learn.epochs * sum(math.ceil(n / (learn.trajectories_per_update or n)) for n in lessons.values() if n)


def micro_batches(cfg: RunConfig) -> list[int]:
    """Micro-batches of a step for each kind of row, at the longest responses."""
    learn = cfg.learner
    rows = dict.fromkeys(learn.shapes, 0.0)
    for ask in cfg.asks:
        groups, members = ask.trained * learn.epochs / optimizer_steps(cfg), ask.group or ask.samples
        prompt = min(prompt_length(cfg, ask), cfg.corpus.max_tokens if ask.prompt == "document" else math.inf)
        shape = next((s for s in learn.shapes if s.prompt >= prompt), learn.shapes[-1])
        if shape.prompt:
            rows[shape] += groups * math.ceil(members / shape.slots)
        else:
            rows[shape] += groups * members / max(1, shape.row_length // (prompt + ask.max_new))
    return [max(1, math.ceil(n / learn.rows)) for n in rows.values()]


def _sampling(resolved: Resolved, ask: Ask) -> list[Program]:
    """The engine's programs for one ask: prompts are loaded, then all their responses decoded."""
    cfg, role, layout = resolved.cfg, ask.seat or ask.role, engine_layout(resolved, ask)
    held, training = resolved.copied, resolved.resident_while_sampling
    if role in resolved.seats:
        training["policy_copy"], held = held, training.pop(f"seat_{role}")
    found = engine.programs(layout, held, stop_states=1, filtered=cfg.sampler.filtered)
    size = transformer.num_params(layout.model)
    often = 1 / cfg.iterations if ask.once else 1.0
    loads = often * math.ceil(ask.prompts / layout.prefills)
    # Slots that become free are filled again.
    steps = max(1.0, ask.prompts * ask.samples / layout.lanes) * ask.max_new
    batch = {"prefill": layout.prefills, "insert": layout.prefills, "decode": layout.lanes, "append": layout.appends}

    def lower(program: engine.Program) -> jax.stages.Lowered:
        with sharding.activations(layout.mesh, transformer.activation_sizes(layout.model, batch[program.name])):
            return program.lower()

    arguments = {program.name: program.arguments for program in found}
    _, caches, state, *_ = arguments["decode"]
    later = training | {"prompt_kept": arguments["prefill"][1]}  # which the next prefill begins with
    copy, responses = {"sampler_parameters": held}, (caches.history, state.recent, state.older)
    slots = {"kv_cache": (caches.prefix, responses)}
    reading, writing = 2.0 * size * layout.prefills * layout.prefix, 2.0 * size * layout.lanes * steps
    kernels = _kernel_flops({})
    # A cache with a window is written by a loop over windows and one over their steps.
    decoding = (steps / layout.window, layout.window) if layout.ring else (steps,)
    uses: dict[str, tuple[Any, ...]] = {  # fields of Program, from `calls` on
        "prefill": (loads, copy, training | slots, (math.ceil(layout.prefix / layout.chunk),), kernels, reading),
        "insert": (loads, {"kv_cache": caches.prefix}, later | copy | {"responses": responses}, (1,), None, 0.0),
        "decode": (often, copy | slots, later, decoding, kernels, writing),
    }
    if ask.turn_limits:
        reads = often * math.ceil(ask.prompts * ask.samples * (ask.turn_limits.turns - 1) / layout.appends)
        shown = 2.0 * size * layout.appends * layout.observation
        uses["append"] = (reads, copy | slots, later, (1,), kernels, shown)
    return [
        Program(f"{ask.role}_{p.name}", functools.partial(lower, p), *uses[p.name], rows=batch[p.name]) for p in found
    ]


def _learning(resolved: Resolved, kept: dict[str, Tree]) -> list[Program]:
    """The optimizer step, and the passes for old and reference log-probabilities, where the loss takes them."""
    cfg, model, mesh, learn = resolved.cfg, resolved.model, resolved.mesh, resolved.cfg.learner
    params, (state, frozen) = weights.parameters(model, mesh), resolved.state
    optimizer = learner.make_optimizer(learn)
    settings = {"temperature": cfg.sampler.temperature, "compiler_options": sharding.compiler_options(mesh)}
    learners = learner.make_learners(model, learn, optimizer, **settings)
    jitted = learners[max(learners, key=lambda role: learn.of(role).kl_coef)]  # with the KL term, where a role has it
    used, steps = micro_batches(cfg), optimizer_steps(cfg)
    slots = {s.row_length: Slots(s.prompt, s.slot_length) for s in learn.shapes if s.prompt}
    # Where only some layers slide the compiler's text does not say which call is whose: counted as if all saw all.
    kernels = _kernel_flops(slots, model.sliding_window if model.kinds == (True,) else None)
    place = sharding.rows(mesh, learn.rows, axis=1)
    batches = tuple(_batch(learn, shape, n, place) for shape, n in zip(learn.shapes, used, strict=True))
    scalar = jax.ShapeDtypeStruct((), jnp.int32, sharding=sharding.replicated(mesh))
    size = float(transformer.num_params(model))

    def lower(function: Any, *arguments: Any) -> jax.stages.Lowered:
        with sharding.activations(mesh, transformer.activation_sizes(model, learn.rows)):
            return function.lower(*arguments)

    train = Program(
        "train_step",
        lambda: lower(jitted.step, state, batches, (scalar,) * len(batches), frozen),
        steps,
        {"parameters": params, "optimizer": state.opt_state, "batch": batches},
        kept,
        trips=(max(used),),
        kernels=kernels,
        model_flops=6 * size * sum(n * learn.rows * s.row_length for n, s in zip(used, learn.shapes, strict=True)),
    )
    passes = (not learn.on_policy) + learn.needs_reference
    if not passes:
        return [train]
    scores = [
        Program(
            f"score_{shape.row_length}",
            functools.partial(lower, jitted.score, params, batch, scalar),
            steps * passes,
            {"parameters": params, "batch": batch},
            {"optimizer": state.opt_state} | kept,
            trips=(n,),
            kernels=kernels,
            model_flops=2 * size * n * learn.rows * shape.row_length,
        )
        for shape, batch, n in zip(learn.shapes, batches, used, strict=True)
    ]
    return [*scores, train]


def _kernel_flops(slots: dict[int, Slots], window: int | None = None) -> hlo.KernelFlops:
    from spicejax.models import flash, splash  # pallas is slow to import and the loop does without

    def flops(name: str, operands: Sequence[tuple[int, ...]]) -> float | None:
        known = splash.flops(name, operands, slots, window)
        return flash.flops(name, operands, slots) if known is None else known

    return flops


def _batch(learn: learner.LearnerConfig, shape: RowShape, micro: int, place: Any) -> Batch:
    """An abstract batch as `packing` lays it out: a power of two times min_micro_batches."""
    laid = learn.min_micro_batches
    while laid < micro:
        laid *= 2
    return Batch.filled(
        lambda size, dtype: jax.ShapeDtypeStruct(size, dtype, sharding=place),
        (laid, learn.rows),
        shape.row_length,
        shape.scored,
        numbered=LOSSES[learn.loss].numbered,
    )

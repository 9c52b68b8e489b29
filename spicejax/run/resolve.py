"""A configuration settled on the devices there are: its meshes, rows that they divide, and a KV cache that fits."""

from __future__ import annotations

import dataclasses
import logging
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from spicejax import hosts, sharding
from spicejax.generate import weights
from spicejax.generate.layout import Buckets
from spicejax.generate.weights import Tree
from spicejax.learn import learner
from spicejax.models import hf, lora
from spicejax.models.transformer import TransformerConfig
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import RunConfig, with_precision
from spicejax.run.store import record
from spicejax.text import tokens
from spicejax.text.tokens import Tokenizer
from spicejax.worlds.nano import maker as nano

log = logging.getLogger("spicejax")


class Settled(NamedTuple):
    """What a run on certain devices is made of."""

    cfg: RunConfig
    model: TransformerConfig  # of the policy, with the run's precision and adapters
    mesh: Mesh  # the learner's
    sampler_mesh: Mesh
    seats: dict[str, TransformerConfig]  # models of the roles that others play, as the sampler holds them


def with_world(cfg: RunConfig) -> RunConfig:
    """The configuration with model, items and held-out set of its nano world, made where it is not yet."""
    if cfg.nano is None:
        return cfg
    made = nano.prepare(cfg.nano, cfg.seed, model=not cfg.model.path)
    items, retrieval = getattr(made, cfg.game.game.reads), cfg.retrieval
    if cfg.searches and retrieval is None:  # the world's own corpus, each document a passage
        retrieval = RetrievalConfig(engine="words", corpus=str(made.documents), words=0)
    return dataclasses.replace(
        cfg,
        retrieval=retrieval,
        model=dataclasses.replace(cfg.model, path=cfg.model.path or str(made.model)),
        corpus=dataclasses.replace(cfg.corpus, source=cfg.corpus.source or str(items)),
        eval=dataclasses.replace(cfg.eval, tasks=cfg.eval.tasks or str(made.held_out)),
    )


def with_cache(cfg: RunConfig, workdir: Path) -> RunConfig:
    """The configuration with the folder of nano worlds that this run, or another stage of its chain, has used, where
    its own lacks this world: the same command from another folder makes no model again.
    """

    def known() -> str:
        if cfg.nano is None or nano.made(cfg.nano, cfg.seed, model=not cfg.model.path):
            return ""
        for folder in (workdir, *workdir.parent.glob("[0-9]*")):
            cache = (record.read(folder).get("nano") or {}).get("cache") or ""
            if cache and nano.made(dataclasses.replace(cfg.nano, cache=cache), cfg.seed, model=not cfg.model.path):
                return cache
        return ""

    cache = hosts.by_first(known)
    return dataclasses.replace(cfg, nano=dataclasses.replace(cfg.nano, cache=cache)) if cfg.nano and cache else cfg


def architecture(cfg: RunConfig) -> TransformerConfig:
    """Shape of the model: that of its weights where they are, else the one the configuration names."""
    if cfg.model.path:
        return worded(hf.read_config(cfg.model.path), tokens.load(cfg.model.path))
    if cfg.nano is not None:
        return cfg.nano.architecture
    if cfg.model.architecture is not None:
        return cfg.model.architecture
    raise ValueError(f"{cfg.name} names no model; add model.path=FOLDER or model.architecture")


def worded(model: TransformerConfig, tokenizer: Tokenizer) -> TransformerConfig:
    """The model, which gives no probability to rows of its vocabulary that its tokenizer has no token for.

    Raises: ValueError where an id of the tokenizer has no row.
    """
    tokenizer.require_rows(model.vocab_size)
    return dataclasses.replace(model, unused=tokenizer.unused(model.vocab_size))


def settled(cfg: RunConfig, devices: list[Any] | None = None, capacity: float | None = None) -> Settled:
    """Choose what the configuration leaves to the devices; the iteration and its texts stay the same.

    Args:
      devices: default: all there are.
      capacity: memory that programs get of each of them, in bytes; default: as they say, without bound on a CPU.
    Raises: ValueError for a mesh that does not divide the devices.
    """
    devices = jax.devices() if devices is None else devices
    model = with_precision(cfg.model, architecture(cfg))
    as_held = {"dtype": cfg.model.dtype, "param_dtype": cfg.model.dtype}
    seats = {role: worded(hf.read_config(path), tokens.load(path)) for role, path in cfg.seats.items()}
    frozen = {role: dataclasses.replace(other, **as_held) for role, other in seats.items()}
    cfg = arranged(cfg, model.num_kv_heads, len(devices))
    mesh, sampler_mesh = sharding.make_meshes(cfg.mesh, cfg.sampler_mesh, devices)
    here = Settled(fitted(cfg, mesh, sampler_mesh), model, mesh, sampler_mesh, frozen)
    return here._replace(cfg=sized(here, sharding.device_memory() if capacity is None else capacity))


def arranged(cfg: RunConfig, kv_heads: int, devices: int) -> RunConfig:
    """The configuration with `mesh.tensor` chosen where it is 0.

    Each part of data x fsdp needs a row of its own, and an optimizer step has only so many: on a larger slice the heads
    of a row are split, by powers of two that divide the kv heads.
    """
    if cfg.mesh.tensor:
        return cfg
    ways = 1
    while devices // ways > cfg.learner.rows and devices % (2 * ways) == 0 and kv_heads % (2 * ways) == 0:
        ways *= 2
    return dataclasses.replace(cfg, mesh=dataclasses.replace(cfg.mesh, tensor=ways))


def fitted(cfg: RunConfig, mesh: Mesh, sampler_mesh: Mesh) -> RunConfig:
    """Rows rounded up to what the learner's and the sampler's mesh divide: more rows at a time, the same iteration.

    Rows that do not divide would be computed whole on every chip.
    """
    ways = sharding.ways(mesh, 0)
    groups = sharding.ways(sampler_mesh, 0) * math.lcm(*(ask.samples or 1 for ask in cfg.asks))
    return dataclasses.replace(
        cfg,
        learner=dataclasses.replace(cfg.learner, rows=math.ceil(cfg.learner.rows / ways) * ways),
        buckets=dataclasses.replace(cfg.buckets, rows=math.ceil(cfg.buckets.rows / groups) * groups),
    )


def sized(here: Settled, capacity: float) -> RunConfig:
    """The configuration with `buckets.kv_tokens` bounded by what `sampler_memory` leaves of each device.

    While sampling, a device holds what `resting` names, the sampler's weights, the KV cache, and the prompts of one
    prefill.
    """
    cfg, model, _, sampler_mesh, _ = here
    if not cfg.sampler_memory or math.isinf(capacity):
        return cfg
    taken = resting(here), weights.copied(model, sampler_mesh, cfg.sampler_weights)
    cache = cfg.model.dtype if cfg.buckets.cache == "compute" else cfg.buckets.cache
    room = cfg.sampler_memory * capacity - sum(map(sharding.device_bytes, taken))
    prefill = max(cfg.buckets.prefill_chunk, cfg.buckets.prompt[-1])
    each = int(room / weights.token_bytes(model, sampler_mesh, cache)) - prefill
    if each <= 0:
        log.warning(
            "sampler_memory=%g of a device are %.1f GiB; weights, optimizer and the prompts of one prefill take them "
            "all. It will run out of memory: raise mesh.fsdp or sampler_mesh.tensor, or take a larger slice",
            cfg.sampler_memory,
            cfg.sampler_memory * capacity / 2**30,
        )
    tokens = max(1, each) * sharding.ways(sampler_mesh, 0)
    bound = min(tokens, cfg.buckets.kv_tokens or tokens)
    return dataclasses.replace(cfg, buckets=dataclasses.replace(cfg.buckets, kv_tokens=bound))


def seat_buckets(here: Settled, role: str) -> Buckets:
    """The sampler's shapes for the model of another player: the same memory for its KV entries."""
    other, model, buckets = here.seats[role], here.model, here.cfg.buckets
    mine, its = (weights.token_bytes(m, here.sampler_mesh, "float32") for m in (model, other))
    return dataclasses.replace(buckets, kv_tokens=int(buckets.kv_tokens * mine / its))


def probe_buckets(here: Settled) -> Buckets:
    """The sampler's shapes in a probe: its KV cache makes room for the first policy, where that has no place yet."""
    cfg, model, mesh = here.cfg, here.model, here.sampler_mesh
    if cfg.initial_plays or not cfg.sampler_memory or not cfg.buckets.kv_tokens:
        return cfg.buckets
    cache = cfg.model.dtype if cfg.buckets.cache == "compute" else cfg.buckets.cache
    copy = sharding.device_bytes(weights.copied(model, mesh, cfg.sampler_weights))
    taken = sharding.ways(mesh, 0) * copy / weights.token_bytes(model, mesh, cache)
    return dataclasses.replace(cfg.buckets, kv_tokens=max(1, int(cfg.buckets.kv_tokens - taken)))


def as_is(cfg: RunConfig, model: TransformerConfig) -> bool:
    """Whether the sampler reads the learner's own parameters instead of a copy."""
    return cfg.sampler_mesh is None and model.dtype == model.param_dtype and cfg.sampler_weights == "compute"


def resting(here: Settled) -> dict[str, Tree]:
    """What lies on the devices while the policy samples, beside the weights it samples with: abstract arrays."""
    cfg, model = here.cfg, here.model
    params = weights.parameters(model, here.mesh)
    state, _ = abstract_state(here)
    shared = as_is(cfg, model)
    held: dict[str, Tree] = {} if shared else {"parameters": params}
    held["optimizer"] = state.opt_state
    return held | always(here)


def always(here: Settled) -> dict[str, Tree]:
    """What lies on the devices from beginning to end beside the TrainState: abstract arrays."""
    cfg, model, _, sampler_mesh, frozen = here
    trained = abstract_state(here)[0].params  # of adapters, what is frozen is shared
    held: dict[str, Tree] = {"initial": trained} if cfg.learner.needs_reference else {}
    if cfg.initial_plays and as_is(cfg, model):
        held["initial"] = trained
    elif cfg.initial_plays:
        held["initial_copy"] = weights.copied(model, sampler_mesh, cfg.sampler_weights)
    return held | {f"seat_{role}": weights.parameters(other, sampler_mesh) for role, other in frozen.items()}


def abstract_state(here: Settled) -> tuple[learner.TrainState, Tree]:
    """The abstract TrainState and what it does not train; moments lie where their parameters lie."""
    params = weights.parameters(here.model, here.mesh)
    frozen, trained = lora.split(params) if here.model.lora is not None else ({}, params)
    optimizer = learner.make_optimizer(here.cfg.learner)
    state = jax.eval_shape(lambda p: learner.init_state(p, optimizer), trained)
    whole = sharding.replicated(here.mesh)
    moments = optax.tree_utils.tree_map_params(
        optimizer,
        lambda moment, like: jax.ShapeDtypeStruct(moment.shape, moment.dtype, sharding=like.sharding),
        state.opt_state,
        trained,
        transform_non_params=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole),
    )
    scalar: Any = jax.ShapeDtypeStruct((), jnp.int32, sharding=whole)
    return learner.TrainState(scalar, trained, moments, scalar), frozen

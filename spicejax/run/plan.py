"""The plan of a run: what it will do and the memory it takes, by arithmetic, before anything is trained."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import jax
import numpy as np

from spicejax import sharding
from spicejax.models import cache as caching
from spicejax.models import hf, transformer
from spicejax.run import programs
from spicejax.run.config import RunConfig, arranged, fitted
from spicejax.worlds.nano import maker as nano

GIB = 2**30


def memory(cfg: RunConfig, shape: transformer.TransformerConfig, devices: int) -> dict[str, float]:
    """Bytes per device of the large parts: arithmetic, not a compiler's word.

    weights and optimizer: parameters and both AdamW moments, split over fsdp and tensor; gradients: float32;
    sampler_weights: the sampler's copy, 0 where it reads the learner's; kv_cache: all slots of the sampler at the
    longest prompt and response; logits: the float32 logits of one vocabulary chunk; activations: layer inputs kept by
    the backward pass of one micro-batch (other intermediates are not counted).
    """
    mesh = speaking = _sizes(cfg.mesh, devices)
    if cfg.sampler_mesh and not obstacle(cfg, devices):
        speaking = _sizes(cfg.sampler_mesh, devices)
    split, ways = mesh["fsdp"] * mesh["tensor"], mesh["data"] * mesh["fsdp"]
    count = transformer.num_params(shape)
    stored, computed = np.dtype(_numpy(cfg.model.param_dtype)).itemsize, 2 if cfg.model.dtype == "bfloat16" else 4
    spoken = dataclasses.replace(shape, dtype=cfg.model.dtype, param_dtype=cfg.model.param_dtype)
    copied = 0 if programs.as_is(cfg, spoken) else 1 if cfg.sampler_weights == "int8" else computed
    slots = kv_slots(cfg) / (speaking["data"] * speaking["fsdp"])
    micro = math.ceil(cfg.learner.rows / ways)
    cache = cfg.model.dtype if cfg.kv_cache == "compute" else cfg.kv_cache
    token = caching.token_bytes(shape.num_layers, shape.num_kv_heads, shape.head_dim, cache)
    kv_split = speaking["tensor"] if shape.num_kv_heads % speaking["tensor"] == 0 else 1
    row = max(kind.row_length for kind in cfg.learner.shapes)
    entries = min(cfg.learner.vocab_chunk or shape.vocab_size, shape.vocab_size)
    return {
        "weights": count * stored / split,
        "optimizer": 2 * count * stored / split,
        "gradients": 4 * count / split,
        "sampler_weights": count * copied / (speaking["fsdp"] * speaking["tensor"]),
        "kv_cache": slots * token / kv_split,
        "logits": 4 * micro * row * entries / mesh["tensor"],
        "activations": shape.num_layers * micro * row * shape.d_model * computed,
    }


def obstacle(cfg: RunConfig, devices: int) -> str:
    """Why the sampler's layout does not go with so many devices; "" = it does."""
    try:
        sharding.make_meshes(cfg.mesh, cfg.sampler_mesh, jax.devices()[:devices])
    except ValueError as error:
        return str(error)
    return ""


def kv_slots(cfg: RunConfig) -> float:
    """Tokens whose KV entries the sampler holds at the most: each group's prompt once, and every response.

    Where the model chooses the kind of task, every prompt is asked once.
    """
    bucket, rows = cfg.prompt_buckets[-1], cfg.rows_per_call
    longest = max(cfg.spice.challenger_max_new, cfg.spice.reasoner_max_new)
    asked = rows // cfg.spice.group_size * (bucket + cfg.spice.group_size * longest)
    alone = rows * (bucket + longest) if cfg.spice.task_type == "model" else 0
    return min(max(asked, alone), cfg.kv_tokens or math.inf)


def architecture(cfg: RunConfig) -> transformer.TransformerConfig:
    """Shape of the model: that of its weights where they are, else the one the configuration names."""
    if cfg.nano is not None:
        return cfg.nano.architecture
    if cfg.model.path:
        return hf.read_config(cfg.model.path)
    if cfg.model.architecture is not None:
        return cfg.model.architecture
    raise ValueError("the plan needs model.path or model.architecture")


def describe(cfg: RunConfig, workdir: Path) -> str:
    """The plan as text. Loads no weights; the nano model is described, not made."""
    shape = architecture(cfg)
    devices = len(jax.devices())
    cfg = arranged(cfg, shape.num_kv_heads, devices)
    capacity = sharding.device_memory()
    if cfg.sampler_memory and math.isfinite(capacity):
        meshes = sharding.make_meshes(cfg.mesh, cfg.sampler_mesh)
        cfg = programs.sized(fitted(cfg, *meshes), shape, *meshes, capacity)
    parts = memory(cfg, shape, devices)
    unbounded = cfg.sampler_memory and not cfg.kv_tokens
    spice = cfg.spice
    trajectories = spice.documents * spice.group_size * (1 if spice.fixed_challenger else 2)
    lines = [
        f"plan of {cfg.name}: {cfg.iterations} iterations into {workdir}",
        f"  model      {shape.family}, {transformer.num_params(shape) / 1e6:,.1f} M parameters, from "
        + (f"the warm start ({nano.__name__})" if cfg.nano else cfg.model.path or "(model.path not set)"),
        f"  corpus     {cfg.corpus.source or ('the nano world' if cfg.nano else '(corpus.source not set)')}",
        f"  iteration  {spice.documents} documents x {spice.group_size} kept attempts (up to {spice.max_attempts} "
        f"made), {spice.group_size} answers a question",
        f"  update     up to {trajectories} trajectories, "
        + (f"{cfg.learner.trajectories_per_update} per step" if cfg.learner.trajectories_per_update else "one step"),
        f"  devices    {devices} ({jax.devices()[0].device_kind}), "
        f"mesh {tuple(_sizes(cfg.mesh, devices).values())} over {sharding.AXES}",
        "  memory per device, estimated by arithmetic:",
        *(f"    {name:<15} {size / GIB:10.3f} GiB" for name, size in parts.items()),
        f"    {'total':<15} {sum(parts.values()) / GIB:10.3f} GiB",
        *(["    on a TPU or GPU sampler_memory cuts rows and kv_cache"] if unbounded else []),
        *([f"  a run on these devices would stop: {stop}"] if (stop := obstacle(cfg, devices)) else []),
    ]
    return "\n".join(lines)


def _sizes(cfg: sharding.MeshConfig, devices: int) -> dict[str, int]:
    return dict(sharding.make_mesh(cfg, jax.devices()[:devices]).shape)


def _numpy(name: str) -> str:
    return {"bfloat16": "uint16"}.get(name, name)

"""A configuration resolved: completed for the devices there are, with its models, meshes and a KV cache that fits."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from spicejax import sharding
from spicejax.generate import weights
from spicejax.generate.layout import Buckets
from spicejax.generate.weights import Tree
from spicejax.learn import learner
from spicejax.models import hf, lora
from spicejax.models.attention import Slots
from spicejax.models.transformer import TransformerConfig
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import RunConfig, with_precision
from spicejax.text import tokens
from spicejax.text.tokens import Tokenizer
from spicejax.types import Params
from spicejax.worlds.nano import maker as nano

log = logging.getLogger("spicejax")


@dataclasses.dataclass(frozen=True)
class Resolved:
    """What runs: the completed configuration, the models that it names, and the meshes that they lie on."""

    cfg: RunConfig  # with the files of its nano world, rows that the meshes divide, and a bound on the KV cache
    model: TransformerConfig  # of the policy, with the run's precision and adapters
    mesh: Mesh  # the learner's
    sampler_mesh: Mesh
    seats: dict[str, TransformerConfig]  # models of the roles that others play, as the sampler holds them

    @property
    def shares_weights(self) -> bool:
        """Whether the sampler reads the learner's own parameters instead of a copy."""
        cfg, model = self.cfg, self.model
        return cfg.sampler_mesh is None and model.dtype == model.param_dtype and cfg.sampler_weights == "compute"

    def copier(self) -> Callable[[Params], Params]:
        """The function from the learner's parameters to those that the sampler reads."""
        if self.shares_weights:
            return lambda params: params
        return weights.copier(self.model, self.sampler_mesh, self.cfg.sampler_weights)

    @property
    def copied(self) -> Tree:
        """The sampler's copy of the policy: abstract arrays."""
        return weights.copied(self.model, self.sampler_mesh, self.cfg.sampler_weights)

    @property
    def state(self) -> tuple[learner.TrainState, Tree]:
        """The abstract TrainState and what it does not train; moments lie where their parameters lie."""
        params = weights.parameters(self.model, self.mesh)
        frozen, trained = lora.split(params) if self.model.lora is not None else ({}, params)
        optimizer = learner.make_optimizer(self.cfg.learner)
        state = jax.eval_shape(lambda p: learner.init_state(p, optimizer), trained)
        whole = sharding.replicated(self.mesh)
        moments = optax.tree_utils.tree_map_params(
            optimizer,
            lambda moment, like: jax.ShapeDtypeStruct(moment.shape, moment.dtype, sharding=like.sharding),
            state.opt_state,
            trained,
            transform_non_params=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole),
        )
        scalar: Any = jax.ShapeDtypeStruct((), jnp.int32, sharding=whole)
        return learner.TrainState(scalar, trained, moments, scalar), frozen

    @property
    def resident(self) -> dict[str, Tree]:
        """What lies on the devices from beginning to end beside the TrainState: abstract arrays."""
        trained = self.state[0].params  # of adapters, what is frozen is shared
        held: dict[str, Tree] = {"initial": trained} if self.cfg.learner.needs_reference else {}
        if self.cfg.initial_plays and self.shares_weights:
            held["initial"] = trained
        elif self.cfg.initial_plays:
            held["initial_copy"] = self.copied
        return held | {
            f"seat_{role}": weights.parameters(other, self.sampler_mesh) for role, other in self.seats.items()
        }

    @property
    def resident_while_sampling(self) -> dict[str, Tree]:
        """What lies on the devices while the policy samples, beside the weights it samples with: abstract arrays."""
        held = {} if self.shares_weights else {"parameters": weights.parameters(self.model, self.mesh)}
        return held | {"optimizer": self.state[0].opt_state} | self.resident

    def seat_buckets(self, role: str) -> Buckets:
        """The sampler's shapes for the model of another player: the same memory for its KV entries."""
        buckets, models = self.cfg.buckets, (self.model, self.seats[role])
        policy, other = (weights.token_bytes(model, self.sampler_mesh, "float32") for model in models)
        return buckets.with_share(policy / other)

    @property
    def probe_buckets(self) -> Buckets:
        """The sampler's shapes in a probe: its KV cache makes room for the first policy, where that has none yet."""
        cfg = self.cfg
        if cfg.initial_plays or not cfg.sampler_memory or not cfg.buckets.kv_tokens:
            return cfg.buckets
        copy = sharding.device_bytes(self.copied)
        taken = sharding.ways(self.sampler_mesh, 0) * copy / self.token_bytes
        return dataclasses.replace(cfg.buckets, kv_tokens=max(1, int(cfg.buckets.kv_tokens - taken)))

    @property
    def token_bytes(self) -> float:
        """Bytes of a device for the KV entries of one token of the policy."""
        cache = self.cfg.model.dtype if self.cfg.buckets.cache == "compute" else self.cfg.buckets.cache
        return weights.token_bytes(self.model, self.sampler_mesh, cache)


def resolve(
    cfg: RunConfig,
    devices: list[Any] | None = None,
    capacity: float | None = None,
    *,
    make_world: bool = False,
) -> Resolved:
    """Complete the configuration for the devices; iterations and texts stay the same.

    Args:
      devices: default: all.
      capacity: memory of each device for programs, in bytes; default: as the devices report, infinite on a CPU.
      make_world: take the files of the nano world, which is made if it does not exist yet.
    Raises: ValueError for a mesh that does not divide the devices, a vocabulary that is too small, or a kernel of other
      devices or shapes.
    """
    cfg = _with_world(cfg) if make_world else cfg
    devices = jax.devices() if devices is None else devices
    model = with_precision(cfg.model, architecture(cfg))
    seats = dict.fromkeys(cfg.seats, architecture(cfg))  # of a seat that an earlier stage will have trained
    seats |= {role: _read(path) for role, path in cfg.folders_of_seats.items()}
    seats = {r: dataclasses.replace(m, dtype=cfg.model.dtype, param_dtype=cfg.model.dtype) for r, m in seats.items()}
    _require_kernel(cfg, model, devices[0].platform)
    cfg = _with_tensor_axis(cfg, model.num_kv_heads, len(devices))
    meshes = sharding.make_meshes(cfg.mesh, cfg.sampler_mesh, devices)
    resolved = Resolved(_with_whole_rows(cfg, *meshes), model, *meshes, seats)
    return _with_bounded_cache(resolved, sharding.device_memory() if capacity is None else capacity)


def _require_kernel(cfg: RunConfig, model: TransformerConfig, platform: str) -> None:
    kernel = cfg.model.attention
    home = {"splash": "tpu", "flash": "gpu", "cudnn": "gpu"}.get(kernel, platform)
    if home != platform:
        here = f"a {home.upper()}, and this is a {platform.upper()}"
        raise ValueError(f"model.attention={kernel} runs on {here}; use auto")
    if kernel == "flash":
        from spicejax.models import flash  # pallas is slow to import

        for shape in cfg.learner.shapes:
            flash.block_side(
                model.head_dim, model.dtype, Slots(shape.prompt, shape.slot_length) if shape.prompt else None
            )


def architecture(cfg: RunConfig) -> TransformerConfig:
    """Shape of the model: that of its weights where they are, else the one the configuration names."""
    if cfg.model.path:
        return _read(cfg.model.path)
    if cfg.nano is not None:
        return cfg.nano.architecture
    if cfg.model.architecture is not None:
        return cfg.model.architecture
    raise ValueError(f"{cfg.name} names no model; add model.path=FOLDER or model.architecture")


def _read(path: str) -> TransformerConfig:
    return with_unused(hf.read_config(path), tokens.load(path))


def with_unused(model: TransformerConfig, tokenizer: Tokenizer) -> TransformerConfig:
    """The model with those rows of its vocabulary marked unused that have no token in its tokenizer.

    Raises: ValueError if an id of the tokenizer has no row.
    """
    tokenizer.require_rows(model.vocab_size)
    return dataclasses.replace(model, unused=tokenizer.unused(model.vocab_size))


def _with_world(cfg: RunConfig) -> RunConfig:
    """The configuration with model, items and held-out set of its nano world."""
    if cfg.nano is None:
        return cfg
    made = nano.prepare(cfg.nano, cfg.seed, model=not cfg.model.path)
    items, retrieval = getattr(made, cfg.game.game.reads, ""), cfg.retrieval
    if cfg.searches and retrieval is None:  # the world's own corpus, each document a passage
        retrieval = RetrievalConfig(engine="words", corpus=str(made.documents), words=0)
    return dataclasses.replace(
        cfg,
        retrieval=retrieval,
        model=dataclasses.replace(cfg.model, path=cfg.model.path or str(made.model)),
        corpus=dataclasses.replace(cfg.corpus, source=cfg.corpus.source or str(items)),
        eval=dataclasses.replace(cfg.eval, tasks=cfg.eval.tasks or str(made.held_out)),
    )


def _with_tensor_axis(cfg: RunConfig, kv_heads: int, devices: int) -> RunConfig:
    """The configuration with `mesh.tensor` chosen where it is 0.

    Each part of data x fsdp needs a row of its own, and an optimizer step has only so many: on a larger slice the heads
    of a row are split, by powers of two that divide the kv heads and leave what `data` and `fsdp` fix.
    """
    if cfg.mesh.tensor:
        return cfg
    fixed = math.prod(size for size in (cfg.mesh.data, cfg.mesh.fsdp) if size != -1)
    most = cfg.learner.rows if -1 in (cfg.mesh.data, cfg.mesh.fsdp) else fixed
    ways = 1
    while devices // ways > most and devices % (2 * ways * fixed) == 0 and kv_heads % (2 * ways) == 0:
        ways *= 2
    return dataclasses.replace(cfg, mesh=dataclasses.replace(cfg.mesh, tensor=ways))


def _with_whole_rows(cfg: RunConfig, mesh: Mesh, sampler_mesh: Mesh) -> RunConfig:
    """Rows rounded up to what the learner's and the sampler's mesh divide: more rows at a time, the same iteration.

    Rows that do not divide would be computed whole on every chip.
    """
    ways = sharding.ways(mesh, 0)
    probed = cfg.eval.probe_group if cfg.eval.probe_documents else 1
    groups = sharding.ways(sampler_mesh, 0) * math.lcm(probed, *(ask.samples or 1 for ask in cfg.asks))
    return dataclasses.replace(
        cfg,
        learner=dataclasses.replace(cfg.learner, rows=math.ceil(cfg.learner.rows / ways) * ways),
        buckets=dataclasses.replace(cfg.buckets, rows=math.ceil(cfg.buckets.rows / groups) * groups),
    )


def _with_bounded_cache(resolved: Resolved, capacity: float) -> Resolved:
    """The same with `buckets.kv_tokens` bounded by what `sampler_memory` leaves of each device.

    While sampling, a device holds what `resident_while_sampling` names, the sampler's weights (on a GPU the layers of
    the model that decodes twice, here those of the largest: they are cut from the stack), the KV cache, and the prompts
    of one prefill.
    """
    cfg, buckets = resolved.cfg, resolved.cfg.buckets
    if not cfg.sampler_memory or math.isinf(capacity):
        return resolved
    held = [resolved.resident_while_sampling, resolved.copied]
    if sharding.platform(resolved.sampler_mesh) == "gpu":
        seated = (weights.parameters(model, resolved.sampler_mesh) for model in resolved.seats.values())
        held.append(max((each["layers"] for each in (resolved.copied, *seated)), key=sharding.device_bytes))
    room = cfg.sampler_memory * capacity - sharding.device_bytes(held)
    tokens_each = int(room / resolved.token_bytes) - max(map(buckets.prefilling, buckets.prompt))
    if tokens_each <= 0:
        log.warning(
            "sampler_memory=%g of a device are %.1f GiB; weights, optimizer and the prompts of one prefill take them "
            "all. It will run out of memory: raise mesh.fsdp or sampler_mesh.tensor, or take a larger slice",
            cfg.sampler_memory,
            cfg.sampler_memory * capacity / 2**30,
        )
    most = max(1, tokens_each) * sharding.ways(resolved.sampler_mesh, 0)
    buckets = dataclasses.replace(buckets, kv_tokens=min(most, buckets.kv_tokens or most))
    return dataclasses.replace(resolved, cfg=dataclasses.replace(cfg, buckets=buckets))

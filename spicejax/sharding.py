"""Mesh, logical-axis rules and array placement: the only place that names a PartitionSpec."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from spicejax import hosts

log = logging.getLogger("spicejax")

AXES = ("data", "fsdp", "tensor")
AnyMesh = Mesh | AbstractMesh

# Logical axis of a parameter -> mesh axis. One table for every model: families differ by flags, not by layout.
RULES: dict[str, str | None] = {
    "layers": None,
    "vocab": "tensor",
    "embed": "fsdp",
    "heads": "tensor",
    "kv_heads": "tensor",
    "head_dim": None,
    "mlp": "tensor",
}

# Logical axis of an activation -> mesh axes. Rows follow the split of the parameters (fsdp): the weights of one layer
# are gathered while it runs, activations stay where they are.
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "batch": ("data", "fsdp"),
    "act_heads": ("tensor",),
    "act_kv_heads": ("tensor",),
    "act_mlp": ("tensor",),
    "act_vocab": ("tensor",),
}


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """How the devices are laid out. The product of the axes is the number of devices; one axis may be -1 = the rest."""

    # copies of the parameters, each with its own rows
    data: int = -1
    # ways the parameters and the optimizer are split along the embedding axis; rows are split too
    fsdp: int = 1
    # ways heads, MLP and vocabulary are split; 0 (learner only) = the fewest, as far as the kv heads divide, with which
    # data x fsdp is no larger than learner.rows, or what both fix
    tensor: int = 1

    def __post_init__(self) -> None:
        sizes = {name: getattr(self, name) for name in AXES}
        for name, size in sizes.items():
            if size < 1 and size != -1 and not (name == "tensor" and size == 0):
                raise ValueError(f"mesh.{name}={size}: must be at least 1, or -1 for all devices the others leave")
        if list(sizes.values()).count(-1) > 1:
            raise ValueError(f"mesh {sizes}: only one axis can be -1")


def make_mesh(cfg: MeshConfig, devices: list[Any] | None = None, name: str = "mesh") -> Mesh:
    """Build the (data, fsdp, tensor) mesh over `devices` (default: all of them); `name` is the field an error names.

    Raises ValueError where the axes do not multiply to the number of devices, or one is still to be chosen (0).
    """
    if cfg.tensor == 0:
        raise ValueError(f"{name}.tensor=0 is only for the learner's mesh of a run; give the number of ways")
    devices = list(jax.devices()) if devices is None else list(devices)
    sizes = [getattr(cfg, axis) for axis in AXES]
    fixed = math.prod(size for size in sizes if size != -1)
    sizes = [max(1, len(devices) // fixed) if size == -1 else size for size in sizes]
    if math.prod(sizes) != len(devices):
        n = len(devices)
        choices = [f"fsdp={f} tensor={n // f}" for f in range(1, n + 1) if n % f == 0]
        raise ValueError(
            f"{name} data={cfg.data} fsdp={cfg.fsdp} tensor={cfg.tensor} does not divide {len(devices)} devices; "
            f"with data=1 these do: {', '.join(choices)}"
        )
    return Mesh(np.asarray(devices).reshape(sizes), AXES, axis_types=(AxisType.Auto,) * len(AXES))


def platform(mesh: Mesh | AbstractMesh) -> str:
    """What the mesh's devices are: "cpu", "gpu" or "tpu"; "" for an abstract mesh, which has none."""
    return "" if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0].platform


def make_meshes(learner: MeshConfig, sampler: MeshConfig | None, devices: list[Any] | None = None) -> tuple[Mesh, Mesh]:
    """Build the learner's and the sampler's mesh over the same devices in the same order, which jit asks for.

    On a TPU slice the order lets neighbours on the sampler's axes be neighbours in the slice where that can be: it
    exchanges activations for every token, the learner weights for every layer.
    """
    devices = list(jax.devices()) if devices is None else devices
    sampling = make_mesh(sampler, devices, "sampler_mesh") if sampler else make_mesh(learner, devices)
    if devices[0].platform == "tpu":
        # It refuses what it does not know, such as v4 chips shown as two devices each: then the order stays.
        try:
            shape = list(sampling.devices.shape)
            ordered = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
            sampling = make_mesh(sampler or learner, list(ordered.flat))
        except (AssertionError, NotImplementedError, ValueError) as error:
            log.info("devices stay in the order jax gives them: %s", error)
    return make_mesh(learner, list(sampling.devices.flat)), sampling


def connect(mesh: Mesh) -> None:
    """Run one small collective over every set of the mesh's axes, so that its processes are connected from here on.

    gloo (CPU) connects a group of devices at their first collective and gives them 30 s; processes that compile at
    different speeds may be further apart later on.
    """
    axes = [name for name in AXES if mesh.shape[name] > 1]
    groups = [group for n in range(1, len(axes) + 1) for group in itertools.combinations(axes, n)]

    spec = PartitionSpec(AXES)

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    def add(x: jax.Array) -> jax.Array:
        return sum((jax.lax.psum(x, group) for group in groups), x)

    jax.block_until_ready(jax.jit(add)(put_global(np.ones(mesh.size, np.float32), NamedSharding(mesh, spec))))


def param_shardings(mesh: AnyMesh, axes: Any, abstract: Any) -> Any:
    """Tree of NamedSharding for a tree of logical axis names; an axis that does not divide stays whole.

    A name tuple stands for all arrays of the subtree in its place, such as a quantized matrix and its scale.
    """

    def place(names: tuple[str | None, ...], leaf: Any) -> NamedSharding:
        spec = []
        for name, size in zip(names, leaf.shape, strict=True):
            mesh_axis = RULES[name] if name is not None else None
            fits = mesh_axis is not None and size % mesh.shape[mesh_axis] == 0
            spec.append(mesh_axis if fits and mesh_axis not in spec else None)
        return NamedSharding(mesh, PartitionSpec(*spec))

    def places(names: tuple[str | None, ...], part: Any) -> Any:
        return jax.tree.map(functools.partial(place, names), part)

    return jax.tree.map(places, axes, abstract, is_leaf=lambda x: isinstance(x, tuple))


def compiler_options(mesh: AnyMesh) -> dict[str, int]:
    """How XLA compiles what is split over `fsdp`.

    XLA:TPU would hide the gathers of a weight behind products by cutting it as often as fsdp has parts, up to 64 chips,
    and read the activations again for each cut: on 64 v5e two thirds of a step's bytes.
    """
    return {"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1_000_000} if platform(mesh) == "tpu" else {}


def device_memory() -> float:
    """Bytes that programs get of a device, the least of all devices and hosts; infinite where they do not say (CPU)."""
    stats = [device.memory_stats() for device in jax.local_devices()]
    return min(hosts.exchange(min(s["bytes_limit"] if s else math.inf for s in stats)))


def device_bytes(tree: Any) -> float:
    """Bytes that one device holds of abstract arrays with shardings."""
    return float(sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(tree)))


def replicated(mesh: Mesh) -> NamedSharding:
    """Sharding of a value that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def rows(mesh: Mesh, size: int, *, axis: int = 0) -> NamedSharding:
    """Sharding of `size` rows along `axis` over data and fsdp; whole where the rows do not divide."""
    if ways(mesh, size) == 1:
        return replicated(mesh)
    return NamedSharding(mesh, PartitionSpec(*(None,) * axis, ("data", "fsdp")))


def spread(mesh: Mesh) -> NamedSharding:
    """Sharding of rows over all axes, for arrays that the model does not touch; the rows must divide mesh.size."""
    return NamedSharding(mesh, PartitionSpec(AXES))


def ways(mesh: Mesh, size: int) -> int:
    """Number of equal parts in which `rows` lays `size` rows."""
    parts = mesh.shape["data"] * mesh.shape["fsdp"]
    return 1 if size % parts else parts


def kv_cache(mesh: Mesh, size: int, kv_heads: int) -> NamedSharding:
    """Sharding of a cache [L, rows, K, ...]: rows as `rows` lays them, kv heads over tensor where they divide."""
    spec = rows(mesh, size, axis=1).spec
    heads = "tensor" if kv_heads % mesh.shape["tensor"] == 0 else None
    return NamedSharding(mesh, PartitionSpec(*(tuple(spec) or (None, None)), heads))


@contextlib.contextmanager
def activations(mesh: Mesh, sizes: Mapping[str, int]) -> Iterator[None]:
    """Trace what runs inside with the activations of the model placed by `ACTIVATIONS`.

    Without it XLA follows the parameters and may split the residual stream instead of the rows, which turns gathers of
    weights into all-reduces of activations.

    Args:
      sizes: length of each logical axis; one that is absent or does not divide stays whole.
    """
    ways = {name: math.prod(mesh.shape[axis] for axis in axes) for name, axes in ACTIVATIONS.items()}
    rules = [(name, None if sizes[name] % ways[name] else ACTIVATIONS[name]) for name in ACTIVATIONS if name in sizes]
    with jax.set_mesh(mesh), nn.logical_axis_rules(rules):  # pyright: ignore[reportPrivateImportUsage]
        yield


def put_global(tree: Any, places: Any) -> Any:
    """Place a tree of host arrays that every process holds whole; each hands its own devices their part.

    Args:
      places: one NamedSharding for all, or a tree of them.
    """
    if isinstance(places, NamedSharding):
        places = jax.tree.map(lambda _: places, tree)
    return jax.tree.map(_put, tree, places)


def _put(value: Any, place: NamedSharding) -> jax.Array:
    if place.is_fully_addressable:
        return jax.device_put(value, place)
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_put(jax.random.key_data(value), place), impl=jax.random.key_impl(value))
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, place, lambda index: value[index])


def on_mesh(tree: Any, mesh: Mesh) -> Any:
    """The tree with its single-device arrays (counters, scalars) held whole by every device of the mesh."""

    def place(x: jax.Array) -> jax.Array:
        return x if isinstance(x.sharding, NamedSharding) else put_global(np.asarray(x), replicated(mesh))

    return jax.tree.map(place, tree)


def fetch(tree: Any) -> Any:
    """The tree as whole numpy arrays, on every process; what is spread over hosts is gathered in one program."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = ((k, x) for k, x in enumerate(leaves) if isinstance(x, jax.Array))
    spread = [k for k, x in arrays if not (x.is_fully_addressable or x.is_fully_replicated)]
    if spread:
        gathered = _gather(leaves[spread[0]].sharding.mesh)(*(leaves[k] for k in spread))
        for k, x in zip(spread, gathered, strict=True):
            leaves[k] = x
    return jax.tree.unflatten(structure, jax.device_get(leaves))


@functools.lru_cache(maxsize=8)
def _gather(mesh: Mesh) -> Any:
    return jax.jit(lambda *leaves: leaves, out_shardings=replicated(mesh))

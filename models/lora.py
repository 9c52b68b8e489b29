"""Low-rank adapters (LoRA, arXiv:2106.09685): their config, their part of a projection, split, join and merge.

Adapters live beside the matrix they correct: `layers/attn/q` has `layers/attn/q_lora/{a, b}`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from spicejax.models import products

Params = dict[str, Any]  # nested dict of arrays; the leaves under "layers" have a leading axis L

# Matrix -> (the part of a layer it is in, how many leading axes it contracts).
MATRICES: dict[str, tuple[str, int]] = {
    "q": ("attn", 1),
    "k": ("attn", 1),
    "v": ("attn", 1),
    "o": ("attn", 2),
    "gate": ("mlp", 1),
    "up": ("mlp", 1),
    "down": ("mlp", 1),
}
SUFFIX = "_lora"


@dataclasses.dataclass(frozen=True)
class LoraConfig:
    """Which matrices of every layer get a trained low-rank correction; all else is frozen."""

    # r, columns of A and rows of B
    rank: int = 16
    # the correction is scaled by alpha / rank
    alpha: float = 32.0
    # matrices that get one: q, k, v, o of the attention, gate, up, down of the MLP
    targets: tuple[str, ...] = tuple(MATRICES)

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha <= 0:
            raise ValueError(f"lora: rank={self.rank} and alpha={self.alpha} must be positive")
        unknown = [name for name in self.targets if name not in MATRICES]
        if unknown or not self.targets:
            raise ValueError(f"lora.targets={self.targets}: give some of {tuple(MATRICES)}")

    @property
    def scale(self) -> float:
        """Factor of B A x."""
        return self.alpha / self.rank


class LowRank(nn.Module):
    """scale * B (A x); B starts at zero, so a fresh adapter changes nothing. Kept in float32, computed in `dtype`."""

    cfg: LoraConfig
    inner: tuple[int, ...]  # axes of x that the matrix contracts
    outer: tuple[int, ...]  # axes it makes
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        spread = nn.initializers.normal(1 / math.sqrt(math.prod(self.inner)))
        a = self.param("a", spread, (*self.inner, self.cfg.rank), jnp.float32)
        b = self.param("b", nn.initializers.zeros, (self.cfg.rank, *self.outer), jnp.float32)
        low = products.contract(x.astype(self.dtype), a, len(self.inner))
        return self.cfg.scale * products.contract(low, b)


def flatten(tree: Params) -> dict[str, Any]:
    """Nested dict to {"layers/attn/q": leaf}."""
    flat: Any = flatten_dict(tree, sep="/")
    return flat


def unflatten(flat: dict[str, Any]) -> Params:
    """The inverse of `flatten`."""
    return unflatten_dict(flat, sep="/")


def split(params: Params) -> tuple[Params, Params]:
    """Part a tree into (base, adapters); `join` puts them together again. Branches that end up empty are left out."""
    flat = flatten(params)
    adapters = {name: leaf for name, leaf in flat.items() if f"{SUFFIX}/" in name}
    return unflatten({name: leaf for name, leaf in flat.items() if name not in adapters}), unflatten(adapters)


def join(base: Params, other: Params) -> Params:
    """One tree of the leaves of both, which have none in common."""
    return unflatten(flatten(base) | flatten(other))


def merge(cfg: LoraConfig, params: Params) -> Params:
    """The plain parameters W + scale * A B, summed in float32 and stored in W's dtype: what is exported."""
    merged, adapters = map(flatten, split(params))
    for name in filter(lambda name: name.endswith(f"{SUFFIX}/a"), adapters):
        target = name.removesuffix(f"{SUFFIX}/a")
        a, b, matrix = adapters[name], adapters[f"{target}{SUFFIX}/b"], merged[target]
        update = jax.vmap(lambda a, b: jnp.tensordot(a, b, axes=1))(a, b)  # over layers
        merged[target] = (matrix.astype(jnp.float32) + cfg.scale * update).astype(matrix.dtype)
    return unflatten(merged)


def axes(cfg: LoraConfig, layers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Names of the adapters' axes, from those of the matrices in `layers` (which begin with "layers")."""
    out: dict[str, dict[str, Any]] = {}
    for name in cfg.targets:
        module, contracted = MATRICES[name]
        first, *rest = layers[module][name]
        pair = {"a": (first, *rest[:contracted], None), "b": (first, None, *rest[contracted:])}
        out.setdefault(module, {})[name + SUFFIX] = pair
    return out

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
from jax.typing import DTypeLike
from jaxtyping import Array, Float

Params = dict[str, Any]

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
        low = jnp.tensordot(x.astype(self.dtype), a.astype(self.dtype), axes=len(self.inner))
        return self.cfg.scale * jnp.tensordot(low, b.astype(self.dtype), axes=1)


def split(params: Params) -> tuple[Params, Params]:
    """Part a tree into (base, adapters); `join` puts them together again. Branches that end up empty are left out."""
    base: Params = {}
    adapters: Params = {}
    for name, value in params.items():
        if name.endswith(SUFFIX):
            adapters[name] = value
        elif isinstance(value, dict):
            for whole, part in zip((base, adapters), split(value), strict=True):
                if part:
                    whole[name] = part
        else:
            base[name] = value
    return base, adapters


def join(base: Params, other: Params) -> Params:
    """One tree of the leaves of both; ValueError where both have the same leaf."""
    joined = dict(base)
    for name, value in other.items():
        if name not in joined:
            joined[name] = value
        elif isinstance(value, dict) and isinstance(joined[name], dict):
            joined[name] = join(joined[name], value)
        else:
            raise ValueError(f"both trees have `{name}`")
    return joined


def merge(cfg: LoraConfig, params: Params) -> Params:
    """The plain parameters W + scale * A B, summed in float32 and stored in W's dtype: what is exported."""
    base, adapters = split(params)
    return _merged(cfg, base, adapters)


def _merged(cfg: LoraConfig, base: Params, adapters: Params) -> Params:
    out = dict(base)
    for name, value in adapters.items():
        if name.endswith(SUFFIX):
            matrix = name.removesuffix(SUFFIX)
            update = jax.vmap(lambda a, b: jnp.tensordot(a, b, axes=1))(value["a"], value["b"])  # over layers
            out[matrix] = (base[matrix].astype(jnp.float32) + cfg.scale * update).astype(base[matrix].dtype)
        else:
            out[name] = _merged(cfg, base[name], value)
    return out


def axes(cfg: LoraConfig, layers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Names of the adapters' axes, from those of the matrices in `layers` (which begin with "layers")."""
    out: dict[str, dict[str, Any]] = {}
    for name in cfg.targets:
        module, contracted = MATRICES[name]
        first, *rest = layers[module][name]
        pair = {"a": (first, *rest[:contracted], None), "b": (first, None, *rest[contracted:])}
        out.setdefault(module, {})[name + SUFFIX] = pair
    return out

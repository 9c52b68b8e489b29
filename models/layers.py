"""The layers of the decoder: RMSNorm, rotary positions (with Llama-3 scaling), grouped-query attention, gated MLP."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from spicejax.models import quantized
from spicejax.models.attention import Slots, causal_attention, merge, partial_attention
from spicejax.models.cache import KVCache
from spicejax.models.config import RopeScaling, TransformerConfig
from spicejax.models.lora import SUFFIX, LowRank

INIT_STD = 0.02
ACTIVATIONS = {"silu": jax.nn.silu, "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True)}


class View(NamedTuple):
    """What all sliding layers of a pass share, or all layers that see every token."""

    cos: Float[Array, "B T 1 half"]
    sin: Float[Array, "B T 1 half"]
    # what may be attended to of each cache, then of the new tokens among themselves; None in the training pass
    masks: tuple[Bool[Array, "_ _ _"], ...] | None


def constrain(x: Array, *axes: str) -> Array:
    """Name the axes of an activation; does nothing outside `flax.linen.logical_axis_rules`."""
    return nn.with_logical_constraint(x, axes)  # pyright: ignore[reportPrivateImportUsage]


def rope_frequencies(head_dim: int, theta: float, scaling: RopeScaling | None) -> Float[Array, " half"]:
    """Angle per position of each rotated pair: theta^(-2i/h), stretched by the llama3 rule where given. Float32."""
    inverse = 1.0 / theta ** (jnp.arange(0, head_dim, 2, dtype=jnp.float32) / head_dim)
    if scaling is None:
        return inverse
    wavelength = 2 * math.pi / inverse
    # 0 = stretched by the factor, 1 = unchanged, linear in between.
    keep = (scaling.original_max_position / wavelength - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    keep = jnp.clip(keep, 0.0, 1.0)
    return inverse * (keep + (1 - keep) / scaling.factor)


def rope_tables(
    cfg: TransformerConfig, positions: Int[Array, "B T"], sliding: bool
) -> tuple[Float[Array, "B T 1 half"], Float[Array, "B T 1 half"]]:
    """Cosine and sine of every position, computed once per forward pass and shared by the layers. Float32."""
    places, theta, scaling = positions[:, :, None, None].astype(jnp.float32), cfg.rope_theta, cfg.rope_scaling
    if sliding and cfg.sliding_theta is not None:
        theta, scaling = cfg.sliding_theta, None
    angles = places * rope_frequencies(cfg.head_dim, theta, scaling)
    return jnp.cos(angles), jnp.sin(angles)


def apply_rope(x: Float[Array, "B T N h"], cos: Array, sin: Array) -> Float[Array, "B T N h"]:
    """Rotate pair (i, i + h/2) by its angle (the half-split order of HF checkpoints), in float32."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * (scale + the family's offset) over the last axis, in float32 (arXiv:1910.07467)."""

    cfg: TransformerConfig

    @nn.compact
    def __call__(self, x: Float[Array, "... D"]) -> Float[Array, "... D"]:
        offset = self.cfg.row.scale_offset
        scale = self.param("scale", nn.initializers.constant(1.0 - offset), (x.shape[-1],), self.cfg.param_dtype)
        x32 = x.astype(jnp.float32)
        normed = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + self.cfg.rms_norm_eps)
        scale = scale.astype(jnp.float32) + offset if offset else scale.astype(jnp.float32)
        return (normed * scale).astype(self.cfg.dtype)


def out_std(cfg: TransformerConfig) -> float:
    """Spread of the two projections into the residual stream: its variance stays flat in depth."""
    return INIT_STD / math.sqrt(2 * cfg.num_layers)


def projected(
    module: Attention | GatedMLP, name: str, x: Array, shape: tuple[int, ...], std: float = INIT_STD, inner: int = 1
) -> Array:
    """x times the matrix `name` of a compact module, plus the product with its adapter where it has one."""
    cfg = module.cfg
    matrix = module.param(name, nn.initializers.normal(std), shape, cfg.param_dtype)
    out = quantized.project(x, matrix, inner)
    if cfg.lora is None or name not in cfg.lora.targets:
        return out
    return out + LowRank(cfg.lora, shape[:inner], shape[inner:], out.dtype, name=name + SUFFIX)(x)


class Attention(nn.Module):
    """Grouped-query attention with optional bias on q, k, v and RMSNorm on q and k heads, maybe over a window."""

    cfg: TransformerConfig
    slots: Slots | None = None

    def _heads(self, name: str, x: Float[Array, "B T D"], heads: int) -> Float[Array, "B T N h"]:
        shape = (x.shape[-1], heads, self.cfg.head_dim)
        out = projected(self, name, x, shape)
        if self.cfg.row.qkv_bias:
            bias = self.param(f"{name}_bias", nn.initializers.zeros, shape[1:], self.cfg.param_dtype)
            out = out + bias.astype(self.cfg.dtype)
        return out

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        view: View,
        slides: Bool[Array, ""] | None,
        segment_ids: Int[Array, "B T"] | None,
        positions: Int[Array, "B T"] | None,
        cached: tuple[KVCache, ...] = (),
    ) -> tuple[Float[Array, "B T D"], KVCache | None]:
        """Without masks: causal self-attention. With masks: attention to `cached` too, and the T new entries returned.

        Args:
          slides: whether this layer does, in models with both kinds; read in the training pass.
        """
        cfg, cos, sin = self.cfg, view.cos, view.sin
        query = self._heads("q", x, cfg.num_heads)
        key = self._heads("k", x, cfg.num_kv_heads)
        value = self._heads("v", x, cfg.num_kv_heads)
        if cfg.row.qk_norm:
            query = RMSNorm(cfg, name="q_norm")(query)
            key = RMSNorm(cfg, name="k_norm")(key)
        # every kernel divides the scores by the root of head_dim
        rescale = 1.0 if cfg.query_scalar is None else (cfg.head_dim / cfg.query_scalar) ** 0.5
        query = constrain(apply_rope(query, cos * rescale, sin * rescale), "batch", "length", "act_heads", "head_dim")
        key = constrain(apply_rope(key, cos, sin), "batch", "length", "act_kv_heads", "head_dim")
        new = None
        if view.masks is None:
            attend = functools.partial(
                causal_attention, segment_ids=segment_ids, slots=self.slots, kernel=cfg.attention, positions=positions
            )
            if slides is None:
                out = attend(query, key, value, window=cfg.sliding_window if cfg.slides(0) else None)
            else:
                both = (functools.partial(attend, window=window) for window in (cfg.sliding_window, None))
                out = jax.lax.cond(slides, *both, query, key, value)
        else:
            new = KVCache(k=key.transpose(0, 2, 3, 1), v=value.swapaxes(1, 2))
            seen = zip((*cached, new), view.masks, strict=True)
            out = merge([partial_attention(query, kv, mask, cfg.attention) for kv, mask in seen]).astype(cfg.dtype)
        shape = (cfg.num_heads, cfg.head_dim, x.shape[-1])
        return projected(self, "o", out, shape, out_std(cfg), inner=2), new


class GatedMLP(nn.Module):
    """down(act(gate(x)) * up(x)): SwiGLU or GeGLU (arXiv:2002.05202)."""

    cfg: TransformerConfig

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        width, inner = x.shape[-1], self.cfg.d_ff
        gate, up = (projected(self, name, x, (width, inner)) for name in ("gate", "up"))
        hidden = constrain(ACTIVATIONS[self.cfg.row.activation](gate) * up, "batch", "length", "act_mlp")
        return projected(self, "down", hidden, (inner, width), out_std(self.cfg))

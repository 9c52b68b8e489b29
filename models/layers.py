"""The layers of the decoder: RMSNorm, rotary positions (with Llama-3 scaling), grouped-query attention, SwiGLU."""

from __future__ import annotations

import dataclasses
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from spicejax.models import quantized
from spicejax.models.attention import AttentionKernel, LayerKV, Slots, causal_attention, merge, partial_attention
from spicejax.models.lora import SUFFIX, LoraConfig, LowRank

INIT_STD = 0.02


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """The "llama3" rule for stretching rotary frequencies (arXiv:2407.21783; HF `rope_type: llama3`)."""

    factor: float  # low frequencies are divided by this
    low_freq_factor: float  # wavelengths above original_max_position / this are fully stretched
    high_freq_factor: float  # wavelengths below original_max_position / this stay as they are
    original_max_position: int  # context length before stretching, in tokens

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise ValueError(f"RopeScaling.factor={self.factor}: give a factor of at least 1")
        if not 0 < self.low_freq_factor < self.high_freq_factor:
            raise ValueError(
                f"RopeScaling: low_freq_factor={self.low_freq_factor} must be positive and below "
                f"high_freq_factor={self.high_freq_factor}"
            )
        if self.original_max_position < 1:
            raise ValueError(f"RopeScaling.original_max_position={self.original_max_position}: give a positive length")


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
    positions: Int[Array, "B T"], head_dim: int, theta: float, scaling: RopeScaling | None
) -> tuple[Float[Array, "B T 1 half"], Float[Array, "B T 1 half"]]:
    """Cosine and sine of every position, computed once per forward pass and shared by all layers. Float32."""
    angles = positions[:, :, None, None].astype(jnp.float32) * rope_frequencies(head_dim, theta, scaling)
    return jnp.cos(angles), jnp.sin(angles)


def apply_rope(x: Float[Array, "B T N h"], cos: Array, sin: Array) -> Float[Array, "B T N h"]:
    """Rotate pair (i, i + h/2) by its angle (the half-split order of HF checkpoints), in float32."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * scale over the last axis, in float32 (arXiv:1910.07467)."""

    eps: float
    dtype: DTypeLike
    param_dtype: DTypeLike

    @nn.compact
    def __call__(self, x: Float[Array, "... D"]) -> Float[Array, "... D"]:
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],), self.param_dtype)
        x32 = x.astype(jnp.float32)
        normed = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + self.eps)
        return (normed * scale.astype(jnp.float32)).astype(self.dtype)


def adapted(cfg: LoraConfig | None, name: str, out: Array, x: Array, shape: tuple[int, ...], inner: int = 1) -> Array:
    """`out`, the product of x with matrix `name`, plus its adapter's where it has one. For compact modules."""
    if cfg is None or name not in cfg.targets:
        return out
    return out + LowRank(cfg, shape[:inner], shape[inner:], out.dtype, name=name + SUFFIX)(x)


class Attention(nn.Module):
    """Grouped-query attention with optional bias on q, k, v (Qwen2) and RMSNorm on q and k heads (Qwen3)."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    qkv_bias: bool
    qk_norm: bool
    eps: float
    out_std: float
    kernel: AttentionKernel
    dtype: DTypeLike
    param_dtype: DTypeLike
    lora: LoraConfig | None = None
    slots: Slots | None = None

    def _project(self, name: str, x: Float[Array, "B T D"], heads: int) -> Float[Array, "B T N h"]:
        shape = (x.shape[-1], heads, self.head_dim)
        kernel = self.param(name, nn.initializers.normal(INIT_STD), shape, self.param_dtype)
        out = adapted(self.lora, name, quantized.project(x, kernel), x, shape)
        if self.qkv_bias:
            bias = self.param(f"{name}_bias", nn.initializers.zeros, shape[1:], self.param_dtype)
            out = out + bias.astype(self.dtype)
        return out

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        cos: Array,
        sin: Array,
        segment_ids: Int[Array, "B T"] | None,
        cached: tuple[LayerKV, ...] = (),
        masks: tuple[Bool[Array, "_ 1 _"], ...] | None = None,
    ) -> tuple[Float[Array, "B T D"], LayerKV | None]:
        """Without masks: causal self-attention. With: see what they leave of `cached`; return the T new entries too."""
        query = self._project("q", x, self.num_heads)
        key = self._project("k", x, self.num_kv_heads)
        value = self._project("v", x, self.num_kv_heads)
        if self.qk_norm:
            query = RMSNorm(self.eps, self.dtype, self.param_dtype, name="q_norm")(query)
            key = RMSNorm(self.eps, self.dtype, self.param_dtype, name="k_norm")(key)
        query = constrain(apply_rope(query, cos, sin), "batch", "length", "act_heads", "head_dim")
        key = constrain(apply_rope(key, cos, sin), "batch", "length", "act_kv_heads", "head_dim")
        new = None
        if masks is None:
            out = causal_attention(query, key, value, segment_ids, slots=self.slots, kernel=self.kernel)
        else:
            new = LayerKV(k=key.transpose(0, 2, 3, 1), v=value.swapaxes(1, 2))
            own = jnp.tril(jnp.ones((1, x.shape[1], x.shape[1]), bool))
            seen = zip((*cached, new), (*masks, own), strict=True)
            out = merge([partial_attention(query, kv, mask) for kv, mask in seen]).astype(self.dtype)
        shape = (self.num_heads, self.head_dim, x.shape[-1])
        kernel = self.param("o", nn.initializers.normal(self.out_std), shape, self.param_dtype)
        update = quantized.project(out, kernel, inner=2)
        return adapted(self.lora, "o", update, out, shape, inner=2), new


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x)) (arXiv:2002.05202)."""

    d_ff: int
    out_std: float
    dtype: DTypeLike
    param_dtype: DTypeLike
    lora: LoraConfig | None = None

    def _project(self, name: str, x: Float[Array, "B T n"], width: int, std: float) -> Float[Array, "B T m"]:
        shape = (x.shape[-1], width)
        matrix = self.param(name, nn.initializers.normal(std), shape, self.param_dtype)
        return adapted(self.lora, name, quantized.project(x, matrix), x, shape)

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        gate, up = (self._project(name, x, self.d_ff, INIT_STD) for name in ("gate", "up"))
        hidden = constrain(jax.nn.silu(gate) * up, "batch", "length", "act_mlp")
        return self._project("down", hidden, x.shape[-1], self.out_std)

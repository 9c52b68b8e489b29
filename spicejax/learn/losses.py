"""Policy losses as sums over weighted tokens. Weights carry every normalisation, so packing cannot change a loss."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_MAX_LOG_RATIO = 40.0  # exp() of it stays finite in float32; as Oat clamps


class LossTerms(NamedTuple):
    """Sums over the tokens of a micro-batch; add them over micro-batches, then divide by `tokens` where named so."""

    loss: Float[Array, ""]
    tokens: Float[Array, ""]  # trained tokens
    clipped: Float[Array, ""]  # trained tokens whose ratio was clipped
    kl: Float[Array, ""]  # sum of k3 against the reference
    sampler_gap: Float[Array, ""]  # sum of |old - behaviour| logprob
    truncated: Float[Array, ""]  # trained tokens whose importance weight hit the cap

    @classmethod
    def zero(cls) -> LossTerms:
        """The sums over nothing."""
        return cls(*[jnp.float32(0)] * len(cls._fields))


def drgrpo_loss(
    logprobs: Float[Array, "*N"],
    old_logprobs: Float[Array, "*N"],
    behaviour_logprobs: Float[Array, "*N"],
    reference_logprobs: Float[Array, "*N"],
    advantages: Float[Array, "*N"],
    weight: Float[Array, "*N"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    tis_cap: float = 2.0,
    kl_coef: float = 0.0,
    dual_clip: float = 0.0,
) -> LossTerms:
    """Dr. GRPO policy loss with PPO clip and truncated importance weight (arXiv:2503.20783; the weight as in Oat).

        sum_t weight_t * [ w_t * max(-A ratio_t, -A clip(ratio_t, 1 - clip_low, 1 + clip_high)) + kl_coef * k3_t ]
        ratio_t = exp(logprob - old),  w_t = min(exp(old - behaviour), tis_cap),  k3 = e^d - d - 1, d = ref - logprob

    With weight_t = loss_mask / (L N) (L the constant `loss_norm_length`, N trajectories) this is Dr. GRPO's mean over
    trajectories of the token sum over L; other weights give the per-sequence and the token mean (`learner.pack`).
    `dual_clip` c > 1 bounds what a token with A < 0 adds by -A c, however far its ratio grew (arXiv:1912.09729);
    0 = unbounded. `w_t` corrects for a sampler that differs from the learner; it carries no gradient. `tis_cap` 0 turns
    it off.
    """
    trained = (weight > 0).astype(jnp.float32)
    log_ratio = jnp.clip(logprobs - old_logprobs, -_MAX_LOG_RATIO, _MAX_LOG_RATIO) * trained
    ratio = jnp.exp(log_ratio)
    bounded = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
    surrogate = jnp.maximum(-advantages * ratio, -advantages * bounded)
    if dual_clip > 0:
        surrogate = jnp.where(advantages < 0, jnp.minimum(surrogate, -advantages * dual_clip), surrogate)
    gap = (old_logprobs - behaviour_logprobs) * trained
    importance = jnp.exp(jnp.clip(gap, -_MAX_LOG_RATIO, _MAX_LOG_RATIO))
    if tis_cap > 0:
        surrogate = surrogate * jax.lax.stop_gradient(jnp.minimum(importance, tis_cap))
    loss = jnp.sum(weight * surrogate)
    kl = jnp.float32(0)
    if kl_coef > 0:
        drift = jnp.clip(reference_logprobs - logprobs, -_MAX_LOG_RATIO, _MAX_LOG_RATIO) * trained
        k3 = jnp.expm1(drift) - drift  # exp(drift) - 1 would round small drifts away
        kl = jnp.sum(trained * k3)
        loss = loss + kl_coef * jnp.sum(weight * k3)
    return LossTerms(
        loss=loss,
        tokens=jnp.sum(trained),
        clipped=jnp.sum(trained * (-advantages * bounded > -advantages * ratio)),
        kl=jax.lax.stop_gradient(kl),
        sampler_gap=jax.lax.stop_gradient(jnp.sum(jnp.abs(gap))),
        truncated=jax.lax.stop_gradient(jnp.sum(trained * (importance > tis_cap))) if tis_cap > 0 else jnp.float32(0),
    )


def supervised_loss(logprobs: Float[Array, "*N"], weight: Float[Array, "*N"]) -> LossTerms:
    """Weighted negative log likelihood: -sum_t weight_t logprob_t."""
    loss = -jnp.sum(weight * logprobs)
    return LossTerms.zero()._replace(loss=loss, tokens=jnp.sum((weight > 0).astype(jnp.float32)))

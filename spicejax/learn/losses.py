"""Losses as sums over weighted tokens or pairs. Weights carry every normalisation, so packing cannot change a loss."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

PreferenceKind = Literal["dpo", "ipo", "simpo"]

_MAX_LOG_RATIO = 40.0  # exp() of it stays finite in float32; as Oat clamps


class LossTerms(NamedTuple):
    """Sums over a micro-batch; add them over micro-batches, then divide `sums` by `count`."""

    loss: Float[Array, ""]
    tokens: Float[Array, ""]  # trained tokens
    count: Float[Array, ""]  # of what the sums are over: trained tokens, or pairs
    sums: dict[str, Float[Array, ""]]  # named as the metrics that their means are


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
    hit = jnp.sum(trained * (importance > tis_cap)) if tis_cap > 0 else jnp.float32(0)
    sums = {
        "clip_fraction": jnp.sum(trained * (-advantages * bounded > -advantages * ratio)),
        "kl": kl,  # k3 against the reference
        "sampler_gap": jnp.sum(jnp.abs(gap)),  # |old - behaviour|
        "tis_fraction": hit,  # importance weights at the cap
    }
    tokens = jnp.sum(trained)
    return LossTerms(loss, tokens, tokens, jax.lax.stop_gradient(sums))


def supervised_loss(logprobs: Float[Array, "*N"], weight: Float[Array, "*N"]) -> LossTerms:
    """Weighted negative log likelihood: -sum_t weight_t logprob_t."""
    tokens = jnp.sum((weight > 0).astype(jnp.float32))
    return LossTerms(-jnp.sum(weight * logprobs), tokens, tokens, {})


def preference_loss(
    logprobs: Float[Array, "B S"],
    reference_logprobs: Float[Array, "B S"],
    weight: Float[Array, "B S"],
    pairs: Int[Array, "B S"],
    *,
    kind: PreferenceKind = "dpo",
    beta: float = 0.1,
    label_smoothing: float = 0.0,
    margin: float = 0.0,
    likelihood: float = 0.0,
) -> LossTerms:
    """Loss on pairs of a chosen (c) and a rejected (r) response, each summed over its trained tokens in float32.

        dpo:    -(1 - e) log sigmoid(h) - e log sigmoid(-h),  h = beta d     (arXiv:2305.18290; e: label smoothing)
        ipo:    (d - 1 / (2 beta))^2                                         (arXiv:2310.12036, eq. 17)
        simpo:  as dpo with h = beta (logprob_c / |c| - logprob_r / |r|) - margin           (arXiv:2405.14734)
        d = (logprob_c - ref_c) - (logprob_r - ref_r), sums over trained tokens, of which |c| and |r| are the numbers

    To each, `likelihood` x (-logprob_c / |c|) is added (RPO, arXiv:2404.19733; LLaMA-Factory's pref_ftx). A pair weighs
    what its tokens weigh; both of its responses stand in one row.

    Args:
      reference_logprobs: the frozen reference's; not read by simpo.
      weight: 0 where not trained; equal on all trained tokens of a pair.
      pairs: k for the chosen and -k for the rejected response of the row's pair k > 0; 0 = neither.
    """
    rows, length = logprobs.shape
    trained = (weight > 0) & (pairs != 0)
    # Segment 0 takes what belongs to no pair; a row has fewer pairs than scored tokens.
    place = jnp.abs(pairs) + (length + 1) * jnp.arange(rows, dtype=jnp.int32)[:, None]

    def per_pair(values: Float[Array, "B S"], sign: int) -> Float[Array, " N"]:
        own = jnp.where(trained & (jnp.sign(pairs) == sign), values.astype(jnp.float32), 0.0)
        return jax.ops.segment_sum(own.ravel(), place.ravel(), rows * (length + 1))

    ones = jnp.ones_like(weight)
    lengths = [per_pair(ones, sign) for sign in (1, -1)]
    sums = [per_pair(logprobs, sign) for sign in (1, -1)]
    reference = [per_pair(reference_logprobs, sign) for sign in (1, -1)]
    tokens = lengths[0] + lengths[1]
    weights = (per_pair(weight, 1) + per_pair(weight, -1)) / jnp.maximum(tokens, 1)
    means = [total / jnp.maximum(n, 1) for total, n in zip(sums, lengths, strict=True)]
    rewards = [total - ref for total, ref in zip(sums, reference, strict=True)]
    if kind == "simpo":
        rewards = means
    rewards = [beta * reward for reward in rewards]
    h = rewards[0] - rewards[1] - (margin if kind == "simpo" else 0.0)
    if kind == "ipo":
        loss = (h / beta - 1 / (2 * beta)) ** 2
    else:
        loss = -(1 - label_smoothing) * jax.nn.log_sigmoid(h) - label_smoothing * jax.nn.log_sigmoid(-h)
    loss = loss - likelihood * means[0]
    there = (tokens > 0).astype(jnp.float32)
    measured = {
        "preference_accuracy": jnp.sum(there * (rewards[0] > rewards[1])),
        "reward_margin": jnp.sum(there * (rewards[0] - rewards[1])),
        "chosen_reward": jnp.sum(there * rewards[0]),
        "rejected_reward": jnp.sum(there * rewards[1]),
        "chosen_logprob": jnp.sum(there * means[0]),  # mean over its tokens
    }
    return LossTerms(jnp.sum(weights * loss), jnp.sum(tokens), jnp.sum(there), jax.lax.stop_gradient(measured))

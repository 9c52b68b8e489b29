"""Losses as sums over weighted tokens or pairs. Weights carry every normalisation, so packing cannot change a loss.

`LOSSES` lists them all: a new loss is a function, a row there and its name in `Name`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from spicejax.types import UNSAMPLED, LessonKind

PreferenceKind = Literal["dpo", "ipo", "simpo"]
# `drgrpo` is what runs of old call ppo_clip
Name = Literal["ppo_clip", "gspo", "cispo", "supervised", PreferenceKind, "drgrpo"]
ALIASES: dict[str, Name] = {"drgrpo": "ppo_clip"}

_MAX_LOG_RATIO = 40.0  # exp() of it stays finite in float32; as Oat clamps


class LossTerms(NamedTuple):
    """Sums and maxima over a micro-batch; add them over micro-batches, then divide `sums` by `count`."""

    loss: Float[Array, ""]
    tokens: Float[Array, ""]  # trained tokens
    count: Float[Array, ""]  # of what the sums are over: trained tokens, or pairs
    sums: dict[str, Float[Array, ""]]  # named as the metrics that their means are
    maxima: dict[str, Float[Array, ""]] = {}  # over the same; named as metrics, which end in _max

    def __add__(self, other: LossTerms) -> LossTerms:  # pyright: ignore[reportIncompatibleMethodOverride]
        maxima = {name: jnp.maximum(value, other.maxima[name]) for name, value in self.maxima.items()}
        return jax.tree.map(jnp.add, self, other._replace(maxima=maxima))._replace(maxima=maxima)


class Tokens(NamedTuple):
    """What the surrogate of a policy loss is a function of, each of the shape of the logprobs."""

    logprobs: Array
    log_ratio: Array  # logprob - old logprob, clamped; 0 where not trained
    advantages: Array
    trained: Array  # 1 = in the loss
    responses: Array | None  # number of the response in its row; rows are the first axis


Surrogate = Callable[[Tokens, float, float, float], tuple[Array, Array]]


def ppo_clip(tokens: Tokens, low: float, high: float, dual: float) -> tuple[Array, Array]:
    """max(-A ratio, -A clip(ratio, 1 - low, 1 + high)) of each token (arXiv:1707.06347), and whether it is clipped.

    `high` > `low` is DAPO's clip-higher (arXiv:2503.14476). `dual` c > 1 bounds what a token with A < 0 adds by -A c,
    however far its ratio grew (arXiv:1912.09729); 0 = unbounded.
    """
    ratio, advantages = jnp.exp(tokens.log_ratio), tokens.advantages
    bounded = jnp.clip(ratio, 1 - low, 1 + high)
    surrogate = jnp.maximum(-advantages * ratio, -advantages * bounded)
    clipped = -advantages * bounded > -advantages * ratio
    if dual > 0:
        clipped |= (advantages < 0) & (surrogate > -advantages * dual)
        surrogate = jnp.where(advantages < 0, jnp.minimum(surrogate, -advantages * dual), surrogate)
    return surrogate, clipped


def gspo(tokens: Tokens, low: float, high: float, dual: float) -> tuple[Array, Array]:
    """PPO's clip of one ratio per response, exp(mean of log_ratio over its trained tokens) (arXiv:2507.18071, eq. 5-7).

    The paper's mean over responses is `sequence_mean`; its clip range is low = 3e-4, high = 4e-4.
    """
    assert tokens.responses is not None
    places = _places(tokens.responses)
    total, count = (_sums(x, tokens.trained > 0, places) for x in (tokens.log_ratio, tokens.trained))
    log_ratio = (total / jnp.maximum(count, 1))[places] * tokens.trained
    return ppo_clip(tokens._replace(log_ratio=log_ratio), low, high, dual)


def cispo(tokens: Tokens, low: float, high: float, dual: float) -> tuple[Array, Array]:
    """-A stop_gradient(clip(ratio, 1 - low, 1 + high)) logprob (arXiv:2506.13585, eq. 4), and whether it is clipped.

    A clipped token keeps a gradient. MiniMax-M1 has no lower bound (low = 1) and takes `token_mean`.
    """
    ratio = jnp.exp(tokens.log_ratio)
    bounded = jnp.clip(ratio, 1 - low, 1 + high)
    logprobs = jnp.where(tokens.trained > 0, tokens.logprobs, 0.0)
    return -tokens.advantages * jax.lax.stop_gradient(bounded) * logprobs, bounded != ratio


def policy_loss(
    logprobs: Float[Array, "*N"],
    old_logprobs: Float[Array, "*N"],
    behaviour_logprobs: Float[Array, "*N"],
    reference_logprobs: Float[Array, "*N"],
    advantages: Float[Array, "*N"],
    weight: Float[Array, "*N"],
    responses: Int[Array, "*N"] | None = None,
    *,
    surrogate: Surrogate = ppo_clip,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    tis_cap: float = 2.0,
    kl_coef: float = 0.0,
    dual_clip: float = 0.0,
) -> LossTerms:
    """Policy gradient on scored responses, with truncated importance weight (as in Oat) and KL term.

        sum_t weight_t * [ w_t * surrogate_t + kl_coef * k3_t ]
        log_ratio_t = logprob - old,  w_t = min(exp(old - behaviour), tis_cap),  k3 = e^d - d - 1, d = ref - logprob

    With weight_t = loss_mask / (L N) (L the constant `loss_norm_length`, N trajectories) this is Dr. GRPO's mean over
    trajectories of the token sum over L (arXiv:2503.20783); other weights give the per-sequence and the token mean
    (`packing.token_weights`). `w_t` corrects for a sampler that differs from the learner; it carries no gradient, and
    is 1 where behaviour is UNSAMPLED.
    `tis_cap` 0 turns it off.
    """
    trained = (weight > 0).astype(jnp.float32)
    log_ratio = jnp.clip(logprobs - old_logprobs, -_MAX_LOG_RATIO, _MAX_LOG_RATIO) * trained
    tokens = Tokens(logprobs, log_ratio, advantages, trained, responses)
    losses, clipped = surrogate(tokens, clip_low, clip_high, dual_clip)
    gap = (old_logprobs - behaviour_logprobs) * trained * (behaviour_logprobs != UNSAMPLED)
    bounded_gap = jnp.clip(gap, -_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    importance = jnp.exp(bounded_gap)
    if tis_cap > 0:
        losses = losses * jax.lax.stop_gradient(jnp.minimum(importance, tis_cap))
    loss = jnp.sum(weight * losses)
    kl = jnp.float32(0)
    if kl_coef > 0:
        drift = jnp.clip(reference_logprobs - logprobs, -_MAX_LOG_RATIO, _MAX_LOG_RATIO) * trained
        k3 = jnp.expm1(drift) - drift  # exp(drift) - 1 would round small drifts away
        kl = jnp.sum(trained * k3)
        loss = loss + kl_coef * jnp.sum(weight * k3)
    hit = jnp.sum(trained * (importance > tis_cap)) if tis_cap > 0 else jnp.float32(0)
    sums = {
        "clip_fraction": jnp.sum(trained * clipped),
        "kl": kl,  # k3 against the reference
        "sampler_gap": jnp.sum(jnp.abs(gap)),  # |old - behaviour|
        "sampler_kl": jnp.sum(trained * (jnp.expm1(bounded_gap) - bounded_gap)),  # k3, sampler against learner
        "tis_fraction": hit,  # importance weights at the cap
    }
    maxima = {"sampler_gap_max": jnp.max(jnp.abs(gap), initial=0.0)}
    count = jnp.sum(trained)
    return LossTerms(loss, count, count, *jax.lax.stop_gradient((sums, maxima)))


def supervised_loss(logprobs: Float[Array, "*N"], weight: Float[Array, "*N"]) -> LossTerms:
    """Weighted negative log likelihood: -sum_t weight_t logprob_t."""
    tokens = jnp.sum((weight > 0).astype(jnp.float32))
    return LossTerms(-jnp.sum(weight * logprobs), tokens, tokens, {})


def preference_loss(
    logprobs: Float[Array, "B S"],
    reference_logprobs: Float[Array, "B S"],
    weight: Float[Array, "B S"],
    responses: Int[Array, "B S"],
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
      responses: k for the chosen and -k for the rejected response of the row's pair k > 0; 0 = neither.
    """
    trained, places = (weight > 0) & (responses != 0), _places(responses)

    def per_pair(values: Float[Array, "B S"], sign: int) -> Float[Array, " N"]:
        return _sums(values.astype(jnp.float32), trained & (jnp.sign(responses) == sign), places)

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


def _places(responses: Int[Array, "B S"]) -> Int[Array, "B S"]:
    """A number for each response, or pair, over all rows; a row's first number takes what belongs to none."""
    rows, length = responses.shape  # a row has fewer responses than scored tokens
    return jnp.abs(responses) + (length + 1) * jnp.arange(rows, dtype=jnp.int32)[:, None]


def _sums(values: Float[Array, "B S"], counted: Array, places: Int[Array, "B S"]) -> Float[Array, " N"]:
    """Sum the values of each place over the tokens where `counted` is true."""
    rows, length = places.shape
    return jax.ops.segment_sum(jnp.where(counted, values, 0.0).ravel(), places.ravel(), rows * (length + 1))


class Loss(NamedTuple):
    """A row of the list: a function and what it needs."""

    terms: Callable[..., LossTerms]  # (logprobs, *fields of Batch, **numbers of LearnerConfig)
    lesson: LessonKind
    reads: tuple[str, ...]  # the fields of Batch, in the order of the arguments
    reference: bool = False  # compares with the run's first policy; one on scored lessons does where kl_coef > 0

    @property
    def numbered(self) -> bool:
        """Whether it has to know which tokens are of one response."""
        return "responses" in self.reads


_SCORED = ("old_logprobs", "behaviour_logprobs", "reference_logprobs", "advantages", "loss_weight")
_PAIRS = ("reference_logprobs", "loss_weight", "responses")
LOSSES = {
    "ppo_clip": Loss(policy_loss, "scored", _SCORED),
    "gspo": Loss(functools.partial(policy_loss, surrogate=gspo), "scored", (*_SCORED, "responses")),
    "cispo": Loss(functools.partial(policy_loss, surrogate=cispo), "scored", _SCORED),
    "supervised": Loss(supervised_loss, "given", ("loss_weight",)),
    "dpo": Loss(functools.partial(preference_loss, kind="dpo"), "pair", _PAIRS, reference=True),
    "ipo": Loss(functools.partial(preference_loss, kind="ipo"), "pair", _PAIRS, reference=True),
    "simpo": Loss(functools.partial(preference_loss, kind="simpo"), "pair", _PAIRS),
}

"""Owns the rewards of both roles: numbers from counts of correct answers."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

RewardKind = Literal["gaussian_variance", "absolute_zero", "threshold", "r_zero"]
REWARD_KINDS: tuple[str, ...] = get_args(RewardKind)

OPTIMAL_VARIANCE = 0.25  # of a coin flip: half of the answers right
TEMPERATURE = 0.01  # tau of the Gaussian, in units of variance squared
INVALID_REWARD = -0.1  # rho of SPICE, for a question that is no valid task


def challenger_reward(
    num_correct: int | np.ndarray | None, num_samples: int | np.ndarray, *, kind: RewardKind = "gaussian_variance",
    rho: float = INVALID_REWARD,
) -> float | np.ndarray:  # fmt: skip
    """Reward a question by the Reasoner's pass rate p = num_correct / num_samples (arXiv:2510.24684, eq. 1, fig. 7).

    gaussian_variance: exp(-(v - 0.25)^2 / (2 * 0.01)) with the population variance v = p (1 - p)
    absolute_zero:     1 - p
    threshold:         1 where 0 < p < 1, else 0
    r_zero:            1 - 2 |p - 0.5|

    Args:
        num_correct: correct answers per question, a number or an array; None = the question was invalid.
        num_samples: answers per question, K.
        rho: reward of an invalid question.

    Returns:
        A float, or float64 of the shape of `num_correct`.

    Raises:
        ValueError: unknown kind, no samples, or counts outside 0 to num_samples.
    """
    if kind not in REWARD_KINDS:
        raise ValueError(f"unknown Challenger reward {kind!r}: choose one of {', '.join(REWARD_KINDS)}")
    if num_correct is None:
        return rho
    correct, samples = np.asarray(num_correct, np.float64), np.asarray(num_samples, np.float64)
    if not np.all(samples >= 1) or not np.all((correct >= 0) & (correct <= samples)):
        raise ValueError(
            f"num_correct {num_correct} must lie between 0 and num_samples {num_samples}, itself at least 1"
        )
    p = correct / samples
    if kind == "gaussian_variance":
        # The unbiased variance would peak at 3/8 and 5/8 instead of a half.
        reward = np.exp(-((p * (1 - p) - OPTIMAL_VARIANCE) ** 2) / (2 * TEMPERATURE))
    elif kind == "absolute_zero":
        # As SPICE's own ablation draws it (fig. 7): an impossible question earns 1. The Absolute Zero baseline itself
        # gives 0 there (appendix 8); games/absolute_zero.py owns that rule.
        reward = 1 - p
    elif kind == "threshold":
        reward = ((p > 0) & (p < 1)).astype(np.float64)
    else:
        reward = 1 - 2 * np.abs(p - 0.5)
    return float(reward) if reward.ndim == 0 else reward

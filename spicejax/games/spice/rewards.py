"""Owns the Challenger's reward: a number from a count of correct answers."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

RewardKind = Literal["gaussian_variance", "absolute_zero", "threshold", "r_zero"]

OPTIMAL_VARIANCE = 0.25  # of a coin flip: half of the answers right
TEMPERATURE = 0.01  # tau of the Gaussian, in units of variance squared


def challenger_reward(num_correct: int, num_samples: int, *, kind: RewardKind = "gaussian_variance") -> float:
    """Reward a valid question by the Reasoner's pass rate p = num_correct / num_samples (arXiv:2510.24684, eq. 1).

    gaussian_variance: exp(-(v - 0.25)^2 / (2 * 0.01)) with the population variance v = p (1 - p)
    absolute_zero:     1 - p
    threshold:         1 where 0 < p < 1, else 0
    r_zero:            1 - 2 |p - 0.5|

    Raises:
        ValueError: unknown kind.
    """
    p = num_correct / num_samples
    if kind == "gaussian_variance":
        # The unbiased variance would peak at 3/8 and 5/8 instead of a half. From counts: 1 - 0.7 is not 0.3, and 3
        # and 7 of 10 are to be worth the same to the last bit.
        variance = num_correct * (num_samples - num_correct) / num_samples**2
        return float(np.exp(-((variance - OPTIMAL_VARIANCE) ** 2) / (2 * TEMPERATURE)))
    if kind == "absolute_zero":
        # Differs: an impossible question earns 1, as figure 7 draws it; appendix 8 says 0 of the Absolute Zero baseline
        return 1 - p
    if kind == "threshold":
        return float(0 < p < 1)
    if kind == "r_zero":
        # Differs: p is the share of right answers, as in figure 7; section 4.3 has agreement with the commonest one
        return 1 - abs(2 * num_correct - num_samples) / num_samples
    raise ValueError(f"unknown Challenger reward {kind!r}: choose one of {', '.join(get_args(RewardKind))}")

"""Advantages: rewards minus a baseline shared by a group of episodes."""

from __future__ import annotations

import numpy as np

from spicejax.types import Estimator


def group_advantages(rewards: np.ndarray, groups: np.ndarray, *, estimator: Estimator = "mean") -> np.ndarray:
    """Advantage of each episode against its own group; groups may have any size and order.

    mean:     A_i = r_i - mean(r of the group)                    Dr. GRPO (arXiv:2503.20783), SPICE eq. 3 and 4
    mean_std: A_i = (r_i - mean) / (unbiased std + 1e-8)          GRPO (arXiv:2402.03300) as Oat computes it
    none:     A_i = r_i                                           REINFORCE without a baseline

    Args:
      rewards: float [N].
      groups: int [N]; episodes with equal numbers share a baseline. Roles never share a number.
    Returns: float32 [N]; with a baseline exactly 0 where all rewards of the group are equal.
    Raises: ValueError where a reward is not finite.
    """
    rewards = np.asarray(rewards, np.float64)
    if not np.all(np.isfinite(rewards)):
        raise ValueError(f"reward {rewards[~np.isfinite(rewards)][0]} is not finite")
    if estimator == "none":
        return rewards.astype(np.float32)
    # Differs: the Challenger's group are the tasks of one document; SPICE's eq. 3 could mean all of an iteration
    advantages = np.zeros_like(rewards)
    for group in np.unique(groups):
        members = groups == group
        r = rewards[members]
        if np.ptp(r) == 0:
            continue
        centred = r - r.mean()
        advantages[members] = centred / (r.std(ddof=1) + 1e-8) if estimator == "mean_std" else centred
    return advantages.astype(np.float32)


def equal_fraction(rewards: np.ndarray, groups: np.ndarray) -> float:
    """Fraction of groups whose rewards are all equal: they carry no learning signal."""
    return float(np.mean([np.ptp(rewards[groups == g]) == 0 for g in np.unique(groups)]))

"""Advantages: rewards minus a baseline shared by a group of episodes."""

from __future__ import annotations

import numpy as np

from spicejax.types import Estimator


def group_advantages(
    rewards: np.ndarray, groups: np.ndarray, tokens: np.ndarray | None = None, *, estimator: Estimator = "mean"
) -> np.ndarray:
    """Advantage of each episode of one role against its own group; groups may have any size and order.

    mean:        A_i = r_i - mean(r of the group)              Dr. GRPO (arXiv:2503.20783), SPICE eq. 3 and 4
    mean_std:    A_i = (r_i - mean) / (unbiased std + 1e-8)    GRPO (arXiv:2402.03300) as Oat computes it
    whiten:      A_i = (r_i - m) / sqrt(v + 1e-8)              REINFORCE++ (arXiv:2501.03262)
    mean_whiten: the same of r_i - mean(r of the group)        REINFORCE++-baseline, as R1-Searcher trains
    none:        A_i = r_i                                     REINFORCE without a baseline

    m and v are mean and variance over all trained tokens of the role, each with the reward of its episode.

    Args:
      rewards: float [N].
      groups: int [N]; episodes with equal numbers share a baseline. Roles never share a number.
      tokens: trained tokens of each episode, for whitening; None = all the same.
    Returns: float32 [N]; exactly 0 where all rewards compared are equal.
    Raises: ValueError where a reward is not finite.
    """
    rewards = np.asarray(rewards, np.float64)
    if not np.all(np.isfinite(rewards)):
        raise ValueError(f"reward {rewards[~np.isfinite(rewards)][0]} is not finite")
    if estimator == "none":
        return rewards.astype(np.float32)
    if estimator == "whiten":
        return _whitened(rewards, tokens)
    # Differs: the Challenger's group are the tasks of one document; SPICE's eq. 3 could mean all of an iteration
    advantages = np.zeros_like(rewards)
    for group in np.unique(groups):
        members = groups == group
        r = rewards[members]
        if np.ptp(r) == 0:
            continue
        centred = r - r.mean()
        advantages[members] = centred / (r.std(ddof=1) + 1e-8) if estimator == "mean_std" else centred
    return _whitened(advantages, tokens) if estimator == "mean_whiten" else advantages.astype(np.float32)


def _whitened(values: np.ndarray, tokens: np.ndarray | None) -> np.ndarray:
    """Values less their mean, over their deviation, both weighted by tokens, float32 [N]."""
    if not len(values) or np.ptp(values) == 0:
        return np.zeros(len(values), np.float32)
    mean = np.average(values, weights=tokens)
    variance = np.average((values - mean) ** 2, weights=tokens)
    return ((values - mean) / np.sqrt(variance + 1e-8)).astype(np.float32)


def equal_fraction(rewards: np.ndarray, groups: np.ndarray) -> float:
    """Fraction of groups whose rewards are all equal: they carry no learning signal."""
    return float(np.mean([np.ptp(rewards[groups == g]) == 0 for g in np.unique(groups)]))

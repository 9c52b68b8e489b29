"""Advantages: rewards minus a baseline, of a group of episodes or of a role's past."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spicejax.types import Estimator


def _of_mean(r: np.ndarray) -> np.ndarray:
    return (r - r.mean()) / r.mean() if r.mean() > 0 else np.zeros_like(r)


# What compares the episodes of a group with each other, each a function of their rewards, which are not all equal.
OF_GROUP: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": lambda r: r - r.mean(),
    "mean_std": lambda r: (r - r.mean()) / (r.std(ddof=1) + 1e-8),
    "rloo": lambda r: (r - r.mean()) * len(r) / (len(r) - 1),
    "max_rl": _of_mean,
    "mean_whiten": lambda r: r - r.mean(),
}


def group_advantages(
    rewards: np.ndarray, groups: np.ndarray, tokens: np.ndarray | None = None, *, estimator: Estimator = "mean"
) -> np.ndarray:
    """Advantage of each episode of one role against its own group; groups may have any size and order.

    mean:        A_i = r_i - mean(r of the group)              Dr. GRPO (arXiv:2503.20783), SPICE eq. 3 and 4
    mean_std:    A_i = (r_i - mean) / (unbiased std + 1e-8)    GRPO (arXiv:2402.03300) as Oat computes it
    rloo:        A_i = r_i - mean(r of the group's others)     RLOO (arXiv:2402.14740)
    max_rl:      A_i = (r_i - mean) / mean, 0 if mean <= 0     MaxRL (arXiv:2602.02710); rewards from 0
    whiten:      A_i = (r_i - m) / sqrt(v + 1e-8)              REINFORCE++ (arXiv:2501.03262)
    mean_whiten: the same of r_i - mean(r of the group)        REINFORCE++-baseline, as R1-Searcher trains
    none:        A_i = r_i                                     REINFORCE without a baseline

    m and v are mean and variance over all trained tokens of the role, each with the reward of its episode. `rae` has a
    state: `role_advantages`.

    Args:
      rewards: float [N].
      groups: int [N]; episodes with equal numbers share a baseline. Roles never share a number, so solvers are compared
        within their question and proposers within their document (prime-rl's hierarchical_grpo).
      tokens: trained tokens of each episode, for whitening; None = all the same.
    Returns: float32 [N]; exactly 0 where all rewards compared are equal (those of the role, for whitening).
    Raises: ValueError where a reward is not finite, and for another estimator.
    """
    rewards = _finite(rewards)
    if estimator == "none":
        return rewards.astype(np.float32)
    if estimator == "whiten":
        return _whitened(rewards, tokens)
    if estimator not in OF_GROUP:
        raise ValueError(f"estimator {estimator!r} compares no group; choose from {', '.join(OF_GROUP)}, whiten, none")
    # Differs: the Challenger's group are the tasks of one document; SPICE's eq. 3 could mean all of an iteration
    advantages = np.zeros_like(rewards)
    for group in np.unique(groups):
        members = groups == group
        r = rewards[members]
        if np.ptp(r) > 0:
            advantages[members] = OF_GROUP[estimator](r)
    return _whitened(advantages, tokens) if estimator == "mean_whiten" else advantages.astype(np.float32)


def role_advantages(rewards: np.ndarray, baseline: float, decay: float) -> tuple[np.ndarray, float]:
    """Advantage of each episode of one role against a moving average of the role's rewards, SPIRAL's RAE.

        A_i = r_i - b,  then b <- decay b + (1 - decay) r_i        (arXiv:2506.24119), in the order of the episodes

    Args:
      rewards: float [N].
      baseline: b after the role's earlier episodes, 0 before the first.
    Returns: float32 [N], and b after the last episode.
    """
    # Differs: SPIRAL's text moves b before it subtracts it; its code does so after, so that r_i is not in its own b
    advantages = np.zeros(len(rewards), np.float32)
    for i, reward in enumerate(_finite(rewards).tolist()):
        advantages[i] = reward - baseline
        baseline = decay * baseline + (1 - decay) * reward
    return advantages, baseline


def _finite(rewards: np.ndarray) -> np.ndarray:
    rewards = np.asarray(rewards, np.float64)
    if not np.all(np.isfinite(rewards)):
        raise ValueError(f"reward {rewards[~np.isfinite(rewards)][0]} is not finite")
    return rewards


def _whitened(values: np.ndarray, tokens: np.ndarray | None) -> np.ndarray:
    """Values less their mean, over their deviation, both weighted by tokens, float32 [N]."""
    if not len(values) or np.ptp(values) == 0 or (tokens is not None and not np.any(tokens)):
        return np.zeros(len(values), np.float32)
    mean = np.average(values, weights=tokens)
    variance = np.average((values - mean) ** 2, weights=tokens)
    return ((values - mean) / np.sqrt(variance + 1e-8)).astype(np.float32)


def equal_fraction(rewards: np.ndarray, groups: np.ndarray) -> float:
    """Fraction of groups whose rewards are all equal: they carry no learning signal."""
    return float(np.mean([np.ptp(rewards[groups == g]) == 0 for g in np.unique(groups)]))

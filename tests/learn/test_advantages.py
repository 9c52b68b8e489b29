"""Advantages against numbers worked out on paper and second definitions, loops over the papers' formulas."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from spicejax.learn.advantages import OF_GROUP, equal_fraction, group_advantages, role_advantages

ROOT3 = math.sqrt(3)


def advantages(rewards: Sequence[float], groups: Sequence[int], **keywords) -> np.ndarray:
    return group_advantages(np.array(rewards, np.float64), np.array(groups, np.int64), **keywords)


BY_HAND = [
    ("mean", [1, 0, 0, 1], [0.5, -0.5, -0.5, 0.5]),
    ("mean", [1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25]),
    # Challenger of SPICE: two valid questions (pass rates 1/2 and 0 of 8) and two invalid at -0.1
    ("mean", [1.0, 0.0439, -0.1, -0.1], [0.789025, -0.167075, -0.310975, -0.310975]),
    # the unbiased deviation
    ("mean_std", [1, 0, 0, 1], [ROOT3 / 2, -ROOT3 / 2, -ROOT3 / 2, ROOT3 / 2]),
    ("mean_std", [0, 1, 3, 4, 2], [n / math.sqrt(2.5) for n in (-2, -1, 1, 2, 0)]),
    ("mean_std", [5, 9], [-1 / math.sqrt(2), 1 / math.sqrt(2)]),
    # centred +-1e-8, deviation sqrt(2) x 1e-8: 1 / (sqrt(2) + 1) with the offset of 1e-8, 1 / sqrt(2) without
    ("mean_std", [0.0, 2e-8], [1 - math.sqrt(2), math.sqrt(2) - 1]),
    ("rloo", [1, 0, 0, 0], [1, -1 / 3, -1 / 3, -1 / 3]),
    ("rloo", [3, 1], [2, -2]),
    # one of four right: the right answer weighs (1 - 1/4) / (1/4) = 3, as rare as it is
    ("max_rl", [1, 0, 0, 0], [3, -1, -1, -1]),
    ("max_rl", [1, 1, 1, 0], [1 / 3, 1 / 3, 1 / 3, -1]),
    ("max_rl", [-1, 0], [0, 0]),
    ("none", [0.25, 1.0, -0.5], [0.25, 1.0, -0.5]),
    ("mean", [], []),
]


@pytest.mark.parametrize(("estimator", "rewards", "expected"), BY_HAND)
def test_one_group_by_hand(estimator, rewards, expected):
    got = advantages(rewards, [7] * len(rewards), estimator=estimator)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.array(expected), rtol=1e-6)


def second_definition(estimator, rewards, groups):
    """The papers' formulas, an episode at a time."""
    made = []
    for i, reward in enumerate(rewards):
        others = [r for j, r in enumerate(rewards) if groups[j] == groups[i] and j != i]
        everyone = [*others, reward]
        mean = sum(everyone) / len(everyone)
        spread = math.sqrt(sum((r - mean) ** 2 for r in everyone) / max(len(everyone) - 1, 1))
        made.append(
            {
                "mean": reward - mean,
                "mean_std": (reward - mean) / (spread + 1e-8),
                "rloo": reward - sum(others) / len(others) if others else 0.0,
                "max_rl": (reward - mean) / mean if mean else 0.0,  # arXiv:2602.02710: sum over successes / successes
            }[estimator]
        )
    return made


@pytest.mark.parametrize("estimator", sorted(set(OF_GROUP) - {"mean_whiten"}))
def test_estimators_agree_with_a_second_definition(estimator):
    rng = np.random.default_rng(2)
    rewards, groups = rng.integers(0, 2, 60).astype(float), rng.integers(0, 8, 60)
    got = group_advantages(rewards, groups, estimator=estimator)
    np.testing.assert_allclose(got, second_definition(estimator, rewards.tolist(), groups.tolist()), atol=1e-6)
    assert np.abs(got).max() > 0.3


def test_a_moving_baseline_of_a_role():
    """By hand with decay 1/2 from 0; then the sum over the past that the recursion is, in any cut into updates."""
    got, baseline = role_advantages(np.array([1.0, 1.0, 0.0]), 0.0, 0.5)
    assert got.tolist() == [1.0, 0.5, -0.75] and baseline == 0.375
    rewards = np.random.default_rng(3).normal(size=50)
    whole, last = role_advantages(rewards, 0.25, 0.95)
    past = [0.95**i * 0.25 + sum(0.05 * 0.95 ** (i - 1 - j) * rewards[j] for j in range(i)) for i in range(51)]
    np.testing.assert_allclose(whole, rewards - past[:50], atol=1e-6)
    assert last == pytest.approx(past[50], abs=1e-12)
    first, between = role_advantages(rewards[:17], 0.25, 0.95)
    second, end = role_advantages(rewards[17:], between, 0.95)
    assert np.concatenate([first, second]).tobytes() == whole.tobytes() and end == last
    nothing, same = role_advantages(np.zeros(0), 0.25, 0.95)
    assert nothing.shape == (0,) and same == 0.25
    with pytest.raises(ValueError, match="reward nan is not finite"):
        role_advantages(np.array([math.nan]), 0.0, 0.95)


def test_ragged_groups_in_any_order():
    # group 4: 1, 0, 0 (mean 1/3); group 0: 2, 4 (mean 3); group -9: a single one
    rewards, groups = [1, 2, 0, 5, 4, 0], [4, 0, 4, -9, 0, 4]
    np.testing.assert_allclose(advantages(rewards, groups), [2 / 3, -1, -1 / 3, 0, 1, -1 / 3], rtol=1e-6)


@pytest.mark.parametrize("estimator", [*OF_GROUP, "whiten", "none"])
def test_order_of_episodes_does_not_matter(estimator):
    rng = np.random.default_rng(0)
    rewards, groups = rng.normal(size=40), rng.integers(0, 9, 40)
    order = rng.permutation(40)
    plain = group_advantages(rewards, groups, estimator=estimator)
    mixed = group_advantages(rewards[order], groups[order], estimator=estimator)
    np.testing.assert_allclose(mixed, plain[order], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("estimator", ["mean", "mean_std", "rloo", "max_rl"])
def test_an_all_equal_group_is_exactly_zero(estimator):
    # The mean of three times 0.1 is not 0.1 in floating point; the advantage must still vanish exactly.
    for value, size in itertools.product((0.0, 1.0, -0.1, 0.1, 1 / 3, 0.0439369336), (1, 3, 7, 8)):
        got = advantages([value] * size + [0.0, 1.0], [0] * size + [1, 1], estimator=estimator)
        assert np.all(got[:size] == 0.0) and np.all(got[size:] != 0.0), (value, size)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # tokens 1, 1, 2 of rewards 1, 0, 0: mean 1/4, variance (9/16 + 1/16 + 2/16) / 4 = 3/16
        ("whiten", [3 / ROOT3, -1 / ROOT3, -1 / ROOT3]),
        # centred by group 1/2, -1/2, 0: mean over tokens 0, variance (1/4 + 1/4) / 4 = 1/8
        ("mean_whiten", [math.sqrt(2), -math.sqrt(2), 0]),
    ],
)
def test_whitening_weighs_episodes_by_their_tokens(estimator, expected):
    got = group_advantages(np.array([1.0, 0, 0]), np.array([0, 0, 1]), np.array([1, 1, 2]), estimator=estimator)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert not group_advantages(np.ones(3), np.arange(3), np.array([1, 1, 2]), estimator=estimator).any()
    assert not group_advantages(np.arange(3.0), np.array([0, 0, 1]), np.zeros(3, int), estimator=estimator).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_not_finite_raises_and_names_it(bad):
    with pytest.raises(ValueError, match=f"reward {bad} is not finite"):
        advantages([0.0, bad], [0, 0])


def test_an_estimator_that_compares_no_group_is_named_with_the_choices():
    with pytest.raises(ValueError, match="estimator 'rae' compares no group; choose from mean, .*, whiten, none"):
        advantages([0.0, 1.0], [0, 0], estimator="rae")


def test_equal_fraction_by_hand():
    # groups: 0 = {1, 1}, 1 = {0, 1}, 2 = {0}, 3 = {0, 0, 1}: two of four carry no signal
    rewards, groups = np.array([1, 0, 1, 0, 1, 0, 0, 1.0]), np.array([0, 1, 0, 2, 1, 3, 3, 3])
    assert equal_fraction(rewards, groups) == 0.5

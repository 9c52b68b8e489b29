"""Rewards of the Challenger against the numbers of the paper's equation, worked by hand."""

import math

import numpy as np
import pytest

from spicejax.games.spice.rewards import REWARD_KINDS, challenger_reward


@pytest.mark.parametrize(
    ("correct", "reward"),
    [(0, 0.0439), (1, 0.372), (2, 0.823), (3, 0.988), (4, 1.0), (5, 0.988), (6, 0.823), (7, 0.372), (8, 0.0439)],
)
def test_variance_reward_of_eight_answers(correct: int, reward: float) -> None:
    assert challenger_reward(correct, 8) == pytest.approx(reward, abs=6e-4)


def test_the_variance_is_the_population_one() -> None:
    # 3 of 8: v = 15/64, exp(-((15/64 - 16/64)^2) / 0.02); the unbiased variance 15/56 would peak there instead
    assert challenger_reward(3, 8) == pytest.approx(math.exp(-((1 / 64) ** 2) / 0.02), rel=1e-12)
    assert challenger_reward(4, 8) == 1.0


def test_the_other_rewards_of_the_ablation() -> None:
    counts = np.array([0, 2, 4, 6, 8])
    expected = {
        "absolute_zero": [1, 0.75, 0.5, 0.25, 0],
        "threshold": [0, 1, 1, 1, 0],
        "r_zero": [0, 0.5, 1, 0.5, 0],
    }
    for kind, values in expected.items():
        np.testing.assert_allclose(challenger_reward(counts, 8, kind=kind), values)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", REWARD_KINDS)
def test_arrays_and_numbers_agree(kind) -> None:
    table = challenger_reward(np.arange(9), 8, kind=kind)
    assert isinstance(table, np.ndarray) and table.dtype == np.float64 and table.shape == (9,)
    for k in range(9):
        single = challenger_reward(k, 8, kind=kind)
        assert isinstance(single, float) and single == table[k] and 0 <= single <= 1


def test_an_invalid_question_earns_less_than_any_valid_one() -> None:
    assert challenger_reward(None, 8) == -0.1 and challenger_reward(None, 8, rho=-1.0) == -1.0
    assert challenger_reward(0, 8) > challenger_reward(None, 8)


@pytest.mark.parametrize(("correct", "samples"), [(9, 8), (-1, 8), (0, 0), (float("nan"), 8), (np.array([0, 9]), 8)])
def test_impossible_counts_raise(correct, samples) -> None:
    with pytest.raises(ValueError, match="num_correct"):
        challenger_reward(correct, samples)


def test_unknown_kinds_raise_with_the_choices() -> None:
    with pytest.raises(ValueError, match="gaussian_variance, absolute_zero"):
        challenger_reward(1, 8, kind="entropy")  # pyright: ignore[reportArgumentType]

"""Rewards of the Challenger against the numbers of the paper's equation, worked by hand."""

import pytest

from spicejax.games.spice.rewards import challenger_reward


@pytest.mark.parametrize(
    ("correct", "reward"),
    [(0, 0.0439), (1, 0.372), (2, 0.823), (3, 0.988), (4, 1.0), (5, 0.988), (6, 0.823), (7, 0.372), (8, 0.0439)],
)
def test_variance_reward_of_eight_answers(correct: int, reward: float) -> None:
    assert challenger_reward(correct, 8) == pytest.approx(reward, abs=6e-4)


@pytest.mark.parametrize(
    ("kind", "rewards"),
    [("absolute_zero", [1, 0.75, 0.5, 0.25, 0]), ("threshold", [0, 1, 1, 1, 0]), ("r_zero", [0, 0.5, 1, 0.5, 0])],
)
def test_the_other_rewards_of_the_ablation(kind, rewards: list[float]) -> None:
    assert [challenger_reward(correct, 8, kind=kind) for correct in (0, 2, 4, 6, 8)] == pytest.approx(rewards)


@pytest.mark.parametrize("kind", ["gaussian_variance", "r_zero"])
def test_questions_as_far_from_a_half_are_worth_the_same_to_the_last_bit(kind) -> None:
    """A group of equal rewards teaches nothing, which `==` tells."""
    assert all(
        challenger_reward(k, n, kind=kind) == challenger_reward(n - k, n, kind=kind)
        for n in range(1, 33)
        for k in range(n)
    )


def test_unknown_kinds_raise_with_the_choices() -> None:
    with pytest.raises(ValueError, match="gaussian_variance, absolute_zero"):
        challenger_reward(1, 8, kind="entropy")  # pyright: ignore[reportArgumentType]

"""Dealing: groups stay whole, roles come in their shares, advantages by role."""

import numpy as np
import pytest

from spicejax.learn import deal
from spicejax.learn.learner import LearnerConfig
from spicejax.types import Episode, Rollout

_ZERO = np.zeros(1, np.float32)
_ROLLOUT = Rollout(np.ones(1, np.int32), np.ones(1, np.int32), _ZERO, _ZERO, _ZERO + 1, "", "stop")


def test_groups_stay_together_in_the_steps_of_an_iteration():
    groups = np.repeat(np.arange(12), 4)[np.random.default_rng(0).permutation(48)]
    roles = np.where(groups < 6, "challenger", "reasoner")
    picks = deal.deal(groups, roles, 16, 2, np.random.default_rng(1))
    assert [len(p) for p in picks] == [16] * 6
    assert all(len(set(groups[p])) == 4 for p in picks), "four groups of four, none of them cut"
    assert all(np.sum(roles[p] == "reasoner") == 8 for p in picks), "half of each role, as in the iteration"
    first, second = np.concatenate(picks[:3]), np.concatenate(picks[3:])
    assert sorted(first) == sorted(second) == list(range(48)) and list(first) != list(second)
    (whole,) = deal.deal(groups, roles, 48, 1, np.random.default_rng(1))
    assert list(whole) == list(range(48))


@pytest.mark.parametrize(("documents", "size", "group"), [(113, 128, 8), (95, 100, 8), (5, 16, 8), (3, 8, 7)])
def test_no_trajectory_weighs_more_for_being_left_over(documents, size, group):
    """With 113 groups of 8 beside 128 of the other role the last step of 128 once held 8, sixteen times as heavy."""
    lessons = [Episode("challenger", i // 8, _ROLLOUT, 1.0) for i in range(1024)]
    lessons += [Episode("reasoner", 128 + i // group, _ROLLOUT, 1.0) for i in range(documents * group)]
    cfg = LearnerConfig(trajectories_per_update=size, rows=size, row_length=2, loss_norm_length=1)
    steps = deal.steps(lessons, np.ones(len(lessons), np.float32), cfg, np.random.default_rng(0))
    weights = [batch.loss_weight[batch.loss_weight > 0] for ((batch, _),) in steps]
    sizes = [len(w) for w in weights]
    assert len(steps) == -(-len(lessons) // size) and sum(sizes) == len(lessons) and max(sizes) <= size
    assert max(sizes) <= 1.3 * min(sizes)
    np.testing.assert_allclose(np.concatenate(weights), len(steps) / len(lessons), rtol=1e-6)


def test_solvers_are_compared_within_their_question_and_proposers_within_their_document():
    """prime-rl's hierarchical_grpo: a mean for each role in each of its buckets, whatever the others earn."""
    rng = np.random.default_rng(4)
    documents, questions, answers = 3, 4, 5
    lessons = [
        Episode("challenger", d, _ROLLOUT, float(rng.random())) for d in range(documents) for _ in range(questions)
    ]
    asked = range(documents, documents + documents * questions)
    lessons += [Episode("reasoner", q, _ROLLOUT, float(rng.integers(2))) for q in asked for _ in range(answers)]
    got, _ = deal.advantages(lessons, {"challenger": "mean", "reasoner": "mean"})
    for lesson, advantage in zip(lessons, got, strict=True):
        bucket = [other.reward for other in lessons if (other.role, other.group) == (lesson.role, lesson.group)]
        assert len(bucket) == (questions if lesson.role == "challenger" else answers)
        assert advantage == pytest.approx(lesson.reward - sum(bucket) / len(bucket), abs=1e-6)


def test_a_role_keeps_its_moving_baseline_between_updates():
    lessons = [Episode("a", 0, _ROLLOUT, 1.0), Episode("b", 1, _ROLLOUT, 1.0), Episode("a", 0, _ROLLOUT, 0.0)]
    baselines: dict[str, float] = {}
    first, metrics = deal.advantages(lessons, {"a": "rae", "b": "none"}, baselines, 0.5)
    assert first.tolist() == [1.0, 1.0, -0.5] and baselines == {"a": 0.25} and metrics["a/baseline"] == 0.25
    assert deal.advantages(lessons, {"a": "rae", "b": "rae"}, baselines, 0.5)[0].tolist() == [0.75, 1.0, -0.625]
    assert baselines == {"a": 0.3125, "b": 0.5}


def test_each_role_has_its_own_estimator():
    rewards = {"a": [0.0, 1.0, 1.0, 1.0], "b": [0.0, 1.0, 1.0, 1.0], "c": [2.0, 3.0]}
    lessons = [Episode(role, ord(role), _ROLLOUT, r) for role, values in rewards.items() for r in values]
    order = np.random.default_rng(0).permutation(len(lessons))
    estimators = {"a": "mean", "b": "mean_std", "c": "none"}
    found, metrics = deal.advantages([lessons[i] for i in order], estimators)
    back = found[np.argsort(order)]
    np.testing.assert_allclose(back[:4], [-0.75, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(back[4:8], np.array([-1.5, 0.5, 0.5, 0.5]), rtol=1e-6)  # the unbiased std is 1/2
    assert back[8:].tolist() == [2.0, 3.0]
    assert metrics["a/mean_reward"] == 0.75 and metrics["c/episodes"] == 2 and metrics["b/equal_groups"] == 0

"""Steps on one role after the other: in which order, and against which policy the ratio is."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from tiny_models import LLAMA, random_params

from spicejax import sharding
from spicejax.learn.learner import LearnerConfig, init_state, make_learner, make_optimizer
from spicejax.learn.update import Updater
from spicejax.types import Episode, Rollout

CFG = LearnerConfig(
    learning_rate=1e-2, loss_norm_length=8, row_length=32, rows=2, clip_low=0.01, clip_high=0.01, tis_cap=0.0,
    role_order=("proposer", "solver"), old_policy="role",
)  # fmt: skip
ESTIMATORS = {"proposer": "none", "solver": "mean"}


def lessons():
    rng = np.random.default_rng(0)
    made = []
    rewards = [("proposer", 0, 1.0), ("solver", 2, 1.0), ("proposer", 1, 0.5), ("solver", 2, 0.0)]
    rewards += [("solver", 3, 1.0), ("solver", 3, 0.0)]
    for number, (role, group, reward) in enumerate(rewards):
        ids = rng.integers(1, LLAMA.vocab_size, 9 + number).astype(np.int32)
        logprobs = np.full(5 + number, -3.0, np.float32)
        rollout = Rollout(ids[:4], ids[4:], logprobs, logprobs, np.ones(5 + number, np.float32), "", "stop")
        made.append(Episode(role, group, rollout, reward))
    return made


@functools.cache
def updated(*updates, **changes):
    """Parameters after these updates, each on the lessons of the roles it names, and the last one's metrics."""
    cfg = dataclasses.replace(CFG, **changes)
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    optimizer = make_optimizer(cfg)
    updater = Updater(cfg, LLAMA, mesh, make_learner(LLAMA, cfg, optimizer), {}, None)
    state, metrics = init_state(random_params(LLAMA), optimizer), {}
    for roles in updates:
        own = [lesson for lesson in lessons() if lesson.role in roles]
        state, metrics = updater.update(state, own, ESTIMATORS, np.random.default_rng(0))
    return jax.device_get(state.params), metrics


BOTH = ("proposer", "solver")


def distance(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.slow
def test_one_role_after_the_other_is_an_update_of_each():
    """Against the policy before each role's first step; the order matters, and whom the ratio is against."""
    together, metrics = updated(BOTH)
    assert metrics["learner/steps"] == 2
    assert distance(together, updated(("proposer",), ("solver",))[0]) < 1e-6
    assert distance(together, updated(BOTH, role_order=("solver", "proposer"))[0]) > 1e-4
    assert distance(together, updated(BOTH, old_policy="iteration")[0]) > 1e-4, "the second role's ratio is clipped"
    mixed, metrics = updated(BOTH, role_order=())
    assert metrics["learner/steps"] == 1 and distance(together, mixed) > 1e-4


def test_a_role_that_is_trained_and_not_named_is_an_error():
    with pytest.raises(ValueError, match="role_order=.'solver',. lacks 'proposer'"):
        updated(BOTH, role_order=("solver",))

"""Steps on one role after the other: in which order, and against which policy the ratio is."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from tiny_models import LLAMA, random_params

from spicejax import sharding
from spicejax.learn import deal
from spicejax.learn.learner import Learner, LearnerConfig, TrainState, init_state, make_learners, make_optimizer
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
    first = random_params(LLAMA, 5) if cfg.needs_reference else None
    updater = Updater(cfg, LLAMA, mesh, make_learners(LLAMA, cfg, optimizer), {}, first)
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


def test_steps_behind_the_end_of_the_schedule_change_nothing_and_are_counted():
    falling = {"role_order": (), "schedule": "linear", "decay_steps": 1}
    once, metrics = updated(BOTH, **falling)
    assert (metrics["learner/steps"], metrics["learner/steps_at_rate_0"]) == (1, 0)
    twice, metrics = updated(BOTH, BOTH, **falling)
    assert (metrics["learner/steps"], metrics["learner/steps_at_rate_0"]) == (1, 1) and distance(once, twice) == 0
    assert "learner/steps_at_rate_0" not in updated(BOTH, role_order=())[1]


BY_ROLE = {"role_aggregation": ("sum", "sequence_mean"), "role_kl_coef": (0.0, 0.5)}


def test_each_role_has_its_own_mean_and_its_own_tie_to_the_first_policy():
    """Equations 4 and 5 of Search Self-Play: the Solver's tokens averaged, with KL; the Proposer's summed, without."""
    cfg = dataclasses.replace(CFG, **BY_ROLE)
    proposer, solver = cfg.of("proposer"), cfg.of("solver")
    assert (proposer.aggregation, proposer.needs_reference) == ("sum", False)
    assert (solver.aggregation, solver.kl_coef, solver.needs_reference) == ("sequence_mean", 0.5, True)
    assert (
        cfg.needs_reference
        and CFG.of("solver") == CFG
        and set(make_learners(LLAMA, cfg, make_optimizer(cfg))) == set(BOTH)
    )
    for own, weight in ((proposer, lambda tokens: 1 / 2), (solver, lambda tokens: 1 / 4 / tokens)):
        mine = [lesson for lesson in lessons() if lesson.role == ("proposer" if own is proposer else "solver")]
        [[(batch, _)]] = deal.steps(mine, np.ones(len(mine), np.float32), own, np.random.default_rng(0))
        wanted = sorted(weight(n) for n in (len(lesson.rollout.token_ids) for lesson in mine) for _ in range(n))
        np.testing.assert_allclose(np.sort(batch.loss_weight[batch.loss_weight > 0]), wanted, rtol=1e-6)


@pytest.mark.slow
def test_settings_by_role_are_those_of_an_update_of_each():
    together, metrics = updated(BOTH, **BY_ROLE)
    apart = updated(("proposer",), ("solver",), **BY_ROLE)[0]
    assert metrics["learner/kl"] > 0 and distance(together, apart) < 1e-6
    assert distance(together, updated(BOTH, aggregation="sequence_mean", kl_coef=0.5)[0]) > 1e-4


def test_a_quantity_is_averaged_over_the_steps_that_have_it():
    """The Proposer's steps have no KL term, so they do not dilute the Solver's; of a maximum the largest is told."""

    def learner(kl, gap):
        out = {"kl": np.float32(kl), "loss": np.float32(1 + kl), "sampler_gap_max": np.float32(gap)}
        return Learner(lambda state, *_: (state, out), lambda params, batch, used: batch.old_logprobs)

    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    learners = {"proposer": learner(0.0, 0.25), "solver": learner(0.5, 0.125)}
    updater = Updater(dataclasses.replace(CFG, **BY_ROLE), LLAMA, mesh, learners, {}, {})
    _, metrics = updater.update(TrainState(0, {}, {}, 0), lessons(), ESTIMATORS, np.random.default_rng(0))
    assert (metrics["learner/steps"], metrics["learner/kl"], metrics["learner/loss"]) == (2, 0.5, 1.25)
    assert metrics["learner/sampler_gap_max"] == 0.25
    assert metrics["learner/padding"] < 1, "measured in both steps"


def test_a_role_that_is_trained_and_not_named_is_an_error():
    with pytest.raises(ValueError, match="role_order=.'solver',. lacks 'proposer'"):
        updated(BOTH, role_order=("solver",))

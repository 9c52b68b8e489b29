"""Supervised runs: given replies as rollouts, their loss, and what is left out."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted import Scripted
from tiny_models import QWEN3, random_params

from spicejax.games.supervised import game as supervised
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.games.world import World
from spicejax.generate.policy import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn import deal
from spicejax.learn.learner import LearnerConfig, init_state, make_learner, make_optimizer
from spicejax.models import transformer
from spicejax.types import Example

EXAMPLES = [Example((("user", "ab"),), "cd"), Example((("user", "q" * 30),), "x"), Example((("user", "a"),), "y" * 9)]
CFG = SupervisedConfig(examples=3, max_new=4)


def play():
    player = Scripted(lambda *_: "", buckets=Buckets((20,), 8))
    world = World({"reasoner": player}, lambda pairs: [], SamplerConfig(), seed=0, iteration=0)
    played = supervised.play(world, EXAMPLES, CFG)
    assert player.asked == [], "nothing is sampled"
    return played


def test_a_given_reply_is_a_rollout_worth_one():
    played = play()
    (lesson,) = played.lessons
    assert (lesson.role, lesson.reward, lesson.rollout.text) == ("reasoner", 1.0, "cd")
    assert lesson.rollout.prompt_ids.tolist() == list(b"ab") and lesson.rollout.token_ids.tolist() == [*b"cd", 0]
    assert lesson.rollout.loss_mask.tolist() == [1, 1, 1], "the end of turn is learnt too"
    assert played.metrics["reasoner/too_long"] == 2, "a prompt beyond the bucket, a reply beyond max_new"


def test_its_loss_is_the_mean_negative_log_likelihood_of_the_reply():
    model = dataclasses.replace(QWEN3, vocab_size=256)
    params = random_params(model)
    cfg = LearnerConfig(loss="supervised", aggregation="token_mean", row_length=16, rows=1, trajectories_per_update=1)
    lessons = play().lessons
    advantages, metrics = deal.advantages(lessons, {"reasoner": "none"})
    assert advantages.tolist() == [1.0] and metrics["reasoner/episodes"] == 1
    (((batch, micro),),) = deal.steps(lessons, advantages, cfg, np.random.default_rng(0))
    optimizer = make_optimizer(cfg)
    _, out = make_learner(model, cfg, optimizer, on_policy=cfg.on_policy).step(
        init_state(jax.tree.map(jnp.copy, params), optimizer), batch, jnp.int32(micro)
    )
    ids = jnp.array([[*b"abcd", 0]])
    hidden = transformer.hidden_states(model, params, ids, jnp.arange(5)[None])
    logprobs = jax.nn.log_softmax(transformer.logits(model, params, hidden)[0])
    wanted = -np.mean([logprobs[t, ids[0, t + 1]] for t in (1, 2, 3)])
    assert cfg.on_policy, "no old logprobs are taken, whatever the number of steps"
    np.testing.assert_allclose(out["loss"], wanted, rtol=1e-5)


def test_steps_on_it_make_the_reply_likelier():
    model = dataclasses.replace(QWEN3, vocab_size=256)
    cfg = LearnerConfig(loss="supervised", learning_rate=1e-2, row_length=16, rows=1, loss_norm_length=3)
    lessons, optimizer = play().lessons, make_optimizer(cfg)
    (((batch, micro),),) = deal.steps(lessons, np.ones(1, np.float32), cfg, np.random.default_rng(0))
    learner, state, losses = make_learner(model, cfg, optimizer), init_state(random_params(model), optimizer), []
    for _ in range(6):
        state, out = learner.step(state, batch, jnp.int32(micro))
        losses.append(float(out["loss"]))
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.5 * losses[0]


def test_bad_settings_are_named():
    for field in ("examples", "max_new"):
        with pytest.raises(ValueError, match=rf"supervised\.{field}=0"):
            dataclasses.replace(CFG, **{field: 0})

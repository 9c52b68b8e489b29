"""Training adapters: the gradient reaches them alone, the base stays as it is, and it is the gradient of the whole."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from recorded import RECORDER
from tiny_models import QWEN3 as MODEL
from tiny_models import random_params

from spicejax.learn.learner import LearnerConfig, init_state, make_learner, make_optimizer, scored_logprobs
from spicejax.learn.packing import RowShape, pack, token_weights
from spicejax.models import lora, scoring, transformer
from spicejax.models.lora import LoraConfig
from spicejax.types import Rollout

CONFIG = LearnerConfig(learning_rate=1e-2, loss_norm_length=8, max_grad_norm=10.0)
SHAPE = dataclasses.replace(MODEL, lora=LoraConfig(rank=2, alpha=4.0, targets=("q", "v", "o", "up")))


def parts():
    """Frozen base, adapters with both factors drawn, and a batch with its micro-batches in use."""
    rng = np.random.default_rng(7)
    _, abstract = lora.split(transformer.abstract_params(SHAPE))
    adapters = jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.3, x.shape), x.dtype), abstract)
    drawn = [rng.integers(1, MODEL.vocab_size, n).astype(np.int32) for n in (14, 12, 18, 11, 9, 17)]
    logprobs = [rng.uniform(-4.5, -2.5, len(ids) - 6).astype(np.float32) for ids in drawn]
    rollouts = [
        Rollout(ids[:6], ids[6:], lp, lp - 0.1, np.ones_like(lp), "", "stop")
        for ids, lp in zip(drawn, logprobs, strict=True)
    ]
    weights = token_weights(rollouts, aggregation="constant", norm_length=8)
    batch, used = pack(rollouts, rng.normal(size=6).astype(np.float32), weights, RowShape(24, 2))
    return random_params(MODEL, 6), adapters, batch, jnp.int32(used)


@pytest.mark.slow
def test_the_gradient_is_that_of_the_whole_tree_at_the_adapters():
    base, adapters, batch, used = parts()
    learner = make_learner(SHAPE, CONFIG, RECORDER)
    whole = lora.join(base, jax.tree.map(jnp.copy, adapters))
    state, metrics = learner.step(init_state(adapters, RECORDER), batch, used, base)
    assert jax.tree.structure(state.params) == jax.tree.structure(lora.split(whole)[1])
    full, full_metrics = learner.step(init_state(jax.tree.map(jnp.copy, whole), RECORDER), batch, used)
    np.testing.assert_allclose(metrics["loss"], full_metrics["loss"], rtol=1e-6)
    expected = lora.split(full.opt_state)[1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7), state.opt_state, expected)
    assert float(optax.tree.norm(expected)) > 0
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(base)), "the base is not donated"


def test_the_gradient_is_that_of_every_position_scored(monkeypatch):
    """Only trained tokens meet the vocabulary, in blocks; here of four, against a pass over every position."""
    monkeypatch.setattr(scoring, "BLOCK", 4)
    base, adapters, batch, _ = parts()
    micro = jax.tree.map(lambda x: jnp.asarray(x[0]), batch)

    def loss(adapters, score):
        return jnp.sum(micro.loss_weight * micro.advantages * score(lora.join(base, adapters)))

    def every_position(params):
        ids = {"positions": micro.positions, "segment_ids": micro.segment_ids}
        hidden = transformer.hidden_states(SHAPE, params, micro.tokens, **ids)
        before = jnp.take_along_axis(hidden, micro.predict_from[..., None], axis=1)
        return transformer.token_logprobs(SHAPE, params, before, micro.tokens, temperature=1.3)

    def trained_alone(params):
        return scored_logprobs(SHAPE, params, micro, slot_length=24, temperature=1.3, chunk=10)

    expected, got = (
        jax.jit(lambda a, score=score: jax.value_and_grad(loss)(a, score))(adapters)
        for score in (every_position, trained_alone)
    )
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        assert np.abs(a).max() > 1e-3
        np.testing.assert_allclose(b, a, atol=1e-4 * float(np.abs(a).max()))


def test_steps_move_only_the_adapters_and_improve_the_surrogate():
    base, _, batch, used = parts()
    fresh = lora.split(transformer.init(SHAPE, jax.random.key(0)))[1]
    before = jax.device_get(fresh), jax.device_get(base)
    optimizer = make_optimizer(CONFIG)
    learner = make_learner(SHAPE, dataclasses.replace(CONFIG, epochs=2), optimizer)
    old = learner.score(lora.join(base, fresh), batch, used)
    plain = make_learner(MODEL, CONFIG, optimizer).score(base, batch, used)
    np.testing.assert_allclose(old, plain, atol=1e-5)
    batch = batch._replace(old_logprobs=old, behaviour_logprobs=old)
    state, losses = init_state(fresh, optimizer), []
    for _ in range(4):
        state, metrics = learner.step(state, batch, used, base)
        losses.append(float(metrics["loss"]))
    assert losses[-1] < losses[0]
    assert jax.tree.structure(state.params) == jax.tree.structure(before[0])
    assert all(
        np.any(np.asarray(a) != b) for a, b in zip(*map(jax.tree.leaves, (state.params, before[0])), strict=True)
    )
    jax.tree.map(np.testing.assert_array_equal, base, before[1])
    merged = lora.merge(SHAPE.lora, lora.join(base, state.params))
    scores = [np.asarray(make_learner(m, CONFIG, optimizer).score(p, batch, used)) for m, p in
              ((MODEL, merged), (SHAPE, lora.join(base, state.params)))]  # fmt: skip
    np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-4)

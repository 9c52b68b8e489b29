"""How a token is drawn: cuts, distribution, log-probabilities, greedy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spicejax.generate import sampler as sampling


@pytest.mark.parametrize("settings", [{"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.2}, {"top_k": 5, "top_p": 0.8}])
def test_cuts_agree_with_a_plain_numpy_rule(settings):
    logits = np.random.default_rng(0).normal(size=(40, 61)).astype(np.float32) * 2
    cfg = sampling.SamplerConfig(**settings)
    knobs = sampling.Knobs(1.0, cfg.top_k, cfg.top_p, cfg.min_p)
    kept = np.asarray(sampling.keep_mask(jnp.asarray(logits), knobs))
    for row, mask in zip(logits, kept, strict=True):
        p = np.exp(row - row.max())
        p /= p.sum()
        expected, mass = set(), 0.0
        for rank, token in enumerate(np.argsort(-p)):
            inside = (not cfg.top_k or rank < cfg.top_k) and mass < cfg.top_p and p[token] >= cfg.min_p * p.max()
            if inside or rank == 0:
                expected.add(int(token))
            mass += p[token]
        assert set(np.flatnonzero(mask)) == expected


def drawn(logits, count, *, temperature=1.0, top_k=0):
    """How often each token comes, and the tokens drawn from one row of logits with their two logprobs."""
    keys = jax.random.split(jax.random.key(0), count)
    knobs = sampling.Knobs(temperature, top_k, 1.0, 0.0)
    token, plain, sampled = sampling.draw(jnp.tile(logits, (count, 1)), keys, knobs, filtered=top_k > 0)
    return np.bincount(np.asarray(token), minlength=len(logits)) / count, token, plain, sampled


def test_draws_follow_the_distribution():
    logits = jnp.asarray([0.0, 1.0, 2.0, -1.0])
    frequency, token, plain, sampled = drawn(logits, 20_000, temperature=0.7)
    np.testing.assert_allclose(frequency, jax.nn.softmax(logits / 0.7), atol=0.012)
    np.testing.assert_allclose(sampled, jax.nn.log_softmax(logits / 0.7)[token], atol=1e-6)
    np.testing.assert_allclose(plain, jax.nn.log_softmax(logits)[token], atol=1e-6)


def test_draws_over_many_blocks_of_tokens_follow_the_distribution():
    """300 tokens are three blocks, the last half empty; tokens of no mass are never drawn."""
    logits = jnp.where(jnp.arange(300) % 7 == 0, -jnp.inf, jax.random.normal(jax.random.key(1), (300,)) * 2)
    frequency, *_ = drawn(logits, 40_000)
    np.testing.assert_allclose(frequency, jax.nn.softmax(logits), atol=0.006)
    assert not frequency[::7].any()


def test_draws_over_parts_of_the_vocabulary_follow_the_distribution():
    """8,784 tokens are 8 parts of 1,098, the last block of each short; the borders of parts have most of the mass."""
    vocab = 8 * 1098
    assert sampling._parts(vocab) == 8 and sampling._parts(151_936) == 16 and sampling._parts(640) == 1
    border = np.isin(np.arange(vocab) % 1098, (0, 1, 127, 128, 1096, 1097))
    logits = jnp.where(border, jax.random.normal(jax.random.key(1), (vocab,)), -12.0)
    frequency, token, _, sampled = drawn(logits, 8_000)
    np.testing.assert_allclose(frequency, jax.nn.softmax(logits), atol=0.012)
    np.testing.assert_allclose(sampled, jax.nn.log_softmax(logits)[token], atol=1e-5)


def test_cut_draws_stay_inside_the_cut():
    logits = jax.random.normal(jax.random.key(1), (61,))
    _, token, _, sampled = drawn(logits, 500, top_k=4)
    kept = jnp.argsort(-logits)[:4]
    assert set(np.asarray(token)) == set(np.asarray(kept))
    expected = jax.nn.log_softmax(jnp.where(jnp.isin(jnp.arange(61), kept), logits, -jnp.inf))
    np.testing.assert_allclose(sampled, expected[token], atol=1e-6)


def test_greedy_takes_the_first_of_the_largest():
    logits = jnp.array([[0.0, 3.0, 3.0, 1.0], [5.0, 1.0, 2.0, 5.0]])
    token, _, sampled = sampling.draw(
        logits, jax.random.split(jax.random.key(0), 2), sampling.Knobs(0.0, 0, 1.0, 0.0), filtered=False
    )
    assert token.tolist() == [1, 0] and sampled.tolist() == [0.0, 0.0]


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="temperature=-1"):
        sampling.SamplerConfig(temperature=-1.0)
    with pytest.raises(ValueError, match="top_p=0"):
        sampling.SamplerConfig(top_p=0.0)

"""The sampler against the full forward pass, its random streams, its cuts and its compilations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spicejax import sharding
from spicejax.generate import sampler as sampling
from spicejax.generate.policy import Buckets, Player
from spicejax.generate.stops import stop_machine
from spicejax.learn.learner import batch_logprobs
from spicejax.models import transformer

CFG = transformer.TransformerConfig(
    family="qwen3", vocab_size=61, d_model=32, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8, d_ff=48,
    rope_theta=1e4, tie_embeddings=True, max_position=256, qk_norm=True,
)  # fmt: skip
BYTES = [bytes([97 + i % 26]) * (1 + i % 3) for i in range(61)]


class Letters:
    """Decoder of a vocabulary of letter runs."""

    def decode(self, ids):
        return b"".join(BYTES[i] for i in ids).decode()


@pytest.fixture(scope="module")
def params():
    scaled = transformer.init(CFG, jax.random.key(0))
    return jax.tree.map(lambda x: x * 3 if x.ndim > 2 else x, scaled)  # sharper than at birth, so that texts differ


def player(params, *, buckets=(8, 16), rows=8, stops=(), strings=()):
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    machine = stop_machine(CFG.vocab_size, stops, strings, BYTES)
    return Player(CFG, params, Letters(), machine, Buckets(buckets, rows), mesh)


def respond(who, prompts, *, samples=2, first_row=None, max_new=12, **settings):
    first = [10 * i for i in range(len(prompts))] if first_row is None else first_row
    return who.respond(
        prompts, samples=samples, first_row=first, key=jax.random.key(7), settings=sampling.SamplerConfig(**settings),
        max_new=max_new,
    )  # fmt: skip


PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [11] * 12]


def test_logprobs_equal_the_learners_full_forward(params):
    for rollouts in respond(player(params), PROMPTS):
        for r in rollouts:
            ids = jnp.concatenate([r.prompt_ids, r.token_ids])[None]
            positions = jnp.arange(ids.shape[1])[None]
            full = batch_logprobs(CFG, params, ids, positions, jnp.ones_like(ids), temperature=1.0, chunk=0)
            np.testing.assert_allclose(full[0, len(r.prompt_ids) :], r.logprobs, atol=1e-5)
            np.testing.assert_allclose(r.sample_logprobs, r.logprobs, atol=1e-6)


def test_greedy_is_the_argmax_of_the_full_forward(params):
    for (r,) in respond(player(params), PROMPTS, samples=1, temperature=0.0):
        ids = jnp.concatenate([r.prompt_ids, r.token_ids])[None]
        hidden = transformer.hidden_states(CFG, params, ids, jnp.arange(ids.shape[1])[None])
        best = jnp.argmax(transformer.logits(CFG, params, hidden), -1)[0]
        np.testing.assert_array_equal(best[len(r.prompt_ids) - 1 : -1], r.token_ids)


def test_a_rows_text_depends_on_neither_neighbours_nor_padding_nor_buckets(params):
    together = respond(player(params), PROMPTS)
    for i, prompt in enumerate(PROMPTS):
        for who in (player(params, buckets=(32,), rows=4), player(params, buckets=(16,), rows=2)):
            (alone,) = respond(who, [prompt], first_row=[10 * i])
            for a, b in zip(alone, together[i], strict=True):
                np.testing.assert_array_equal(a.token_ids, b.token_ids)
                np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    texts = [r.text for rs in together for r in rs]
    assert len(set(texts)) == len(texts), "rows with different ids drew the same text"


def test_same_row_id_same_text_and_other_key_other_text(params):
    one, two = respond(player(params), [[1, 2], [1, 2]], samples=1, first_row=[5, 5])
    assert one[0].text == two[0].text
    (other,) = player(params).respond(
        [[1, 2]], samples=1, first_row=[5], key=jax.random.key(8), settings=sampling.SamplerConfig(), max_new=12
    )
    assert other[0].text != one[0].text


def test_stop_token_ends_a_row_and_is_kept(params):
    free = [r for rs in respond(player(params), PROMPTS, samples=4) for r in rs]
    stop = int(free[0].token_ids[3])
    stopped = [r for rs in respond(player(params, stops=[stop]), PROMPTS, samples=4) for r in rs]
    assert any(r.finish_reason == "stop" for r in stopped)
    for a, b in zip(free, stopped, strict=True):
        where = np.flatnonzero(a.token_ids == stop)
        n = where[0] + 1 if len(where) else len(a.token_ids)
        np.testing.assert_array_equal(b.token_ids, a.token_ids[:n])
        assert b.finish_reason == ("stop" if len(where) else "length")


def test_stop_strings_end_a_row_across_token_borders(params):
    free = [r for rs in respond(player(params), PROMPTS, samples=4) for r in rs]
    text = free[1].text
    needle = text[2:6]  # begins and ends inside tokens
    stopped = [r for rs in respond(player(params, strings=[needle, "zzzzzzzzz"]), PROMPTS, samples=4) for r in rs]
    assert stopped[1].finish_reason == "stop"
    for a, b in zip(free, stopped, strict=True):
        assert b.text == a.text.split(needle)[0]
        ended = Letters().decode(a.token_ids[: len(b.token_ids)])
        assert (needle in ended) == (b.finish_reason == "stop")
        assert needle not in Letters().decode(a.token_ids[: len(b.token_ids) - 1]), "stopped a token too late"


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


def test_draws_follow_the_distribution():
    logits = jnp.asarray([[0.0, 1.0, 2.0, -1.0]])
    keys = jax.random.split(jax.random.key(0), 20_000)
    knobs = sampling.Knobs(0.7, 0, 1.0, 0.0)
    token, plain, sampled = sampling.draw(jnp.repeat(logits, len(keys), 0), keys, knobs, filtered=False)
    frequency = np.bincount(np.asarray(token), minlength=4) / len(keys)
    np.testing.assert_allclose(frequency, jax.nn.softmax(logits[0] / 0.7), atol=0.012)
    np.testing.assert_allclose(sampled, jax.nn.log_softmax(logits[0] / 0.7)[token], atol=1e-6)
    np.testing.assert_allclose(plain, jax.nn.log_softmax(logits[0])[token], atol=1e-6)


def test_nothing_compiles_after_warm_up(params):
    who = player(params)
    respond(who, [[1] * 8, [1] * 16], samples=2)
    before = sampling.sample_jit._cache_size()
    for length in range(1, 17):
        respond(who, [[3] * length], samples=2, temperature=0.1 * length)
    assert sampling.sample_jit._cache_size() == before


def test_bad_input_is_named(params):
    with pytest.raises(ValueError, match="prompt of 17 tokens exceeds the largest bucket, 16"):
        respond(player(params), [[1] * 17])
    with pytest.raises(ValueError, match="empty prompt"):
        respond(player(params), [[]])
    with pytest.raises(ValueError, match="temperature=-1"):
        sampling.SamplerConfig(temperature=-1.0)
    broken = dataclasses.replace(player(params), params=jax.tree.map(lambda x: x * jnp.nan, params))
    with pytest.raises(FloatingPointError, match="NaN"):
        respond(broken, [[1, 2]])

"""Rows of slots: where tokens land, and the same loss and gradient as episodes with their prompt repeated."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded import RECORDER, difference, measure
from tiny_models import QWEN3, random_params

from spicejax.learn import deal
from spicejax.learn.learner import LearnerConfig, make_learner
from spicejax.learn.losses import LOSSES
from spicejax.learn.packing import RowShape, lay_out, pack, padding, token_weights
from spicejax.types import Episode, Rollout

MODEL = QWEN3
AREAS = (RowShape(6, 2, 8, 3), RowShape(6, 2, 14, 3))
# Prompt length and response lengths of each group: 1 to 5 responses, more than slots, an area shared by two prompts.
GROUPS = [(3, [2, 6, 1]), (5, [4]), (3, [3, 3]), (12, [6, 5, 4, 3, 2]), (8, [1, 6]), (14, [5])]


def episodes(seed: int = 0) -> tuple[list[Rollout], np.ndarray, list[np.ndarray]]:
    """Shuffled episodes with an observation in one response, their advantages and token weights."""
    rng = np.random.default_rng(seed)
    made = []
    for prompt, responses in GROUPS:
        ids = rng.integers(1, MODEL.vocab_size, prompt).astype(np.int32)
        for n in responses:
            mask = np.ones(n, np.float32)
            if n == 5:
                mask[1:3] = 0
            logprobs = rng.uniform(-4.5, -2.5, n).astype(np.float32)
            tokens = rng.integers(1, MODEL.vocab_size, n).astype(np.int32)
            made.append(Rollout(ids.copy(), tokens, logprobs, logprobs - 0.1, mask, "", "stop"))
    made = [made[i] for i in rng.permutation(len(made))]
    advantages = rng.normal(size=len(made)).astype(np.float32)
    return made, advantages, token_weights(made, aggregation="constant", norm_length=8)


@pytest.mark.parametrize(
    ("loss", "clip", "kl_coef"),
    [
        ("gspo", 1e-3, 0.1),
        pytest.param("ppo_clip", 0.2, 0.1, marks=pytest.mark.slow),
        pytest.param("ppo_clip", 0.2, 0.0, marks=pytest.mark.slow),
    ],
)
def test_the_same_loss_and_gradient_as_repeated_prompts(loss, clip, kl_coef):
    """Through `score` (old and reference logprobs of other parameters), clip, importance weight and KL term."""
    config = LearnerConfig(loss, layout="shared_prompt", slot_length=6, vocab_chunk=10, kl_coef=kl_coef, epochs=2,
                           loss_norm_length=8, clip_low=clip, clip_high=clip)  # fmt: skip
    other = jax.tree.map(lambda p: p * 1.03, random_params(MODEL, 6))
    results = []
    for layout, shapes in (("packed", (RowShape(24, 2),)), ("shared_prompt", AREAS)):
        learner = make_learner(MODEL, dataclasses.replace(config, layout=layout), RECORDER)
        parts = []
        for batch, used in lay_out(*episodes(), shapes, numbered=LOSSES[loss].numbered):
            scored = learner.score(other, batch, jnp.int32(used))
            parts.append((batch._replace(old_logprobs=scored, reference_logprobs=scored), jnp.int32(used)))
        batches, used = zip(*parts, strict=True)
        results.append(measure(learner, random_params(MODEL, 6), batches, used))
    (packed, packed_grads), (shared, shared_grads) = results
    assert packed["tokens"] == shared["tokens"] == sum(r.loss_mask.sum() for r in episodes()[0])
    assert packed["clip_fraction"] > 0 and packed["tis_fraction"] > 0 and (packed["kl"] > 0) == (kl_coef > 0)
    assert shared == pytest.approx(packed, rel=2e-5)
    assert difference(packed_grads, shared_grads) < 5e-6


@pytest.mark.parametrize("layout", ["packed", "shared_prompt"])
def test_responses_are_numbered_in_their_row_where_the_loss_asks(layout):
    sizes = {"row_length": 24, "prompt_areas": (6, 14), "slot_length": 6, "slots": 3, "rows": 2}
    cfg = LearnerConfig("gspo", layout=layout, clip_low=3e-4, clip_high=4e-4, **sizes)
    rollouts, _, _ = episodes()
    advantages = np.arange(1, len(rollouts) + 1, dtype=np.float32)  # tells the responses apart
    lessons = [Episode("solver", 0, r, 0.0) for r in rollouts]
    (parts,) = deal.steps(lessons, advantages, cfg, np.random.default_rng(0))
    seen = []
    for batch, used in parts:
        for a, b in np.ndindex(used, cfg.rows):
            pairs = set(zip(batch.responses[a, b].tolist(), batch.advantages[a, b].tolist(), strict=True)) - {(0, 0.0)}
            assert sorted(number for number, _ in pairs) == list(range(1, len(pairs) + 1)), "a number for each response"
            seen += [advantage for _, advantage in pairs]
    assert sorted(seen) == advantages.tolist()
    (parts,) = deal.steps(lessons, advantages, dataclasses.replace(cfg, loss="cispo"), np.random.default_rng(0))
    assert all(batch.responses is None for batch, _ in parts), "nothing is kept that no loss reads"


def spread(batch) -> list[tuple[int, int, int]]:
    return [
        (a, b, s) for a, b in np.ndindex(*batch.tokens.shape[:2]) for s in range(1, batch.segment_ids[a, b].max() + 1)
    ]


def test_every_response_lands_once_behind_one_copy_of_its_prompt():
    rollouts, advantages, weights = episodes()
    shape = RowShape(6, 2, 14, 4)
    batch, used = pack(rollouts, advantages, weights, shape)
    waiting = {(*r.prompt_ids, 0, *r.token_ids): i for i, r in enumerate(rollouts)}
    prompts = 0
    for a, b, segment in spread(batch):
        assert a < used
        at = np.flatnonzero(batch.segment_ids[a, b] == segment)
        prompt = at[at < shape.prompt]
        prompts += 1
        np.testing.assert_array_equal(batch.positions[a, b, prompt], np.arange(len(prompt)))
        responses = at[at >= shape.prompt] - shape.prompt
        for slot in range(shape.slots):
            own = responses[responses // shape.slot_length == slot]
            if not len(own):
                continue
            assert np.all(np.diff(own) == 1), "one response of a group in a slot"
            ids = batch.tokens[a, b, shape.prompt + own]
            i = waiting.pop((*batch.tokens[a, b, prompt], 0, *ids))  # KeyError: nobody gave this pair
            r = rollouts[i]
            np.testing.assert_array_equal(batch.positions[a, b, shape.prompt + own], len(prompt) + np.arange(len(own)))
            np.testing.assert_array_equal(batch.predict_from[a, b, own], [prompt[-1], *(shape.prompt + own[:-1])])
            np.testing.assert_array_equal(batch.loss_weight[a, b, own], weights[i])
            np.testing.assert_array_equal(batch.behaviour_logprobs[a, b, own], r.sample_logprobs * r.loss_mask)
            assert np.all(batch.advantages[a, b, own] == advantages[i])
    assert not waiting, "a response is missing"
    assert prompts == len(GROUPS) + 1, "only the group larger than the slots has its prompt twice"


def test_two_prompts_share_an_area_and_their_responses_a_slot():
    """P P Q Q Q - | pp qq | p - q - by hand: the longer prompt first."""
    one = np.ones(2, np.float32)

    def made(prompt, response):
        n = len(response)
        ids = np.array(prompt, np.int32), np.array(response, np.int32)
        return Rollout(*ids, -one[:n], -one[:n], one[:n], "", "stop")

    rollouts = [made([1, 2], [3, 4]), made([5, 6, 7], [8, 9]), made([1, 2], [3]), made([5, 6, 7], [8])]
    weights = [r.loss_mask for r in rollouts]
    batch, used = pack(rollouts, np.ones(4, np.float32), weights, RowShape(4, 1, 6, 2))
    assert used == 1 and batch.tokens.shape == (1, 1, 14) and batch.predict_from.shape == (1, 1, 8)
    expected = {
        "tokens": [5, 6, 7, 1, 2, 0, 8, 9, 3, 4, 8, 3, 0, 0],
        "segment_ids": [1, 1, 1, 2, 2, 0, 1, 1, 2, 2, 1, 2, 0, 0],
        "positions": [0, 1, 2, 0, 1, 0, 3, 4, 2, 3, 3, 2, 0, 0],
        "predict_from": [2, 6, 4, 8, 2, 4, 11, 12],
        "loss_weight": [1, 1, 1, 1, 1, 1, 0, 0],
    }
    for name, row in expected.items():
        np.testing.assert_array_equal(getattr(batch, name)[0, 0], row, err_msg=name)
    waste = padding([(batch, used)])
    assert waste == {"padding": pytest.approx(3 / 14), "slot_padding": pytest.approx(2 / 8)}


def test_what_does_not_fit_is_named():
    rollouts, advantages, weights = episodes()
    with pytest.raises(ValueError, match="learner.prompt_areas=13 cannot hold a prompt of 14 tokens; raise it"):
        lay_out(rollouts, advantages, weights, [RowShape(6, 2, 8, 3), RowShape(6, 2, 13, 3)])
    with pytest.raises(ValueError, match="learner.slot_length=5 cannot hold a response of 6 tokens"):
        lay_out(rollouts, advantages, weights, [RowShape(5, 2, 14, 3)])
    assert LearnerConfig(layout="shared_prompt", prompt_areas=(8, 16), slot_length=6).shapes[-1].too_short(16, 6) == ""

"""Packing: every token lands once and in its place, and no layout of the rows changes the loss or its gradient."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from recorded import RECORDER, difference
from tiny_models import LLAMA, random_params

from spicejax.learn.learner import LearnerConfig, make_learner
from spicejax.learn.packing import Aggregation, RowShape, pack, token_weights
from spicejax.types import Batch, Rollout

torch = pytest.importorskip("torch", reason="the anchor of the invariances is written in torch")

MODEL = LLAMA
L = 16  # loss_norm_length
# Layouts change the order of float32 sums and nothing else: a few units in the last place of the largest gradient.
TOLERANCE = 2e-6


def rollout(rng: np.random.Generator, prompt: int, response: int, observed: slice | None = None) -> Rollout:
    """Random tokens; `observed` marks response tokens that the policy did not write."""
    mask = np.ones(response, np.float32)
    if observed is not None:
        mask[observed] = 0.0
    ids = rng.integers(1, MODEL.vocab_size, prompt + response).astype(np.int32)
    logprobs = rng.uniform(-4.5, -2.5, response).astype(np.float32)
    return Rollout(ids[:prompt], ids[prompt:], logprobs, logprobs - 0.1, mask, "", "stop")


def episodes(seed: int = 0) -> tuple[list[Rollout], np.ndarray]:
    """Eight episodes of 2 to 20 tokens, two with an observation inside the response, two without an advantage."""
    rng = np.random.default_rng(seed)
    sizes = [(3, 5), (7, 13), (1, 1), (4, 9), (2, 2), (9, 6), (5, 11), (1, 12)]
    rollouts = [rollout(rng, p, r) for p, r in sizes]
    rollouts[1] = rollout(rng, 7, 13, slice(4, 8))
    rollouts[6] = rollout(rng, 5, 11, slice(0, 3))
    return rollouts, np.array([1.0, -0.5, 0.75, 0.0, -1.0, 0.25, 0.0, 0.625], np.float32)


def shares(rollouts: list[Rollout]) -> list[np.ndarray]:
    return token_weights(rollouts, aggregation="constant", norm_length=L)


# --- where the tokens land ------------------------------------------------------------------------------------------


def spans(batch: Batch) -> list[tuple[int, int, slice]]:
    """(micro-batch, row, where) of every segment, found from the segment ids alone."""
    segments = np.asarray(batch.segment_ids)
    found = []
    for a, b in np.ndindex(*segments.shape[:2]):
        for s in range(1, segments[a, b].max() + 1):
            at = np.flatnonzero(segments[a, b] == s)
            assert len(at) and np.all(np.diff(at) == 1), "a segment is one run of a row"
            found.append((a, b, slice(at[0], at[-1] + 1)))
    return found


@pytest.mark.parametrize(
    ("shape", "seed"), [(RowShape(20, 1), 0), (RowShape(23, 2), 1), (RowShape(40, 3), 0), (RowShape(128, 8), 1)]
)
def test_every_token_lands_once_with_its_numbers(shape, seed):
    rollouts, advantages = episodes(seed)
    batch, used = pack(rollouts, advantages, shares(rollouts), shape)
    assert batch.tokens.shape[1:] == (shape.rows, shape.row_length)
    assert all(field.shape == batch.tokens.shape for field in jax.tree.leaves(batch))
    waiting = {(*r.prompt_ids, *r.token_ids): i for i, r in enumerate(rollouts)}
    for a, b, where in spans(batch):
        assert a < used
        i = waiting.pop(tuple(batch.tokens[a, b, where]))  # KeyError: a token sequence that nobody gave
        r, p = rollouts[i], len(rollouts[i].prompt_ids)
        own = jax.tree.map(operator.itemgetter((a, b, where)), batch)._asdict()
        np.testing.assert_array_equal(own["positions"], np.arange(p + len(r.token_ids)))
        for name in ("loss_weight", "advantages", "behaviour_logprobs", "old_logprobs", "reference_logprobs"):
            assert np.all(own[name][:p] == 0), f"{name} on the prompt"
        np.testing.assert_allclose(own["loss_weight"][p:], r.loss_mask / (L * len(rollouts)), rtol=1e-6)
        trained = r.loss_mask > 0
        np.testing.assert_array_equal(own["advantages"][p:][trained], advantages[i])
        np.testing.assert_array_equal(own["behaviour_logprobs"][p:], r.sample_logprobs * r.loss_mask)
    assert not waiting, "an episode is missing"
    before = np.maximum(np.arange(shape.row_length) - 1, 0)
    assert np.all(batch.predict_from == before), "every token can be scored, prompts too"
    for field in jax.tree.leaves(batch._replace(predict_from=batch.tokens)):
        assert np.all(field[batch.segment_ids == 0] == 0), "not 0 in the padding"


def test_the_lead_in_of_a_row_by_hand():
    """Lengths 3 and 2 in rows of 6, longest first: A A A B B -."""
    zeros, ones = np.zeros(1, np.float32), np.ones(1, np.float32)
    b = Rollout(np.array([8], np.int32), np.array([9], np.int32), zeros, zeros, ones, "", "stop")
    a = Rollout(np.array([5, 6], np.int32), np.array([7], np.int32), zeros - 2, zeros - 3, ones, "", "stop")
    batch, used = pack([b, a], np.array([1, -1], np.float32), [ones * 0.5, ones * 0.25], RowShape(6, 1))
    assert used == 1
    expected = {
        "tokens": [5, 6, 7, 8, 9, 0],
        "positions": [0, 1, 2, 0, 1, 0],
        "segment_ids": [1, 1, 1, 2, 2, 0],
        "loss_weight": [0, 0, 0.25, 0, 0.5, 0],
        "advantages": [0, 0, -1, 0, 1, 0],
        "behaviour_logprobs": [0, 0, -3, 0, 0, 0],
    }
    for name, row in expected.items():
        np.testing.assert_array_equal(getattr(batch, name)[0, 0], row, err_msg=name)


def test_an_episode_may_fill_a_row_but_not_exceed_it():
    rollouts, advantages = episodes()  # the longest has 20 tokens
    pack(rollouts, advantages, shares(rollouts), RowShape(20, 2))
    with pytest.raises(ValueError, match="learner.row_length=19 cannot hold an episode of 20 tokens; raise it"):
        pack(rollouts, advantages, shares(rollouts), RowShape(19, 2))


def test_micro_batches_come_in_few_sizes():
    """A = min_micro x 2^k, so that iterations of many sizes share few compiled programs; `used` says what holds."""
    rng = np.random.default_rng(2)
    for count, minimum, size in ((1, 1, 1), (2, 1, 1), (3, 1, 2), (5, 1, 4), (9, 1, 8), (3, 3, 3), (7, 3, 6)):
        rollouts = [rollout(rng, 4, 8) for _ in range(count)]  # one fills a row
        batch, used = pack(rollouts, np.ones(count, np.float32), shares(rollouts), RowShape(12, 2), min_micro=minimum)
        if minimum == 1 or count > 2 * minimum:
            assert batch.tokens.shape[0] == size, (count, minimum)
        assert batch.tokens.shape[0] >= minimum
        assert used == (count + 1) // 2
        assert np.all(batch.segment_ids[used:] == 0) and np.all(batch.loss_weight[used:] == 0)


def test_packing_wastes_little():
    rng = np.random.default_rng(3)
    rollouts = [rollout(rng, int(rng.integers(2, 10)), int(rng.integers(2, 30))) for _ in range(200)]
    batch, used = pack(rollouts, np.ones(200, np.float32), shares(rollouts), RowShape(128, 4))
    filled = np.count_nonzero(batch.segment_ids[:used])
    assert filled == sum(len(r.prompt_ids) + len(r.token_ids) for r in rollouts)
    assert filled / batch.segment_ids[:used].size > 0.9


def test_nothing_to_pack_is_an_empty_micro_batch():
    batch, used = pack([], np.zeros(0, np.float32), [], RowShape(8, 2))
    assert used == 0 and batch.tokens.shape == (1, 2, 8) and not batch.segment_ids.any()


# --- weights --------------------------------------------------------------------------------------------------------


def test_token_weights_by_hand():
    rng = np.random.default_rng(4)
    rollouts = [rollout(rng, 2, 4, slice(1, 3)), rollout(rng, 2, 3), rollout(rng, 2, 2, slice(0, 2))]
    expected: dict[Aggregation, list] = {
        "constant": [[1 / 30, 0, 0, 1 / 30], [1 / 30] * 3, [0, 0]],  # L = 10, N = 3
        "sequence_mean": [[1 / 6, 0, 0, 1 / 6], [1 / 9] * 3, [0, 0]],
        "token_mean": [[1 / 5, 0, 0, 1 / 5], [1 / 5] * 3, [0, 0]],
    }
    for aggregation, rows in expected.items():
        for got, row in zip(token_weights(rollouts, aggregation=aggregation, norm_length=10), rows, strict=True):
            np.testing.assert_allclose(got, row, rtol=1e-6, err_msg=aggregation)
            assert got.dtype == np.float32


# --- no layout changes the gradient ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measure():
    """(Batch, used) -> loss and gradient, by the real training step."""
    learner = make_learner(MODEL, LearnerConfig(loss_norm_length=L, epochs=2), RECORDER)

    def run(batch: Batch, used: int) -> tuple[float, dict]:
        metrics, gradient = recorded.measure(learner, random_params(MODEL, 6), batch, jnp.int32(used))
        return metrics["loss"], gradient

    return run


@pytest.fixture(scope="module")
def alone(measure) -> tuple[float, dict]:
    """One episode per row, one row per micro-batch."""
    rollouts, advantages = episodes()
    weights = shares(rollouts)
    rows = [pack([r], advantages[i : i + 1], [weights[i]], RowShape(24, 1))[0] for i, r in enumerate(rollouts)]
    return measure(jax.tree.map(lambda *parts: np.concatenate(parts), *rows), len(rows))


def torch_logprobs(params: dict, ids: np.ndarray):
    """The model written once more, in torch and float64, for one unpadded sequence: logprob of ids[1:]."""
    half, length = MODEL.head_dim // 2, len(ids)
    norm = lambda x, scale: x / (x.square().mean(-1, keepdim=True) + MODEL.rms_norm_eps).sqrt() * scale  # noqa: E731
    angle = torch.arange(length)[:, None] * MODEL.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]

    def rotate(x):
        turned = torch.complex(x[..., :half], x[..., half:]) * turn
        return torch.cat([turned.real, turned.imag], -1)

    x = params["embed"][torch.tensor(ids, dtype=torch.long)]
    future = torch.ones(length, length).triu(1).bool()
    for i in range(MODEL.num_layers):
        attn, mlp = ({k: v[i] for k, v in params["layers"][name].items()} for name in ("attn", "mlp"))
        y = norm(x, params["layers"]["attn_norm"]["scale"][i])
        q, k, v = (torch.einsum("td,dnh->tnh", y, attn[name]) for name in "qkv")
        k, v = (x.repeat_interleave(MODEL.num_heads // MODEL.num_kv_heads, 1) for x in (rotate(k), v))
        scores = torch.einsum("tnh,snh->nts", rotate(q), k) / MODEL.head_dim**0.5
        seen = scores.masked_fill(future, -torch.inf).softmax(-1)
        x = x + torch.einsum("nts,snh,nhd->td", seen, v, attn["o"])
        y = norm(x, params["layers"]["mlp_norm"]["scale"][i])
        x = x + (torch.nn.functional.silu(y @ mlp["gate"]) * (y @ mlp["up"])) @ mlp["down"]
    table = (norm(x, params["norm"]["scale"]) @ params["embed"].T).log_softmax(-1)
    return table[:-1].gather(1, torch.tensor(ids[1:], dtype=torch.long)[:, None])[:, 0]


def test_one_per_row_is_the_sum_over_unpadded_episodes(alone):
    """The anchor of what follows: each episode by itself in float64, without segments, padding or packing."""
    rollouts, advantages = episodes()
    params = jax.tree.map(
        lambda p: torch.tensor(np.asarray(p, np.float64), requires_grad=True), random_params(MODEL, 6)
    )
    loss, clipped = torch.zeros((), dtype=torch.float64), 0
    for r, advantage in zip(rollouts, advantages, strict=True):
        scored = torch_logprobs(params, np.concatenate([r.prompt_ids, r.token_ids]))[len(r.prompt_ids) - 1 :]
        for t in np.flatnonzero(r.loss_mask):
            ratio = (scored[t] - float(r.sample_logprobs[t])).exp()
            bounded = ratio.clamp(0.8, 1.2)
            loss = loss - torch.minimum(float(advantage) * ratio, float(advantage) * bounded) / (L * len(rollouts))
            clipped += int(ratio != bounded)
    loss.backward()
    assert clipped > 10
    assert alone[0] == pytest.approx(loss.item(), rel=1e-5)
    assert difference(jax.tree.map(lambda p: p.grad.numpy(), params), alone[1]) < 1e-5


@pytest.mark.parametrize("shape", [RowShape(24, 8), RowShape(64, 1)], ids=lambda s: f"{s.rows}x{s.row_length}")
def test_packed_rows_give_the_same_gradient(measure, alone, shape):
    rollouts, advantages = episodes()
    batch, used = pack(rollouts, advantages, shares(rollouts), shape)
    if shape.row_length > 24:
        assert np.max(batch.segment_ids) > 1, "this layout is meant to share rows"
    loss, gradient = measure(batch, used)
    assert loss == pytest.approx(alone[0], rel=2e-6)
    assert difference(alone[1], gradient) < TOLERANCE


@pytest.mark.parametrize("split", [(1, 8), (8, 1)])
def test_the_micro_batch_size_does_not_matter(measure, alone, split):
    rollouts, advantages = episodes()
    weights = shares(rollouts)
    rows = [pack([r], advantages[i : i + 1], [weights[i]], RowShape(24, 1))[0] for i, r in enumerate(rollouts)]
    batch = jax.tree.map(lambda *parts: np.concatenate(parts).reshape(*split, 24), *rows)
    loss, gradient = measure(batch, split[0])
    assert loss == pytest.approx(alone[0], rel=2e-6)
    assert difference(alone[1], gradient) < TOLERANCE


def test_segments_are_what_keeps_episodes_apart(measure, alone):
    """Control: the same rows with one segment id give another gradient, so the tests above can fail."""
    rollouts, advantages = episodes()
    batch, used = pack(rollouts, advantages, shares(rollouts), RowShape(64, 1))
    _, merged = measure(batch._replace(segment_ids=np.minimum(batch.segment_ids, 1)), used)
    assert difference(alone[1], merged) > 1e-2


def test_micro_batches_beyond_the_count_are_not_read(measure, alone):
    rollouts, advantages = episodes()
    batch, used = pack(rollouts, advantages, shares(rollouts), RowShape(24, 1), min_micro=8)
    assert used < batch.tokens.shape[0]
    for name in ("loss_weight", "advantages", "behaviour_logprobs", "old_logprobs"):
        getattr(batch, name)[used:] = np.nan
    loss, gradient = measure(batch, used)
    assert loss == pytest.approx(alone[0], rel=2e-6)
    assert difference(alone[1], gradient) < TOLERANCE


def test_zero_advantage_episodes_can_be_left_out(measure):
    """Without a KL term they add nothing, as long as the weights count them (docs: the denominator is the batch)."""
    rollouts, advantages = episodes()
    weights = token_weights(rollouts, aggregation="token_mean", norm_length=L)
    live = np.flatnonzero(advantages)
    assert len(live) == len(rollouts) - 2
    full = measure(*pack(rollouts, advantages, weights, RowShape(64, 1)))
    kept = [rollouts[i] for i in live]
    fewer = measure(*pack(kept, advantages[live], [weights[i] for i in live], RowShape(64, 1), min_micro=2))
    assert fewer[0] == pytest.approx(full[0], rel=2e-6)
    assert difference(full[1], fewer[1]) < TOLERANCE
    # Counting only what is left would make the step larger.
    recounted = token_weights(kept, aggregation="token_mean", norm_length=L)
    assert (
        difference(full[1], measure(*pack(kept, advantages[live], recounted, RowShape(64, 1), min_micro=2))[1]) > 1e-2
    )

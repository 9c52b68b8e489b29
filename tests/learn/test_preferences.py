"""Losses on pairs: hand numbers, torch on a transformers model, and the same loss however pairs are laid out."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded import RECORDER, difference, measure
from tiny_models import LLAMA, random_params

from spicejax import sharding
from spicejax.learn import deal
from spicejax.learn.learner import Learner, LearnerConfig, PairConfig, init_state, make_learner, make_optimizer
from spicejax.learn.losses import preference_loss
from spicejax.learn.packing import RowShape, lay_out, pack
from spicejax.learn.update import Updater
from spicejax.models import hf
from spicejax.types import Preference, Rollout

MODEL = LLAMA
# Prompt length and lengths of chosen and rejected of each of its pairs
GROUPS = [(3, [(2, 6)]), (7, [(1, 4), (5, 5), (6, 2)]), (4, [(3, 1), (4, 6)]), (9, [(6, 3)])]
LAYOUTS = {
    "packed": LearnerConfig(loss="dpo", layout="packed", row_length=31, rows=2, vocab_chunk=10),
    "tight": LearnerConfig(loss="dpo", layout="packed", row_length=60, rows=1, vocab_chunk=10),
    "shared": LearnerConfig(loss="dpo", layout="shared_prompt", prompt_areas=(6, 14), slot_length=7, slots=4, rows=2),
    "two slots": LearnerConfig(loss="dpo", layout="shared_prompt", prompt_areas=(9,), slot_length=6, slots=2, rows=3),
}
LOSSES = {
    "dpo": {},
    "dpo smoothed": {"label_smoothing": 0.1, "likelihood": 0.3},
    "ipo": {"beta": 0.4},
    "simpo": {"beta": 2.0, "margin": 0.5},
}


def preferences() -> list[Preference]:
    """Seven pairs of four prompts; one response holds tokens that the policy did not write."""
    rng = np.random.default_rng(0)

    def response(prompt: np.ndarray, n: int) -> Rollout:
        mask = np.ones(n, np.float32)
        mask[1:3] = n != 5  # an observation
        zeros = np.zeros(n, np.float32)
        return Rollout(prompt, rng.integers(1, MODEL.vocab_size, n).astype(np.int32), zeros, zeros, mask, "", "stop")

    made = []
    for group, (length, pairs) in enumerate(GROUPS):
        prompt = rng.integers(1, MODEL.vocab_size, length).astype(np.int32)
        made += [Preference("solver", group, response(prompt, a), response(prompt, b)) for a, b in pairs]
    return [made[i] for i in rng.permutation(len(made))]


def config(layout: str, loss: str, **changes) -> LearnerConfig:
    kind, numbers = loss.split()[0], PairConfig(**LOSSES[loss])
    return dataclasses.replace(LAYOUTS[layout], loss=kind, pairs=numbers, **changes)


@functools.cache
def recorder(cfg: LearnerConfig) -> Learner:
    return make_learner(MODEL, cfg, RECORDER)


def stepped(cfg: LearnerConfig, pairs: list[Preference], reference=None, params=None) -> tuple[dict, dict]:
    """Metrics and gradient of one step on all pairs, against the reference's parameters."""
    ((*parts,),) = deal.steps(pairs, np.ones(len(pairs), np.float32), cfg, np.random.default_rng(0))
    learner = recorder(cfg)
    reference = random_params(MODEL, 6) if reference is None else reference
    filled = [
        (batch._replace(reference_logprobs=learner.score(reference, batch, jnp.int32(n))), jnp.int32(n))
        for batch, n in parts
    ]
    batches, used = zip(*filled, strict=True)
    return measure(learner, random_params(MODEL, 5) if params is None else params, batches, used)


# --- hand numbers ---------------------------------------------------------------------------------------------------

CHOSEN, REJECTED = [-0.5, -1.0], [-2.0, -1.5, -1.0]
REFERENCE = [-1.0, -1.0], [-1.0, -1.5, -1.5]  # d = (-1.5 + 2.0) - (-4.5 + 4.0) = 1


def by_hand(kind: str, **numbers) -> tuple[float, np.ndarray]:
    """Loss and gradient on one pair; a token of neither and a token of the rejected one that is not trained between."""
    logprobs = jnp.array([[*CHOSEN, -9.0, *REJECTED, -7.0]])
    reference = jnp.array([[*REFERENCE[0], 0.0, *REFERENCE[1], 0.0]])
    pairs = jnp.array([[1, 1, 0, -1, -1, -1, -1]])
    weight = jnp.array([[1.0, 1, 1, 1, 1, 1, 0]])

    def loss(x):
        return preference_loss(x, reference, weight, pairs, kind=kind, **numbers).loss

    value, slope = jax.value_and_grad(loss)(logprobs)
    assert slope[0, 2] == slope[0, 6] == 0
    return float(value), np.asarray(slope[0, :2].tolist() + slope[0, 3:6].tolist())


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


RIGHT = sigmoid(0.5)  # dpo: probability that the pair is the right way round
CASES = [
    ("dpo", {"beta": 0.5}, -math.log(RIGHT), [0.5 * (1 - RIGHT) * sign for sign in (-1, -1, 1, 1, 1)]),
    (
        "dpo", {"beta": 0.5, "label_smoothing": 0.2}, -0.8 * math.log(RIGHT) - 0.2 * math.log(1 - RIGHT),
        [0.5 * (0.8 * (1 - RIGHT) - 0.2 * RIGHT) * sign for sign in (-1, -1, 1, 1, 1)],
    ),
    # The likelihood's mean is over the chosen response's own tokens, -(-1.5) / 2, as LLaMA-Factory adds it
    (
        "dpo", {"beta": 0.5, "likelihood": 0.4}, -math.log(RIGHT) + 0.4 * 0.75,
        [0.5 * (1 - RIGHT) * sign - share for sign, share in zip((-1, -1, 1, 1, 1), (0.2, 0.2, 0, 0, 0), strict=True)],
    ),
    ("ipo", {"beta": 0.25}, (1 - 2) ** 2, [2 * (1 - 2) * sign for sign in (1, 1, -1, -1, -1)]),
    # h = 2 (-0.75 + 1.5) - 0.5
    (
        "simpo", {"beta": 2.0, "margin": 0.5}, -math.log(sigmoid(1.0)),
        [sigmoid(-1.0) * 2 * share for share in (-1 / 2, -1 / 2, 1 / 3, 1 / 3, 1 / 3)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "numbers", "loss", "slope"), CASES)
def test_value_and_slope_by_hand(kind, numbers, loss, slope):
    value, gradient = by_hand(kind, **numbers)
    assert value == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6)


def test_metrics_are_means_over_pairs():
    logprobs = jnp.array([[-1.0, -2.0], [-2.0, -1.0]])
    pairs, weight = jnp.array([[1, -1], [1, -1]]), jnp.full((2, 2), 0.5)
    terms = preference_loss(logprobs, jnp.full((2, 2), -1.5), weight, pairs, beta=2.0)
    means = {name: float(total / terms.count) for name, total in terms.sums.items()}
    assert terms.count == 2 and terms.tokens == 4
    assert means == {
        "preference_accuracy": 0.5,
        "reward_margin": 0.0,
        "chosen_reward": 0.0,
        "rejected_reward": 0.0,
        "chosen_logprob": -1.5,
    }
    assert float(terms.loss) == pytest.approx(-0.5 * math.log(sigmoid(2.0)) - 0.5 * math.log(sigmoid(-2.0)), rel=1e-6)


def test_nothing_trained_is_no_loss():
    zeros = jnp.zeros((2, 3))
    terms = preference_loss(zeros - 1, zeros, zeros, jnp.array([[1, 0, -1], [0, 0, 0]]), kind="ipo")
    assert terms.loss == terms.tokens == terms.count == 0


# --- the whole model ------------------------------------------------------------------------------------------------


def torch_loss(
    torch, chosen, rejected, reference, lengths, kind, beta=0.1, label_smoothing=0.0, margin=0.0, likelihood=0.0
):
    """Of one pair, from sums of log-probabilities."""
    if kind == "simpo":
        h = beta * (chosen / lengths[0] - rejected / lengths[1]) - margin
    else:
        h = beta * ((chosen - reference[0]) - (rejected - reference[1]))
    if kind == "ipo":
        loss = (h / beta - 1 / (2 * beta)) ** 2
    else:
        loss = (
            torch.nn.functional.softplus(-h) * (1 - label_smoothing) + torch.nn.functional.softplus(h) * label_smoothing
        )
    return loss - likelihood * chosen / lengths[0]


@pytest.mark.parametrize("loss", ["dpo smoothed", "ipo", "simpo"])
def test_loss_and_gradient_equal_torch_on_a_transformers_model(loss, tmp_path):
    """One unpadded response at a time, float64 sums; our rows share prompts."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    for name, seed in (("policy", 5), ("reference", 6)):
        hf.save(tmp_path / name, MODEL, random_params(MODEL, seed))
    load = transformers.AutoModelForCausalLM.from_pretrained
    policy, reference = (load(tmp_path / name, dtype=torch.float32).eval() for name in ("policy", "reference"))

    def total(model, r: Rollout):
        ids = torch.tensor(np.concatenate([r.prompt_ids, r.token_ids]))[None].long()
        scores = model(ids).logits[0, len(r.prompt_ids) - 1 : -1].log_softmax(-1)
        own = scores.gather(1, torch.tensor(r.token_ids).long()[:, None])[:, 0]
        return (own.double() * torch.tensor(r.loss_mask)).sum()

    pairs, kind = preferences(), loss.split()[0]
    losses = []
    for pair in pairs:
        with torch.no_grad():
            ref = [total(reference, r) for r in (pair.chosen, pair.rejected)]
        lengths = [float(r.loss_mask.sum()) for r in (pair.chosen, pair.rejected)]
        own = total(policy, pair.chosen), total(policy, pair.rejected)
        losses.append(torch_loss(torch, *own, ref, lengths, kind, **LOSSES[loss]))
    theirs = sum(losses) / len(losses)
    theirs.backward()
    folder = tmp_path / "gradient"
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.copy_(parameter.grad)
    policy.save_pretrained(folder)
    _, expected = hf.load(folder)
    metrics, gradient = stepped(config("two slots", loss), pairs)
    assert metrics["loss"] == pytest.approx(theirs.item(), rel=1e-5)
    assert difference(jax.device_get(expected), gradient) < 1e-5


@pytest.mark.parametrize("loss", [x if x == "dpo" else pytest.param(x, marks=pytest.mark.slow) for x in LOSSES])
def test_the_same_however_pairs_are_laid_out(loss):
    pairs = preferences()
    (first, slopes), *others = [stepped(config(layout, loss), pairs) for layout in LAYOUTS]
    others.append(stepped(config("shared", loss), pairs[::-1]))
    assert first["tokens"] == sum(r.loss_mask.sum() for pair in pairs for r in deal.responses(pair))
    for metrics, gradient in others:
        assert metrics == pytest.approx(first, rel=2e-5)
        assert difference(slopes, gradient) < 1e-5


def test_a_policy_that_is_its_reference_has_loss_log_2():
    same = random_params(MODEL, 5)
    metrics, gradient = stepped(config("shared", "dpo"), preferences(), reference=same)
    assert metrics["loss"] == pytest.approx(math.log(2), rel=1e-6)
    assert metrics["reward_margin"] == pytest.approx(0, abs=1e-6)
    assert max(np.abs(g).max() for g in jax.tree.leaves(gradient)) > 1e-4


# --- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_of_a_pair_stand_in_one_row(layout):
    pairs, cfg = preferences(), LAYOUTS[layout]
    given = [r for pair in pairs for r in deal.responses(pair)]
    shares = [np.full(len(r.token_ids), i + 1, np.float32) for i, r in enumerate(given)]  # tells them apart
    seen = []
    for batch, used in lay_out(given, np.ones(len(given)), shares, cfg.shapes, paired=True, numbered=True):
        for a, b in np.ndindex(used, cfg.rows):
            own, pair = batch.loss_weight[a, b], batch.responses[a, b]
            assert not np.any(pair[own == 0])
            count = int(np.abs(pair).max())
            for k in range(1, count + 1):
                chosen, rejected = (set(own[pair == sign * k].astype(int)) for sign in (1, -1))
                assert len(chosen) == len(rejected) == 1 and rejected == {next(iter(chosen)) + 1}
                seen += [*chosen, *rejected]
    assert sorted(seen) == list(range(1, len(given) + 1)), "each response once"


def test_rows_too_short_for_a_pair_are_named():
    pair = preferences()[0]
    long = dataclasses.replace(LAYOUTS["packed"], row_length=15)
    two = [r for r in deal.responses(pair)]
    with pytest.raises(ValueError, match=r"learner.row_length=15 cannot hold a preference, .* of \d+ tokens; raise it"):
        pack(two, np.ones(2), [r.loss_mask for r in two], long.shapes[0], paired=True)
    with pytest.raises(ValueError, match="learner.slots=1: a preference takes two slots"):
        pack(two, np.ones(2), [r.loss_mask for r in two], RowShape(7, 1, 14, 1), paired=True)


def test_a_preference_has_one_prompt():
    a, b = (
        preferences()[0],
        next(p for p in preferences() if len(p.chosen.prompt_ids) != len(preferences()[0].chosen.prompt_ids)),
    )
    with pytest.raises(ValueError, match="a preference of solver has two prompts"):
        Preference("solver", 0, a.chosen, b.rejected)


# --- several steps --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_updates_move_towards_what_is_chosen():
    """Through the updater: dealt to steps, scored by the reference, which stays."""
    cfg = config("two slots", "dpo", trajectories_per_update=4, learning_rate=3e-3)
    optimizer = make_optimizer(cfg)
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    updater = Updater(cfg, MODEL, mesh, {"": make_learner(MODEL, cfg, optimizer)}, {}, random_params(MODEL, 5))
    state, history = init_state(random_params(MODEL, 5), optimizer), []
    for number in range(12):
        state, metrics = updater.update(state, preferences(), {"solver": "none"}, np.random.default_rng(number))
        history.append(metrics)
    assert history[0]["learner/steps"] == 2 and history[0]["solver/pairs"] == 7
    assert history[0]["learner/reward_margin"] == pytest.approx(0, abs=0.2)
    assert history[-1]["learner/preference_accuracy"] == 1.0
    assert history[-1]["learner/loss"] < 0.5 < history[0]["learner/loss"]


@pytest.mark.parametrize("layout", [pytest.param("packed", marks=pytest.mark.slow), "two slots"])
def test_reference_kept_or_live_is_one_loss(layout):
    """Two epochs of several steps: kept, each lesson is scored once, and the gradient is that of live scores."""
    found = {}
    for when in ("live", "kept"):
        cfg = config(layout, "dpo", trajectories_per_update=4, epochs=2, reference=when)
        learner, calls = recorder(cfg), []

        def score(*arguments, real=learner.score, calls=calls):
            calls.append(float((arguments[1].loss_weight > 0).sum()))
            return real(*arguments)

        mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
        updater = Updater(cfg, MODEL, mesh, {"": learner._replace(score=score)}, {}, random_params(MODEL, 6))
        state = init_state(random_params(MODEL, 5), RECORDER)
        state, metrics = updater.update(state, preferences(), {"solver": "none"}, np.random.default_rng(0))
        found[when] = metrics, sum(calls)
    (live, twice), (kept, once) = found["live"], found["kept"]
    tokens = sum(r.loss_mask.sum() for pair in preferences() for r in deal.responses(pair))
    assert twice == 2 * tokens and once == sum(len(r.token_ids) for p in preferences() for r in deal.responses(p))
    assert live["learner/steps"] == 4 and abs(live["learner/reward_margin"]) > 1e-3
    for name in live:
        assert kept[name] == pytest.approx(live[name], rel=1e-5, abs=1e-7), name


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"beta": 0.0}, "learner.pairs.beta=0.0: must be positive"),
        ({"label_smoothing": 0.5}, "learner.pairs.label_smoothing=0.5: give a share"),
        ({"margin": -1.0}, "learner.pairs.margin=-1.0: must not be negative"),
        ({"likelihood": -0.1}, "learner.pairs.likelihood=-0.1: must not be negative"),
    ],
)
def test_senseless_numbers_are_named(changes, told):
    with pytest.raises(ValueError, match=told):
        PairConfig(**changes)


@pytest.mark.parametrize(
    ("loss", "numbers", "told"),
    [
        ("dpo", {"margin": 1.0}, "learner.pairs.margin=1 with loss=dpo: simpo alone has one; give 0"),
        ("ipo", {"margin": 1.0}, "learner.pairs.margin=1 with loss=ipo"),
        ("ipo", {"label_smoothing": 0.1}, "learner.pairs.label_smoothing=0.1 with loss=ipo: give 0, or take dpo"),
        ("simpo", {}, "learner.pairs.beta=0.1 with loss=simpo is dpo's default: .* give 2.0"),
    ],
)
def test_numbers_that_a_loss_does_not_read_are_named(loss, numbers, told):
    with pytest.raises(ValueError, match=told):
        LearnerConfig(loss=loss, pairs=PairConfig(**numbers))
    assert LearnerConfig(loss="supervised", pairs=PairConfig(**numbers)), "a chain's stages share the numbers"

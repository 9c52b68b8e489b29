"""The policy losses against hand numbers and a second implementation: float64 torch, one unpadded episode at a time."""

import dataclasses
import functools
import math
import operator
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spicejax.learn import losses
from spicejax.learn.learner import LearnerConfig
from spicejax.learn.losses import LOSSES, LossTerms, policy_loss, supervised_loss
from spicejax.learn.packing import token_weights
from spicejax.types import Rollout

torch = pytest.importorskip("torch", reason="the second implementation of the loss is written in torch")

Values = float | list[float] | np.ndarray | jax.Array
LENGTHS = (1, 3, 7, 4, 2)


def loss_of(
    logprobs: Values,
    old: Values | None = None,
    behaviour: Values | None = None,
    reference: Values | None = None,
    advantages: Values = 1.0,
    weight: Values = 1.0,
    kind: str = "ppo_clip",
    **settings: Any,
) -> LossTerms:
    """The loss on one response, or a row each; what is not given is on-policy and of weight 1."""
    old = logprobs if old is None else old
    behaviour = old if behaviour is None else behaviour
    reference = logprobs if reference is None else reference
    shape = jnp.shape(jnp.asarray(logprobs))
    named = (logprobs, old, behaviour, reference, advantages, weight)
    arrays = [jnp.atleast_2d(jnp.broadcast_to(jnp.asarray(x, jnp.float32), shape)) for x in named]
    return terms_of(kind, arrays, **settings)


def terms_of(kind: str, arrays: list[jax.Array], **settings: Any) -> LossTerms:
    """The row of the list on rows that hold one response each."""
    numbers = [jnp.ones(arrays[0].shape, jnp.int32)] if LOSSES[kind].numbered else []
    return LOSSES[kind].terms(*arrays, *numbers, **settings)


def gradient_of(logprobs, **keywords) -> np.ndarray:
    """d loss / d logprobs with everything else fixed."""
    fixed = {"old": logprobs, "reference": logprobs} | keywords
    return np.asarray(jax.grad(lambda x: loss_of(x, **fixed).loss)(jnp.asarray(logprobs, jnp.float32)))


# --- hand numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("advantage", "ratio", "loss", "slope", "clipped"), [
    (+1.0, 1.5, -1.28, 0.0, 1), (+1.0, 1.1, -1.1, -1.1, 0), (+1.0, 0.9, -0.9, -0.9, 0), (+1.0, 0.5, -0.5, -0.5, 0),
    (-1.0, 1.5, 1.5, 1.5, 0), (-1.0, 1.1, 1.1, 1.1, 0), (-1.0, 0.9, 0.9, 0.9, 0), (-1.0, 0.5, 0.8, 0.0, 1),
    (-3.0, 0.5, 2.4, 0.0, 1), (0.0, 1.5, 0.0, 0.0, 0),
])  # fmt: skip
def test_ppo_clip_on_both_sides_of_both_signs(advantage, ratio, loss, slope, clipped):
    limits = {"clip_low": 0.2, "clip_high": 0.28}
    logprob = [math.log(ratio) - 1.0]
    got = loss_of(logprob, old=[-1.0], advantages=advantage, **limits)
    assert float(got.loss) == pytest.approx(loss, rel=1e-5, abs=1e-7)
    assert float(got.sums["clip_fraction"]) == clipped
    # d ratio / d logprob = ratio
    np.testing.assert_allclose(gradient_of(logprob, old=[-1.0], advantages=advantage, **limits), [slope], rtol=1e-5)


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "slope", "clipped"),
    [
        (-1.0, 2.9, 2.9, 2.9, 0),
        (-1.0, 5.0, 3.0, 0.0, 1),  # a bad token that rose: bounded by 3 x |A|
        (-2.0, 5.0, 6.0, 0.0, 1),
        (-1.0, 0.5, 0.8, 0.0, 1),  # the other bounds are as before
        (+1.0, 5.0, -1.28, 0.0, 1),
    ],
)
def test_dual_clip_bounds_bad_tokens_that_rose(advantage, ratio, loss, slope, clipped):
    settings = {"old": [-1.0], "advantages": advantage, "clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0}
    logprob = [math.log(ratio) - 1.0]
    got = loss_of(logprob, **settings)
    assert float(got.loss) == pytest.approx(loss, rel=1e-5)
    assert float(got.sums["clip_fraction"]) == clipped
    np.testing.assert_allclose(gradient_of(logprob, **settings), [slope], rtol=1e-5)


@pytest.mark.parametrize(
    ("factor", "cap", "weight", "truncated"),
    [
        (3.0, 2.0, 2.0, 1),
        (1.5, 2.0, 1.5, 0),
        (0.5, 2.0, 0.5, 0),
        (3.0, 5.0, 3.0, 0),
        (3.0, 0.0, 1.0, 0),
        (0.5, 0.0, 1.0, 0),
    ],
)
def test_importance_weight_is_capped_from_above_only(factor, cap, weight, truncated):
    """w = min(pi_old / pi_behaviour, cap), multiplied onto value and slope; cap 0 is off."""
    settings = {"old": [-1.0], "behaviour": [-1.0 - math.log(factor)], "advantages": 2.0, "tis_cap": cap}
    got = loss_of([-1.0], **settings)
    assert float(got.loss) == pytest.approx(-2.0 * weight, rel=1e-5)
    assert float(got.sums["tis_fraction"]) == truncated
    assert float(got.sums["sampler_gap"]) == pytest.approx(abs(math.log(factor)), rel=1e-5)
    assert float(got.maxima["sampler_gap_max"]) == pytest.approx(abs(math.log(factor)), rel=1e-5)
    assert float(got.sums["sampler_kl"]) == pytest.approx(factor - 1 - math.log(factor), rel=1e-5)
    np.testing.assert_allclose(gradient_of([-1.0], **settings), [-2.0 * weight], rtol=1e-5)


def test_importance_weight_carries_no_gradient():
    old, behaviour = jnp.array([-1.0]), jnp.array([-1.0 - math.log(1.5)])
    by_behaviour = jax.grad(lambda b: loss_of([-1.0], old=old, behaviour=b, advantages=2.0).loss)(behaviour)
    assert np.all(np.asarray(by_behaviour) == 0)
    # Through the ratio alone d loss / d old = +A w = 3; a gradient through w as well would cancel it to 0.
    by_old = jax.grad(lambda o: loss_of([-1.0], old=o, behaviour=behaviour, advantages=2.0).loss)(old)
    np.testing.assert_allclose(by_old, [3.0], rtol=1e-5)


def test_what_nobody_sampled_has_no_importance_weight():
    """Rollout.unmasked gives it the logprob 1."""
    shared = {"old": [-1.0, -6.0], "advantages": 2.0}
    plain, got = loss_of([-1.0, -6.0], **shared), loss_of([-1.0, -6.0], behaviour=[-1.0, 1.0], **shared)
    assert float(got.loss) == float(plain.loss) == -4.0 and float(got.sums["sampler_gap"]) == 0


def test_k3_of_a_small_drift_is_not_rounded_away():
    """k3 = d^2 / 2 + O(d^3); e^d - d - 1 in float32 is off by more than that where d < 3e-4."""
    got = loss_of([0.0], reference=[1e-4], advantages=0.0, kl_coef=1.0, weight=1.0)
    assert float(got.sums["kl"]) == pytest.approx(0.5e-8, rel=0.02)


def test_one_ratio_for_a_whole_response_by_hand():
    """GSPO: ratios 2 and 1/2 have the mean ratio 1; 2 and 1 have sqrt(2), beyond 1.2, which stops a good response."""
    logprobs = np.log([[2.0, 0.5], [2.0, 1.0]])
    settings = {"kind": "gspo", "old": np.zeros((2, 2)), "weight": np.array([[0.5, 0.5], [0.25, 0.25]])}
    good, bad = (loss_of(logprobs, advantages=sign, **settings) for sign in (1.0, -1.0))
    assert float(good.loss) == pytest.approx(-1 - 1.2 / 2, rel=1e-6) and float(good.sums["clip_fraction"]) == 2
    assert float(bad.loss) == pytest.approx(1 + math.sqrt(2) / 2, rel=1e-6) and float(bad.sums["clip_fraction"]) == 0
    # every token of the response moves its ratio: weight of the response x ratio / tokens
    np.testing.assert_allclose(gradient_of(logprobs, advantages=1.0, **settings), [[-0.5, -0.5], [0, 0]], atol=1e-6)


def test_a_clipped_weight_keeps_its_gradient_by_hand():
    """CISPO: the weight stops at 1.28, the token is still learnt; without a lower bound 1/2 stays 1/2."""
    settings = {"kind": "cispo", "old": [-1.0, -1.0], "clip_low": 1.0, "clip_high": 0.28}
    logprobs = [math.log(1.5) - 1, math.log(0.5) - 1]
    for sign in (1.0, -1.0):
        got = loss_of(logprobs, advantages=sign, **settings)
        assert float(got.loss) == pytest.approx(-sign * (1.28 * logprobs[0] + 0.5 * logprobs[1]), rel=1e-5)
        assert float(got.sums["clip_fraction"]) == 1
        np.testing.assert_allclose(
            gradient_of(logprobs, advantages=sign, **settings), [-sign * 1.28, -sign * 0.5], 1e-5
        )


# --- edges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cap", "kind"), [(0.0, "ppo_clip"), (2.0, "ppo_clip"), (2.0, "gspo"), (2.0, "cispo")])
def test_all_masked_is_exactly_zero_whatever_the_masked_numbers_are(cap, kind):
    """Untrained positions hold meaningless numbers: neither overflow nor 0 x inf may leak out of them."""
    wild = {"old": [-1e30, 0.0, 1e4], "behaviour": [0.0, -1e4, 1e30], "reference": [1e30, -1e30, 0.0]}
    settings = wild | {"advantages": [1e3, -1.0, 0.0], "weight": 0.0, "kl_coef": 0.1, "tis_cap": cap}
    settings["kind"] = kind
    assert not any(map(float, jax.tree.leaves(loss_of([0.0, -1e4, -3.0], **settings))))
    assert np.all(gradient_of([0.0, -1e4, -3.0], **settings) == 0)


@pytest.mark.parametrize("kind", ["ppo_clip", "gspo", "cispo"])
def test_masked_tokens_do_not_move_the_trained_ones(kind):
    settings = {"kind": kind, "kl_coef": 0.1}
    alone = loss_of([-1.0], old=[-1.1], behaviour=[-1.3], reference=[-0.9], advantages=0.5, weight=0.125, **settings)
    beside = loss_of(
        [-1.0, 0.0],
        old=[-1.1, -1e9],
        behaviour=[-1.3, 1e9],
        reference=[-0.9, 1e9],
        advantages=[0.5, 1e9],
        weight=[0.125, 0.0],
        **settings,
    )
    assert jax.tree.map(float, alone) == jax.tree.map(float, beside)


@pytest.mark.parametrize("logprob", [100.0, -1000.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_trained_token_far_off_policy_stays_finite(logprob, advantage):
    settings = {"old": [0.0], "behaviour": [-logprob], "reference": [0.0], "advantages": advantage, "kl_coef": 0.1}
    assert all(map(math.isfinite, map(float, jax.tree.leaves(loss_of([logprob], **settings)))))
    assert np.all(np.isfinite(gradient_of([logprob], **settings)))


def test_terms_of_micro_batches_add_up_but_for_the_largest():
    near, far = (loss_of([-1.0, -2.0], behaviour=[-1.0, -2.0 - gap]) for gap in (0.25, 0.5))
    both = near + far + near
    assert float(both.tokens) == 6 and float(both.sums["sampler_gap"]) == 1
    assert float(both.loss) == pytest.approx(2 * float(near.loss) + float(far.loss))
    assert float(both.maxima["sampler_gap_max"]) == 0.5


@pytest.mark.parametrize("name", ["logprobs", "old", "behaviour", "advantages"])
def test_nan_on_a_trained_token_is_not_hidden(name):
    values = {"logprobs": [-1.0, -1.0], "old": [-1.0, -1.0], "behaviour": [-1.0, -1.0], "advantages": [1.0, 1.0]}
    values[name] = [-1.0, math.nan]
    assert math.isnan(float(loss_of(**values).loss))


# --- the second implementation --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Trajectory:
    """One unpadded response in float64: what the policy scored, sampled and earned."""

    logprobs: np.ndarray  # [R]
    mask: np.ndarray  # [R], 1 = trained
    old: np.ndarray
    behaviour: np.ndarray
    reference: np.ndarray
    advantage: float


def trajectories(seed: int) -> list[Trajectory]:
    """Ratios on both sides of the clip, importance weights on both sides of the cap, one observation inside."""
    rng = np.random.default_rng(seed)
    made = []
    for length, advantage in zip(LENGTHS, (1.25, -0.75, 0.5, 0.0, -1.0), strict=True):
        logits = rng.normal(size=(length, 11)) * 2
        tokens = rng.integers(0, 11, length)
        own = (logits - np.log(np.exp(logits).sum(-1, keepdims=True)))[np.arange(length), tokens]
        mask = np.ones(length)
        mask[2:4] = 0.0 if length > 4 else 1.0
        old = own + rng.normal(size=length) * 0.4
        noise = rng.normal(size=(2, length)) * 0.9
        made.append(Trajectory(own, mask, old, old + noise[0], own + noise[1], advantage))
    return made


def add(terms: list) -> Any:
    """The sum of torch scalars, none of them a Python 0."""
    return functools.reduce(operator.add, terms)


def torch_objective(batch, leaves, aggregation, length_norm, clip, cap, beta, kind="ppo_clip"):
    """The objective word by word: a loop over trajectories and over their tokens, nothing padded, no weights."""
    per_trajectory, all_tokens = [], []
    for one, leaf in zip(batch, leaves, strict=True):
        terms = []
        trained = np.flatnonzero(one.mask)
        whole = add([leaf[t] - one.old[t] for t in trained]) / len(trained)
        for t in trained:
            rho = whole.exp() if kind == "gspo" else (leaf[t] - one.old[t]).exp()
            bounded = rho.clamp(1 - clip[0], 1 + clip[1])
            gain = torch.minimum(one.advantage * rho, one.advantage * bounded)
            if kind == "cispo":
                gain = bounded.detach() * one.advantage * leaf[t]
            w = min(math.exp(one.old[t] - one.behaviour[t]), cap) if cap else 1.0
            d = one.reference[t] - leaf[t]
            terms.append(-w * gain + beta * (d.exp() - 1 - d))
        all_tokens += terms
        per_trajectory.append(add(terms) / (length_norm if aggregation == "constant" else len(terms)))
    averaged = all_tokens if aggregation == "token_mean" else per_trajectory
    return add(averaged) / len(averaged)


def padded(batch: list[Trajectory], name: str, fill: float) -> jax.Array:
    """[N, T], longer than any response; `fill` stands where nothing may be read."""
    rows = [np.asarray(getattr(one, name)) for one in batch]
    out = np.full((len(rows), max(LENGTHS) + 3), fill, np.float32)
    for row, values in zip(out, rows, strict=True):
        row[: len(values)] = values
    return jnp.asarray(out)


def weights_of(batch: list[Trajectory], aggregation, norm_length: int) -> jax.Array:
    """The library's own token weights, laid out in padded rows."""
    empty = np.zeros(0, np.int32)
    rollouts = [Rollout(empty, empty, o.old, o.old, o.mask.astype(np.float32), "", "stop") for o in batch]
    out = np.zeros((len(batch), max(LENGTHS) + 3), np.float32)
    for row, share in zip(out, token_weights(rollouts, aggregation=aggregation, norm_length=norm_length), strict=True):
        row[: len(share)] = share
    return jnp.asarray(out)


def jax_loss(batch: list[Trajectory], logprobs: jax.Array, weight: jax.Array, clip, cap, beta, kind="ppo_clip"):
    advantages = np.array([[one.advantage] for one in batch], np.float32) * np.ones(weight.shape, np.float32)
    others = [padded(batch, name, fill) for name, fill in (("old", 3.0), ("behaviour", -7.0), ("reference", 5.0))]
    settings = {"clip_low": clip[0], "clip_high": clip[1], "tis_cap": cap, "kl_coef": beta}
    return terms_of(kind, [logprobs, *others, jnp.asarray(advantages), weight], **settings).loss


def assert_close(got, wanted, scale: float, what: str) -> None:
    error = np.abs(np.asarray(got, np.float64) - wanted).max() / scale
    assert error < 1e-5, f"{what}: error {error:.1e} of the scale {scale:.2e}"


def test_the_drawn_batches_reach_every_branch():
    """Otherwise the comparisons below would prove less than they say."""
    for seed in (3, 4, 5):
        batch = trajectories(seed)
        own, old, behaviour, reference = (
            padded(batch, name, 0.0) for name in ("logprobs", "old", "behaviour", "reference")
        )
        signs = jnp.array([[o.advantage] for o in batch]) * jnp.ones_like(own)
        terms = policy_loss(own, old, behaviour, reference, signs, weights_of(batch, "constant", 9))
        assert 0 < float(terms.sums["clip_fraction"]) < float(terms.tokens) == sum(LENGTHS) - 2
        assert 0 < float(terms.sums["tis_fraction"]) < float(terms.tokens)


SETTINGS = [((0.2, 0.2), 2.0, 0.0), ((0.2, 0.285), 2.0, 0.05), ((0.2, 0.2), 0.0, 0.0), ((10.0, 10.0), 1.2, 0.3)]
MEANS = ("constant", "sequence_mean", "token_mean", "constant")
CASES = [("ppo_clip", mean, *case) for mean, case in zip(MEANS, SETTINGS, strict=True)]
CASES += [("ppo_clip", "token_mean", (0.2, 0.28), 0.0, 0.0)]  # DAPO
CASES += [("gspo", mean, (0.05, 0.1), cap, 0.05) for mean, cap in (("sequence_mean", 0.0), ("constant", 2.0))]
CASES += [("cispo", "token_mean", (1.0, 0.28), 0.0, 0.0), ("cispo", "constant", (0.2, 0.28), 2.0, 0.05)]


@pytest.mark.parametrize(("kind", "aggregation", "clip", "cap", "beta"), CASES)
def test_value_and_gradient_agree_with_torch(kind, aggregation, clip, cap, beta):
    batch, norm = trajectories(3), 9
    leaves = [torch.tensor(one.logprobs, requires_grad=True) for one in batch]
    wanted = torch_objective(batch, leaves, aggregation, norm, clip, cap, beta, kind)
    wanted.backward()
    weight = weights_of(batch, aggregation, norm)
    differentiated = jax.value_and_grad(lambda x: jax_loss(batch, x, weight, clip, cap, beta, kind))
    value, gradient = differentiated(padded(batch, "logprobs", -4.0))
    scale = max(float(leaf.grad.abs().max()) for leaf in leaves)
    assert_close(value, wanted.item(), abs(wanted.item()), "loss")
    for row, one, leaf in zip(np.asarray(gradient), batch, leaves, strict=True):
        assert_close(row[: len(leaf)], leaf.grad.numpy(), scale, "gradient")
        trained = np.pad(one.mask, (0, len(row) - len(one.mask))) > 0
        assert np.all(row[~trained] == 0), "a token outside the loss mask has a gradient"


def test_responses_of_one_row_have_ratios_of_their_own():
    """GSPO on a row that holds all responses behind each other, of which some are untrained, is GSPO on a row each."""
    batch = trajectories(5)
    apart = [padded(batch, name, 0.0) for name in ("logprobs", "old", "behaviour", "reference")]
    apart += [jnp.array([[o.advantage] for o in batch]) * jnp.ones_like(apart[0]), weights_of(batch, "constant", 9)]
    numbers = jnp.arange(1, len(batch) + 1, dtype=jnp.int32)[:, None] * jnp.ones(apart[0].shape, jnp.int32)
    order = np.random.default_rng(0).permutation(numbers.size)
    settings = {"surrogate": losses.gspo, "clip_low": 0.05, "clip_high": 0.05}

    def together(logprobs):
        row = [x.ravel()[order][None] for x in (logprobs, *apart[1:], numbers)]
        return policy_loss(*row, **settings).loss

    value, slope = jax.value_and_grad(together)(apart[0])
    own, own_slope = jax.value_and_grad(
        lambda x: terms_of("gspo", [x, *apart[1:]], clip_low=0.05, clip_high=0.05).loss
    )(apart[0])
    assert float(value) == pytest.approx(float(own), rel=1e-6)
    np.testing.assert_allclose(slope, own_slope, rtol=1e-5, atol=1e-8)
    assert np.abs(np.asarray(slope)).max() > 1e-3


# --- the list -------------------------------------------------------------------------------------------------------


def test_the_list_has_every_name_that_a_configuration_takes():
    names = {name for option in get_args(losses.Name) for name in (get_args(option) or (option,))}
    assert names == {*LOSSES, *losses.ALIASES}
    assert LearnerConfig(loss="drgrpo") == LearnerConfig(loss="ppo_clip") == LearnerConfig()


# --- supervised -----------------------------------------------------------------------------------------------------


def test_supervised_by_hand_and_all_masked():
    logprobs = jnp.array([-1.0, -3.0, -5.0])
    assert float(supervised_loss(logprobs, jnp.array([0.5, 0.25, 0.0])).loss) == 1.25
    nothing = supervised_loss(logprobs, jnp.zeros(3))
    assert float(nothing.loss) == float(nothing.tokens) == 0

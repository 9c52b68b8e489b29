"""The training step as a whole: what it must leave alone, what it must survive, and its optimizer."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import recorded
from recorded import RECORDER, difference
from tiny_models import LLAMA, random_params

from spicejax.learn.learner import LearnerConfig, init_state, make_learner, make_optimizer
from spicejax.learn.packing import RowShape, pack, token_weights
from spicejax.models import transformer
from spicejax.types import Batch, Rollout

MODEL = LLAMA
# A large step, a decay, a norm limit that binds, a KL term: nothing of the update is idle in the tests that share this.
CONFIG = LearnerConfig(loss_norm_length=16, learning_rate=2e-2, weight_decay=0.01, max_grad_norm=0.01, kl_coef=0.05)
OFF_POLICY = dataclasses.replace(CONFIG, epochs=2)  # the ratio is against `Batch.old_logprobs`
SHAPE = RowShape(24, rows=2)


def fresh_params() -> transformer.Params:
    """Same draw every time. A step donates them: draw again."""
    return random_params(MODEL)


def rollouts() -> tuple[list[Rollout], np.ndarray]:
    """Eight episodes; numbers 1 and 4 hold an observation inside the response. Logprobs are of no real sampler."""
    rng = np.random.default_rng(1)
    made = []
    for number, (prompt, response) in enumerate([(3, 5), (7, 13), (2, 6), (4, 9), (2, 12), (9, 6), (5, 11), (1, 12)]):
        mask = np.ones(response, np.float32)
        if number in (1, 4):
            mask[3:8] = 0.0
        ids = rng.integers(1, MODEL.vocab_size, prompt + response).astype(np.int32)
        logprobs = rng.uniform(-4.0, -2.0, response).astype(np.float32)
        made.append(Rollout(ids[:prompt], ids[prompt:], logprobs, logprobs, mask, "", "stop"))
    return made, np.array([1.0, -0.5, 0.75, -0.25, -1.0, 0.25, 0.5, 0.625], np.float32)


def packed() -> tuple[Batch, jax.Array]:
    """The episodes in rows, [4, 2, 24], and the micro-batches in use; old and reference are near the sampler's."""
    made, advantages = rollouts()
    weights = token_weights(made, aggregation="constant", norm_length=CONFIG.loss_norm_length)
    batch, used = pack(made, advantages, weights, SHAPE, min_micro=4)
    assert batch.tokens.shape == (4, 2, 24)
    noise = np.random.default_rng(2).uniform(-0.5, 0.5, batch.tokens.shape)
    batch = batch._replace(
        old_logprobs=np.where(batch.loss_weight > 0, batch.behaviour_logprobs + noise, 0).astype(np.float32),
        reference_logprobs=np.where(batch.loss_weight > 0, batch.behaviour_logprobs - noise, 0).astype(np.float32),
    )
    return batch, jnp.int32(used)


@functools.cache
def recorder(model=MODEL, config=CONFIG, **keywords):
    return make_learner(model, config, RECORDER, **keywords)


def measure(learner, batch: Batch, used: jax.Array, params=None) -> tuple[dict, dict]:
    """Metrics and gradient of one step."""
    return recorded.measure(learner, fresh_params() if params is None else params, batch, used)


def assert_bitwise(a, b) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.fixture(scope="module")
def trainer():
    """Learner with fixed old logprobs and AdamW, shared so that it compiles once."""
    optimizer = make_optimizer(CONFIG)
    return make_learner(MODEL, OFF_POLICY, optimizer), lambda: init_state(fresh_params(), optimizer)


# --- what is not trained --------------------------------------------------------------------------------------------


def logits_as_parameters(monkeypatch, **changes) -> transformer.TransformerConfig:
    """A model whose hidden states are `params["logits"]`: with D = V and an identity as output layer, its logits."""
    monkeypatch.setattr(transformer, "hidden_states", lambda cfg, params, *rest, **more: params["logits"])
    return dataclasses.replace(
        MODEL, d_model=MODEL.vocab_size, num_heads=1, num_kv_heads=1, tie_embeddings=False, **changes
    )


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_logits_of_observations_and_prompts_get_no_gradient_at_all(monkeypatch, temperature):
    """Masked means exactly 0, not small; trained means the formula, at the sampler's temperature."""
    vocab = MODEL.vocab_size
    batch = jax.tree.map(lambda x: x[:1], packed()[0])
    logits = np.random.default_rng(2).normal(size=(*batch.tokens.shape[1:], vocab)).astype(np.float32)
    params = {"logits": jnp.asarray(logits), "unembed": jnp.eye(vocab)}
    learner = make_learner(
        logits_as_parameters(monkeypatch), dataclasses.replace(CONFIG, kl_coef=0.0), RECORDER, temperature=temperature
    )
    _, grads = measure(learner, batch, jnp.int32(1), params)
    tokens, positions, segments, weight, advantage, behaviour = (x[0] for x in batch[:6])
    # The logits at t - 1 score the token at t; the last logits of a row score nothing.
    scored = np.zeros(tokens.shape, bool)
    scored[:, :-1] = weight[:, 1:] > 0
    sizes = np.abs(grads["logits"]).max(-1)
    assert np.all(sizes[~scored] == 0)
    assert np.all(sizes[scored] > 0)
    observed = (segments > 0) & (weight == 0) & (positions >= 10)
    assert observed.any(), "this micro-batch is meant to hold an observation"
    # d loss / d logits = weight A w (softmax(logits / T) - onehot) / T, w = min(pi / behaviour, 2)
    scores = np.exp(np.float64(logits) / temperature)
    probability = scores / scores.sum(-1, keepdims=True)
    for b, t in np.argwhere(scored):
        token = tokens[b, t + 1]
        w = min(probability[b, t, token] / np.exp(np.float64(behaviour[b, t + 1])), 2.0)
        expected = probability[b, t] - (np.arange(vocab) == token)
        expected *= float(weight[b, t + 1]) * float(advantage[b, t + 1]) * w / temperature
        np.testing.assert_allclose(grads["logits"][b, t], expected, rtol=1e-4, atol=1e-8)


def test_numbers_on_untrained_tokens_change_nothing():
    batch, used = packed()
    untrained = batch.loss_weight == 0
    junk = {
        name: np.where(untrained, 1e6, getattr(batch, name)).astype(np.float32)
        for name in ("advantages", "behaviour_logprobs", "old_logprobs", "reference_logprobs")
    }
    learner = recorder(config=OFF_POLICY)
    plain, dirty = measure(learner, batch, used), measure(learner, batch._replace(**junk), used)
    assert plain[0] == dirty[0]
    assert_bitwise(plain[1], dirty[1])


# --- what must not change the gradient ------------------------------------------------------------------------------


@pytest.mark.parametrize(("remat", "chunk"), [("layer", 0), ("dots", 5)])
def test_saving_memory_gives_the_same_gradient(remat, chunk):
    """Recomputed activations, and logits of a few positions at a time; 23 scored positions in chunks of 5."""
    batch, used = packed()
    metrics, plain = measure(recorder(), batch, used)
    lean = recorder(dataclasses.replace(MODEL, remat=remat), dataclasses.replace(CONFIG, vocab_chunk=chunk))
    lean_metrics, grads = measure(lean, batch, used)
    assert lean_metrics["loss"] == pytest.approx(metrics["loss"], rel=1e-6)
    assert difference(plain, grads) < 3e-6


def test_on_policy_is_old_logprobs_of_the_same_parameters(trainer):
    batch, used = packed()
    learner = recorder(config=OFF_POLICY)
    old = trainer[0].score(fresh_params(), batch, used)
    fixed, fixed_grads = measure(learner, batch._replace(old_logprobs=old), used)
    own, own_grads = measure(recorder(), batch, used)
    assert own["loss"] == pytest.approx(fixed["loss"], rel=1e-6)
    assert own["clip_fraction"] == fixed["clip_fraction"] == 0
    assert own["tis_fraction"] == fixed["tis_fraction"] > 0
    assert own["sampler_gap"] == pytest.approx(fixed["sampler_gap"], rel=1e-6)
    assert difference(own_grads, fixed_grads) < 1e-6
    # On-policy does not read the field at all.
    assert_bitwise(own_grads, measure(recorder(), batch._replace(old_logprobs=batch.old_logprobs + 9.0), used)[1])


# --- scoring --------------------------------------------------------------------------------------------------------


def logprobs_by_hand(batch: Batch, temperature: float) -> np.ndarray:
    """log softmax(logits / temperature) in float64 from the model's hidden states, at every token but the first."""
    params = fresh_params()
    rows = [np.reshape(x, (-1, SHAPE.row_length)) for x in (batch.tokens, batch.positions, batch.segment_ids)]
    tokens, positions, segments = map(jnp.asarray, rows)
    hidden = transformer.hidden_states(MODEL, params, tokens, positions, segment_ids=segments)
    scores = np.asarray(hidden, np.float64) @ np.asarray(params["embed"], np.float64).T / temperature
    table = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    out = np.zeros(tokens.shape)
    out[:, 1:] = np.take_along_axis(table[:, :-1], rows[0][:, 1:, None], -1)[..., 0]
    return out.reshape(batch.tokens.shape)


@pytest.mark.parametrize("temperature", [0.5, 0.0])
def test_score_is_the_logprob_at_the_sampler_s_temperature(temperature):
    """0 is greedy sampling, which has no density: it counts as 1."""
    batch, used = packed()
    got = np.asarray(recorder(config=OFF_POLICY, temperature=temperature).score(fresh_params(), batch, used))
    trained = batch.loss_weight > 0
    np.testing.assert_allclose(got[trained], logprobs_by_hand(batch, temperature or 1.0)[trained], rtol=1e-5, atol=1e-5)
    assert np.all(got[~trained] == 0)


# --- metrics --------------------------------------------------------------------------------------------------------


def test_metrics_are_means_over_trained_tokens(trainer):
    """Every number of the step again in numpy float64, from the scored tokens and the formulas."""
    batch, used = packed()
    learner = recorder(config=OFF_POLICY)
    rng = np.random.default_rng(3)
    trained = batch.loss_weight > 0
    scored = np.asarray(trainer[0].score(fresh_params(), batch, used), np.float64)
    old, behaviour, reference = (
        np.where(trained, scored + rng.normal(size=scored.shape) * 0.4, 0).astype(np.float32) for _ in range(3)
    )
    fields = {"old_logprobs": old, "behaviour_logprobs": behaviour, "reference_logprobs": reference}
    metrics, grads = measure(learner, batch._replace(**fields), used)
    logp, old, behaviour, reference = (np.float64(x[trained]) for x in (scored, old, behaviour, reference))
    advantage, weight = np.float64(batch.advantages[trained]), np.float64(batch.loss_weight[trained])
    ratio, w, d = np.exp(logp - old), np.exp(old - behaviour), reference - logp
    gain = np.minimum(advantage * ratio, advantage * np.clip(ratio, 0.8, 1.2)) * np.minimum(w, 2.0)
    k3 = np.exp(d) - d - 1
    made, _ = rollouts()
    assert metrics["tokens"] == sum(r.loss_mask.sum() for r in made) == trained.sum()
    assert metrics["loss"] == pytest.approx(np.sum(weight * (CONFIG.kl_coef * k3 - gain)), rel=1e-5)
    assert metrics["kl"] == pytest.approx(k3.mean(), rel=1e-5)
    assert metrics["sampler_gap"] == pytest.approx(np.abs(old - behaviour).mean(), rel=1e-5)
    assert metrics["tis_fraction"] == pytest.approx(np.mean(w > 2.0), rel=1e-6)
    bounded = np.where(advantage > 0, ratio > 1.2, ratio < 0.8)
    assert metrics["clip_fraction"] == pytest.approx(bounded.mean(), rel=1e-6)
    assert min(metrics["tis_fraction"], metrics["clip_fraction"]) > 0
    norm = np.sqrt(sum(np.sum(np.float64(g) ** 2) for g in jax.tree.leaves(grads)))
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-6)
    assert metrics["skipped"] == 0


# --- bad steps ------------------------------------------------------------------------------------------------------


# An infinite logprob is no bad step: log ratios are clamped, so it is a weight of 0 or the cap.
@pytest.mark.parametrize(
    ("field", "value"),
    [(name, np.nan) for name in ("behaviour_logprobs", "old_logprobs")]
    # 1e25: the loss is finite, the square of the gradient is not
    + [("advantages", 1e25), ("loss_weight", np.inf)],
)
def test_one_bad_number_changes_nothing_but_the_counter(trainer, field, value):
    learner, start = trainer
    batch, used = packed()
    poisoned = np.array(getattr(batch, field))
    poisoned[tuple(np.argwhere(batch.loss_weight > 0)[-1])] = value
    state, _ = learner.step(start(), batch, used)  # moments are no longer zero
    before = jax.device_get(state)
    state, metrics = learner.step(state, batch._replace(**{field: poisoned}), used)
    assert float(metrics["skipped"]) == 1
    assert np.isfinite(float(metrics["loss"])) == (value == 1e25)
    assert_bitwise((before.params, before.opt_state), (state.params, state.opt_state))
    assert (int(state.step), int(state.skipped)) == (2, 1)
    # The run goes on exactly as if the bad step had not been.
    state, metrics = learner.step(state, batch, used)
    clean = start()
    for _ in range(2):
        clean, _ = learner.step(clean, batch, used)
    assert float(metrics["skipped"]) == 0
    assert_bitwise((clean.params, clean.opt_state), (state.params, state.opt_state))
    assert (int(state.step), int(state.skipped)) == (3, 1)
    assert difference(before.params, jax.device_get(state.params)) > 1e-5, "the good step moved nothing"


# --- state and compilation ------------------------------------------------------------------------------------------


def test_the_old_state_is_given_up(trainer):
    learner, start = trainer
    state = start()
    new, _ = learner.step(state, *packed())
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves((state.params, state.opt_state)))
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(state.params["embed"])
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(new))
    assert jax.tree.map(jnp.shape, new) == jax.tree.map(jnp.shape, start())
    assert jax.tree.map(lambda x: x.dtype, new) == jax.tree.map(lambda x: x.dtype, start())


def test_one_program_for_every_number_of_micro_batches(trainer):
    learner, start = trainer
    batch, _ = packed()
    state, metrics = learner.step(start(), batch, jnp.int32(4))
    learner.score(state.params, batch, jnp.int32(4))
    sizes = learner.step._cache_size(), learner.score._cache_size()
    tokens = []
    for used in (1, 2, 3, 4):
        scored = learner.score(state.params, batch, jnp.int32(used))
        assert np.all(scored[used:] == 0) and np.all(scored[0][batch.loss_weight[0] > 0] < 0)
        state, metrics = learner.step(state, batch, jnp.int32(used))
        tokens.append(float(metrics["tokens"]))
    assert (learner.step._cache_size(), learner.score._cache_size()) == sizes
    assert tokens == [np.count_nonzero(batch.loss_weight[:used]) for used in (1, 2, 3, 4)]
    assert tokens[0] < tokens[1] < tokens[2]


def test_gradients_of_bfloat16_parameters_are_summed_in_float32(monkeypatch):
    """256 equal micro-batches: a sum kept in bfloat16 stops growing when a term is half its last place."""
    model = logits_as_parameters(monkeypatch, param_dtype="bfloat16", dtype="bfloat16")
    batch, _ = packed()
    many = jax.tree.map(lambda x: np.repeat(x[:1], 256, axis=0), batch)
    drawn = np.random.default_rng(2).normal(size=(*batch.tokens.shape[1:], model.vocab_size))

    def run(used: int):
        params = {"logits": jnp.asarray(drawn, jnp.bfloat16), "unembed": jnp.eye(model.vocab_size, dtype=jnp.bfloat16)}
        return measure(learner, many, jnp.int32(used), params)

    learner = make_learner(model, CONFIG, RECORDER)
    (metrics, one), (sums, summed) = run(1), run(256)
    assert all(g.dtype == jnp.bfloat16 for g in jax.tree.leaves(summed))
    wanted = jax.tree.map(lambda g: np.float32(g) * 256, one)
    assert difference(wanted, jax.tree.map(np.float32, summed)) < 2**-8
    assert sums["loss"] == pytest.approx(256 * metrics["loss"], rel=1e-4)


def test_bfloat16_compute_keeps_float32_weights_moments_and_small_steps():
    """A step far below bfloat16's last place arrives, and the gradient is that of float32 to bfloat16's rounding."""
    config = dataclasses.replace(CONFIG, learning_rate=1e-6, vocab_chunk=10)
    half = dataclasses.replace(MODEL, dtype="bfloat16")
    batch, used = packed()
    _, exact = measure(recorder(MODEL, config), batch, used)
    _, rough = measure(recorder(half, config), batch, used)
    assert all(g.dtype == np.float32 for g in jax.tree.leaves(rough))
    assert 0 < difference(exact, rough) < 0.1
    optimizer = make_optimizer(config)
    state, _ = make_learner(half, config, optimizer).step(init_state(fresh_params(), optimizer), batch, used)
    floats = [x for x in jax.tree.leaves((state.params, state.opt_state)) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {x.dtype for x in floats} == {jnp.dtype("float32")}
    before, after = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(p)]) for p in (fresh_params(), state.params))
    assert np.mean(before != after) > 0.9
    assert np.mean(before.astype(jnp.bfloat16) != after.astype(jnp.bfloat16)) < 0.01


# --- several steps --------------------------------------------------------------------------------------------------


def test_old_logprobs_stay_fixed_over_several_steps_and_the_clip_sets_in(trainer):
    """PPO's inner loop: the ratio is 1 at the first step and away from it at the later ones."""
    learner, start = trainer
    batch, used = packed()
    state = start()
    old = learner.score(state.params, batch, used)
    batch = batch._replace(old_logprobs=old, behaviour_logprobs=old, reference_logprobs=old)
    history = []
    for _ in range(4):
        state, metrics = learner.step(state, batch, used)
        history.append({k: float(v) for k, v in metrics.items()})
    trained = batch.loss_weight > 0
    # At ratio 1 the loss is -sum weight x A, whatever the model, and the KL term is 0
    assert history[0]["loss"] == pytest.approx(-np.sum(np.float64(batch.loss_weight) * batch.advantages), rel=1e-5)
    assert history[-1]["loss"] < history[0]["loss"], "the surrogate must improve"
    assert history[0]["clip_fraction"] == 0
    assert history[-1]["clip_fraction"] > 0.05
    assert all(m["sampler_gap"] == m["tis_fraction"] == 0 for m in history), "old and behaviour are both fixed"
    ratio = np.exp(np.asarray(learner.score(state.params, batch, used) - old))[trained]
    sign = np.sign(batch.advantages[trained])
    assert np.mean(ratio[sign > 0]) > 1 > np.mean(ratio[sign < 0])
    assert np.any(np.abs(np.log(ratio)) > np.log(1.2))


# --- the optimizer --------------------------------------------------------------------------------------------------


def test_the_optimizer_clips_the_norm_and_is_adamw():
    """Three steps of a vector again in numpy float64: the norm limit binds, the decay is not in the moments."""
    params, first, second = np.array([0.5, -2.0, 1.0]), np.zeros(3), np.zeros(3)
    optimizer, ours = make_optimizer(CONFIG), jnp.asarray(params, jnp.float32)
    state, (b1, b2) = optimizer.init(ours), (CONFIG.beta1, CONFIG.beta2)
    for t, gradient in enumerate(np.random.default_rng(0).normal(size=(3, 3)), 1):
        update, state = optimizer.update(jnp.asarray(gradient, jnp.float32), state, ours)
        ours = optax.apply_updates(ours, update)
        norm = np.linalg.norm(gradient)
        assert norm > 2 * CONFIG.max_grad_norm
        clipped = gradient / norm * CONFIG.max_grad_norm
        first, second = b1 * first + (1 - b1) * clipped, b2 * second + (1 - b2) * clipped**2
        direction = first / (1 - b1**t) / (np.sqrt(second / (1 - b2**t)) + CONFIG.eps)
        params = params - CONFIG.learning_rate * (direction + CONFIG.weight_decay * params)
        np.testing.assert_allclose(ours, params, rtol=1e-6)


ROLES = {"role_order": ("proposer", "solver")}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"learning_rate": 0.0}, "learner.learning_rate=0.0: must be positive"),
        ({"max_grad_norm": -1.0}, "learner.max_grad_norm=-1.0"),
        ({"loss_norm_length": 0}, "learner.loss_norm_length=0"),
        ({"clip_low": 0.0}, "learner.clip_low=0.0: must be positive"),
        ({"tis_cap": -2.0}, "learner.tis_cap=-2.0: must not be negative"),
        ({"schedule": "linear"}, "learner.schedule=linear with decay_steps=0"),
        ({"decay_steps": 9}, "learner.schedule=constant with decay_steps=9"),
        ({"prompt_areas": (8, 8)}, r"learner.prompt_areas=\(8, 8\)"),
        ({"loss": "gspo"}, "learner.clip_low=0.2, clip_high=0.2 with loss=gspo: .* give 3e-4 and 4e-4"),
        ({"loss": "cispo", "dual_clip": 3.0}, "learner.dual_clip=3 with loss=cispo: .*give 0"),
        (ROLES | {"role_kl_coef": (0.1,)}, "role_kl_coef=.0.1,.: give one for each role of learner.role_order="),
        ({"role_aggregation": ("sum",)}, "learner.role_aggregation=.'sum',.: give one for each"),
        (ROLES | {"role_kl_coef": (0.1, -1.0)}, "role_kl_coef=.*none may be negative"),
        (ROLES | {"role_kl_coef": (0.1, 0.0), "loss": "supervised"}, "kl_coef=0.1 with loss=supervised"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, told):
    with pytest.raises(ValueError, match=told):
        LearnerConfig(**settings)


@pytest.mark.parametrize(
    ("schedule", "decay", "expected"),
    [
        ("constant", 0, [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", 4, [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ("cosine", 4, [0.0, 0.5, 1.0, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2, 0.0]),
    ],
)
def test_the_learning_rate_warms_up_and_falls(schedule, decay, expected):
    """Of an AdamW step on a constant gradient the size is the learning rate itself."""
    cfg = LearnerConfig(learning_rate=1e-3, warmup_steps=2, schedule=schedule, decay_steps=decay, beta1=0.0, eps=1e-12)
    optimizer, params = make_optimizer(cfg), jnp.zeros(1)
    state, sizes = optimizer.init(params), []
    for _ in range(7):
        update, state = optimizer.update(jnp.ones(1), state, params)
        sizes.append(-float(update[0]) / 1e-3)
    np.testing.assert_allclose(sizes, expected, atol=1e-5)

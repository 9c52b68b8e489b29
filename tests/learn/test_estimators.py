"""The published methods, from rewards and logits to loss and gradient, against definitions in torch written apart from
the library: loops over episodes and tokens in float64, nothing padded, no weights."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spicejax.learn import deal
from spicejax.learn.learner import LearnerConfig, PairConfig
from spicejax.learn.losses import LOSSES
from spicejax.learn.packing import token_weights
from spicejax.types import Episode, Rollout

torch = pytest.importorskip("torch", reason="the definitions are written in torch")

WORDS, LONGEST, NORM = 7, 9, 16  # vocabulary, tokens of the longest response, Dr. GRPO's constant
# role, group, reward of each episode; groups are ragged, one teaches nothing
EPISODES = [
    ("propose", 0, 1.0), ("propose", 0, -0.5), ("propose", 0, 0.25), ("propose", 1, 0.5), ("propose", 1, 0.5),
    ("solve", 2, 1.0), ("solve", 2, 0.0), ("solve", 3, 0.0), ("solve", 3, 0.0), ("solve", 3, 1.0), ("solve", 3, 1.0),
    ("solve", 3, 0.0),
]  # fmt: skip


@dataclasses.dataclass
class Drawn:
    """Responses of one iteration; row i is episode i. Pair k is rows 2k (chosen) and 2k + 1."""

    logits: np.ndarray  # [N, T, V]
    ids: np.ndarray  # [N, T]
    lengths: np.ndarray  # [N]
    old: np.ndarray  # [N, T], logprobs of the policy that sampled
    reference: np.ndarray  # [N, T]


def drawn(seed: int) -> Drawn:
    rng, n = np.random.default_rng(seed), len(EPISODES)
    logits, ids = 1.5 * rng.normal(size=(n, LONGEST, WORDS)), rng.integers(0, WORDS, (n, LONGEST))
    own = np.take_along_axis(logits - np.log(np.exp(logits).sum(-1, keepdims=True)), ids[..., None], -1)[..., 0]
    noise = 0.35 * rng.normal(size=(2, n, LONGEST))
    return Drawn(logits, ids, rng.integers(2, LONGEST + 1, n), own + noise[0], own + noise[1])


# --- torch ------------------------------------------------------------------------------------------------------------


def logprobs(data, logits):
    """One list of token logprobs for each response."""
    return [
        [torch.log_softmax(logits[i, t], -1)[data.ids[i, t]] for t in range(data.lengths[i])]
        for i in range(len(logits))
    ]


def clipped(ratio, advantage, low=0.2, high=0.2):
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def groups():
    found = {}
    for i, (_, group, reward) in enumerate(EPISODES):
        found.setdefault(group, []).append((i, torch.tensor(reward, dtype=torch.float64)))
    return found.values()


def grpo(data, logits):
    """arXiv:2402.03300, eq. 3 and 4: standardised in the group, mean of each response, k3 against the reference."""
    own, total = logprobs(data, logits), 0.0
    for members in groups():
        rewards = torch.stack([reward for _, reward in members])
        for i, reward in members:
            advantage = (reward - rewards.mean()) / (rewards.std() + 1e-8)
            terms = []
            for t, logprob in enumerate(own[i]):
                drift = data.reference[i, t] - logprob
                terms.append(clipped((logprob - data.old[i, t]).exp(), advantage) + 0.04 * (drift.exp() - drift - 1))
            total = total + torch.stack(terms).mean()
    return total / len(EPISODES)


def dr_grpo(data, logits):
    """arXiv:2503.20783: no standard deviation, a constant in place of the length."""
    own, total = logprobs(data, logits), 0.0
    for members in groups():
        mean = sum(reward for _, reward in members) / len(members)
        for i, reward in members:
            total = total + sum(
                clipped((logprob - data.old[i, t]).exp(), reward - mean) for t, logprob in enumerate(own[i])
            )
    return total / (NORM * len(EPISODES))


def reinforce(data, logits):
    """Williams 1992: the gradient of -(1/N) sum_i R_i log p(response_i), on policy."""
    own = logprobs(data, logits)
    whole = [sum(logprob - logprob.detach() for logprob in tokens) for tokens in own]
    first = sum(reward * sum(1.0 for _ in tokens) for (_, _, reward), tokens in zip(EPISODES, own, strict=True))
    return -(first + sum(reward * w for (_, _, reward), w in zip(EPISODES, whole, strict=True))) / len(EPISODES)


def whitened(data, logits, same):
    """Rewards standardised over all tokens of the episodes that `same` takes together; mean over the tokens of all."""
    own, terms = logprobs(data, logits), []
    for i, (role, _, reward) in enumerate(EPISODES):
        tokens = torch.tensor(
            [r for k, (other, _, r) in enumerate(EPISODES) if same(role, other) for _ in own[k]], dtype=torch.float64
        )
        advantage = (reward - tokens.mean()) / torch.sqrt(tokens.var(unbiased=False) + 1e-8)
        terms += [clipped((logprob - data.old[i, t]).exp(), advantage) for t, logprob in enumerate(own[i])]
    return torch.stack(terms).mean()


def reinforce_plus_plus(data, logits):
    """arXiv:2501.03262: whitened over the whole batch."""
    return whitened(data, logits, lambda *_: True)


def task_relative(data, logits):
    """arXiv:2505.03335, section 3.3.5: each role and task by itself."""
    return whitened(data, logits, lambda a, b: a == b)


def on_pairs(loss):
    def whole(data, logits):
        own, terms = logprobs(data, logits), []
        for k in range(0, len(own), 2):
            (chosen, rejected) = own[k], own[k + 1]
            gaps = [sum(p - data.reference[i, t] for t, p in enumerate(own[i])) for i in (k, k + 1)]
            terms.append(loss(gaps[0] - gaps[1], torch.stack(chosen).mean() - torch.stack(rejected).mean()))
        return torch.stack(terms).mean()

    return whole


def log_sigmoid(x):
    return -torch.log1p(torch.exp(-x))


dpo = on_pairs(lambda gap, _: -log_sigmoid(0.1 * gap))  # arXiv:2305.18290, eq. 7
ipo = on_pairs(lambda gap, _: (gap - 1 / (2 * 0.1)) ** 2)  # arXiv:2310.12036, eq. 17
simpo = on_pairs(lambda _, means: -log_sigmoid(2.0 * means - 1.0))  # arXiv:2405.14734, eq. 6

# --- the library ------------------------------------------------------------------------------------------------------

TABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "GRPO": (grpo, {"estimator": "mean_std", "aggregation": "sequence_mean", "kl_coef": 0.04}),
    "DrGRPO": (dr_grpo, {"estimator": "mean", "aggregation": "constant", "loss_norm_length": NORM}),
    "REINFORCE": (reinforce, {"estimator": "none", "aggregation": "sum"}),
    "REINFORCE++": (reinforce_plus_plus, {"estimator": "whiten", "aggregation": "token_mean"}),
    "task-relative": (task_relative, {"estimator": "whiten", "aggregation": "token_mean"}),
    "DPO": (dpo, {"loss": "dpo", "pairs": PairConfig(beta=0.1)}),
    "IPO": (ipo, {"loss": "ipo", "pairs": PairConfig(beta=0.1)}),
    "SimPO": (simpo, {"loss": "simpo", "pairs": PairConfig(beta=2.0, margin=1.0)}),
}


def ours(name, data, logits):
    """The loss as the learner computes it, rows of padded responses, or of pairs one behind the other."""
    settings = dict(TABLE[name][1])
    estimator = settings.pop("estimator", None)
    cfg = LearnerConfig(tis_cap=0.0, **settings)
    n, there = len(EPISODES), np.arange(LONGEST) < data.lengths[:, None]
    every = jax.nn.log_softmax(logits, -1)
    own = jnp.take_along_axis(every, data.ids[..., None], -1)[..., 0]
    fields: dict[str, Any] = {"reference_logprobs": data.reference, "old_logprobs": data.old}
    if estimator is None:
        pairs = n // 2
        fields["loss_weight"] = there / pairs
        fields["responses"] = np.where(there, np.where(np.arange(n) % 2, -1, 1)[:, None], 0)
        own, fields = own.reshape(pairs, -1), {k: np.reshape(v, (pairs, -1)) for k, v in fields.items()}
    else:
        empty = np.zeros(0, np.int32)
        rollouts = [Rollout(empty, row[:k], row[:k], row[:k], m[:k], "", "stop")
                    for row, m, k in zip(data.old, there.astype(np.float32), data.lengths, strict=True)]  # fmt: skip
        roles = ["all" if name == "REINFORCE++" else role for role, _, _ in EPISODES]
        lessons = [Episode(role, group, rollout, reward)
                   for role, (_, group, reward), rollout in zip(roles, EPISODES, rollouts, strict=True)]  # fmt: skip
        advantages, _ = deal.advantages(lessons, dict.fromkeys(roles, estimator))
        shares = token_weights(rollouts, aggregation=cfg.aggregation, norm_length=cfg.loss_norm_length)
        fields["loss_weight"] = np.stack([np.pad(share, (0, LONGEST - len(share))) for share in shares])
        fields["advantages"] = advantages[:, None] * there
        if name == "REINFORCE":
            fields["old_logprobs"] = jax.lax.stop_gradient(own)  # on policy
        fields["behaviour_logprobs"] = fields["old_logprobs"]
    loss = LOSSES[cfg.loss]
    return loss.terms(own, *(jnp.asarray(fields[field]) for field in loss.reads), **cfg.numbers).loss


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", TABLE)
def test_loss_and_gradient_are_those_of_the_definition(name, seed):
    data = drawn(seed)
    leaf = torch.tensor(data.logits, requires_grad=True)
    wanted = TABLE[name][0](data, leaf)
    wanted.backward()
    value, gradient = jax.value_and_grad(lambda x: ours(name, data, x))(jnp.asarray(data.logits, jnp.float32))
    assert abs(float(value) - wanted.item()) < 1e-5 * max(1.0, abs(wanted.item()))
    scale = float(leaf.grad.abs().max())
    assert scale > 1e-3 and np.abs(np.asarray(gradient) - leaf.grad.numpy()).max() < 1e-5 * scale


def test_the_methods_differ():
    """Or one row could stand for another."""
    data = drawn(0)
    gradients = []
    for name in TABLE:
        gradient = np.asarray(jax.grad(lambda x, name=name: ours(name, data, x))(jnp.asarray(data.logits, jnp.float32)))
        gradients.append(gradient.ravel() / np.linalg.norm(gradient))
    alike = np.abs(np.stack(gradients) @ np.stack(gradients).T - np.eye(len(TABLE))).max()
    assert alike < 0.9995

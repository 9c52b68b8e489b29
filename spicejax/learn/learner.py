"""The learner: TrainState and the jitted step that turns packed, scored rollouts into a better policy."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from spicejax.learn import losses
from spicejax.learn.losses import LOSSES, LossTerms
from spicejax.learn.packing import Aggregation, RowShape
from spicejax.models import lora, transformer
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Batch, LessonKind, Params


@dataclasses.dataclass(frozen=True)
class PairConfig:
    """The numbers of dpo, ipo and simpo (`losses.preference_loss` has the formulas)."""

    # dpo, ipo: strength of the tie to the run's first policy; simpo: scale of the mean logprobs (2.0 to 2.5 are usual)
    beta: float = 0.1
    # dpo, simpo: share of the pairs taken to be the wrong way round
    label_smoothing: float = 0.0
    # simpo: by how much the chosen response's scaled mean logprob shall be above the rejected one's (gamma)
    margin: float = 0.0
    # weight of the chosen response's negative mean logprob (RPO's alpha, LLaMA-Factory's pref_ftx); 0 = none
    likelihood: float = 0.0

    def __post_init__(self) -> None:
        if self.beta <= 0:
            raise ValueError(f"learner.pairs.beta={self.beta}: must be positive (0.1 is usual)")
        if not 0 <= self.label_smoothing < 0.5:
            raise ValueError(f"learner.pairs.label_smoothing={self.label_smoothing}: give a share from 0 to below 0.5")
        for name in ("margin", "likelihood"):
            if getattr(self, name) < 0:
                raise ValueError(f"learner.pairs.{name}={getattr(self, name)}: must not be negative")

    def require(self, loss: str) -> None:
        """Raise ValueError for a number that the loss does not read, or that is none of its own."""
        if self.margin and loss != "simpo":
            raise ValueError(f"learner.pairs.margin={self.margin:g} with loss={loss}: simpo alone has one; give 0")
        if self.label_smoothing and loss == "ipo":
            raise ValueError(
                f"learner.pairs.label_smoothing={self.label_smoothing:g} with loss=ipo: give 0, or take dpo"
            )
        if self.beta == PairConfig.beta and loss == "simpo":
            raise ValueError(
                f"learner.pairs.beta={self.beta:g} with loss=simpo is dpo's default: simpo scales mean logprobs; give "
                "2.0, and margin=1.0 (arXiv:2405.14734)"
            )


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """The update of the policy."""

    # what is minimised. On scored rollouts, the policy gradient: ppo_clip (GRPO, Dr. GRPO, DAPO, REINFORCE++, by
    # estimator and aggregation), gspo = one ratio per response, cispo = clipped weights, no clipped gradient.
    # supervised = negative log-likelihood of given ones; dpo, ipo, simpo = loss on pairs of a better and a worse
    # response. drgrpo is the old name of ppo_clip
    loss: losses.Name = "ppo_clip"
    # numbers of the losses on pairs
    pairs: PairConfig = PairConfig()
    # AdamW step size, the largest of the run (SPICE, appendix 8)
    learning_rate: float = 1e-6
    # optimizer steps over which it rises from 0
    warmup_steps: int = 0
    # how it goes on: constant, or down to 0 over `decay_steps` optimizer steps after the warm-up
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    decay_steps: int = 0
    # AdamW decay rates of the first and second moment; Oat's math script, which the paper builds on
    beta1: float = 0.9
    beta2: float = 0.95
    # AdamW denominator offset
    eps: float = 1e-8
    # decoupled weight decay per step, as a fraction of the learning rate
    weight_decay: float = 0.0
    # gradients are scaled down to this global norm
    max_grad_norm: float = 1.0
    # constant L that divides every token's loss in `constant` aggregation. The paper never gives its generation
    # maximum; we use the Reasoner's. It is explicit and never taken from a padded shape, so buckets cannot change it
    loss_norm_length: int = 1024
    # how tokens are averaged: constant = Dr. GRPO
    aggregation: Aggregation = "constant"
    # clip range of the ratio, 1 - clip_low to 1 + clip_high; SPICE is silent, Oat's default is 0.2 / 0.2. DAPO: 0.2 /
    # 0.28; gspo: 3e-4 / 4e-4; cispo: clip_low=1, no lower bound
    clip_low: float = 0.2
    clip_high: float = 0.2
    # PPO dual clip: most that the ratio of a token with a negative advantage counts, above 1 (3.0 is usual); 0 = off
    dual_clip: float = 0.0
    # cap of the truncated importance weight between learner and sampler (Oat: 2.0); 0 = off
    tis_cap: float = 2.0
    # coefficient of the k3 KL term against the initial policy (paper: 0)
    kl_coef: float = 0.0
    # most trajectories of an optimizer step, all steps of an iteration about as full; 0 = one step on all of them
    # (strictly on-policy). The paper says 128 per gradient update while an iteration yields up to 2,048: up to 16 steps
    # if read literally
    trajectories_per_update: int = 0
    # passes over an iteration's trajectories, each in a new order
    epochs: int = 1
    # `aggregation` and `kl_coef` of each role of role_order, in its order; () = those above for all of them
    role_aggregation: tuple[Aggregation, ...] = ()
    role_kl_coef: tuple[float, ...] = ()
    # when the first policy scores what dpo, ipo and the KL term compare with: live = the rows of every epoch, on the
    # devices, before the first step (old_policy=role: of the role); kept = every lesson once, for all epochs
    reference: Literal["live", "kept"] = "live"
    # estimator `rae`: share of a role's moving baseline that an episode leaves as it was (SPIRAL: 0.95)
    baseline_decay: float = 0.95
    # roles whose steps follow each other, in this order; () = every step has its share of each role. Search Self-Play's
    # paper steps on the Solver first, its code on the Proposer
    role_order: tuple[str, ...] = ()
    # the policy whose logprobs the ratio is against: iteration = the one that sampled; role = the one before the first
    # step on a role, so that a later role's ratio starts at 1 although others have moved the policy (SSP's code)
    old_policy: Literal["iteration", "role"] = "iteration"
    # how episodes are laid out. packed: whole episodes, prompt and response, first fit into rows of row_length.
    # shared_prompt: the episodes of a group (same prompt) share one copy of it: a row is an area of prompts and then
    # slots of responses, which costs the prompt once instead of once per response and scores responses alone; it wins
    # where prompts are not short against responses, packed where they are or where groups are small
    layout: Literal["packed", "shared_prompt"] = "packed"
    # packed: tokens of a row; must hold the longest prompt plus response
    row_length: int = 8192
    # shared_prompt: tokens of the prompt area, ascending; a group goes into rows of the smallest that holds its prompt
    prompt_areas: tuple[int, ...] = (1024, 8192)
    # shared_prompt: tokens of a slot; must hold the longest response
    slot_length: int = 2048
    # shared_prompt: slots of a row
    slots: int = 8
    # packed rows of a micro-batch, over all devices; gradients are accumulated over micro-batches inside the step
    rows: int = 8
    # micro-batches a step is laid out for at least; a fuller iteration compiles for twice as many, and so on
    min_micro_batches: int = 1
    # vocabulary entries whose logits exist at a time when scoring tokens; 0 = all at once
    vocab_chunk: int = 8192

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", losses.ALIASES.get(self.loss, self.loss))
        # At a bound that is the ratio itself, 1, clipping would halve the gradient
        positive = "clip_low clip_high learning_rate max_grad_norm loss_norm_length epochs row_length slot_length slots"
        for name in (*positive.split(), "rows", "min_micro_batches"):
            if getattr(self, name) <= 0:
                raise ValueError(f"learner.{name}={getattr(self, name)}: must be positive")
        if 0 < self.dual_clip <= 1:
            raise ValueError(f"learner.dual_clip={self.dual_clip}: give more than 1 (3.0 is usual), or 0 for none")
        other = "dual_clip tis_cap kl_coef weight_decay trajectories_per_update vocab_chunk"
        for name in (*other.split(), "warmup_steps", "decay_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"learner.{name}={getattr(self, name)}: must not be negative")
        if (self.schedule == "constant") != (self.decay_steps == 0):
            raise ValueError(
                f"learner.schedule={self.schedule} with decay_steps={self.decay_steps}: linear and cosine need the "
                "number of optimizer steps they fall over, constant takes 0"
            )
        if not 0 <= self.baseline_decay < 1:
            raise ValueError(f"learner.baseline_decay={self.baseline_decay}: give a share from 0 to below 1")
        if self.loss == "gspo" and max(self.clip_low, self.clip_high) >= 0.1:
            raise ValueError(
                f"learner.clip_low={self.clip_low:g}, clip_high={self.clip_high:g} with loss=gspo: a response's "
                "ratio is a mean and hardly leaves 1; give 3e-4 and 4e-4 (arXiv:2507.18071)"
            )
        if self.loss == "cispo" and self.dual_clip:
            raise ValueError(f"learner.dual_clip={self.dual_clip:g} with loss=cispo: clip_high bounds it; give 0")
        if self.lesson == "pair":
            self.pairs.require(self.loss)
        if self.kl_coefs != {0.0} and self.lesson != "scored":
            raise ValueError(
                f"learner.kl_coef={max(self.kl_coefs):g} with loss={self.loss}: that loss has no such term; give 0"
            )
        for name in ("role_aggregation", "role_kl_coef"):
            if len(values := getattr(self, name)) not in (0, len(self.role_order)):
                raise ValueError(
                    f"learner.{name}={values}: give one for each role of learner.role_order={self.role_order}, or none"
                )
        if min(self.role_kl_coef, default=0) < 0:
            raise ValueError(f"learner.role_kl_coef={self.role_kl_coef}: none may be negative")
        areas = self.prompt_areas
        if not areas or list(areas) != sorted(set(areas)) or areas[0] < 1:
            raise ValueError(f"learner.prompt_areas={areas}: give ascending positive lengths such as (1024, 8192)")

    @property
    def on_policy(self) -> bool:
        """Whether no old logprobs are scored: each rollout is in one update alone, or the loss has no ratio."""
        one_step = self.trajectories_per_update == 0 and self.epochs == 1 and len(self.role_order) < 2
        return self.lesson != "scored" or one_step

    @property
    def lesson(self) -> LessonKind:
        """What the loss takes."""
        return LOSSES[self.loss].lesson

    @property
    def needs_reference(self) -> bool:
        """Whether the loss compares with the run's first policy."""
        return max(self.kl_coefs) > 0 or LOSSES[self.loss].reference

    @property
    def numbers(self) -> dict[str, float]:
        """The loss's arguments that are no arrays."""
        if self.lesson == "scored":
            return {name: getattr(self, name) for name in ("clip_low", "clip_high", "tis_cap", "kl_coef", "dual_clip")}
        return dataclasses.asdict(self.pairs) if self.lesson == "pair" else {}

    @property
    def kl_coefs(self) -> set[float]:
        """Coefficients of the KL term, over all roles."""
        return {*(self.role_kl_coef or (self.kl_coef,))}

    def of(self, role: str) -> LearnerConfig:
        """The configuration of the steps on one role."""
        if role not in self.role_order:
            return self
        place = self.role_order.index(role)
        by_role = {name: getattr(self, f"role_{name}") for name in ("aggregation", "kl_coef")}
        of_role: dict[str, Any] = {name: values[place] for name, values in by_role.items() if values}
        return dataclasses.replace(self, **of_role, role_aggregation=(), role_kl_coef=())

    @property
    def shapes(self) -> tuple[RowShape, ...]:
        """Shapes of the batches a step is made of, one for each kind of row, by ascending prompt area."""
        if self.layout == "packed":
            return (RowShape(self.row_length, self.rows),)
        return tuple(RowShape(self.slot_length, self.rows, area, self.slots) for area in self.prompt_areas)


class TrainState(NamedTuple):
    """Everything an update changes. Donated to the step: the old state is gone after it."""

    step: Int[Array, ""]  # optimizer steps tried
    params: Params  # what is trained: all parameters, or the adapters alone
    opt_state: Any
    skipped: Int[Array, ""]  # steps not applied because a loss or gradient was not finite


@jax.jit
def is_finite(state: TrainState) -> Bool[Array, ""]:
    """Whether no parameter and no moment of the optimizer is NaN or infinite."""
    leaves = [x for x in jax.tree.leaves((state.params, state.opt_state)) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.isfinite(x).all() for x in leaves]))


def make_optimizer(cfg: LearnerConfig) -> optax.GradientTransformation:
    """Global-norm clip, then AdamW with the learning rate's warm-up and schedule."""
    rate: optax.ScalarOrSchedule = cfg.learning_rate
    if cfg.warmup_steps or cfg.decay_steps:
        decay = {
            "constant": optax.constant_schedule(cfg.learning_rate),
            "linear": optax.linear_schedule(cfg.learning_rate, 0.0, cfg.decay_steps),
            "cosine": optax.cosine_decay_schedule(cfg.learning_rate, max(cfg.decay_steps, 1)),
        }
        warmup = optax.linear_schedule(0.0, cfg.learning_rate, cfg.warmup_steps)
        rate = optax.join_schedules([warmup, decay[cfg.schedule]], [cfg.warmup_steps])
    return optax.chain(
        optax.clip_by_global_norm(cfg.max_grad_norm),
        optax.adamw(rate, b1=cfg.beta1, b2=cfg.beta2, eps=cfg.eps, weight_decay=cfg.weight_decay),
    )


def init_state(params: Params, optimizer: optax.GradientTransformation) -> TrainState:
    """A fresh state around `params` (moments follow their sharding)."""
    return TrainState(jnp.int32(0), params, optimizer.init(params), jnp.int32(0))


def scored_logprobs(
    model: TransformerConfig, params: Params, micro: Batch, *, slot_length: int, temperature: float, chunk: int
) -> Float[Array, "B S"]:
    """Logprob of every scored token of one micro-batch; meaningless where nothing is trained.

    `slot_length` is that of rows with a prompt area. Only the hidden states that predict a trained token meet the
    vocabulary.
    """
    length, scored = micro.tokens.shape[-1], micro.predict_from.shape[-1]
    slots = transformer.Slots(prompt=length - scored, length=slot_length) if scored < length else None
    hidden = transformer.hidden_states(
        model, params, micro.tokens, micro.positions, segment_ids=micro.segment_ids, slots=slots
    )
    predict_from, targets = micro.predict_from, micro.tokens[:, length - scored :]
    trained = micro.loss_weight > 0
    order = jnp.argsort(~trained, axis=1)  # those first
    predict_from, targets = (jnp.take_along_axis(x, order, axis=1) for x in (predict_from, targets))
    predicting = jnp.take_along_axis(hidden, predict_from[..., None], axis=1)
    filled = jnp.max(jnp.sum(trained, axis=1))
    settings = {"temperature": temperature, "chunk": chunk, "filled": filled}
    logprobs = transformer.token_logprobs(model, params, predicting, targets, **settings)
    return jnp.take_along_axis(logprobs, jnp.argsort(order, axis=1), axis=1)


class Learner(NamedTuple):
    """The jitted functions of the learner. Build once per run with `make_learner`."""

    # (TrainState, Batch, num_micro, frozen params = None) -> (TrainState, dict of scalars). A step on several batches
    # of different shapes takes a tuple of them and a tuple of their num_micro.
    step: Any
    score: Any  # (all params, Batch, num_micro) -> logprobs [A, B, S]


def _micro_loss(cfg: LearnerConfig, logprobs: Float[Array, "B S"], micro: Batch) -> LossTerms:
    if cfg.on_policy:
        micro = micro._replace(old_logprobs=jax.lax.stop_gradient(logprobs))
    loss = LOSSES[cfg.loss]
    return loss.terms(logprobs, *(getattr(micro, name) for name in loss.reads), **cfg.numbers)


def _gradients(loss: Any, trained: Params, batch: Any, num_micro: Any) -> tuple[Params, LossTerms]:
    """Float32 sums over micro-batches 0 .. num_micro - 1 of every batch. loss: (trained, micro) to (loss, terms)."""
    gradient = jax.grad(loss, has_aux=True)
    parts = [(batch, num_micro)] if isinstance(batch, Batch) else list(zip(batch, num_micro, strict=True))
    sums = jax.eval_shape(
        gradient, trained, jax.eval_shape(lambda part: jax.tree.map(lambda x: x[0], part), parts[0][0])
    )
    carry = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), sums)
    for part, used in parts:

        def accumulate(i: Array, carry: tuple[Params, LossTerms], part: Batch = part) -> tuple[Params, LossTerms]:
            grads, terms = gradient(trained, jax.tree.map(lambda x: x[i], part))
            return jax.tree.map(jnp.add, carry[0], grads), carry[1] + terms

        carry = jax.lax.fori_loop(0, used, accumulate, carry)
    return jax.tree.map(lambda g, p: g.astype(p.dtype), carry[0], trained), carry[1]


def make_learner(
    model: TransformerConfig,
    cfg: LearnerConfig,
    optimizer: optax.GradientTransformation,
    *,
    temperature: float = 1.0,
    compiler_options: Mapping[str, int] = types.MappingProxyType({}),
) -> Learner:
    """Compile-ready step and score functions.

    Where `cfg.on_policy`, the old logprobs are the step's own, without gradient, and `Batch.old_logprobs` is not read.
    Elsewhere fill it with `score` before the first update.

    Args:
      temperature: the sampler's; policy losses divide logits by it, so that ratios compare like with like. 0 counts
        as 1.
      compiler_options: XLA's, see `sharding.compiler_options`.
    """
    temperature = (temperature or 1.0) if cfg.lesson == "scored" else 1.0
    settings = {"slot_length": cfg.slot_length, "temperature": temperature, "chunk": cfg.vocab_chunk}
    logprobs_of = functools.partial(scored_logprobs, model, **settings)

    def step(
        state: TrainState, batch: Any, num_micro: Any, frozen: Params | None = None
    ) -> tuple[TrainState, dict[str, Array]]:
        """One optimizer step on micro-batches 0 .. num_micro - 1; the rest of `batch` is filler."""

        def loss(trained: Params, micro: Batch) -> tuple[Float[Array, ""], LossTerms]:
            terms = _micro_loss(cfg, logprobs_of(lora.join(frozen or {}, trained), micro), micro)
            return terms.loss, terms

        grads, terms = _gradients(loss, state.params, batch, num_micro)
        norm = optax.tree.norm(grads)
        # One NaN element would poison the clip and both moments for ever, so a bad step changes nothing but a counter.
        good = jnp.isfinite(norm) & jnp.isfinite(terms.loss)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params: Any = optax.apply_updates(state.params, updates)
        new = TrainState(state.step, params, opt_state, state.skipped)
        new = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, state)
        new = new._replace(step=state.step + 1, skipped=state.skipped + ~good)
        return new, {
            "loss": terms.loss,
            "grad_norm": norm,
            "tokens": terms.tokens,
            **{name: total / jnp.maximum(terms.count, 1) for name, total in terms.sums.items()},
            **terms.maxima,
            "skipped": (~good).astype(jnp.float32),
        }

    def score(params: Params, batch: Batch, num_micro: Int[Array, ""]) -> Float[Array, "A B S"]:
        def one(i: Array, out: Float[Array, "A B S"]) -> Float[Array, "A B S"]:
            micro = jax.tree.map(lambda x: x[i], batch)
            logprobs = logprobs_of(params, micro)
            return out.at[i].set(jnp.where(micro.loss_weight > 0, logprobs, 0.0))

        return jax.lax.fori_loop(0, num_micro, one, jnp.zeros(batch.loss_weight.shape, jnp.float32))

    compiled = functools.partial(jax.jit, compiler_options=dict(compiler_options))
    return Learner(step=compiled(step, donate_argnums=0), score=compiled(score))


def make_learners(
    model: TransformerConfig, cfg: LearnerConfig, optimizer: optax.GradientTransformation, **settings: Any
) -> dict[str, Learner]:
    """`make_learner` by the role that steps are on; "" where role_order names none. Roles of one KL term share one."""
    by_kl = {cfg.of(role).kl_coef: cfg.of(role) for role in cfg.role_order or ("",)}
    made = {kl: make_learner(model, of_role, optimizer, **settings) for kl, of_role in by_kl.items()}
    return {role: made[cfg.of(role).kl_coef] for role in cfg.role_order or ("",)}

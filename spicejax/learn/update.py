"""The update of the policy from an iteration's lessons: advantages, rows, optimizer steps."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spicejax import sharding
from spicejax.learn import deal, packing
from spicejax.learn.learner import Learner, LearnerConfig, TrainState
from spicejax.models import lora, transformer
from spicejax.types import Batch, Estimator, Lesson, Metrics, Params

MAX_SKIPPED = 5  # updates of a run that are not finite, each of which is left out, until it stops


class _Measured:
    """Quantities of an update's steps: the mean over the steps that have one, or its maximum where it ends in _max."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.steps: Counter[str] = Counter()

    def add(self, step: Mapping[str, Any]) -> None:
        for name, value in step.items():
            if name.endswith("_max"):
                self.values[name] = max(self.values.get(name, 0.0), float(value))
            else:
                self.values[name] = self.values.get(name, 0.0) + float(value)
                self.steps[name] += 1

    def metrics(self) -> Metrics:
        return {f"learner/{name}": value / self.steps.get(name, 1) for name, value in self.values.items()}


@dataclasses.dataclass(frozen=True)
class Updater:
    """What every update needs; what it changes is its argument and result."""

    cfg: LearnerConfig
    model: transformer.TransformerConfig
    mesh: jax.sharding.Mesh
    learners: Mapping[str, Learner]  # by the role that steps are on, see learner.make_learners
    frozen: Params  # what is not trained: empty, or everything but the adapters
    reference: Params | None  # all parameters of the first policy, where the loss compares with it

    def update(
        self,
        state: TrainState,
        lessons: Sequence[Lesson],
        estimators: Mapping[str, Estimator],
        rng: np.random.Generator,
        baselines: dict[str, float] | None = None,
    ) -> tuple[TrainState, Metrics]:
        """Take all optimizer steps of one iteration; `state` is donated.

        Args:
          lessons: preferences where the loss is on pairs, else episodes.
          estimators: of the advantages, by role.
          rng: draws the order of groups where there are several steps.
          baselines: see `deal.advantages`; kept between updates.
        Raises: FloatingPointError after MAX_SKIPPED updates of the run that were not finite.
        """
        if not lessons:
            return state, {"learner/steps": 0.0}
        advantages, metrics = deal.advantages(lessons, estimators, baselines, self.cfg.baseline_decay)
        if self.cfg.needs_reference and self.cfg.reference == "kept":
            lessons = deal.referenced(lessons, self._reference, self.cfg)
        steps_by_role = {
            role: deal.steps([lessons[i] for i in indices], advantages[indices], self.cfg.of(role), rng)
            for role, indices in self._by_role(lessons).items()
        }
        # Old logprobs are taken before the first step, with the parameters that sampled, or before a role's first one.
        early = self.cfg.old_policy == "iteration"
        scored = {role: self._placed(state, role, steps) for role, steps in steps_by_role.items()} if early else {}
        measured = _Measured()
        for role, steps in steps_by_role.items():
            placed = scored[role] if early else self._placed(state, role, steps)
            for parts, rows in zip(placed, steps, strict=True):
                batches, micros = zip(*parts, strict=True)
                with sharding.activations(self.mesh, transformer.activation_sizes(self.model, self.cfg.rows)):
                    state, out = self.learners[role].step(state, batches, micros, self.frozen)
                # A role without a KL term has measured none: its 0 would dilute that of the others.
                absent = {"kl"} if self.cfg.of(role).kl_coef == 0 < max(self.cfg.kl_coefs) else set()
                measured.add(
                    {k: v for k, v in (sharding.fetch(out) | packing.padding(rows)).items() if k not in absent}
                )
        if int(state.skipped) >= MAX_SKIPPED:
            raise FloatingPointError(f"{int(state.skipped)} updates were not finite; lower learner.learning_rate")
        taken = sum(map(len, steps_by_role.values()))
        metrics["learner/steps"] = float(taken)
        if self.cfg.decay_steps:
            late = int(state.step) - int(state.skipped) - self.cfg.warmup_steps - self.cfg.decay_steps
            metrics["learner/steps_at_rate_0"] = float(min(max(late, 0), taken))
        return state, metrics | measured.metrics()

    def _by_role(self, lessons: Sequence[Lesson]) -> dict[str, np.ndarray]:
        """Indices of the lessons whose steps stand together: all (""), or those of one role after the other."""
        roles = np.array([lesson.role for lesson in lessons])
        if not self.cfg.role_order:
            return {"": np.arange(len(lessons))}
        if unknown := {lesson.role for lesson in lessons} - set(self.cfg.role_order):
            raise ValueError(
                f"learner.role_order={self.cfg.role_order} lacks {min(unknown)!r}, which is trained; add it"
            )
        return {role: i for role in self.cfg.role_order if len(i := np.flatnonzero(roles == role))}

    def _placed(self, state: TrainState, role: str, steps: list[list[deal.Part]]) -> list[list[tuple[Batch, Any]]]:
        """Put the rows of some steps on the devices, scored by the policy as it is."""
        return [[self._scored(state, role, *part) for part in parts] for parts in steps]

    def _scored(self, state: TrainState, role: str, batch: Batch, used: int) -> tuple[Batch, Any]:
        """Put a batch on the devices, with the logprobs that the loss compares with."""
        batch, micro = self._put(batch, used)
        if not self.cfg.on_policy:
            batch = batch._replace(old_logprobs=self._score(lora.join(self.frozen, state.params), batch, micro))
        if self.cfg.of(role).needs_reference and self.cfg.reference == "live":
            batch = batch._replace(reference_logprobs=self._score(self.reference, batch, micro))
        return batch, micro

    def _reference(self, part: deal.Part) -> np.ndarray:
        """Score a batch by the first policy; every process gets the whole array."""
        return sharding.fetch(self._score(self.reference, *self._put(*part)))

    def _put(self, batch: Batch, used: int) -> tuple[Batch, Any]:
        return sharding.put_global(batch, sharding.rows(self.mesh, self.cfg.rows, axis=1)), jnp.int32(used)

    def _score(self, params: Any, batch: Batch, micro: Any) -> Any:
        with sharding.activations(self.mesh, transformer.activation_sizes(self.model, self.cfg.rows)):
            return next(iter(self.learners.values())).score(params, batch, micro)

"""The only loop: items, game, update, metrics, checkpoints, evaluation, in a straight line."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from spicejax import config as configuration
from spicejax import hosts
from spicejax.evaluation.held_out import held_out
from spicejax.evaluation.probes import probes
from spicejax.generate.policy import Buckets
from spicejax.learn.deal import responses
from spicejax.remote import ServerError
from spicejax.run.build import Run, build
from spicejax.run.checkpoint import Checkpoints
from spicejax.run.config import RunConfig
from spicejax.run.interrupt import Interrupt
from spicejax.run.metrics import MetricsWriter
from spicejax.run.preflight import require_same
from spicejax.types import Episode, Estimator, Lesson, Metrics

log = logging.getLogger("spicejax")


def train(cfg: RunConfig, workdir: Path, *, interrupt: Interrupt | None = None) -> dict[str, Any]:
    """Train to `cfg.iterations`, resuming from the newest good checkpoint of `workdir`; return the summary.

    Raises: ValueError where the checkpoint was made by another configuration, naming the fields; ServerError where
      a search engine elsewhere is gone: what was trained until then is saved.
    """
    with contextlib.ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt()) if interrupt is None else interrupt
        hosts.require_same(configuration.to_json(cfg), "the configuration")
        for warning in cfg.warnings if hosts.leads() else ():
            log.warning("warning: %s", warning)
        workdir.mkdir(parents=True, exist_ok=True)
        kept = {"keep": cfg.checkpoint.keep, "keep_period": cfg.checkpoint.keep_period}
        checkpoints = stack.enter_context(
            Checkpoints(workdir / "checkpoints", **kept, config=configuration.to_json(cfg))
        )
        require_same(checkpoints.saved_config(), cfg, checkpoints.directory)
        run = build(cfg, workdir)
        stack.enter_context(run.verifier)
        start, counters = _resume(run, checkpoints)
        hosts.require_same([start, run.source.digest, len(run.held_out)], "iteration, items and held-out questions")
        writer = MetricsWriter(workdir, resume_step=start, silent=not hosts.leads())
        stack.enter_context(contextlib.closing(writer))
        if (start == 0 and "accuracy_start" not in counters) or "unevaluated" in counters:
            _evaluate(run, start, writer, counters)
        counters = _loop(run, start, counters, checkpoints, writer, interrupt)
        return _summarise(run, counters, checkpoints, writer)


def _loop(
    run: Run,
    start: int,
    counters: dict[str, Any],
    checkpoints: Checkpoints,
    writer: MetricsWriter,
    interrupt: Interrupt,
) -> dict[str, Any]:
    cfg = run.cfg

    def save(done: int, items: dict[str, Any]) -> None:
        host = {"items": items, "game": run.game_state, "counters": counters}
        checkpoints.save(done, run.state, host)

    for iteration in range(start, cfg.iterations):
        began = time.perf_counter()
        run.clock.clear()
        items = run.items.get_state()
        try:
            played = run.game.play(run.world(iteration), next(run.items), cfg.game, run.game_state)
        except ServerError:
            if checkpoints.newest != iteration:
                save(iteration, items)
            raise
        run.game_state = played.state
        hosts.require_same(_digest(played.lessons), f"the rollouts of iteration {iteration}")
        sampled = time.perf_counter()
        metrics = played.metrics | update(run, played.lessons, iteration)
        for name, count in played.totals.items():
            counters["totals"][name] = counters["totals"].get(name, 0) + count
        ended = time.perf_counter()
        counters["seconds"] += ended - began
        # observations were not written
        made = sum(int(r.loss_mask.sum()) for lesson in played.lessons for r in responses(lesson))
        metrics |= {
            "time/play": sampled - began,
            "time/update": ended - sampled,
            **{f"time/{what}": seconds for what, seconds in run.clock.items()},
            "time/tokens_per_second": made / (ended - began),
        }
        done = iteration + 1
        writer.tasks(iteration, played.records)
        writer.metrics(iteration, metrics)
        writer.progress(
            {
                "iteration": f"{done}/{cfg.iterations}",
                **played.progress,
                "accuracy": counters.get("accuracy_end"),
                "tokens/s": metrics["time/tokens_per_second"],
                "eta_seconds": counters["seconds"] / done * (cfg.iterations - done),
            }
        )
        if cfg.show_every and done % cfg.show_every == 0 and played.example:
            writer.show(played.example)
        last = done == cfg.iterations
        if last or (cfg.eval.every and done % cfg.eval.every == 0):
            try:
                _evaluate(run, done, writer, counters)
            except ServerError:
                save(done, run.items.get_state())
                raise
        stop = any(hosts.exchange(interrupt.requested))  # a signal may have reached one host alone
        if last or stop or (cfg.checkpoint.every and done % cfg.checkpoint.every == 0):
            save(done, run.items.get_state())
        if stop and not last:
            writer.show(f"stopped after iteration {done}; the same command goes on from here")
            break
    return counters


def update(run: Run, lessons: Sequence[Lesson], iteration: int) -> Metrics:
    """One iteration's optimizer steps on what the policy wrote, or was given."""
    run.player = run.player.with_params({})  # the sampler's copy makes room for the update
    estimators: dict[str, Estimator] = {ask.role: ask.estimator for ask in run.cfg.asks if ask.trained}
    own = [e for e in lessons if e.role in estimators]
    rng = np.random.default_rng([run.cfg.seed, iteration, 99])
    run.state, metrics = run.updater.update(run.state, own, estimators, rng)
    run.refresh()
    return metrics


def _digest(lessons: Sequence[Lesson]) -> int:
    """One number for the tokens and rewards of an iteration."""
    digest = 0
    for lesson in lessons:
        reward = lesson.reward if isinstance(lesson, Episode) else 0.0
        for rollout in responses(lesson):
            digest = zlib.crc32(rollout.token_ids.tobytes() + np.float64(reward).tobytes(), digest)
    return digest


def _resume(run: Run, checkpoints: Checkpoints) -> tuple[int, dict[str, Any]]:
    """Put the newest good checkpoint into `run`; return its iteration and counters."""
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), run.state)
    restored = checkpoints.restore(abstract)
    if restored is None:
        return 0, {"totals": {}, "seconds": 0.0}
    run.state = restored.state
    run.refresh()
    run.items.set_state(restored.extra["items"])
    run.game_state = restored.extra["game"]
    log.info("resuming after iteration %d", restored.step)
    return restored.step, restored.extra["counters"]


def _evaluate(run: Run, done: int, writer: MetricsWriter, counters: dict[str, Any]) -> None:
    """Evaluate after `done` iterations and note the first and the latest accuracy."""
    cfg, game = run.cfg, run.game
    counters["unevaluated"] = True  # until it is: a run that is saved before goes on with it
    began = time.perf_counter()
    metrics: Metrics = {}
    world = run.world(done, evaluating=True)
    if run.held_out:
        exam = game.exam(cfg.game)
        metrics |= held_out(world, run.held_out, exam._replace(max_new=cfg.eval.max_new or exam.max_new))
    if cfg.eval.probe_documents:
        room = run.probe_buckets.kv_tokens / max(cfg.buckets.kv_tokens, 1)
        metrics |= probes(
            world,
            run.source.fixed(cfg.eval.probe_documents),
            game,
            cfg.game,
            current=dataclasses.replace(run.player, buckets=run.probe_buckets),
            initial=dataclasses.replace(run.first_player(), buckets=run.probe_buckets),
            others={role: dataclasses.replace(p, buckets=_less(p.buckets, room)) for role, p in run.others.items()},
            group=cfg.eval.probe_group,
        )
    del counters["unevaluated"]
    if not metrics:
        return
    if "eval/accuracy" in metrics:
        counters.setdefault("accuracy_start", metrics["eval/accuracy"])
        counters["accuracy_end"] = metrics["eval/accuracy"]
    writer.evaluation(done, metrics | {"time/evaluate": time.perf_counter() - began})
    if "eval/accuracy" in metrics:
        writer.show(f"held-out accuracy after {done} iterations: {metrics['eval/accuracy']:.3f}")


def _less(buckets: Buckets, share: float) -> Buckets:
    """The buckets with that share of their KV cache."""
    return dataclasses.replace(buckets, kv_tokens=int(buckets.kv_tokens * share))


def _summarise(run: Run, counters: dict[str, Any], checkpoints: Checkpoints, writer: MetricsWriter) -> dict[str, Any]:
    newest = checkpoints.newest
    summary = {
        "name": run.cfg.name,
        "iterations": newest or 0,
        "complete": newest == run.cfg.iterations,
        "seconds": round(counters["seconds"], 3),
        **counters["totals"],
        "accuracy_start": counters.get("accuracy_start"),
        "accuracy_end": counters.get("accuracy_end"),
        "checkpoint": str(checkpoints.path(newest)) if newest is not None else None,
        **({"sandbox_tier": run.sandbox.tier} if run.sandbox else {}),
        **writer.gaps(),
    }
    writer.summary(summary)
    return summary

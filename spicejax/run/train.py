"""The only loop: items, game, update, metrics, checkpoints, evaluation, in a straight line."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from spicejax import config as configuration
from spicejax import hosts, memory
from spicejax.evaluation.probes import probes
from spicejax.evaluation.scores import held_out
from spicejax.games import contract
from spicejax.games.game import Played
from spicejax.interrupt import Interrupt, Stopped
from spicejax.learn import learner
from spicejax.learn.advantages import OF_GROUP
from spicejax.learn.deal import responses
from spicejax.models import exported
from spicejax.remote import ServerError
from spicejax.report import places
from spicejax.report.learnt import learnt, still
from spicejax.report.read import read_rows
from spicejax.run.build import Run, build
from spicejax.run.config import RunConfig
from spicejax.run.host.clock import Clock
from spicejax.run.host.screen import Screen, showing
from spicejax.run.host.session import Part, Session
from spicejax.run.preflight import require_same
from spicejax.run.store import earlier, record
from spicejax.run.store.checkpoint import Checkpoints
from spicejax.run.store.metrics import MetricsWriter, bars, progress_line
from spicejax.run.store.track import Tracker
from spicejax.types import UNSAMPLED, Episode, Estimator, Lesson, Metrics

log = logging.getLogger("spicejax")


def train(
    cfg: RunConfig,
    workdir: str | Path,
    *,
    interrupt: Interrupt | None = None,
    session: Session | None = None,
    back_to: int | None = None,
) -> dict[str, Any]:
    """Train to `cfg.iterations`, resuming from the newest good checkpoint of `workdir`; return the summary.

    Args:
      interrupt: if it has been entered, every long stage checks it; if not, it is checked after each iteration only.
        None enters one.
      session: the time limit. No iteration and no evaluation starts that would not end, and be saved, within it. The
        first of each has no estimate; after the first iteration a checkpoint is saved to measure that too.
      back_to: resume from the checkpoint after so many iterations; newer ones are set aside.

    Raises: ValueError if the checkpoint was made by another configuration, naming the fields; CheckpointError if there
      is none at `back_to`; ServerError if a remote search engine is gone: everything trained until then is saved;
      Stopped if a signal came before there was anything to save.
    """
    with contextlib.ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt()) if interrupt is None else interrupt
        hosts.require_same(configuration.to_json(cfg), "the configuration")
        for warning in cfg.warnings if hosts.leads() else ():
            log.warning("warning: %s", warning)
        screen, clock = stack.enter_context(showing(sys.stdout if hosts.leads() else None))
        workdir = Path(workdir)
        exported.require_mounted(workdir)
        workdir.mkdir(parents=True, exist_ok=True)
        cfg = record.remembered(cfg, workdir)
        checkpoints = _open_checkpoints(stack, cfg, workdir, back_to)
        if hosts.leads():
            record.write(workdir, cfg)
        with clock.stage("loading"):
            run = build(cfg, workdir, screen.count)
            stack.enter_context(run.verifier)
            start, counters = _restore(run, checkpoints)
            _count_late_evaluation(workdir, start, counters)
        clock.add(counters.get("stages", {}), counters.get("seconds", 0.0))
        hosts.require_same([start, run.source.digest, len(run.held_out)], "iteration, items and held-out questions")
        checkpoints.tidy()
        writer, tracker = _open_logs(stack, cfg, workdir, start, counters)
        training = TrainingRun(run, checkpoints, writer, tracker, screen, clock, counters)
        try:
            _loop(training, start, interrupt, Session() if session is None else session)
        except Stopped:
            training.report_stop()
        return _summarise(training)


def _open_checkpoints(stack: contextlib.ExitStack, cfg: RunConfig, workdir: Path, back_to: int | None) -> Checkpoints:
    """Open and lock the checkpoints of the work folder. Raises ValueError if another configuration made them."""
    kept = {"keep": cfg.checkpoint.keep, "keep_period": cfg.checkpoint.keep_period}
    recorded = places.kept(configuration.to_json(cfg), workdir)
    checkpoints = stack.enter_context(Checkpoints(workdir / "checkpoints", **kept, config=recorded))
    hosts.by_first(lambda: earlier.require_checkpoints(workdir, checkpoints.steps()))
    require_same(checkpoints.saved_config(), cfg, checkpoints.directory)
    if back_to is not None:
        checkpoints.go_back(back_to)
    return checkpoints


def _open_logs(
    stack: contextlib.ExitStack, cfg: RunConfig, workdir: Path, start: int, counters: dict[str, Any]
) -> tuple[MetricsWriter, Tracker]:
    """Open the logs and the tracker, and drop from them what came after iteration `start`."""
    evaluated, leads = start + (not _evaluation_due(start, counters)), hosts.leads()
    lines = counters.get("lines")
    writer = MetricsWriter(workdir, resume_step=start, evaluated=evaluated, lines=lines, silent=not leads)
    stack.enter_context(contextlib.closing(writer))
    writer.saved(start)
    tracker = Tracker(
        cfg.tracker if leads else "none",
        run=f"{cfg.name}-{workdir.name}",
        workdir=workdir,
        config=configuration.flat(configuration.to_json(cfg)),
        start=start,
    )
    stack.enter_context(contextlib.closing(tracker))
    return writer, tracker


class TrainingRun(NamedTuple):
    """A run with its outputs: checkpoints, metrics, tracker, screen; and the counters that checkpoints keep."""

    run: Run
    checkpoints: Checkpoints
    writer: MetricsWriter
    tracker: Tracker
    screen: Screen
    clock: Clock
    counters: dict[str, Any]  # kept in checkpoints: totals, seconds, first and latest accuracy

    def save(self, done: int, items: dict[str, Any]) -> None:
        """Write a checkpoint of `done` iterations. Raises FloatingPointError where its numbers are damaged."""
        if not learner.is_finite(self.run.state):
            raise FloatingPointError(
                f"the policy or its optimizer holds NaN or infinite numbers after iteration {done}; it is not saved, "
                "and the same command goes on from what was saved before"
            )
        self.counters.update(stages=dict(self.clock.seconds), seconds=self.clock.wall, lines=self.writer.lines)
        with self.clock.stage("saving"):
            host = {"items": items, "game": self.run.game_state, "counters": self.counters}
            host |= {"baselines": self.run.baselines, "models": self.run.models}
            if undrafted := sorted(role for role, tally in self.run.tallies.items() if tally.off):
                host["undrafted"] = undrafted
            self.writer.sync()
            self.checkpoints.save(done, self.run.state, host)
            self.writer.saved(done)

    def report_stop(self, why: str = "") -> None:
        """Show after which iteration the run was stopped and saved."""
        if self.checkpoints.newest is None:
            self.screen.show("stopped before the first iteration; the same command begins it")
        else:
            self.screen.show(
                f"stopped after iteration {self.checkpoints.newest}{why}; the same command goes on from here"
            )


def _loop(training: TrainingRun, start: int, interrupt: Interrupt, session: Session) -> None:
    """Iterate until the last iteration, a signal, or the end of the session."""
    cfg, counters, screen = training.run.cfg, training.counters, training.screen
    if _evaluation_due(start, counters) and _has_time_for(session):
        with session.measured("evaluation"):
            _evaluate(training, start)
    before, warned = training.clock.working, set()
    if start < cfg.iterations and not _has_time_for(session):
        screen.show("the session is over (checkpoint.session_hours); the same command goes on in the next one")
        return
    for iteration in range(start, cfg.iterations):
        with session.measured("iteration"):
            played, metrics = _iterate(training, iteration)
        done = iteration + 1
        last = done == cfg.iterations
        left = (training.clock.working - before) / (done - start) * (cfg.iterations - done)
        _show(training, done, played, metrics["time/tokens_per_second"], left)
        _warn(training, done, metrics, warned)
        late = False
        if last or (cfg.eval.every and done % cfg.eval.every == 0):
            late = not _has_time_for(session, "evaluation", "save")
            if late:
                counters["unevaluated"] = True
            else:
                _evaluate_or_save(training, done, session)
        saved = last or bool(cfg.checkpoint.every and done % cfg.checkpoint.every == 0)
        if saved or (session.limited and iteration == start):
            saved = _save(training, done, session)
        late = late or not (last or _has_time_for(session, "iteration", "save"))
        asked = any(hosts.exchange(interrupt.requested))  # a signal may have reached one host alone
        if late or (asked and not last):
            if not saved:
                _save(training, done, session)
            training.report_stop("" if asked else " (checkpoint.session_hours)")
            break


def _count_late_evaluation(workdir: Path, start: int, counters: dict[str, Any]) -> None:
    """Count the evaluation of the checkpoint if an earlier start made it after the save, so that it is made once."""
    if "unevaluated" not in counters:
        return
    rows = hosts.by_first(lambda: read_rows(workdir / "evaluations.jsonl"))
    if made := [row for row in rows if row["iteration"] == start]:
        del counters["unevaluated"]
        _count_accuracy(counters, made[-1])


def _evaluation_due(start: int, counters: dict[str, Any]) -> bool:
    """Whether the evaluation after `start` iterations is missing."""
    return (start == 0 and "accuracy_start" not in counters) or "unevaluated" in counters


def _has_time_for(session: Session, *parts: Part) -> bool:
    """Whether the session has time for these parts on all hosts; without parts, whether any time is left."""
    return not session.limited or all(hosts.exchange(session.holds(*parts)))


def _save(training: TrainingRun, done: int, session: Session) -> bool:
    with session.measured("save"):
        training.save(done, training.run.items.get_state())
    return True


def _evaluate_or_save(training: TrainingRun, done: int, session: Session) -> None:
    """Evaluate; if a server fails or a signal comes, save what was trained."""
    try:
        with session.measured("evaluation"):
            _evaluate(training, done)
    except (ServerError, Stopped):
        training.save(done, training.run.items.get_state())
        raise


def _iterate(training: TrainingRun, iteration: int) -> tuple[Played, Metrics]:
    """Play the game, update the policy, and write metrics and records."""
    run, writer, counters = training.run, training.writer, training.counters
    began = time.perf_counter()
    batch, played = _play(training, iteration)
    played_at = time.perf_counter()
    with training.clock.stage("updating", f"iteration {iteration + 1}: updating"):
        metrics = played.metrics | update(run, played.lessons, iteration)
    for name, count in {**played.totals, **run.searched}.items():
        counters["totals"][name] = counters["totals"].get(name, 0) + int(count)
    ended = time.perf_counter()
    rollouts = [rollout for lesson in played.lessons for rollout in responses(lesson)]
    # tokens; observations were not written
    written = sum(int((r.loss_mask * (r.sample_logprobs != UNSAMPLED)).sum()) for r in rollouts)
    metrics |= {
        "time/play": played_at - began,
        "time/update": ended - played_at,
        **{f"time/{what}": seconds for what, seconds in run.clock.items()},
        **{f"search/{what}": float(count) for what, count in run.searched.items()},
        "time/tokens_per_second": written / (ended - began),
        **{
            f"{name}/{role}": share
            for role, tally in run.tallies.items()
            for name, share in tally.close(run.cfg.buckets.drafts).items()
        },
    }
    if run.game.reads == "documents":
        writer.documents(iteration, batch)
    writer.tasks(iteration, played.rows)
    writer.metrics(iteration, metrics)
    training.tracker.log(iteration + 1, metrics)
    return played, metrics


def _play(training: TrainingRun, iteration: int) -> tuple[Sequence[Any], Played]:
    """Play the game on the next items; all hosts must get the same rollouts.

    If a server is gone, a signal comes or the game's code fails, the state before these items is saved: they are played
    again, identically. Not where the game fails in the first iteration, since its fields may be at fault, nor where it
    does in one of several processes, since saving takes all.
    """
    run = training.run
    run.clock.clear()
    run.searched.clear()
    position = run.items.get_state()
    batch = next(run.items)
    try:
        with training.clock.stage("playing", f"iteration {iteration + 1}: playing"):
            state = contract.kept(run.game_state)  # a copy, or a game that changes it and fails would have it saved so
            played = run.game.play(run.world(iteration), batch, run.cfg.game, state)
            contract.require_played(played, run.cfg.asks)
            kept = contract.kept(played.state)
    except (ServerError, Stopped):
        if training.checkpoints.newest != iteration:
            training.save(iteration, position)
        raise
    except Exception:
        if jax.process_count() == 1 and iteration and training.checkpoints.newest != iteration:
            try:
                training.save(iteration, position)
            except Exception as error:  # the game's own error says more
                log.warning("iteration %d was not saved: %s", iteration, error)
        raise
    run.game_state = kept
    hosts.require_same(_digest(played.lessons), f"the rollouts of iteration {iteration}")
    return batch, played


def _show(training: TrainingRun, done: int, played: Played, speed: float, left: float) -> None:
    """Show the progress line of an iteration, and every `show_every` iterations an example."""
    cfg, counters = training.run.cfg, training.counters
    line = {
        "iteration": f"{done}/{cfg.iterations}",
        **played.progress,
        "accuracy": counters.get("accuracy_end"),
        "lesson_tokens/s": speed,
        "eta_seconds": left,
    }
    rates = [rate for record in played.records if (rate := record.pass_rate) is not None]
    training.screen.progress(progress_line(line), f"  pass rates 0 {bars(rates)} 1" if rates else "")
    if cfg.show_every and done % cfg.show_every == 0 and played.example:
        training.screen.show(played.example)


def _warn(training: TrainingRun, done: int, metrics: Metrics, warned: set[str]) -> None:
    """Show why the iteration taught nothing, or that its searches found nothing, unless this start said so before."""
    for why in (learnt([metrics], training.run.game.about).why, _found_nothing(metrics)):
        kind = re.split(r"[:;(\d]", why)[0]
        if why and kind not in warned:
            training.screen.show(f"warning: iteration {done}: {why}")
            warned.add(kind)


def _found_nothing(metrics: Metrics) -> str:
    """A warning if no query of the iteration found anything, else an empty text."""
    queries = int(metrics.get("search/queries", 0))
    if not queries or metrics["search/queries_empty"] < queries:
        return ""
    return f"the search engine found nothing for any of {queries} queries; look at retrieval.corpus, .index or .url"


def update(run: Run, lessons: Sequence[Lesson], iteration: int) -> Metrics:
    """Make one iteration's optimizer steps on the lessons of the trained roles."""
    run.player = run.player.with_params({})  # the sampler's copy makes room for the update
    memory.trim()
    estimators: dict[str, Estimator] = {ask.role: ask.estimator for ask in run.cfg.asks if ask.trained}
    trained = [lesson for lesson in lessons if lesson.role in estimators]
    rng = np.random.default_rng([run.cfg.seed, iteration, 99])
    run.state, metrics = run.updater.update(run.state, trained, estimators, rng, run.baselines)
    run.refresh()
    return metrics


def _digest(lessons: Sequence[Lesson]) -> int:
    """A checksum of the tokens and rewards of an iteration."""
    digest = 0
    for lesson in lessons:
        reward = lesson.reward if isinstance(lesson, Episode) else 0.0
        for rollout in responses(lesson):
            digest = zlib.crc32(rollout.token_ids.tobytes() + np.float64(reward).tobytes(), digest)
    return digest


def _restore(run: Run, checkpoints: Checkpoints) -> tuple[int, dict[str, Any]]:
    """Restore `run` from the newest good checkpoint; return its iterations and counters.

    Raises: ValueError where a frozen model is not the one that the run was saved with.
    """
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), run.state)
    restored = checkpoints.restore(abstract)
    if restored is None:
        return 0, {"totals": {}}
    for name, was in restored.extra.get("models", {}).items():  # checkpoints of old have none
        if (now := run.models.get(name, was)) != was:
            path = run.cfg.seats.get(name.removeprefix("seats."), run.cfg.model.path)
            raise ValueError(
                f"{name}={path} holds other weights than when the run was saved after {restored.step} iterations (they "
                f"add up to {now}, not {was}); bring those back, or add --restart to set the run aside and begin anew"
            )
    run.state = restored.state
    run.refresh()
    run.items.set_state(restored.extra["items"])
    run.game_state = restored.extra["game"]
    run.baselines = restored.extra.get("baselines", {})
    for role in restored.extra.get("undrafted", ()):
        run.tallies[role].off = True
    log.info("resuming after iteration %d", restored.step)
    return restored.step, restored.extra["counters"]


def _evaluate(training: TrainingRun, done: int) -> None:
    """Evaluate after `done` iterations."""
    counters = training.counters
    counters["unevaluated"] = True  # until it is: a run that is saved before goes on with it
    began = time.perf_counter()
    with training.clock.stage("evaluating"):
        metrics, answered = evaluation(training.run, done)
    del counters["unevaluated"]
    if not metrics:
        return
    _count_accuracy(counters, metrics)
    metrics |= {"time/evaluate": time.perf_counter() - began}
    training.writer.evaluation(done, metrics, answered)
    training.tracker.log(done, metrics)
    if "eval/accuracy" in metrics:
        training.screen.show(f"held-out accuracy after {done} iterations: {metrics['eval/accuracy']:.3f}")


def _count_accuracy(counters: dict[str, Any], metrics: Metrics) -> None:
    """Count the first and the latest accuracy."""
    if "eval/accuracy" in metrics:
        counters.setdefault("accuracy_start", metrics["eval/accuracy"])
        counters["accuracy_end"] = metrics["eval/accuracy"]


def evaluation(run: Run, done: int) -> tuple[Metrics, list[dict[str, Any]]]:
    """Answer the held-out questions by the policy, and play the probes; return what was measured, and each answer."""
    cfg, game = run.cfg, run.game
    metrics: Metrics = {}
    answered: list[dict[str, Any]] = []
    world = run.world(done, evaluating=True)
    if run.held_out:
        exam = game.exam(cfg.game)
        exam = exam._replace(max_new=cfg.eval.max_new or exam.max_new)
        metrics, answered = held_out(world, run.held_out, exam)
    if cfg.eval.probe_documents:
        buckets = dataclasses.replace(run.probe_buckets, drafts=0)  # nothing says whether they would be worth it
        room = run.probe_buckets.kv_tokens / max(cfg.buckets.kv_tokens, 1)
        metrics |= probes(
            world,
            run.source.fixed(cfg.eval.probe_documents),
            game,
            cfg.game,
            current=dataclasses.replace(run.player, buckets=buckets),
            initial=dataclasses.replace(run.first_player(), buckets=buckets),
            others={role: dataclasses.replace(p, buckets=p.buckets.with_share(room)) for role, p in run.others.items()},
            group=cfg.eval.probe_group,
        )
    return metrics, answered


def _summarise(training: TrainingRun) -> dict[str, Any]:
    """Write the summary of the run and return it."""
    run, checkpoints, writer, tracker, screen, clock, counters = training
    newest, gaps, parts = checkpoints.newest, writer.gaps(), clock.parts()
    rows = read_rows(writer.workdir / "metrics.jsonl") if hosts.leads() else []
    lessons = learnt(rows, run.game.about)
    if lessons.why:
        screen.show(f"warning: over {len(rows)} iterations {lessons.why}")
    else:
        compared = [ask.role for ask in run.cfg.asks if ask.trained and ask.estimator in (*OF_GROUP, "mean_whiten")]
        for told in filter(None, (still(rows, role) for role in dict.fromkeys(compared))):
            screen.show(f"warning: {told}")
    summary = {
        "name": run.cfg.name,
        "iterations": newest or 0,
        "complete": newest == run.cfg.iterations and "unevaluated" not in counters,
        "seconds": round(sum(parts.values()), 3),
        **{f"seconds/{stage}": round(seconds, 3) for stage, seconds in parts.items()},
        **counters["totals"],
        "steps": int(run.state.step) - int(run.state.skipped),
        "valid_share": lessons.valid if lessons.valid is None else round(lessons.valid, 4),
        "iterations_idle": lessons.idle,
        **({"warning": lessons.why} if lessons.why else {}),
        "held_out_questions": len(run.held_out),
        "accuracy_start": counters.get("accuracy_start"),
        "accuracy_end": counters.get("accuracy_end"),
        "checkpoint": str(checkpoints.path(newest)) if newest is not None else None,
        **({"sandbox_tier": run.sandbox.tier} if run.sandbox else {}),
        **gaps,
        "log_failures": gaps["log_failures"] + screen.failures + tracker.failures,
    }
    writer.summary(summary)
    return summary

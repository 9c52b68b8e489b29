"""The only loop: documents, game, advantages, update, metrics, checkpoints, evaluation, in a straight line."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spicejax import config as configuration
from spicejax import hosts, sharding
from spicejax.data import corpus, questions
from spicejax.evaluation import held_out as evaluate
from spicejax.games.spice import game as spice
from spicejax.games.world import World
from spicejax.generate.policy import Player
from spicejax.generate.stops import stop_machine
from spicejax.learn import learner, packing
from spicejax.learn.advantages import equal_fraction, group_advantages
from spicejax.models import hf, lora, transformer
from spicejax.run import programs
from spicejax.run.checkpoint import Checkpoints
from spicejax.run.config import RunConfig, arranged, fitted, with_world
from spicejax.run.interrupt import Interrupt
from spicejax.run.metrics import MetricsWriter
from spicejax.score.verifiers import Verdict, Verifier
from spicejax.text import render, tokens
from spicejax.types import Batch, Document, Episode, Messages, Metrics, Params, Task

log = logging.getLogger("spicejax")

# Fields that may change when a run is resumed: they do not touch what is learnt from one iteration to the next (another
# mesh adds in another order, which moves the last bits).
CHANGEABLE = (
    *("iterations", "eval.", "checkpoint.", "show_every", "nano.cache", "mesh.", "sampler_mesh"),
    *("rows_per_call", "refill", "prefill_chunk", "kv_tokens", "sampler_memory"),  # no text depends on them
)


@dataclasses.dataclass
class Run:
    """A run that is built and ready to step. `state` is donated to every update and replaced."""

    cfg: RunConfig
    workdir: Path
    mesh: jax.sharding.Mesh
    tokenizer: tokens.Tokenizer
    player: Player  # the policy; its parameters are those of `state`, in the sampler's layout
    speak: Callable[[Params], Params]  # parameters as the sampler holds them
    initial: Params | None  # copy of the first parameters, where something needs them
    state: learner.TrainState
    frozen: Params  # what `state` does not train: empty, or everything but the adapters
    learner: learner.Learner
    documents: corpus.DocumentIterator
    corpus: corpus.Corpus
    held_out: list[questions.Item]
    verifier: Verifier

    @property
    def params(self) -> Params:
        """All parameters of the policy."""
        return lora.join(self.frozen, self.state.params)

    def world(self, iteration: int) -> World:
        """Seat the players of one iteration."""
        challenger = self.player
        if self.cfg.spice.fixed_challenger and self.initial is not None:
            challenger = self.player.with_params(self.speak(self.initial))
        return World(
            players={"challenger": challenger, "reasoner": self.player},
            render=self.render,
            check=self.check,
            sampler=self.cfg.sampler,
            seed=self.cfg.seed,
            iteration=iteration,
        )

    def render(self, messages: Messages) -> list[int]:
        """Messages -> prompt ids by the model's template."""
        return render.render(self.tokenizer, messages, self.cfg.model.template)

    def check(self, pairs: Sequence[tuple[str | None, Task]]) -> list[Verdict]:
        """Judge (answer, task) pairs, each on one host; all hosts get the same verdicts, time limits included."""
        # By content, so that equal pairs are still judged once.
        judges = [zlib.crc32(f"{task.answer}\0{answer}".encode()) % jax.process_count() for answer, task in pairs]
        mine = [pair for pair, judge in zip(pairs, judges, strict=True) if judge == jax.process_index()]
        shares = hosts.exchange([[v.correct, v.how] for v in self.verifier.check(mine)])
        verdicts = [iter(share) for share in shares]
        return [Verdict(*next(verdicts[judge])) for judge in judges]


def build(cfg: RunConfig, workdir: Path) -> Run:
    """Load model, tokenizer and corpus and set up everything a step needs."""
    cfg = with_world(cfg)
    cfg = arranged(cfg, hf.read_config(cfg.model.path).num_kv_heads, len(jax.devices()))
    mesh, speaking = sharding.make_meshes(cfg.mesh, cfg.sampler_mesh)
    cfg = fitted(cfg, mesh, speaking)
    if jax.process_count() > 1:
        sharding.connect(mesh)
        sharding.connect(speaking)
    tokenizer = tokens.load(cfg.model.path)
    model, params = load_model(cfg, mesh)
    stop_strings = render.stop_strings(cfg.model.template)
    cfg = programs.sized(cfg, model, mesh, speaking, sharding.device_memory())
    copy = programs.reshard(programs.speaker(model), speaking, cfg.sampler_weights)
    speak = (lambda params: params) if programs.as_is(cfg, model) else copy
    player = Player(
        cfg=programs.speaker(model),
        params=speak(params),
        decoder=tokenizer,
        stop=stop_machine(
            model.vocab_size, tokenizer.eos_ids, stop_strings, tokenizer.token_bytes() if stop_strings else None
        ),
        buckets=cfg.buckets(),
        mesh=speaking,
    )
    frozen, trained = lora.split(params) if model.lora is not None else ({}, params)
    initial = lora.join(frozen, jax.tree.map(jnp.copy, trained)) if cfg.keeps_initial else None
    optimizer = learner.make_optimizer(cfg.learner)
    source = corpus.open_corpus(
        cfg.corpus.source,
        encode=tokenizer.encode,
        max_tokens=cfg.corpus.max_tokens,
        seed=cfg.seed,
        batch_size=cfg.spice.documents,
        min_chars=cfg.corpus.min_chars,
    )
    held_out = questions.load_items(cfg.eval.tasks) if cfg.eval.tasks else []
    return Run(
        cfg=cfg,
        workdir=workdir,
        mesh=mesh,
        tokenizer=tokenizer,
        player=player,
        speak=speak,
        initial=initial,
        state=sharding.on_mesh(learner.init_state(trained, optimizer), mesh),
        frozen=frozen,
        learner=learner.make_learner(
            model, cfg.learner, optimizer, temperature=cfg.sampler.temperature, on_policy=_on_policy(cfg.learner)
        ),
        documents=source.iterator(),
        corpus=source,
        held_out=held_out[: cfg.eval.max_tasks or None],
        verifier=Verifier(),
    )


def load_model(cfg: RunConfig, mesh: jax.sharding.Mesh) -> tuple[transformer.TransformerConfig, Params]:
    """Read the weights into sharded device arrays of the configured precision; draw fresh adapters where asked for."""
    shape = dataclasses.replace(
        hf.read_config(cfg.model.path),
        dtype=cfg.model.dtype,
        param_dtype=cfg.model.param_dtype,
        remat=cfg.model.remat,
        unroll_layers=cfg.model.unroll_layers,
        attention=cfg.model.attention,
    )
    shardings = sharding.param_shardings(mesh, transformer.param_axes(shape), transformer.abstract_params(shape))
    _, params = hf.load(cfg.model.path, dtype=cfg.model.param_dtype, shardings=shardings)
    if cfg.model.lora is None:
        return shape, params
    shape = dataclasses.replace(shape, lora=cfg.model.lora)
    shardings = sharding.param_shardings(mesh, transformer.param_axes(shape), transformer.abstract_params(shape))
    draw = jax.jit(lambda key: lora.split(transformer.init(shape, key))[1], out_shardings=lora.split(shardings)[1])
    return shape, lora.join(params, draw(jax.random.key(cfg.seed)))


def _on_policy(cfg: learner.LearnerConfig) -> bool:
    return cfg.trajectories_per_update == 0 and cfg.epochs == 1


def train(cfg: RunConfig, workdir: Path, *, interrupt: Interrupt | None = None) -> dict[str, Any]:
    """Train to `cfg.iterations`, resuming from the newest good checkpoint of `workdir`; return the summary.

    Raises: ValueError where the checkpoint was made by another configuration, naming the fields.
    """
    with contextlib.ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt()) if interrupt is None else interrupt
        hosts.require_same(configuration.to_json(cfg), "the configuration")
        workdir.mkdir(parents=True, exist_ok=True)
        checkpoints = stack.enter_context(
            contextlib.closing(
                Checkpoints(workdir / "checkpoints", keep=cfg.checkpoint.keep, config=configuration.to_json(cfg))
            )
        )
        run = build(cfg, workdir)
        stack.enter_context(run.verifier)
        start, counters = _resume(run, checkpoints, cfg)
        hosts.require_same([start, run.corpus.digest, len(run.held_out)], "iteration, corpus and held-out questions")
        writer = MetricsWriter(workdir, resume_step=start, silent=not hosts.leads())
        stack.enter_context(contextlib.closing(writer))
        if start == 0 and "accuracy_start" not in counters:
            _evaluate(run, 0, writer, counters)
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
    for iteration in range(start, cfg.iterations):
        began = time.perf_counter()
        played = spice.play(run.world(iteration), next(run.documents), cfg.spice)
        hosts.require_same(_digest(played.episodes), f"the rollouts of iteration {iteration}")
        sampled = time.perf_counter()
        metrics = played.metrics | update(run, played.episodes, iteration)
        counters["tasks"] += int(played.metrics["challenger/attempts"])
        counters["valid"] += int(played.metrics["challenger/tasks_valid"])
        ended = time.perf_counter()
        counters["seconds"] += ended - began
        made = sum(len(e.rollout.token_ids) for e in played.episodes)
        metrics |= {
            "time/play": sampled - began,
            "time/update": ended - sampled,
            "time/tokens_per_second": made / (ended - began),
        }
        done = iteration + 1
        writer.tasks(iteration, played.records)
        writer.metrics(iteration, metrics)
        writer.progress(_progress(cfg, done, metrics, counters))
        if cfg.show_every and done % cfg.show_every == 0:
            writer.show(show_task(played.records))
        last = done == cfg.iterations
        if last or (cfg.eval.every and done % cfg.eval.every == 0):
            _evaluate(run, done, writer, counters)
        stop = any(hosts.exchange(interrupt.requested))  # a signal may have reached one host alone
        if last or stop or (cfg.checkpoint.every and done % cfg.checkpoint.every == 0):
            checkpoints.save(done, run.state, {"documents": run.documents.get_state(), "counters": counters})
        if stop and not last:
            writer.show(f"stopped after iteration {done}; the same command goes on from here")
            break
    return counters


def _digest(episodes: Sequence[Episode]) -> int:
    """One number for the tokens and rewards of an iteration."""
    digest = 0
    for e in episodes:
        digest = zlib.crc32(e.rollout.token_ids.tobytes() + np.float64(e.reward).tobytes(), digest)
    return digest


def update(run: Run, episodes: list[Episode], iteration: int) -> Metrics:
    """One iteration's optimizer steps on `episodes`."""
    if not episodes:
        return {"learner/steps": 0.0}
    cfg = run.cfg.learner
    run.player = run.player.with_params({})  # the sampler's copy makes room for the update
    rewards = np.array([e.reward for e in episodes])
    groups = np.array([e.group for e in episodes])
    advantages = group_advantages(rewards, groups)
    metrics: Metrics = {}
    for role in sorted({e.role for e in episodes}):
        mine = np.array([e.role == role for e in episodes])
        metrics[f"{role}/equal_groups"] = equal_fraction(rewards[mine], groups[mine])
        metrics[f"{role}/mean_reward"] = float(rewards[mine].mean())
    sums: dict[str, float] = {}
    steps = 0
    for parts, waste in minibatches(run, episodes, advantages, iteration):
        batches, micros = zip(*parts, strict=True)
        with _placed(run):
            run.state, out = run.learner.step(run.state, batches, micros, run.frozen)
        for name, value in (sharding.fetch(out) | waste).items():
            sums[name] = sums.get(name, 0.0) + float(value)
        steps += 1
    run.player = run.player.with_params(run.speak(run.params))
    if cfg.max_skipped and int(run.state.skipped) >= cfg.max_skipped:
        raise FloatingPointError(f"{int(run.state.skipped)} updates were not finite; lower learner.learning_rate")
    metrics["learner/steps"] = float(steps)
    return metrics | {f"learner/{name}": value / max(steps, 1) for name, value in sums.items()}


Part = tuple[Batch, Any]  # rows of one shape, and how many of its micro-batches are in use


def minibatches(
    run: Run, episodes: list[Episode], advantages: np.ndarray, iteration: int
) -> Iterator[tuple[list[Part], Metrics]]:
    """Rows of the iteration's optimizer steps, by shape, each step with the share of padding in them.

    Trajectories whose advantage is exactly 0 add nothing to the gradient while the KL term is off: they count in the
    mean but are not laid out.
    """
    cfg = run.cfg.learner
    size = cfg.trajectories_per_update or len(episodes)
    rng = np.random.default_rng([run.cfg.seed, iteration, 99])
    groups, roles = np.array([e.group for e in episodes]), np.array([e.role for e in episodes])
    picks = deal(groups, roles, size, cfg.epochs, rng)
    steps: list[tuple[list[Part], Metrics]] = []
    for pick in picks:
        rollouts = [episodes[i].rollout for i in pick]
        weights = packing.token_weights(rollouts, aggregation=cfg.aggregation, norm_length=cfg.loss_norm_length)
        live = [k for k, i in enumerate(pick) if advantages[i] != 0 or cfg.kl_coef > 0]
        if live:
            parts = packing.lay_out(
                [rollouts[k] for k in live],
                advantages[pick[live]],
                [weights[k] for k in live],
                cfg.shapes,
                min_micro=cfg.min_micro_batches,
            )
            steps.append(([_on_devices(run, part) for part in parts], packing.padding(parts)))
    # Old logprobs of every step are taken before the first one, with the parameters that sampled.
    steps = [([_with_logprobs(run, part) for part in parts], waste) for parts, waste in steps]
    yield from steps


def deal(groups: np.ndarray, roles: np.ndarray, size: int, epochs: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of each optimizer step: `size` trajectories, the groups of each role in a new random order each epoch.

    A group stays together, but for those that a step's end cuts, so that its prompt is computed in one step only.
    Every step has the iteration's share of each role: their rows have different shapes, and a step that had more of
    one would need a micro-batch more.

    Args:
      groups: group of each trajectory, int [n]; all of a group have one role. With size >= n nothing is reordered.
      roles: role of each trajectory, [n].
    """
    picks = []
    for _ in range(epochs):
        order = np.arange(len(groups))
        if size < len(groups):
            place = np.zeros(groups.max() + 1)  # of each group, from 0 to 1
            for role in np.unique(roles):
                own = rng.permutation(np.unique(groups[roles == role]))
                place[own] = (np.arange(len(own)) + rng.random()) / len(own)
            order = np.argsort(place[groups], kind="stable")
        picks += [order[k : k + size] for k in range(0, len(order), size)]
    return picks


def _on_devices(run: Run, part: tuple[Batch, int]) -> Part:
    place = sharding.rows(run.mesh, run.cfg.learner.rows, axis=1)
    return sharding.put_global(part[0], place), jnp.int32(part[1])


def _with_logprobs(run: Run, part: Part) -> Part:
    batch, micro = part
    with _placed(run):
        if not _on_policy(run.cfg.learner):
            batch = batch._replace(old_logprobs=run.learner.score(run.params, batch, micro))
        if run.cfg.learner.kl_coef > 0:
            batch = batch._replace(reference_logprobs=run.learner.score(run.initial, batch, micro))
    return batch, micro


def _placed(run: Run) -> contextlib.AbstractContextManager[None]:
    """Where the learner's activations lie."""
    return sharding.activations(run.mesh, transformer.activation_sizes(run.player.cfg, run.cfg.learner.rows))


def _resume(run: Run, checkpoints: Checkpoints, cfg: RunConfig) -> tuple[int, dict[str, Any]]:
    """Put the newest good checkpoint into `run`; return its iteration and counters."""
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), run.state)
    restored = checkpoints.restore(abstract)
    if restored is None:
        return 0, {"tasks": 0, "valid": 0, "seconds": 0.0}
    changed = [
        f"{path}: {old!r} -> {new!r}"
        for path, old, new in configuration.diff(restored.config, configuration.to_json(cfg))
        if not path.startswith(CHANGEABLE)
    ]
    if changed:
        raise ValueError(
            f"{checkpoints.directory} was made by another configuration ({'; '.join(changed)}); "
            "take these changes back or choose another --workdir"
        )
    run.state = restored.state
    run.player = run.player.with_params(run.speak(run.params))
    run.documents.set_state(restored.extra["documents"])
    log.info("resuming after iteration %d", restored.step)
    return restored.step, restored.extra["counters"]


def _evaluate(run: Run, done: int, writer: MetricsWriter, counters: dict[str, Any]) -> None:
    """Evaluate after `done` iterations and note the first and the latest accuracy."""
    cfg = run.cfg
    began = time.perf_counter()
    metrics: Metrics = {}
    world = run.world(done)
    if run.held_out:
        metrics |= evaluate.held_out(
            world, run.held_out, style=cfg.spice.style, max_new=cfg.eval.max_new or cfg.spice.reasoner_max_new
        )
    if cfg.eval.probe_documents and run.initial is not None:
        metrics |= evaluate.probes(
            world,
            probe_documents(run),
            run.player,
            run.player.with_params(run.speak(run.initial)),
            cfg.spice,
            group=cfg.eval.probe_group,
        )
    if not metrics:
        return
    if "eval/accuracy" in metrics:
        counters.setdefault("accuracy_start", metrics["eval/accuracy"])
        counters["accuracy_end"] = metrics["eval/accuracy"]
    writer.evaluation(done, metrics | {"time/evaluate": time.perf_counter() - began})
    if "eval/accuracy" in metrics:
        writer.show(f"held-out accuracy after {done} iterations: {metrics['eval/accuracy']:.3f}")


def probe_documents(run: Run) -> list[Document]:
    """The same documents at every evaluation: the first of a fixed order of the corpus."""
    n = min(run.cfg.eval.probe_documents, run.corpus.num_documents)
    picked = np.random.default_rng([run.cfg.seed, 77]).permutation(run.corpus.num_documents)[:n]
    return [run.corpus.documents[int(i)] for i in picked]


def show_task(records: list[dict[str, Any]]) -> str:
    """One valid and judged task of the iteration, or the commonest rejection, for the eye."""
    judged = [r for r in records if r.get("pass_rate") is not None]
    if judged:
        r = min(judged, key=lambda r: abs(r["pass_rate"] - 0.5))
        return (
            f"  task from {r['document_id']} [{r['format']}], solved {r['pass_rate']:.0%}\n"
            f"    Q: {r['question']!r}\n    A: {r['answer']!r}\n    Reasoner: {r['sample_answer']!r}"
        )
    reasons = [r["rejected"] for r in records if "rejected" in r]
    common = max(set(reasons), key=reasons.count) if reasons else "nothing generated"
    return f"  no valid task in this iteration; commonest reason: {common}"


def _progress(cfg: RunConfig, done: int, metrics: Metrics, counters: dict[str, Any]) -> dict[str, Any]:
    """Values of the progress line."""
    left = counters["seconds"] / max(done, 1) * (cfg.iterations - done)
    return {
        "iteration": f"{done}/{cfg.iterations}",
        "valid": metrics["challenger/valid_fraction"],
        "pass_rate": metrics.get("reasoner/pass_rate"),
        "challenger_reward": metrics["challenger/reward"],
        "accuracy": counters.get("accuracy_end"),
        "tokens/s": metrics["time/tokens_per_second"],
        "eta_seconds": left,
    }


def _summarise(run: Run, counters: dict[str, Any], checkpoints: Checkpoints, writer: MetricsWriter) -> dict[str, Any]:
    latest = checkpoints.latest_good()
    summary = {
        "name": run.cfg.name,
        "iterations": latest or 0,
        "seconds": round(counters["seconds"], 3),
        "tasks_generated": counters["tasks"],
        "valid_fraction": counters["valid"] / max(counters["tasks"], 1),
        "reasoner_accuracy_start": counters.get("accuracy_start"),
        "reasoner_accuracy_end": counters.get("accuracy_end"),
        "checkpoint": str(checkpoints.path(latest)) if latest is not None else None,
    }
    writer.summary(summary)
    return summary

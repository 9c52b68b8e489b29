"""Evaluation of a model or of a run's policy on questions, with the engine, prompts and search of training."""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import jax

from spicejax import config as configuration
from spicejax.data.questions import Item
from spicejax.evaluation import scores
from spicejax.evaluation.likelihood import losses
from spicejax.games.game import Exam, Reply
from spicejax.games.world import World
from spicejax.generate import weights
from spicejax.generate.endpoint import chat
from spicejax.generate.player import Player, no_progress
from spicejax.generate.sampler import SamplerConfig
from spicejax.models import hf
from spicejax.retrieval.source import RetrievalConfig, open_search
from spicejax.run import lengths
from spicejax.run.build import load_model, open_sandbox, seat, seat_frozen
from spicejax.run.config import RunConfig, with_precision
from spicejax.run.host.clock import Stage
from spicejax.run.host.screen import showing
from spicejax.run.resolve import resolve
from spicejax.run.store import export, record
from spicejax.run.store.checkpoint import Saved
from spicejax.score.verifiers import Verifier
from spicejax.text import tokens
from spicejax.types import Example, Task


def saved_config(workdir: str | Path) -> dict[str, Any]:
    """The configuration of a run as JSON. Raises FileNotFoundError if it has no whole checkpoint."""
    with Saved(Path(workdir, "checkpoints")) as checkpoints:
        saved = checkpoints.saved_config()
    if saved is None:
        raise FileNotFoundError(f"{Path(workdir, 'checkpoints')} holds no whole checkpoint yet")
    return saved


def config_of(workdir: str | Path) -> RunConfig:
    """The configuration of a run. Raises: as `saved_config`; ConfigError for a game from outside the package."""
    return configuration.from_json(RunConfig, configuration.readable(RunConfig, saved_config(workdir)))


def config_for(model: str, recipe: RunConfig | None, words: Sequence[str]) -> tuple[RunConfig, Path | None]:
    """The configuration by which a model is asked, of a recipe or its run; and its work folder if it is a run.

    Args:
      model: work folder of a run or a chain, or what model.path takes, with a recipe.
      recipe: replaces the configuration of the run; if both have the same user's game, it gives only its code.
      words: overrides, as on a command line.
    Raises: ValueError if there is neither, or if only the work folder names code from outside; as `export.find_run`
      and `config_of`.
    """
    run, named = export.find_run(Path(model)), _code(recipe)
    if recipe is None and run is None:
        raise ValueError("--model is no run's work folder: add --config=NAME, which says how questions are asked")
    if recipe is not None and run is not None:
        saved = saved_config(run)
        if saved.get("game") and saved["game"] == configuration.outside(type(recipe.game)):
            recipe = configuration.from_json(recipe, configuration.readable(recipe, saved))
    cfg = configuration.parse(recipe or config_of(run or Path(model)), words)
    for field, code in _code(cfg).items():
        if code not in named.values() and not any(code in word for word in words):
            raise ValueError(
                f"{field}={code}: code from outside the package, which the run's folder names, runs where you name it: "
                f"add {field}={code}, or another {field}"
            )
    cfg = record.with_cache(cfg, run) if run else cfg
    return (cfg if run else dataclasses.replace(cfg, model=dataclasses.replace(cfg.model, path=model))), run


def _code(cfg: RunConfig | None) -> dict[str, str]:
    """The fields that name functions from outside the package, with these names."""
    engine = cfg.retrieval.engine if cfg and cfg.retrieval else ""
    fields = {"verifier": str(cfg.verifier if cfg else ""), "retrieval.engine": str(engine)}
    return {field: name for field, name in fields.items() if ":" in name}


def evaluate(
    cfg: RunConfig,
    items: Sequence[Item],
    workdir: Path | None = None,
    *,
    rollouts: int = 0,
    judge: str = "",
    drawn: Mapping[str, tuple[int, float]] = types.MappingProxyType({}),
    stream: TextIO | None = None,
) -> list[dict[str, Any]]:
    """Ask every item: once, see scores.examine, or up to `rollouts` times until it is right, see scores.grade.

    Args:
      drawn: by suite, samples of each answer and their temperature; other suites are asked once, greedy.
      judge: who judges answers as well: "self", "server" (that of cfg.judge), or a model as model.path takes it.
      cfg, workdir: see `opened`.
      stream: where progress is shown; None = nowhere.
    Raises: as `opened`; ValueError without items.
    """
    if not items:
        raise ValueError("there are no questions to ask")
    with _shown("evaluating", stream, cfg, workdir, judge=judge) as (world, exam):
        if rollouts:
            return scores.grade(world, items, exam, rollouts)
        records: dict[int, dict[str, Any]] = {}
        for samples, temperature in sorted({drawn.get(item.suite, (1, 0.0)) for item in items}):
            mine = [k for k, item in enumerate(items) if drawn.get(item.suite, (1, 0.0)) == (samples, temperature)]
            how = {"judged": cfg.judge.max_new if judge else 0, "samples": samples, "temperature": temperature}
            records |= zip(mine, scores.examine(world, [items[k] for k in mine], exam, **how), strict=True)
        return [records[k] for k in range(len(items))]


def answer(
    cfg: RunConfig, tasks: Sequence[Task], workdir: Path | None = None, *, stream: TextIO | None = None
) -> list[Reply]:
    """Answer questions greedily, as the game does.

    Args:
      tasks: their gold answers are ignored.
      cfg, workdir, stream: see `evaluate`.
    Raises: as `opened`; ValueError for an empty question, before a model is read, or one that is too long.
    """
    if empty := [number for number, task in enumerate(tasks, 1) if not task.question.strip()]:
        raise ValueError(f"question {empty[0]} is empty; give a text")
    with _shown("answering", stream, cfg, workdir) as (world, exam):
        world = dataclasses.replace(world, sampler=SamplerConfig(temperature=0.0))
        for number, task in enumerate(tasks, 1):
            if not world.fits(exam.role, exam.ask(task), exam.behind):
                room = cfg.buckets.prompt[-1]
                raise ValueError(f"question {number} makes a prompt of more than {room} tokens; raise buckets.prompt")
        sampling: dict[str, Any] = {"samples": 1, "first_row": range(len(tasks)), "stream": 0}
        return [reply for (reply,) in exam.respond(world, tasks, max_new=exam.max_new, **sampling)]


def likelihood(
    cfg: RunConfig, examples: Sequence[Example], workdir: Path | None = None, *, stream: TextIO | None = None
) -> dict[str, dict[str, float]]:
    """The likelihood of given replies for each source, see likelihood.losses and `evaluate`. Raises: as `opened`."""
    with _shown("evaluating", stream, cfg, workdir, alone=True) as (world, exam):
        return losses(world, exam, examples)


@contextlib.contextmanager
def _shown(
    stage: Stage, stream: TextIO | None, cfg: RunConfig, workdir: Path | None, **how: Any
) -> Iterator[tuple[World, Exam]]:
    """What `opened` yields, with the progress of loading and of `stage` shown on a stream."""
    with showing(stream, stages=False) as (screen, clock), contextlib.ExitStack() as stack:
        with clock.stage("loading"):
            asked = stack.enter_context(opened(cfg, workdir, progress=screen.count, **how))
        with clock.stage(stage):
            yield asked


@contextlib.contextmanager
def opened(
    cfg: RunConfig,
    workdir: Path | None = None,
    *,
    judge: str = "",
    alone: bool = False,
    progress: Callable[[int, int], None] = no_progress,
) -> Iterator[tuple[World, Exam]]:
    """Load a model to be asked, the search engine if its game has one, and the verifier.

    Args:
      cfg: names the model (model.path), the game, which says how a question is asked, and where searches go.
      workdir: the run whose newest policy is asked; None = the model that `cfg` names.
      judge: see `evaluate`.
      alone: without the search engine and the sandbox of its game.
      progress: called with (responses written, responses of the call).
    Raises: ValueError and FileNotFoundError for what is missing or does not fit.
    """
    _require(cfg, judge, alone)
    kept = open_sandbox(cfg) if cfg.game.game.exam(cfg.game).programs and not alone else None
    whole = dataclasses.replace(cfg.model, lora=None)  # a run's adapters are merged, a model that is named has none
    learner = dataclasses.replace(cfg.learner, learning_rate=1.0)  # unused; one for adapters may be too small for these
    resolved = resolve(dataclasses.replace(cfg, model=whole, learner=learner), make_world=True)
    cfg, model, mesh = resolved.cfg, resolved.model, resolved.mesh
    if workdir is None:
        tokenizer, params = tokens.load(cfg.model.path), load_model(cfg, mesh)
    else:
        _, shape, params, tokenizer = export.load_run(workdir, mesh)
        model = with_precision(cfg.model, shape)
    copy = weights.copier(model, resolved.sampler_mesh)
    chat_format = lengths.chat_formats(cfg, tokenizer)[""]
    player = seat(weights.sampled(model), copy(params), chat_format, cfg.buckets, resolved.sampler_mesh)
    player = dataclasses.replace(player, progress=progress)
    exam = cfg.game.game.exam(cfg.game)
    exam = exam._replace(max_new=cfg.eval.max_new or exam.max_new)
    asking = chat(cfg.judge) if judge == "server" else None
    other = player if judge in ("", "self", "server") else _judge(judge, cfg, resolved.sampler_mesh)
    find = open_search(cfg.retrieval or RetrievalConfig(), mesh) if exam.searches and not alone else None
    seated = {ask.seat or ask.role: player for ask in cfg.asks} | {exam.role: player, "judge": other}
    with Verifier(workers=cfg.verifier_workers, function=cfg.verifier) as verifier:
        programs = kept.run if kept else None
        yield World(seated, verifier.check, cfg.sampler, cfg.seed, 0, find, asking, programs), exam


def _require(cfg: RunConfig, judge: str, alone: bool) -> None:
    """Check the named models, judge and search engine before a model is made or read."""
    if judge == "server" and not cfg.judge.url:
        raise ValueError("there is no server to judge: give judge.url=http://HOST:PORT/v1 and judge.model=NAME")
    models = [cfg.model.path, *cfg.folders_of_seats.values(), *([judge] if judge not in ("", "self", "server") else [])]
    for path in filter(None, models):
        hf.read_config(path)
    searches = cfg.game.game.exam(cfg.game).searches and not alone
    if searches and (cfg.retrieval or not cfg.nano):
        search = cfg.retrieval or RetrievalConfig()
        search.require()
        search.probe()


def _judge(path: str, cfg: RunConfig, mesh: jax.sharding.Mesh) -> Player:
    """A frozen model that judges."""
    model = dataclasses.replace(hf.read_config(path), dtype=cfg.model.dtype, param_dtype=cfg.model.dtype)
    return seat_frozen(path, model, lengths.load_chat_format(path, cfg.model.date), cfg.buckets, mesh)

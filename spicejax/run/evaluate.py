"""A model, or the policy of a run, on questions with known answers: the engine, prompts and search of training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from spicejax import config as configuration
from spicejax.data.questions import Item
from spicejax.evaluation import scores
from spicejax.games.catalogue import game_of
from spicejax.games.world import World
from spicejax.generate import weights
from spicejax.generate.endpoint import chat
from spicejax.generate.policy import Player
from spicejax.models import hf
from spicejax.retrieval.source import RetrievalConfig, open_search
from spicejax.run import export, lengths
from spicejax.run.build import load_model, seat
from spicejax.run.checkpoint import Checkpoints
from spicejax.run.config import RunConfig, with_precision
from spicejax.run.settle import settled, with_world
from spicejax.score.verifiers import Verifier
from spicejax.text import tokens


def is_run(path: Path) -> bool:
    """Whether a folder is the work folder of a run, not of a model."""
    return (path / "checkpoints").is_dir()


def config_of(workdir: Path) -> RunConfig:
    """The configuration that a run was made by. Raises FileNotFoundError where it has saved nothing whole."""
    with Checkpoints(workdir / "checkpoints", config={}) as checkpoints:
        saved = checkpoints.saved_config()
    if saved is None:
        raise FileNotFoundError(f"{workdir / 'checkpoints'} holds no whole checkpoint yet")
    return configuration.from_json(RunConfig, configuration.readable(RunConfig, saved))


def evaluate(
    cfg: RunConfig, items: Sequence[Item], workdir: Path | None = None, *, rollouts: int = 0, judge: str = ""
) -> list[dict[str, Any]]:
    """Ask every item: once, see scores.examine, or up to `rollouts` times until it is right, see scores.grade.

    Args:
      cfg: names the model (model.path), the game, which says how a question is asked, and where searches go.
      workdir: the run whose newest policy is asked; None = the model that `cfg` names.
      judge: who judges answers as well: "self", "server" (that of cfg.judge), or a model as model.path takes it.
    Raises: ValueError and FileNotFoundError for what is not there or does not fit.
    """
    if not items:
        raise ValueError("there are no questions to ask")
    here = settled(with_world(cfg))
    cfg, model = here.cfg, dataclasses.replace(here.model, lora=None)
    if workdir is None:
        tokenizer, params = tokens.load(cfg.model.path), load_model(dataclasses.replace(cfg, seats={}), here.mesh)
    else:
        _, shape, params, tokenizer = export.load_run(workdir)
        model = with_precision(dataclasses.replace(cfg.model, lora=None), shape)
    tokenizer.require_rows(model.vocab_size)
    copy = weights.copier(model, here.sampler_mesh)
    voice = lengths.voices_of(cfg, tokenizer)[""]
    player = seat(weights.sampled(model), copy(params), voice, cfg.buckets, here.sampler_mesh)
    game = game_of(cfg.game)
    exam = game.exam(cfg.game)
    exam = exam._replace(max_new=cfg.eval.max_new or exam.max_new)
    if judge == "server" and not cfg.judge.url:
        raise ValueError("there is no server to judge: give judge.url=http://HOST:PORT/v1 and judge.model=NAME")
    asking = chat(cfg.judge) if judge == "server" else None
    other = player if judge in ("", "self", "server") else _judge(judge, cfg, here.sampler_mesh)
    find = open_search(cfg.retrieval or RetrievalConfig(), here.mesh) if exam.searches else None
    with Verifier(workers=cfg.verifier_workers) as verifier:
        seated = {ask.seat or ask.role: player for ask in cfg.asks} | {exam.role: player, "judge": other}
        world = World(seated, verifier.check, cfg.sampler, cfg.seed, 0, find, asking)
        if rollouts:
            return scores.grade(world, items, exam, rollouts)
        return scores.examine(world, items, exam, judged=cfg.judge.max_new if judge else 0)


def _judge(path: str, cfg: RunConfig, mesh: jax.sharding.Mesh) -> Player:
    """A frozen model that judges."""
    model = dataclasses.replace(hf.read_config(path), dtype=cfg.model.dtype, param_dtype=cfg.model.dtype)
    _, params = hf.load(path, dtype=model.dtype, shardings=weights.shardings(weights.parameters(model, mesh)))
    return seat(model, params, lengths.voice_of(path), cfg.buckets, mesh)

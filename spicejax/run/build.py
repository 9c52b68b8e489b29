"""Building of a run: its model, players, items and learner on the devices, ready for the first iteration."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp

from spicejax import hosts, interrupt, sharding
from spicejax.data import questions
from spicejax.data.items import ItemIterator, Items, open_items
from spicejax.games.game import Game
from spicejax.games.world import World
from spicejax.generate import weights
from spicejax.generate.endpoint import Chat, chat
from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player, no_progress
from spicejax.generate.stops import stop_machine
from spicejax.generate.tally import Tally
from spicejax.learn import learner
from spicejax.learn.update import Updater
from spicejax.models import files, hf, lora, transformer
from spicejax.models.fingerprint import fingerprint
from spicejax.models.transformer import TransformerConfig
from spicejax.retrieval.search import Search
from spicejax.retrieval.source import RetrievalConfig, open_search
from spicejax.run import lengths
from spicejax.run.config import RunConfig, with_precision
from spicejax.run.resolve import resolve, with_unused
from spicejax.score import answers
from spicejax.score.sandbox import Ran, Sandbox
from spicejax.score.verifiers import Verdict, Verifier
from spicejax.tags import THINK
from spicejax.text import render, tokens
from spicejax.types import Params, Passage, Task

log = logging.getLogger(__name__)


@dataclasses.dataclass
class Run:
    """A run in memory. Every update donates `state` and replaces it."""

    cfg: RunConfig
    game: Game
    workdir: Path
    player: Player  # the policy; its parameters are those of `state`, as the sampler holds them
    others: dict[str, Player]  # frozen models, by the role they play
    copy: Callable[[Params], Params]  # parameters as the sampler holds them
    first: Params | None  # the first policy as the sampler holds it, where the game seats it
    probe_buckets: Buckets  # the sampler's shapes while a probe seats the first policy too
    state: learner.TrainState
    updater: Updater
    items: ItemIterator
    source: Items
    held_out: list[questions.Item]
    verifier: Verifier
    find: Search | None = None  # where the game's searches go
    chat: Chat | None = None  # the server that judges
    sandbox: Sandbox | None = None  # where programs of the model run
    game_state: Any = None
    baselines: dict[str, float] = dataclasses.field(default_factory=dict)  # see deal.advantages
    models: dict[str, str] = dataclasses.field(default_factory=dict)  # fingerprints of those that stay as they are
    searched: Counter[str] = dataclasses.field(default_factory=Counter)  # queries, and those that found nothing
    clock: defaultdict[str, float] = dataclasses.field(default_factory=lambda: defaultdict(float))  # see World
    tallies: defaultdict[str, Tally] = dataclasses.field(default_factory=lambda: defaultdict(Tally))  # by role

    @functools.cached_property
    def examined(self) -> frozenset[str]:
        """Words of the held-out questions that are asked without a text beside them, see World."""
        return frozenset(answers.tokens(i.task.question) for i in self.held_out or () if not i.task.context)

    @property
    def params(self) -> Params:
        """All parameters of the policy, frozen ones too."""
        return lora.join(self.updater.frozen, self.state.params)

    def refresh(self) -> None:
        """Copy the present parameters to the sampler."""
        self.player = self.player.with_params(self.copy(self.params))

    def first_player(self) -> Player:
        """The policy as it was before the run; read again from its folder if the game does not seat it."""
        first = self.copy(load_model(self.cfg, self.updater.mesh)) if self.first is None else self.first
        return self.player.with_params(first)

    def world(self, iteration: int, *, evaluating: bool = False) -> World:
        """Seat the players of one iteration; in an evaluation the present policy has every seat."""
        asks = self.cfg.asks
        players = {ask.seat or ask.role: self.player for ask in asks}
        if not evaluating:
            first = {ask.seat or ask.role for ask in asks if ask.player == "initial" or ask.off_policy}
            players |= dict.fromkeys(first, self.first_player()) if first - set(self.others) else {}
            players |= self.others
        tallies = {role: self.tallies[role] for role in players}
        if evaluating:
            tallies = {role: dataclasses.replace(tally) for role, tally in tallies.items()}
        return World(
            players={role: dataclasses.replace(player, tally=tallies[role]) for role, player in players.items()},
            check=self.check,
            sampler=self.cfg.sampler,
            seed=self.cfg.seed,
            iteration=iteration,
            find=self.look_up if self.find else None,
            chat=self.chat,
            programs=self.execute if self.sandbox else None,
            examined=self.examined,
            clock=self.clock,
        )

    def look_up(self, queries: Sequence[str], most: int) -> list[list[Passage]]:
        """Search; count the queries and those that found nothing."""
        assert self.find is not None
        found = self.find(queries, most)
        self.searched.update(queries=len(found), queries_empty=sum(not row for row in found))
        return found

    def check(self, pairs: Sequence[tuple[str | None, Task]]) -> list[Verdict]:
        """Judge (answer, task) pairs, each on one host; all hosts get the same verdicts, time limits included."""
        began = time.perf_counter()
        # By content, so that equal pairs are still judged once.
        judges = [zlib.crc32(f"{task.answer}\0{answer}".encode()) % jax.process_count() for answer, task in pairs]
        mine = [pair for pair, judge in zip(pairs, judges, strict=True) if judge == jax.process_index()]
        shares = hosts.exchange([[v.correct, v.how] for v in self.verifier.check(mine)])
        interrupt.check("stopped while answers were judged")
        verdicts = [iter(share) for share in shares]
        self.clock["checking"] += time.perf_counter() - began
        return [Verdict(*next(verdicts[judge])) for judge in judges]

    def execute(self, programs: Sequence[str]) -> list[Ran]:
        """Run programs, each on one host; all hosts get the same results."""
        assert self.sandbox is not None
        runners = [zlib.crc32(text.encode()) % jax.process_count() for text in programs]
        mine = [text for text, host in zip(programs, runners, strict=True) if host == jax.process_index()]
        shares = hosts.exchange([dataclasses.astuple(ran) for ran in self.sandbox.run(mine)])
        interrupt.check("stopped while programs ran")
        found = [iter(share) for share in shares]
        return [Ran(*next(found[host])) for host in runners]


def open_sandbox(cfg: RunConfig) -> Sandbox | None:
    """The sandbox if the game runs programs; logs its tier. Raises sandbox.Unsafe."""
    if cfg.programs == "off":
        return None
    opened = Sandbox(accept=cfg.programs == "accept")
    log.info("programs of the model run in a sandbox of tier %d%s", opened.tier, opened.why and f" ({opened.why})")
    return opened


def build(cfg: RunConfig, workdir: Path, progress: Callable[[int, int], None] = no_progress) -> Run:
    """Load model, tokenizer and items, and set up everything that an iteration needs.

    Args:
      progress: called with (responses written, responses of the call).
    """
    sandbox = open_sandbox(cfg)
    resolved = resolve(cfg, make_world=True)
    cfg, model, mesh = resolved.cfg, resolved.model, resolved.mesh
    if jax.process_count() > 1:
        sharding.connect(mesh)
        sharding.connect(resolved.sampler_mesh)
    tokenizer = tokens.load(cfg.model.path)
    formats = lengths.chat_formats(cfg, tokenizer)
    for path in sorted({v.tokenizer.source for v in formats.values() if render.opening(*v)}):
        log.info("%s: its chat template opens thinking; of a reply counts what stands behind %s", path, THINK[1])
    source, held_out = _open_data(cfg, tokenizer, formats)
    find = open_search(cfg.retrieval or RetrievalConfig(), mesh) if cfg.searches else None
    asking = chat(cfg.judge) if cfg.judge.url else None
    interrupt.check("stopped before the model was loaded; the same command begins it")
    params, copy = load_model(cfg, mesh), resolved.copier()
    player = seat(weights.sampled(model), copy(params), formats[""], cfg.buckets, resolved.sampler_mesh)
    player = dataclasses.replace(player, progress=progress)
    frozen, trained = lora.split(params) if model.lora is not None else ({}, params)
    compares = cfg.learner.needs_reference
    kept = lora.join(frozen, jax.tree.map(jnp.copy, trained)) if compares or cfg.initial_plays else None
    optimizer = learner.make_optimizer(cfg.learner)
    settings = {"temperature": cfg.sampler.temperature, "compiler_options": sharding.compiler_options(mesh)}
    learners = learner.make_learners(model, cfg.learner, optimizer, **settings)
    others = {
        role: dataclasses.replace(
            seat_frozen(path, resolved.seats[role], formats[role], resolved.seat_buckets(role), resolved.sampler_mesh),
            progress=progress,
        )
        for role, path in cfg.seats.items()
    }
    models = {f"seats.{role}": fingerprint(other.params) for role, other in others.items()}
    if frozen or kept is not None:  # else training replaces all of it
        models["model.path"] = fingerprint(params)
    return Run(
        cfg=cfg,
        game=cfg.game.game,
        workdir=workdir,
        player=player,
        others=others,
        copy=copy,
        first=copy(kept) if cfg.initial_plays and kept is not None else None,
        probe_buckets=resolved.probe_buckets,
        state=sharding.on_mesh(learner.init_state(trained, optimizer), mesh),
        updater=Updater(cfg.learner, model, mesh, learners, frozen, kept if compares else None),
        items=source.iterator(),
        source=source,
        held_out=held_out,
        verifier=Verifier(workers=cfg.verifier_workers, function=cfg.verifier),
        find=find,
        chat=asking,
        sandbox=sandbox,
        models=models,
    )


def _open_data(
    cfg: RunConfig, tokenizer: tokens.Tokenizer, formats: Mapping[str, lengths.ChatFormat]
) -> tuple[Items, list[questions.Item]]:
    """Open the game's items and the held-out questions. Raises ValueError if a prompt fits no bucket."""
    reads = cfg.game.game.reads
    if reads == "documents":
        lengths.require_documents_fit(cfg, formats)
    source = open_items(
        reads,
        cfg.corpus.source,
        seed=cfg.seed,
        batch_size=cfg.game.items,
        encode=tokenizer.encode,
        max_tokens=cfg.corpus.max_tokens,
        min_chars=cfg.corpus.min_chars,
        text_field=cfg.corpus.text_field,
        follow_links=cfg.corpus.follow_links,
    )
    held_out = questions.load_suites(cfg.eval.tasks, cfg.eval.max_tasks)
    lengths.require_items_fit(cfg, source, held_out, formats)
    if reads == "questions":
        warn_of_shared(cast(Sequence[Task], source.sequence), held_out, cfg.eval.tasks)
    return source, held_out


def warn_of_shared(asked: Sequence[Task], held_out: Sequence[questions.Item], name: str) -> None:
    """Warn of training questions that the evaluation asks too, word for word."""
    known = {(answers.tokens(item.task.question), item.task.context) for item in held_out}
    shared = [task.question for task in asked if known and (answers.tokens(task.question), task.context) in known]
    if shared and hosts.leads():
        log.warning(
            "%d of %d training questions are asked in the evaluation too (%s), the first %r: scores on them say what "
            "was learnt by heart",
            *(len(shared), len(asked), name, shared[0][:80]),
        )


def seat(
    model: TransformerConfig,
    params: Params,
    chat_format: lengths.ChatFormat,
    buckets: Buckets,
    mesh: jax.sharding.Mesh,
) -> Player:
    """A model that can be asked, with its own tokenizer and template."""
    tokenizer, template = chat_format
    return Player(
        cfg=with_unused(model, tokenizer),
        params=params,
        decoder=tokenizer,
        stop=stop_machine(model.vocab_size, tokenizer.eos_ids, render.stop_strings(template), tokenizer.token_bytes()),
        render=functools.partial(render.render, tokenizer, template=template),
        encode=tokenizer.encode,
        write=functools.partial(render.reply, tokenizer, template),
        opening=render.opening(tokenizer, template),
        buckets=buckets,
        mesh=mesh,
    )


def seat_frozen(
    path: str, model: TransformerConfig, chat_format: lengths.ChatFormat, buckets: Buckets, mesh: jax.sharding.Mesh
) -> Player:
    """Load a model that is not trained, as a player."""
    _, params = hf.load(path, dtype=model.dtype, shardings=weights.shardings(weights.parameters(model, mesh)))
    return seat(model, params, chat_format, buckets, mesh)


def load_model(cfg: RunConfig, mesh: jax.sharding.Mesh) -> Params:
    """Read the weights into sharded device arrays of the configured precision; draw fresh adapters where asked for."""
    model = with_precision(cfg.model, hf.read_config(cfg.model.path))
    whole = dataclasses.replace(model, lora=None)
    places = weights.shardings(weights.parameters(whole, mesh))
    _, params = hf.load(cfg.model.path, dtype=cfg.model.param_dtype, shardings=places)
    files.forget_gguf()
    if model.lora is None:
        return params
    _, places = lora.split(weights.shardings(weights.parameters(model, mesh)))
    draw = jax.jit(lambda key: lora.split(transformer.init(model, key))[1], out_shardings=places)
    return lora.join(params, draw(jax.random.key(cfg.seed)))

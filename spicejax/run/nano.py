"""The embedded nano model: its world, tokenizer and warm start, made once and kept as an ordinary model folder."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import optax

from spicejax.data import benchmarks, tokens, world
from spicejax.learn import learner, packing
from spicejax.models import hf, transformer
from spicejax.types import Batch, Params, Rollout

if TYPE_CHECKING:
    from spicejax.run.config import RunConfig

log = logging.getLogger("spicejax")

# Two tokens a turn instead of ChatML's ten: they are a fifth of what the nano model reads.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ ('<|im_start|>' if message['role'] == 'user' else '') + message['content'] "
    "+ '<|im_end|>' }}{% endfor %}"
)


@dataclasses.dataclass(frozen=True)
class NanoConfig:
    """How the nano model is made before self-play starts."""

    # shape of the model; vocab_size is also the tokenizer's
    architecture: transformer.TransformerConfig
    # documents of the world's corpus, half calculations, half facts
    documents: int = 2000
    # held-out questions, half calculations, half facts
    held_out: int = 200
    # optimizer steps of the warm start; stopped early on purpose, so that self-play has much to learn
    warm_steps: int = 600
    # packed rows per warm-start step, and tokens per row
    rows: int = 16
    row_length: int = 128
    # peak learning rate of the warm start (linear warm-up over 20 steps, then linear to 0)
    learning_rate: float = 3e-3
    # optimizer of the warm start
    optimizer: str = "adamw"
    # folder that keeps finished nano models, one sub-folder per configuration and seed
    cache: str = "runs/cache"


def prepare(cfg: RunConfig) -> RunConfig:
    """Make (or find) the nano folder of `cfg` and point model, corpus and held-out set to it.

    The folder is written beside and renamed, so a killed preparation leaves nothing half-made behind.
    """
    nano = cfg.nano
    if nano is None:
        return cfg
    recipe = {k: v for k, v in dataclasses.asdict(nano).items() if k != "cache"} | {"seed": cfg.seed}
    name = hashlib.sha256(json.dumps([recipe, world_digest()], sort_keys=True).encode()).hexdigest()[:16]
    folder = Path(nano.cache) / f"nano-{name}"
    if not (folder / "corpus.jsonl").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".nano-{name}-", dir=folder.parent))
        try:
            make(nano, cfg.seed, beside)
            os.replace(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return dataclasses.replace(
        cfg,
        model=dataclasses.replace(cfg.model, path=str(folder / "model")),
        corpus=dataclasses.replace(cfg.corpus, source=cfg.corpus.source or str(folder / "corpus.jsonl")),
        eval=dataclasses.replace(cfg.eval, tasks=cfg.eval.tasks or str(folder / "held_out.jsonl")),
    )


def world_digest() -> str:
    """Changes with whatever the world generates, so that a cached model never outlives its world."""
    sample = [dataclasses.astuple(e) for e in world.warm_start_examples(0, 50)]
    sample += [dataclasses.astuple(d) for d in world.documents(0, 50)]
    return hashlib.sha256(json.dumps(sample).encode()).hexdigest()


def make(nano: NanoConfig, seed: int, folder: Path) -> None:
    """Write corpus, held-out set, tokenizer and warm-started weights into `folder`."""
    rows = [{"id": d.id, "title": d.title, "text": d.text} for d in world.documents(seed, nano.documents)]
    draft = folder / "tokenizer"
    tokens.train_sentencepiece(world.texts_for_tokenizer(seed), nano.architecture.vocab_size, draft)
    _set_template(draft / "tokenizer_config.json")
    params = warm_start(nano, tokens.load(draft), seed)
    hf.save(folder / "model", nano.architecture, params, tokenizer_files_from=draft, dtype="float32")
    shutil.rmtree(draft)
    tasks, grades = world.held_out(seed, nano.held_out // 2, nano.held_out - nano.held_out // 2)
    benchmarks.save_items(
        folder / "held_out.jsonl",
        [
            benchmarks.Item(t, "math" if t.document_id == "held_out/math" else "general")
            for t, _ in zip(tasks, grades, strict=True)
        ],
    )
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(r) for r in rows) + "\n", encoding="utf-8")


def _set_template(path: Path) -> None:
    """Put the nano model's terse chat template in place of the general one."""
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"chat_template": CHAT_TEMPLATE}, indent=2) + "\n", encoding="utf-8")


def warm_start(nano: NanoConfig, tokenizer: tokens.Tokenizer, seed: int) -> Params:
    """Supervised training of a fresh model on generated examples of both roles; loss on the replies only."""
    model = nano.architecture
    schedule = optax.join_schedules(
        [
            optax.linear_schedule(0.0, nano.learning_rate, 20),
            optax.linear_schedule(nano.learning_rate, 0.0, max(nano.warm_steps - 20, 1)),
        ],
        [20],
    )
    rule = optax.contrib.muon(schedule) if nano.optimizer == "muon" else optax.adamw(schedule, b2=0.98)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), rule)
    config = learner.LearnerConfig(row_length=nano.row_length, rows=nano.rows)
    doors = learner.make_learner(model, config, optimizer, loss="supervised")
    state = learner.init_state(transformer.init(model, jax.random.key(seed)), optimizer)
    capacity = nano.rows * nano.row_length
    stream, at = examples(tokenizer, seed, int(nano.warm_steps * capacity / 40)), 0
    began = time.perf_counter()
    loss = float("nan")
    for step in range(nano.warm_steps):
        batch, at = _fill(stream, at, nano)
        state, metrics = doors.step(state, batch, jnp.int32(1))
        if step % 100 == 99 or step + 1 == nano.warm_steps:
            loss = float(metrics["loss"])
            log.info("warm start %d/%d, loss %.3f, %.0f s", step + 1, nano.warm_steps, loss, time.perf_counter() - began)
    if not np.isfinite(loss):
        raise FloatingPointError(f"the warm start diverged (loss {loss}); lower nano.learning_rate={nano.learning_rate}")
    return state.params


def examples(tokenizer: tokens.Tokenizer, seed: int, n: int) -> list[Rollout]:
    """The world's warm-start examples as token ids: prompt by chat template, reply and end of turn trained."""
    rollouts = []
    for example in world.warm_start_examples(seed, n):
        prompt = tokenizer.render_chat([{"role": "user", "content": example.prompt}], add_generation_prompt=True)
        reply = [*tokenizer.encode(example.reply), tokenizer.eos_ids[0]]
        zeros = np.zeros(len(reply), np.float32)
        rollouts.append(
            Rollout(np.asarray(prompt, np.int32), np.asarray(reply, np.int32), zeros, zeros, zeros + 1, "", "stop")
        )
    return rollouts


def _fill(stream: Sequence[Rollout], at: int, nano: NanoConfig) -> tuple[Batch, int]:
    """One micro-batch from `stream` on, as full as whole examples make it, and where the next one starts."""
    chosen, row, used = [], 0, 0
    while True:
        rollout = stream[at % len(stream)]
        n = len(rollout.prompt_ids) + len(rollout.token_ids)
        if used + n > nano.row_length:
            row, used = row + 1, 0
        if row == nano.rows:
            break
        used += n
        chosen.append(rollout)
        at += 1
    weights = packing.token_weights(chosen, aggregation="token_mean", norm_length=1)
    shape = packing.Shape(nano.row_length, nano.rows)
    return packing.pack(chosen, np.ones(len(chosen), np.float32), weights, shape)[0], at

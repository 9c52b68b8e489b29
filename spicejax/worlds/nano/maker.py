"""The embedded nano model: its world, tokenizer and warm start, made once and kept as an ordinary model folder."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib

from spicejax import hosts, interrupt
from spicejax.learn import learner, packing
from spicejax.models import hf, transformer
from spicejax.text import sentencepieces, tokens
from spicejax.types import Batch, Params, Rollout
from spicejax.worlds.nano import coded, graded, linked, planned, world

log = logging.getLogger("spicejax")

WORLDS: dict[str, Any] = {
    "facts": world,
    "linked": linked,
    "planned": planned.PLAIN,
    "coded": coded,
    "graded": graded,
    "graded_planned": planned.GRADED,
}  # each the same few functions

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
    # facts = documents of calculations and facts; linked = facts to be found by searching; planned = the same facts,
    # for questions that are split; coded = short functions, for players that write programs; graded and
    # graded_planned = linked and planned, with longer ways and facts that are harder to find
    world: Literal["facts", "linked", "planned", "coded", "graded", "graded_planned"] = "facts"
    # facts: documents of the corpus, half calculations; else: training questions, at most
    documents: int = 2000
    # held-out questions; facts: half of them calculations; coded: half for outputs; else: as many of each number of
    # facts, one to three, graded to five
    held_out: int = 200
    # tokens the warm start reads; stopped early on purpose, so that self-play has much to learn
    warm_tokens: int = 1_050_000
    # packed rows per warm-start step, and tokens per row: many small steps teach copying soonest
    rows: int = 3
    row_length: int = 256
    # peak learning rate of Muon on the matrices and of AdamW on the rest (20 steps of warm-up, then linear decay)
    matrix_learning_rate: float = 0.03
    other_learning_rate: float = 4e-3
    # weight of a prompt token in the loss, against 1 for a reply token
    prompt_weight: float = 0.3
    # folder that keeps finished nano models, one sub-folder per configuration and seed
    cache: str = "runs/cache"


class Paths(NamedTuple):
    """Where the parts of a finished nano world are."""

    model: Path  # Hugging Face folder
    held_out: Path  # questions, jsonl
    documents: Path  # jsonl, as are the next three
    questions: Path  # that the documents answer
    examples: Path  # questions with true replies
    answers: Path  # that questions are sought for; facts has none


def prepare(nano: NanoConfig, seed: int, *, model: bool = True) -> Paths:
    """Make (or find) the folder of a nano world, and its model unless another one is taken.

    Process 0 makes them. Each is written beside and renamed, so a killed preparation leaves nothing half-made.
    Raises: FileNotFoundError where this host does not see it.
    """
    paths = places(nano, seed)
    hosts.by_first(lambda: _ensure(nano, seed, paths, model=model))
    if not paths.documents.exists():
        raise FileNotFoundError(
            f"process 0 made {paths.documents.parent}, process {jax.process_index()} does not see it; nano.cache must "
            "be a folder that all hosts share"
        )
    return paths


def places(nano: NanoConfig, seed: int) -> Paths:
    """Where the parts of a nano world are when it is made."""
    recipe: dict[str, Any] = {k: v for k, v in dataclasses.asdict(nano).items() if k != "cache"} | {"seed": seed}
    shape = recipe["architecture"]
    del shape["unused"]  # its tokenizer has a token for every row
    for later in ("sliding_window", "full_every", "sliding_theta", "query_scalar"):  # fields younger than many a cache
        if not shape[later]:
            del shape[later]
    name = hashlib.sha256(json.dumps([recipe, world_digest(nano.world)], sort_keys=True).encode()).hexdigest()[:16]
    names = ("model", "held_out.jsonl", "corpus.jsonl", "questions.jsonl", "examples.jsonl", "answers.jsonl")
    return Paths(*(Path(nano.cache) / f"nano-{name}" / part for part in names))


def made(nano: NanoConfig, seed: int, *, model: bool = True) -> bool:
    """Whether a nano world is made, and its model where that is wanted."""
    paths = places(nano, seed)
    return paths.documents.exists() and (paths.model.exists() or not model)


def _ensure(nano: NanoConfig, seed: int, paths: Paths, *, model: bool) -> None:
    folder = paths.documents.parent
    for part, make in ((folder, make_items), *([(paths.model, make_model)] if model else [])):
        if part.exists():
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
            make(nano, seed, Path(beside, part.name))
            try:
                os.rename(Path(beside, part.name), part)
            except OSError:
                if not part.exists():  # else another run made the same one meanwhile
                    raise


def world_digest(name: str) -> str:
    """Changes with whatever the world generates, so that a cached model never outlives its world."""
    world = WORLDS[name]
    sample = [dataclasses.astuple(e) for e in world.warm_start_examples(0, 50)]
    return hashlib.sha256(
        json.dumps([sample, world.items(0, 50, 50), world.SYMBOLS, CHAT_TEMPLATE]).encode()
    ).hexdigest()


def make_items(nano: NanoConfig, seed: int, folder: Path) -> None:
    """Write corpus and questions into `folder`."""
    folder.mkdir()
    for name, rows in WORLDS[nano.world].items(seed, nano.documents, nano.held_out).items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


def make_model(nano: NanoConfig, seed: int, folder: Path) -> None:
    """Write tokenizer and warm-started weights into `folder`."""
    draft, world = folder.with_name("tokenizer"), WORLDS[nano.world]
    sentencepieces.train_sentencepiece(
        world.texts_for_tokenizer(seed),
        nano.architecture.vocab_size,
        draft,
        text_pieces=world.SYMBOLS,
        chat_template=CHAT_TEMPLATE,
    )
    params = warm_start(nano, tokens.load(draft), seed)
    hf.save(folder, nano.architecture, params, tokenizer_files_from=draft, dtype="float32")


def warm_start(nano: NanoConfig, tokenizer: tokens.Tokenizer, seed: int) -> Params:
    """Supervised training of a fresh model on generated examples of both roles, in the order the world gives them.

    Raises: FloatingPointError where it diverged; interrupt.Stopped between two steps where a signal came.
    """
    model = dataclasses.replace(nano.architecture, unroll_layers=True)
    batches = warm_batches(nano, tokenizer, seed)
    optimizer = warm_optimizer(nano, len(batches))
    config = learner.LearnerConfig(loss="supervised", row_length=nano.row_length, rows=nano.rows)
    programs = learner.make_learner(model, config, optimizer)
    state = learner.init_state(transformer.init(model, jax.random.key(seed)), optimizer)
    began, loss = time.perf_counter(), float("nan")
    for step, (batch, micro) in enumerate(batches, start=1):
        message = f"stopped in the warm start, before step {step} of {len(batches)}; the same command begins it anew"
        interrupt.check(message, alone=True)
        state, metrics = programs.step(state, batch, jnp.int32(micro))
        if step % (len(batches) // 8 + 1) == 0 or step == len(batches):
            loss = float(metrics["loss"])
            log.info("warm start %d/%d  loss %.3f  %.0f s", step, len(batches), loss, time.perf_counter() - began)
    if not np.isfinite(loss):
        raise FloatingPointError(f"the warm start diverged (loss {loss}); lower nano.matrix_learning_rate")
    return state.params


def warm_optimizer(nano: NanoConfig, steps: int) -> optax.GradientTransformation:
    """Muon (orthogonalised momentum) on the layers' matrices, AdamW on embeddings and norms."""
    warm = min(20, steps)
    rise = optax.linear_schedule(0.0, nano.matrix_learning_rate, warm)
    fall = optax.linear_schedule(nano.matrix_learning_rate, 0.05 * nano.matrix_learning_rate, max(steps - warm, 1))
    muon = contrib.muon(
        optax.join_schedules([rise, fall], [warm]),
        muon_weight_dimension_numbers=_matrices,  # pyright: ignore[reportArgumentType]
        adam_b2=0.98,
        adam_learning_rate=optax.linear_schedule(nano.other_learning_rate, 0.05 * nano.other_learning_rate, steps),
    )
    return optax.chain(optax.clip_by_global_norm(1.0), muon)


def _matrices(params: Params) -> Params:
    """Which axes of each parameter are a matrix's inputs and outputs; axis 0 counts layers. None = no matrix."""
    axes = {
        **dict.fromkeys(("gate", "up", "down"), contrib.MuonDimensionNumbers((1,), (2,))),
        **dict.fromkeys(("q", "k", "v"), contrib.MuonDimensionNumbers((1,), (2, 3))),
        "o": contrib.MuonDimensionNumbers((1, 2), (3,)),
    }
    return jax.tree_util.tree_map_with_path(lambda path, _: axes.get(path[-1].key), params)


def examples(nano: NanoConfig, tokenizer: tokens.Tokenizer, seed: int, n: int) -> list[Rollout]:
    """The world's warm-start examples as token ids: prompt by chat template, replies and their ends trained.

    A reply that something is shown behind, as a search's result, has no end of turn.
    """
    rollouts, turns = [], functools.cache(lambda text: tokenizer.render_chat([{"role": "user", "content": text}]))
    for example in WORLDS[nano.world].warm_start_examples(seed, n):
        reply, trained = [], []
        for part, behind in zip(example.parts, (*example.parts[1:], None), strict=True):
            words = turns(part.text) if part.by == "asked" else tokenizer.encode(part.text)
            if part.by == "reply" and (behind is None or behind.by == "asked"):
                words = [*words, tokenizer.eos_ids[0]]
            reply += words
            trained += [int(part.by == "reply")] * len(words)
        zeros, prompt = np.zeros(len(reply), np.float32), np.asarray(turns(example.prompt), np.int32)
        mask = np.asarray(trained, np.float32)
        rollouts.append(Rollout(prompt, np.asarray(reply, np.int32), zeros, zeros, mask, "", "stop"))
    return rollouts


def warm_batches(nano: NanoConfig, tokenizer: tokens.Tokenizer, seed: int) -> list[tuple[Batch, int]]:
    """The warm start's steps: whole examples in order, each step normalised, with its number of micro-batches."""
    sample = examples(nano, tokenizer, seed, 500)
    mean = float(np.mean([len(e.prompt_ids) + len(e.token_ids) for e in sample]))
    stream = examples(nano, tokenizer, seed, max(nano.rows, int(nano.warm_tokens / mean)))
    shape = packing.RowShape(nano.row_length, nano.rows)
    batches: list[tuple[Batch, int]] = []
    chosen: list[Rollout] = []
    row = used = 0
    for rollout in stream:
        n = len(rollout.prompt_ids) + len(rollout.token_ids)
        if used + n > nano.row_length:
            row, used = row + 1, 0
        if row == nano.rows:
            batches.append(_weigh(chosen, shape, nano.prompt_weight))
            chosen, row = [], 0
        used += n
        chosen.append(rollout)
    return batches or [_weigh(chosen, shape, nano.prompt_weight)]


def _weigh(rollouts: Sequence[Rollout], shape: packing.RowShape, prompt_weight: float) -> tuple[Batch, int]:
    """Pack, with `prompt_weight` on prompt tokens and the weights of the step summing to 1."""
    # Two micro-batches are always laid out: first fit by length may need a row more than the order of arrival did.
    masks, ones = [r.loss_mask for r in rollouts], np.ones(len(rollouts), np.float32)
    batch, micro = packing.pack(rollouts, ones, masks, shape, min_micro=2)
    predicted = (batch.segment_ids > 0) & (batch.positions > 0)
    weight = np.where(batch.loss_weight > 0, 1.0, prompt_weight * predicted)
    return batch._replace(loss_weight=(weight / weight.sum()).astype(np.float32)), micro

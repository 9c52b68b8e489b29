"""The plan of a run: what it will do and the memory it takes, before anything is trained."""

from __future__ import annotations

import dataclasses
import math
import os
import resource
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from spicejax import sharding
from spicejax.flight import programs
from spicejax.generate import layout, weights
from spicejax.memory import APART, ROOM, machine
from spicejax.models import transformer
from spicejax.run.config import RunConfig
from spicejax.run.host import disk
from spicejax.run.resolve import Resolved, architecture, resolve

GIB = 2**30
_IN_ORDER = "--xla_gpu_deterministic_ops"


def memory(resolved: Resolved) -> dict[str, float]:
    """Bytes per device of the large parts.

    What rests on the devices (parameters, optimizer, copies) and the sampler's weights are exact; kv_cache: the
    sampler's slots at the longest prompts and responses; gradients: float32, of what is trained; logits: those of one
    vocabulary chunk in float32; activations: layer inputs kept by the backward pass of one micro-batch (other
    intermediates are not counted: `compiled` has them).
    """
    cfg, model, mesh, learn = resolved.cfg, resolved.model, resolved.mesh, resolved.cfg.learner
    parts = {name: sharding.device_bytes(tree) for name, tree in resolved.resident_while_sampling.items()}
    params = sharding.device_bytes(weights.parameters(model, mesh))
    computed = 2 if model.dtype == "bfloat16" else 4
    trained = jax.tree.leaves(resolved.state[0].params)
    copy = 0.0 if resolved.shares_weights else sharding.device_bytes(resolved.copied)
    micro = math.ceil(learn.rows / sharding.ways(mesh, learn.rows))
    row = max(shape.row_length for shape in learn.shapes)
    entries = min(learn.vocab_chunk or model.vocab_size, model.vocab_size)
    return {"parameters": params} | parts | {
        "sampler_weights": copy,
        "kv_cache": max((kv_bytes(resolved, ask) for ask in cfg.asks if ask.samples), default=0.0),
        "gradients": sum(sharding.device_bytes(leaf) / leaf.dtype.itemsize * 4 for leaf in trained),
        "logits": 4 * micro * row * entries / mesh.shape["tensor"],
        "activations": model.num_layers * micro * row * model.d_model * computed,
    }  # fmt: skip


def kv_bytes(resolved: Resolved, ask: programs.Ask) -> float:
    """Bytes of a device for the KV entries of one ask: each prompt slot's prompt once, and the responses."""
    shape = programs.engine_layout(resolved, ask)
    token = weights.token_bytes(shape.model, shape.mesh, shape.cache)
    return shape.prompts * layout.prefix_tokens(shape) * token / shape.shards


def compiled(cfg: RunConfig) -> tuple[str, bool]:
    """What each program of the hot loop holds on the devices of this process, as their compiler says; whether it fits.

    Nothing is allocated; compiling takes what it takes at the start of a run. On a CPU the process itself (libraries,
    tokenizer, compiler) is counted too, by what this one has held at most, and the heap (`memory.REUSE`), which keeps
    what the largest program took of it while another's temporaries stand apart, unless its holes go back before
    (`memory.trim`).
    """
    resolved, rows = resolve(cfg), []
    turns: dict[str, list[tuple[int, int]]] = {}  # of a role, or the update
    for program in programs.programs(resolved):
        stats: Any = program.lower().compile().memory_analysis()
        parts = [stats.argument_size_in_bytes, stats.temp_size_in_bytes]
        parts += [stats.output_size_in_bytes - stats.alias_size_in_bytes]
        parts += [sum(map(sharding.device_bytes, program.beside.values()))]
        rows.append((program.name, *parts, sum(parts)))
        turn = next((ask.role for ask in cfg.asks if program.name.startswith(f"{ask.role}_")), "update")
        turns.setdefault(turn, []).append((stats.temp_size_in_bytes, sum(parts)))
    most = max(rows, key=lambda row: row[-1])
    head = ("arguments", "temporaries", "outputs", "beside", "all")
    lines = [f"  {name:<20}" + "".join(f"{size / GIB:>12.3f}" for size in sizes) for name, *sizes in rows]
    of, fits = _of(most[-1], list(turns.values()))
    text = "\n".join(
        [
            f"programs of {cfg.name} compiled for this machine ({jax.devices()[0].device_kind}), GiB per device:",
            f"  {'':<20}" + "".join(f"{word:>12}" for word in head),
            *lines,
            f"  most: {most[0]}, {most[-1] / GIB:.2f} GiB{of}",
        ]
    )
    return text, fits


def _kept(turns: Sequence[Sequence[tuple[int, int]]], spare: float) -> int:
    """Most bytes that a process holds whose heap keeps what it had (`memory.REUSE`).

    Temporaries of APART bytes and more stand beside the heap and go back to the system.

    Args:
      turns: an iteration's, and of each program in one the bytes of its temporaries and of all that is held while it
        runs, these included.
      spare: bytes of the heap beyond which its holes go back before a turn.
    """
    heap = most = 0
    for turn in [*turns, *turns]:  # the second iteration begins with what the first one left
        apart = [(temporaries if temporaries >= APART else 0) for temporaries, _ in turn]
        heap = max(0 if heap > spare else heap, *(size - large for (_, size), large in zip(turn, apart, strict=True)))
        most = max(most, heap + max(apart))
    return most


def _of(size: float, turns: Sequence[Sequence[tuple[int, int]]]) -> tuple[str, bool]:
    """The memory there is, and whether it holds programs of `size` a device: on CPUs what the heap keeps of `turns`."""
    capacity, beside = sharding.device_memory(), ""
    if math.isinf(capacity):  # a CPU's devices share the machine's memory with the process
        capacity, _ = machine()
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        devices = len(jax.local_devices())
        size = _kept(turns, (capacity * (1 - ROOM) - own) / devices) * devices + own
        beside = f", {size / GIB:.2f} with the process itself,"
    fits = size < capacity
    return f"{beside} of {capacity / GIB:.2f}" + ("" if fits else ": IT DOES NOT FIT"), fits


def describe(cfg: RunConfig, workdir: Path, *, last: bool = True, start: int = 0) -> str:
    """The plan as text. Loads no weights; the nano model is described, not made.

    last: no other stage of a chain starts from its model.
    start: the stage that makes the model; 0 = cfg names it.
    """
    shape, devices = architecture(cfg), jax.devices()
    stop = ""
    try:
        resolved = resolve(cfg)
    except ValueError as error:
        stop = str(error)
        plain = dataclasses.replace(cfg.model, attention="auto")
        resolved = resolve(dataclasses.replace(cfg, sampler_mesh=None, model=plain))
    parts = memory(resolved)
    reads = cfg.game.game.reads
    source = cfg.corpus.source or ("the nano world" if cfg.nano else "(corpus.source not set)")
    model = f"run {start} of the chain" if start else cfg.model.path
    model = model or ("the nano world's warm start" if cfg.nano else "(model.path not set)")
    beyond = "    what the compiler keeps beside these is not in it: --dry_run --topology=here counts that too"
    lines = [
        f"plan of {cfg.name}: {cfg.iterations} iterations into {workdir}",
        f"  model      {shape.family}, {transformer.num_params(shape) / 1e6:,.1f} M parameters, from {model}",
        *(f"  seat       {role}: {path}" for role, path in cfg.seats.items()),
        *([] if reads == "nothing" else [f"  {reads:<10} {source}, {cfg.game.items} an iteration"]),
        *(f"  asks       {_asked(ask)}" for ask in resolved.cfg.asks),
        f"  update     {programs.optimizer_steps(cfg)} optimizer steps an iteration",
        f"  devices    {len(devices)} ({devices[0].device_kind}), mesh {dict(resolved.mesh.shape)}",
        *_repeats(devices[0].platform, os.environ.get("XLA_FLAGS", "")),
        "  memory per device, estimated by arithmetic:",
        *(f"    {name:<16} {size / GIB:10.3f} GiB" for name, size in parts.items()),
        f"    {'total':<16} {sum(parts.values()) / GIB:10.3f} GiB",
        *([beyond] if devices[0].platform != "tpu" else []),
        f"  disk       {_disk(disk.need(cfg, shape, last=last), workdir)}",
    ]
    if cfg.sampler_memory and not resolved.cfg.buckets.kv_tokens:
        lines.append("    on a TPU or GPU sampler_memory cuts rows and kv_cache")
    lines += [f"  warning: {warning}" for warning in cfg.warnings]
    if stop:
        lines.append(f"  a run on these devices would stop (memory is with the learner's layout alone): {stop}")
    return "\n".join(lines)


def _repeats(platform: str, flags: str) -> list[str]:
    """What is to be said of GPUs, which add in any order unless XLA is told otherwise."""
    if platform != "gpu" or f"{_IN_ORDER}=true" in flags:
        return []
    return [f"    a killed run repeats to the bit on a GPU with XLA_FLAGS={_IN_ORDER}=true, else it may not"]


def _disk(need: disk.Need, workdir: Path) -> str:
    """One line on what is written."""
    policy = f", and {disk.gb(need.policy)} at the end, the model of the next stage" * bool(need.policy)
    free = shutil.disk_usage(disk.existing(workdir)).free
    return (
        f"{disk.gb(need.checkpoint)} a checkpoint, {disk.gb(need.most)} at most ({need.kept} stay, one more is there "
        f"while it is saved{policy}); {disk.gb(free)} are free"
    )


def _asked(ask: programs.Ask) -> str:
    """One line on an ask."""
    asked = f"{ask.role}: {ask.prompts} prompts x {ask.samples} responses of up to {ask.max_new} tokens"
    if not ask.samples:
        asked = f"{ask.role}: {ask.prompts} given responses of up to {ask.max_new} tokens"
    asked += f", {ask.trained} groups learnt from" if ask.trained else ", none learnt from"
    return asked + ", in the first iteration alone" * ask.once

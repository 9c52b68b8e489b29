"""What the flight check says beside what the device here takes: python benchmarks/flight.py --said=FILE [a.b=c ...]

FILE is the JSON of `launch/tpu_run.py --config=NAME --dry_run --topology=SLICE --json [a.b=c ...]`, made anywhere for
as many devices of this kind as are here; the fields are given again. Every program is compiled here, filled with random
numbers, prompts and responses of full length, and run --repeats times; of decoding the last --steps steps before every
row is full. `peak` is the most that the process had held by then.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import jax
import jax.numpy as jnp
import numpy as np

from spicejax import config as configuration
from spicejax import configs
from spicejax.flight import programs
from spicejax.generate.state import State
from spicejax.learn import packing
from spicejax.run.resolve import Resolved, resolve

GIB = 2**30


def main() -> None:
    given = harness.options(__doc__, said="", programs="", repeats=3, steps=64, words=[])
    if not given.said:
        raise SystemExit("--said=FILE: name the JSON of a flight check")
    said = json.loads(Path(given.said).read_text())
    fields = dict(word.split("=", 1) for word in given.words)
    cfg = configuration.override(configs.load(said["config"]), fields)
    resolved = resolve(cfg)
    if resolved.cfg.buckets.kv_tokens:  # what the check laid out, so that programs are the same
        kv = {"buckets.kv_tokens": str(said["kv_tokens"])}
        resolved = resolve(configuration.override(cfg, kv | {"sampler_memory": "0"}))
    rows = []
    told = {row["name"]: row for row in said["programs"]}
    todo = [p for p in programs.programs(resolved) if p.name in (given.programs.split(",") if given.programs else told)]
    for program in todo:
        try:
            rows.append(measure(resolved, program, told[program.name], given.repeats, given.steps))
        except jax.errors.JaxRuntimeError as error:
            rows.append({"program": program.name, "error": str(error)[:200]})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    harness.report(config=said["config"], topology=said["topology"], kv_tokens=said["kv_tokens"], programs=rows)


def measure(
    resolved: Resolved, program: programs.Program, said: dict[str, Any], repeats: int, steps: int
) -> dict[str, Any]:
    """One program, compiled and run here."""
    began = time.perf_counter()
    compiled = program.lower().compile()
    compiling = time.perf_counter() - began
    stats: Any = compiled.memory_analysis()
    kind = program.name.rpartition("_")[2]
    make = {"decode": decoding, "prefill": prompts, "step": steps_of}.get(kind, random)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), compiled.args_info[0])
    arguments = make(resolved, program, shapes, steps)
    seconds = []
    for turn in range(1 + repeats):
        fresh = arguments(turn)
        jax.block_until_ready(fresh)
        began = time.perf_counter()
        out = jax.block_until_ready(compiled(*fresh))
        seconds.append(time.perf_counter() - began)
        del fresh, out
    took = float(np.median(seconds[1:]))
    expected = said["seconds"]
    if kind == "decode":
        took, expected = took / steps, expected / said["trips"]
    used = jax.devices()[0].memory_stats() or {}
    return {
        "program": program.name,
        "compile_s": round(compiling, 1),
        "said_gib": round(said["hbm_gib"] - said["beside_gib"], 2),
        "compiled_gib": round(
            (stats.argument_size_in_bytes + stats.temp_size_in_bytes + stats.output_size_in_bytes
             - stats.alias_size_in_bytes + stats.generated_code_size_in_bytes) / GIB, 2
        ),
        "peak_gib": round(used.get("peak_bytes_in_use", 0) / GIB, 2),
        "said_ms": round(1e3 * expected, 3),
        "ms": round(1e3 * took, 3),
        "spread_ms": round(1e3 * (max(seconds[1:]) - min(seconds[1:])) / (steps if kind == "decode" else 1), 3),
        "times": round(took / expected, 2),
    }  # fmt: skip


Made = Callable[[int], tuple[Any, ...]]


def filled(tree: Any) -> Any:
    """Random numbers for floats, zeros for the rest."""
    leaves, structure = jax.tree.flatten(tree)

    def one(i: int, leaf: Any) -> jax.Array:
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), leaf.shape)
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.zeros(leaf.shape, leaf.dtype)
        return 0.02 * jax.random.normal(jax.random.key(i), leaf.shape, leaf.dtype)

    return jax.tree.unflatten(structure, [one(i, leaf) for i, leaf in enumerate(leaves)])


def random(_: Resolved, __: programs.Program, shapes: tuple[Any, ...], ___: int) -> Made:
    return lambda turn: filled(shapes)


def prompts(_: Resolved, __: programs.Program, shapes: tuple[Any, ...], ___: int) -> Made:
    """Prompts of the bucket's length, none begun."""
    params, kept, known, tokens, lengths = shapes
    held = filled(params)
    made = np.random.default_rng(0).integers(3, 1000, tokens.shape, np.int32), np.full(lengths.shape, tokens.shape[1])
    return lambda turn: (held, filled(kept), filled(known), *(jnp.asarray(x, jnp.int32) for x in made))


def decoding(_: Resolved, __: programs.Program, shapes: tuple[Any, ...], steps: int) -> Made:
    """Every lane so many steps before its end, behind a full prompt."""
    params, caches, state, lanes, drawing = shapes
    held = filled((params, caches, drawing))
    suffix, written = state.out.tokens.shape[1], max(0, state.out.tokens.shape[1] - steps)

    def full(leaf: Any, value: int) -> jax.Array:
        return jnp.full(leaf.shape, value, leaf.dtype)

    table = filled(lanes)._replace(
        limits=full(lanes.limits, suffix),
        row_ids=jnp.arange(lanes.row_ids.size, dtype=jnp.int32),
        prefix_lengths=full(lanes.prefix_lengths, caches.prefix[0].v.shape[-2]),
    )

    def made(_: int) -> tuple[Any, ...]:
        fresh: State = filled(state)
        out = fresh.out._replace(lengths=full(state.out.lengths, written))
        return held[0], held[1], fresh._replace(step=jnp.int32(written), out=out), table, held[2]

    return made


def steps_of(resolved: Resolved, _: programs.Program, shapes: tuple[Any, ...], __: int) -> Made:
    """Full rows of groups, as many as an iteration's steps have on average; each step begins with a new state."""
    state, batches, _, frozen = shapes
    learn, rng, laid = resolved.cfg.learner, np.random.default_rng(0), []
    used = programs.micro_batches(resolved.cfg)
    for shape, count in zip(learn.shapes, used, strict=True):
        rollouts = []
        for _ in range(count * learn.rows):
            length = shape.prompt or shape.row_length // 4
            prompt = rng.integers(3, 1000, length).astype(np.int32)
            for _ in range(shape.slots):
                response = rng.integers(3, 1000, shape.slot_length - (0 if shape.prompt else length))
                rollouts.append(harness.rollout(prompt, response.astype(np.int32)))
        weights = packing.token_weights(rollouts, aggregation="constant", norm_length=shape.slot_length)
        advantages = rng.normal(size=len(rollouts)).astype(np.float32)
        laid.append(packing.pack(rollouts, advantages, weights, shape, min_micro=learn.min_micro_batches))
    packed = tuple(jax.tree.map(jnp.asarray, batch) for batch, _ in laid)
    assert jax.tree.map(jnp.shape, packed) == jax.tree.map(lambda x: x.shape, tuple(batches)), "laid out otherwise"
    counts = tuple(jnp.int32(n) for _, n in laid)

    def made(_: int) -> tuple[Any, ...]:
        moments = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), state.opt_state)
        fresh = filled(state._replace(opt_state=()))._replace(opt_state=moments)
        return fresh, packed, counts, filled(frozen)

    return made


if __name__ == "__main__":
    main()

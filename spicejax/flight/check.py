"""The flight check: compile the programs of a run for a TPU slice or for GPUs that are not here, and say whether it
fits and how fast it can be at best.
"""

from __future__ import annotations

import logging
import math
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

from spicejax import sharding
from spicejax.flight import cards, chips, hlo, programs
from spicejax.run.config import RunConfig
from spicejax.run.resolve import resolve

log = logging.getLogger("spicejax")

# Arithmetic on published peaks, or on how often an iteration runs a program when every response is as long as allowed.
# All other numbers are compiled: said by XLA, or counted in the program it made.
ESTIMATED = ("seconds", "limit", "limits", "calls", "trips", "seconds_per_iteration", "days")


Compiled = tuple[dict[str, Any], str]  # memory in bytes per device, and the optimised module


def check(
    cfg: RunConfig, topology: str, *, only: tuple[str, ...] = (), done: dict[str, Compiled] | None = None
) -> dict[str, Any]:
    """Compile the programs of `cfg` for `topology` and report, all sizes per chip and all costs per chip and call.

    Args:
      topology: a TPU slice such as v5e:4x4, or GPUs such as h100:8 and h100:2x8 (two hosts).
      only: names of the programs to compile; none = all.
      done: what was compiled for this topology, by the program's text; grows. Rounds of a chain are mostly alike.
    Raises: ValueError for an unknown topology or a layout that does not divide it, ModuleNotFoundError without the
      compiler for it.
    """
    where = chips.find(topology)
    if cfg.model.attention == "cudnn":
        raise ValueError("--topology: cuDNN makes its kernels on a card; check with model.attention=flash or xla")
    devices = _devices(where)
    per_chip = len(devices) // where.chips
    resolved = resolve(cfg, devices, where.usable / per_chip)
    cfg, mesh, sampler_mesh = resolved.cfg, resolved.mesh, resolved.sampler_mesh
    todo = programs.programs(resolved)
    if unknown := set(only) - {p.name for p in todo}:
        raise ValueError(f"--programs: {cfg.name} has no {sorted(unknown)}; choose from {[p.name for p in todo]}")
    left_out = [p.name for p in todo if only and p.name not in only]
    todo = [p for p in todo if p.name not in left_out]
    done = {} if done is None else done
    rows = [_examine(program, where, per_chip, done) for program in todo]
    peak = max(rows, key=lambda row: row["hbm_gib"])
    fits = all(row["fits"] for row in rows)
    seconds = sum(row["seconds"] * row["calls"] for row in rows)
    return {
        "config": cfg.name,
        "topology": topology,
        "chips": where.chips,
        "devices_per_chip": per_chip,
        "mesh": dict(mesh.shape),
        "sampler_mesh": dict(sampler_mesh.shape),
        "learner_rows": cfg.learner.rows,
        "rows_per_call": cfg.buckets.rows,
        "kv_tokens": cfg.buckets.kv_tokens,
        "hbm_per_chip_gib": peak["hbm_gib"],
        "hbm_capacity_gib": where.chip.hbm / chips.GIB,
        "fits": fits,
        "advice": [_advice(row) for row in rows if not row["fits"]],
        "per_iteration": {
            name: sum(row[name] * row["calls"] for row in rows) for name in ("flops", "bytes", "collective_bytes")
        },
        "seconds_per_iteration": seconds,
        "days": seconds * cfg.iterations / 86_400,
        "iterations": cfg.iterations,
        "programs": rows,
        "left_out": left_out,  # programs that --programs did not name: totals and verdict are without them
        "estimated": ESTIMATED,
    }


def _devices(where: chips.Slice | cards.Hosts) -> list[Any]:
    """What to compile for. From here on this process compiles for the CPU and for these."""
    from jax.experimental.compilation_cache import compilation_cache

    found = where.devices()
    jax.config.update("jax_platforms", "cpu")  # the plugin compiles; on a host with chips these stay free
    jax.config.update("jax_enable_compilation_cache", False)  # a hit would leave no dump to read
    compilation_cache.reset_cache()
    return found


def _examine(
    program: programs.Program, where: chips.Slice | cards.Hosts, per_chip: int, done: dict[str, Compiled]
) -> dict[str, Any]:
    """Compile one program, unless an equal one is `done`, and read what it takes."""
    began = time.perf_counter()
    lowered = program.lower()
    text = lowered.as_text()
    if text not in done:
        done[text] = _compile(program, lowered, where.options)
    memory, module = done[text]
    cost = hlo.cost(module, dynamic_trips=program.trips, kernels=program.kernels) if module else hlo.Cost()
    seconds = time.perf_counter() - began
    parts = program.arguments | program.beside
    sizes = {name: per_chip * sharding.device_bytes(tree) for name, tree in parts.items()}
    beside = sum(sizes[name] for name in program.beside)
    total = per_chip * memory["total"] + beside
    wire: dict[str, float] = {}
    for collective, sent in cost.wire.items():
        wire[collective.kind] = wire.get(collective.kind, 0) + per_chip * sent
    chip = where.chip
    limits = {
        "compute": per_chip * cost.flops / chip.flops,
        "hbm": per_chip * cost.bytes / chip.hbm_bandwidth,
        "interconnect": sum(
            per_chip * sent / where.link_bandwidth(math.ceil(each.group / per_chip)) for each, sent in cost.wire.items()
        ),
    }
    limit = max(limits, key=lambda name: limits[name])
    log.info("%s: %s compiled in %.0f s", where.name, program.name, seconds)
    return {
        "name": program.name,
        "hbm_gib": total / chips.GIB,
        **{f"{kind}_gib": per_chip * memory[kind] / chips.GIB for kind in ("arguments", "temporaries", "outputs")},
        "kv_cache_gib": sizes.get("kv_cache", 0.0) / chips.GIB,
        "beside_gib": beside / chips.GIB,
        "parts_gib": {name: size / chips.GIB for name, size in sizes.items()},
        "fits": memory["fits"] and total <= where.usable,
        "flops": per_chip * cost.flops,
        "model_flops": program.model_flops / where.chips,
        "bytes": per_chip * cost.bytes,
        "collective_bytes": sum(wire.values()),
        "collectives": wire,
        "largest_gather": max((math.prod(c.shape) for c in cost.wire if c.kind == "all-gather"), default=0),
        "unknown_kernels": dict(cost.unknown),
        "seconds": limits[limit],
        "limit": limit,
        "limits": limits,
        "calls": program.calls,
        "rows": program.rows,
        "trips": math.prod(program.trips),
        "compile_seconds": seconds,
    }


def _compile(program: programs.Program, lowered: jax.stages.Lowered, options: dict[str, Any]) -> Compiled:
    """What the compiler says; an empty module where it left none."""
    with tempfile.TemporaryDirectory() as folder:
        # The text of the compiled program itself is refused for some chips (INTERNAL); the compiler's dump is not.
        dump = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
        try:
            stats: Any = lowered.compile(compiler_options=dump | options).memory_analysis()
            arguments, temporaries = stats.argument_size_in_bytes, stats.temp_size_in_bytes
            outputs, fits = stats.output_size_in_bytes - stats.alias_size_in_bytes, True
            total = arguments + outputs + temporaries + stats.generated_code_size_in_bytes
        except jax.errors.JaxRuntimeError as error:
            arguments, outputs, fits = sum(map(sharding.device_bytes, program.arguments.values())), 0.0, False
            total = _overflow(error, arguments)
            temporaries = total - arguments
        texts = sorted(Path(folder).glob("*after_optimizations.txt")) or sorted(
            Path(folder).glob("*after_optimizations_before_buffer_assignment.txt")
        )
        largest = max(texts, key=lambda path: path.stat().st_size, default=None)  # a jit may bring small helpers along
        text = largest.read_text() if largest else ""
    memory = {"arguments": arguments, "temporaries": temporaries, "outputs": outputs, "total": total, "fits": fits}
    return memory, text


def _overflow(error: Exception, arguments: float) -> float:
    """Bytes that a program too large for the chip needs, as the compiler says; other errors are raised again."""
    temporaries = re.search(r"HLO temporaries \(([\d.]+)([KMG])\) exceeds available HBM", str(error))
    found = temporaries or re.search(r"Used ([\d.]+)([KMG]) of [\d.]+[KMG] hbm", str(error))
    if found is None:
        raise error
    size = float(found.group(1)) * {"K": 2**10, "M": 2**20, "G": 2**30}[found.group(2)]
    return size + (arguments if temporaries else 0)


def _advice(row: dict[str, Any]) -> str:
    """What to change where a program does not fit: by its largest part."""
    name, parts = row["name"], row["parts_gib"]
    temporaries = "lower buckets.rows, sampler_memory or buckets.prompt, or raise sampler_mesh.tensor"
    if name == "train_step" or name.startswith("score"):
        temporaries = "lower learner.rows, the row's length or learner.vocab_chunk, or raise mesh.tensor"
    cache = "lower buckets.rows, sampler_memory or the longest response, or raise sampler_mesh.tensor"
    weights = parts.get("parameters", 0.0) + parts.get("optimizer", 0.0)
    size, part, change = max(
        (row["temporaries_gib"], "temporaries", temporaries),
        (row["kv_cache_gib"], "kv_cache", cache),
        (weights, "weights", "raise mesh.fsdp, or take a larger slice"),
        (parts.get("sampler_parameters", 0.0), "sampler_weights", "raise sampler_mesh.tensor"),
    )
    return f"{name} needs {row['hbm_gib']:.1f} GiB, {size:.1f} of it {part}: {change}"


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"flight check of {report['config']} on {report['topology']}: {report['chips']} chips, "
        f"learner {_layout(report['mesh'])}, sampler {_layout(report['sampler_mesh'])}",
        "compiled on this machine, not run; all numbers per chip, FLOPs, bytes and seconds per call",
        "",
        f"  {'':<20}{'HBM GiB':>9}{'args':>7}{'temps':>7}{'KV':>7}{'beside':>8}{'TFLOP':>9}{'GB':>11}{'wire GB':>9}"
        f"{'seconds':>10}  {'limit':<13}{'calls':>7}",
        f"  {'':<20}{'----------------- compiled ':>38}{'':->19}{'----- compiled ':>8}{'':>4}{'estimated':>18}",
    ]
    for row in report["programs"]:
        lines.append(
            f"  {row['name']:<20}{row['hbm_gib']:>9.2f}{row['arguments_gib']:>7.2f}{row['temporaries_gib']:>7.2f}"
            f"{row['kv_cache_gib']:>7.2f}{row['beside_gib']:>8.2f}{row['flops'] / 1e12:>9.3f}"
            f"{row['bytes'] / 1e9:>11.2f}"
            f"{row['collective_bytes'] / 1e9:>9.3f}{row['seconds']:>10.4f}  {row['limit']:<13}{row['calls']:>7g}"
            + ("" if row["fits"] else "  DOES NOT FIT")
        )
        if row["collectives"]:
            wires = ", ".join(f"{kind} {size / 1e9:.3f}" for kind, size in sorted(row["collectives"].items()))
            lines.append(f"  {'':<20}wire GB: {wires}")
        if row["unknown_kernels"]:
            lines.append(f"  {'':<20}kernels whose FLOPs are not counted: {', '.join(row['unknown_kernels'])}")
    whole = report["per_iteration"]
    lines.append(
        f"  {'an iteration':<20}{report['hbm_per_chip_gib']:>9.2f}{'':>29}{whole['flops'] / 1e12:>9.0f}"
        f"{whole['bytes'] / 1e9:>11.0f}{whole['collective_bytes'] / 1e9:>9.0f}{report['seconds_per_iteration']:>10.1f}"
    )
    verdict = "fits" if report["fits"] else "does not fit"
    if report["left_out"] and report["fits"]:
        verdict = "what was compiled fits"
    lines += [
        "",
        f"  verdict   {verdict}: {report['hbm_per_chip_gib']:.2f} of {report['hbm_capacity_gib']:.0f} GiB (compiled)",
        *(f"            {line}" for line in report["advice"]),
        f"  at best   {report['seconds_per_iteration']:.1f} s an iteration, {report['days']:.2f} days for "
        f"{report['iterations']} (estimated: published peaks, perfect overlap, every response as long as allowed)",
    ]
    if report["left_out"]:
        lines.append(f"  NOT compiled, in none of these numbers: {', '.join(report['left_out'])}")
    return "\n".join(lines)


def _layout(mesh: dict[str, int]) -> str:
    return "x".join(f"{name}{size}" for name, size in mesh.items())

"""Flight checks of configs on TPU slices, as markdown: python benchmarks/scaling.py --out=DIR [--configs=A,B] ...

Nothing runs on a TPU: each cell is what `launch/tpu_run.py --dry_run --topology=SLICE --json` says. A cell is compiled
once (minutes on two cores) and kept in --out as JSON; the tables are printed from there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from spicejax import configs
from spicejax.flight import chips

LAUNCH = Path(__file__).resolve().parents[1] / "launch" / "tpu_run.py"
CONFIGS = "spice_qwen4b,spice_qwen8b,spice_octothinker3b,spice_octothinker8b"
SLICES = "v5e:4x4,v5p:2x2x2,v6e:4x4,v5e:16x16"
STEP = "train_step"
WEAK = "v5e:4x4,v5e:4x8,v5e:8x8,v5e:8x16,v5e:16x16"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the cells, one JSON each; kept ones are used"
    )
    parser.add_argument("--configs", default=CONFIGS, help="comma-separated names; empty = no table of configs")
    parser.add_argument("--slices", default=SLICES, help="comma-separated topologies")
    parser.add_argument("--weak", default="spice_qwen4b", help="config of the weak-scaling table; empty = none")
    parser.add_argument("--weak_slices", default=WEAK, help="comma-separated topologies, the smallest first")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    slices = options.slices.split(",")
    if options.configs:
        names = options.configs.split(",")
        reports = [r for name in names for topology in slices for r in cell(options.out, name, topology, [])]
        print(table(reports))
    if options.weak:
        weak_slices = options.weak_slices.split(",")
        base = chips.find(weak_slices[0]).chips
        print(
            "\n"
            + weak_table(
                [r for t in weak_slices for r in cell(options.out, options.weak, t, grown(options.weak, t, base), STEP)]
            )
        )


def grown(name: str, topology: str, base: int) -> list[str]:
    """The iteration grows with the slice: documents, rows and trajectories per chip stay what they are on `base`."""
    cfg, count = configs.load(name), chips.find(topology).chips
    times = count // base
    return [
        f"learner.rows={cfg.learner.rows * times}",
        f"buckets.rows={cfg.buckets.rows * times}",
        f"spice.documents={cfg.game.items * times}",
        f"learner.trajectories_per_update={cfg.learner.trajectories_per_update * times}",
    ]


def cell(out: Path, name: str, topology: str, overrides: list[str], programs: str = "") -> list[dict[str, Any]]:
    """One flight check, of each run of a chain, from `out` where it was made before; `programs` = "" is all."""
    parts = [name, topology.replace(":", "_"), *(o.split("=")[1] for o in overrides), *([programs] if programs else [])]
    path = out / f"{'-'.join(parts)}.json"
    if not path.exists():
        words = [f"--config={name}", "--dry_run", f"--topology={topology}", "--json", *overrides]
        words += [f"--programs={programs}"] if programs else []
        done = subprocess.run([sys.executable, str(LAUNCH), *words], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1):  # 1 = compiled, does not fit
            raise SystemExit(f"{name} on {topology}: exit code {done.returncode}; its message stands above")
        path.write_text(done.stdout)
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(reports: list[dict[str, Any]]) -> str:
    """One line a config and slice."""
    lines = [
        "| config | slice | chips | learner (fsdp, tensor) | rows at a time, role by role | HBM GiB of | "
        "fits | largest | sampling s | learning s | s / iteration | days |",
        "|---|---|--:|---|---|--:|---|---|--:|--:|--:|--:|",
    ]
    for r in reports:
        peak = max(r["programs"], key=lambda p: p["hbm_gib"])
        learning = sum(
            p["seconds"] * p["calls"] for p in r["programs"] if p["name"].startswith(("train_step", "score"))
        )
        rows = ", ".join(
            str(p["rows"]) for p in r["programs"] if p["name"].endswith("_decode") and p["name"] != "task_type_decode"
        )
        mesh = f"{r['mesh']['fsdp']}, {r['mesh']['tensor']}"
        lines.append(
            f"| {r['config']} | {r['topology']} | {r['chips']} | {mesh} | {rows} | {r['hbm_per_chip_gib']:.1f} of "
            f"{r['hbm_capacity_gib']:.0f} | {'yes' if r['fits'] else '**no**'} | {peak['name']} | "
            f"{r['seconds_per_iteration'] - learning:.0f} | {learning:.0f} | {r['seconds_per_iteration']:.0f} | "
            f"{r['days']:.1f} |"
        )
    return "\n".join(lines)


def weak_table(reports: list[dict[str, Any]]) -> str:
    """Per chip and training step: what grows with the slice, and the step's time against the smallest slice's."""
    lines = [
        "| slice | chips | HBM GiB | TFLOP / chip | HBM GB / chip | wire GB / chip | compute s | HBM s | wire s | "
        "step s at best | efficiency |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    first = None
    for r in reports:
        step = next(p for p in r["programs"] if p["name"] == "train_step")
        first = first or step["seconds"]
        limits = step["limits"]
        lines.append(
            f"| {r['topology']} | {r['chips']} | {step['hbm_gib']:.1f} | {step['flops'] / 1e12:.1f} | "
            f"{step['bytes'] / 1e9:.1f} | {step['collective_bytes'] / 1e9:.2f} | {limits['compute']:.2f} | "
            f"{limits['hbm']:.2f} | {limits['interconnect']:.2f} | {step['seconds']:.2f} | "
            f"{first / step['seconds']:.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

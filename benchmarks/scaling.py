"""Flight checks of configs on slices, as markdown: python benchmarks/scaling.py --out=DIR [--configs=A,B] ...

Nothing runs on a TPU or GPU: each cell is what `launch/tpu_run.py --dry_run --topology=SLICE --json` says. A cell is
compiled once (minutes on two cores) and kept in --out as JSON; tables are printed from there. --fields="a.b=c d.e=f"
are given to every config.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness

from spicejax import configs
from spicejax.flight import chips

LAUNCH = Path(__file__).resolve().parents[1] / "launch" / "tpu_run.py"
CONFIGS = "spice_qwen4b,spice_qwen8b,spice_octothinker3b,spice_octothinker8b"
SLICES = "v5e:4x4,v5p:2x2x2,v6e:4x4,v5e:16x16"
STEP = "train_step"
WEAK = "v5e:4x4,v5e:4x8,v5e:8x8,v5e:8x16,v5e:16x16"


def main() -> None:
    options = harness.options(
        __doc__, out="", configs=CONFIGS, slices=SLICES, weak="spice_qwen4b", weak_slices=WEAK, fields=""
    )
    if not options.out:
        raise SystemExit("--out=DIR: name the folder of the cells")
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    if options.configs:
        cells = [(name, topology) for name in options.configs.split(",") for topology in options.slices.split(",")]
        print(table([r for name, topology in cells for r in cell(out, name, topology, options.fields.split())]))
    if options.weak:
        weak = options.weak_slices.split(",")
        base = chips.find(weak[0]).chips
        reports = [r for t in weak for r in cell(out, options.weak, t, grown(options.weak, t, base), STEP)]
        print(f"\n{weak_table(reports)}")


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
    """One line a config and slice, of a chain one for each of its stages that differ."""
    head = (
        "config|slice|chips|learner (fsdp, tensor)|rows at a time, role by role|HBM GiB of|fits|largest|"
        "sampling s|learning s|s / iteration|days"
    )
    rows = []
    for r in reports:
        programs = r["programs"]
        learning = sum(p["seconds"] * p["calls"] for p in programs if p["name"].startswith(("train_step", "score")))
        at_once = [p["rows"] for p in programs if p["name"].endswith("_decode") and p["name"] != "task_type_decode"]
        row = [r["config"], r["topology"], r["chips"], f"{r['mesh']['fsdp']}, {r['mesh']['tensor']}"]
        row += [", ".join(map(str, at_once)), f"{r['hbm_per_chip_gib']:.1f} of {r['hbm_capacity_gib']:.0f}"]
        row += ["yes" if r["fits"] else "**no**", max(programs, key=lambda p: p["hbm_gib"])["name"]]
        seconds = [r["seconds_per_iteration"] - learning, learning, r["seconds_per_iteration"]]
        rows.append([*row, *(f"{s:.0f}" for s in seconds), f"{r['days']:.1f}"])
    return harness.table(head.split("|"), list(dict.fromkeys(map(tuple, rows))))  # a chain's rounds may be alike


def weak_table(reports: list[dict[str, Any]]) -> str:
    """Per chip and training step: what grows with the slice, and the step's time against the smallest slice's."""
    head = "slice|chips|HBM GiB|TFLOP / chip|HBM GB / chip|wire GB / chip|compute s|HBM s|wire s|step s at best|"
    head += "efficiency"
    rows, first = [], None
    for r in reports:
        step = next(p for p in r["programs"] if p["name"] == STEP)
        first = first or step["seconds"]
        row = [r["topology"], r["chips"], f"{step['hbm_gib']:.1f}", f"{step['flops'] / 1e12:.1f}"]
        row += [f"{step['bytes'] / 1e9:.1f}", f"{step['collective_bytes'] / 1e9:.2f}"]
        row += [f"{step['limits'][name]:.2f}" for name in ("compute", "hbm", "interconnect")]
        rows.append([*row, f"{step['seconds']:.2f}", f"{first / step['seconds']:.0%}"])
    return harness.table(head.split("|"), rows)


if __name__ == "__main__":
    main()

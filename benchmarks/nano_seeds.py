"""The nano demo over seeds and ablations: what self-play gains, and what it owes to each of its parts.

    python benchmarks/nano_seeds.py --out=runs/seeds [--seeds=0,1,2,3,4] [a.b=c ...]

Every (seed, variant) is an ordinary run of `launch/tpu_run.py --config=spice_nano`; all variants of a seed start from
the same warm-started model. Finished runs are kept, so the same command goes on where it was stopped. Prints the table
as Markdown, and with --json all values.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VARIANTS = {
    "SPICE": [],
    "fixed Challenger": ["spice.fixed_challenger=true"],
    "no corpus": ["spice.no_corpus=true"],
}
COLUMNS = {
    "held-out": "eval/accuracy",
    "facts": "eval/accuracy/general",
    "calculations": "eval/accuracy/math",
    "first Challenger, later Reasoner": "probe/fixed_challenger/pass_rate",
    "later Challenger, later Reasoner": "probe/current/pass_rate",
    "later Challenger, first Reasoner": "probe/fixed_reasoner/pass_rate",
    "distance from 1/2: first Challenger, later Reasoner": "probe/fixed_challenger/frontier_distance",
    "distance from 1/2: later Challenger, later Reasoner": "probe/current/frontier_distance",
    "distance from 1/2: later Challenger, first Reasoner": "probe/fixed_reasoner/frontier_distance",
}


def run(workdir: Path, seed: int, overrides: list[str]) -> list[dict[str, float]]:
    """Evaluations of one run, first to last; the run is made or resumed if it is not finished."""
    workdir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(ROOT / "launch" / "tpu_run.py"), "--config=spice_nano", f"--workdir={workdir}"]
    if not (workdir / "summary.json").exists():
        with (workdir / "log.txt").open("a") as log:
            subprocess.run([*command, f"seed={seed}", *overrides], check=True, cwd=ROOT, stdout=log, stderr=log)
    return [json.loads(line) for line in (workdir / "evaluations.jsonl").read_text().splitlines()]


def cell(changes: list[tuple[float, float]]) -> str:
    """Mean start -> mean end, and mean and sample standard deviation of the change over seeds."""
    if not changes:
        return "-"
    starts, ends = zip(*changes, strict=True)
    gains = [end - start for start, end in changes]
    spread = f" ± {statistics.stdev(gains):.3f}" if len(gains) > 1 else ""
    return f"{statistics.mean(starts):.3f} → {statistics.mean(ends):.3f} ({statistics.mean(gains):+.3f}{spread})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/seeds"))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--json", action="store_true")
    args, overrides = parser.parse_known_args()
    seeds = [int(s) for s in args.seeds.split(",")]
    results: dict[str, dict[str, list[tuple[float, float]]]] = {name: {} for name in VARIANTS}
    for seed in seeds:
        for name, switches in VARIANTS.items():
            rows = run(args.out / f"{name.replace(' ', '_')}-{seed}", seed, [*switches, *overrides])
            for column, key in COLUMNS.items():
                if key in rows[0] and key in rows[-1]:
                    results[name].setdefault(column, []).append((rows[0][key], rows[-1][key]))
    if args.json:
        print(json.dumps(results, indent=1))
    print("| | " + " | ".join(VARIANTS) + " |\n|---|" + "---|" * len(VARIANTS))
    for column in COLUMNS:
        print(f"| {column} | " + " | ".join(cell(results[name].get(column, [])) for name in VARIANTS) + " |")


if __name__ == "__main__":
    main()

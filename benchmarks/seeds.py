"""A demo over seeds and ablations: what self-play gains, and what it owes to each of its parts.

    python benchmarks/seeds.py --config=spice_nano --out=runs/seeds [--seeds=0,1,2,3,4] [a.b=c ...]
    python benchmarks/seeds.py --config=spice_smollm2 --out=runs/facts --seeds=0,1,2 [--only=SPICE,"no corpus"]
    python benchmarks/seeds.py --config=ssp_nano --out=runs/ssp --record=docs/runs/ssp_nano.jsonl
    python benchmarks/seeds.py --recorded=docs/runs/ssp_nano.jsonl

Every (seed, variant) is an ordinary run of `launch/tpu_run.py`; all nano variants of a seed start from the same
warm-started model. Finished runs are kept, so the same command goes on where it was stopped. Prints the table as
Markdown: mean start -> mean end, and the mean change with its 95 % interval (Student's t over seeds). --record keeps
the evaluations of all runs in one file, each line with its run, seed and stage of a chain; --recorded prints the table
of such a file.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import harness
from scipy import stats

from spicejax import configs

ROOT = Path(__file__).parents[1]
SPICE = {
    "SPICE": [],
    "fixed Challenger": ["spice.fixed_challenger=true"],
    "no corpus": ["spice.no_corpus=true"],
}


def _both(*words: str) -> list[str]:
    """Fields of the second and the third run of a chain."""
    return [f"{stage}.{word}" for word in words for stage in (2, 3)]


VARIANTS = {
    "ssp_nano": {
        "SSP": [],
        "Solver alone": ["ssp.fixed=proposer"],
        "Proposer alone": ["ssp.fixed=solver"],
        "dummy": ["ssp.strategy=dummy"],
        "resample": ["ssp.strategy=resample"],
        "never forgotten": ["ssp.reset_every=0"],
        "noise 0": ["ssp.noise=0"],
        "noise 4": ["ssp.noise=4"],
        "noise 7": ["ssp.noise=7"],
    },
    "r1_searcher_nano": {"two stages": [], "one stage": ["1.r1searcher.reward=answer"]},
    "acesearcher_nano": {
        "two rounds": [],
        "SimPO": ["learner.pairs.beta=2.0", "learner.pairs.margin=1.0", *_both("learner.loss=simpo")],
        "RAFT": _both("acesearcher.learn=best", "learner.loss=supervised", "learner.aggregation=token_mean"),
        "ReST-EM": _both("acesearcher.learn=right", "learner.loss=supervised", "learner.aggregation=token_mean"),
        "at once": ["acesearcher.exam=direct", *_both("iterations=1")],
    },
}
# Variants that are configurations of their own: RLVR on questions of another kind, asked in the same words (what the
# form of an answer is worth); pairs from one policy alone
OTHERS = {
    "spice_smollm2": {"form alone": "rlvr_smollm2"},
    "acesearcher_nano": {"offline": "acesearcher_nano_offline"},
}
COLUMNS = {
    "held-out": "eval/accuracy",
    "held-out, anywhere in the text": "eval/said",
    "facts of the world": "eval/accuracy/general",
    "calculations": "eval/accuracy/math",
    "one fact": "eval/accuracy/facts_1",
    "two facts": "eval/accuracy/facts_2",
    "three facts": "eval/accuracy/facts_3",
    "facts that no document holds": "eval/unseen/accuracy",
    "the same, anywhere in the text": "eval/unseen/said",
    "plain instructions": "eval/plain/said",
    "first Challenger, later Reasoner": "probe/fixed_challenger/pass_rate",
    "later Challenger, later Reasoner": "probe/current/pass_rate",
    "later Challenger, first Reasoner": "probe/fixed_reasoner/pass_rate",
    "distance from 1/2: first Challenger, later Reasoner": "probe/fixed_challenger/frontier_distance",
    "distance from 1/2: later Challenger, later Reasoner": "probe/current/frontier_distance",
    "distance from 1/2: later Challenger, first Reasoner": "probe/fixed_reasoner/frontier_distance",
}
# Of iterations: the mean of the first four stands with the first evaluation, that of the last four with the last
PLAYED = {
    "valid questions": "proposer/valid",
    "Proposer's reward": "proposer/reward",
    "Proposer's searches": "proposer/searches",
    "Solver's pass rate": "solver/pass_rate",
    "Solver's searches": "solver/searches",
}


def run(workdir: Path, config: str, seed: int, overrides: list[str]) -> list[dict[str, Any]]:
    """Evaluations of one run, first to last; the run is made or resumed if it is not finished."""
    workdir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(ROOT / "launch" / "tpu_run.py"), f"--config={config}", f"--workdir={workdir}"]
    stages = len(configs.stages(config))
    parts = {n: workdir / str(n) for n in range(1, stages + 1)} if stages > 1 else {0: workdir}
    if not (parts[max(parts)] / "summary.json").exists():
        with (workdir / "log.txt").open("a") as log:
            subprocess.run([*command, f"seed={seed}", *overrides], check=True, cwd=ROOT, stdout=log, stderr=log)
    rows, played = [], []
    for stage, part in parts.items():
        if (path := part / "evaluations.jsonl").exists():
            rows += [({"stage": stage} if stage else {}) | row for row in harness.lines(path)]
        played += harness.lines(part / "metrics.jsonl")
    for row, near in ((rows[0], played[:4]), (rows[-1], played[-4:])):
        for key in PLAYED.values():
            if values := [iteration[key] for iteration in near if key in iteration]:
                row[key] = statistics.mean(values)
    return rows


def rounded(value: Any) -> Any:
    """A number as it is recorded, to six digits."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def interval(values: list[float]) -> str:
    """Mean and the half width of its 95 % interval over seeds (Student's t)."""
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else None
    return f"{statistics.mean(values):+.3f}{'' if half is None else f' ± {half:.3f}'}"


def cell(changes: list[tuple[float, float]]) -> str:
    """Mean start -> mean end, and the mean change with its interval."""
    if not changes:
        return "-"
    starts, ends = zip(*changes, strict=True)
    gains = [end - start for start, end in changes]
    return f"{statistics.mean(starts):.3f} → {statistics.mean(ends):.3f} ({interval(gains)})"


def summarize(rows: list[dict[str, Any]]) -> str:
    """The table of recorded evaluations."""
    runs: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        runs[row["run"]][row["seed"]].append(row)
    lines = []
    for column, key in (COLUMNS | PLAYED).items():
        changes = [
            [(own[0][key], own[-1][key]) for own in seeds.values() if key in own[0] and key in own[-1]]
            for seeds in runs.values()
        ]
        lines += [[column, *map(cell, changes)]] if any(changes) else []
    ends = [{seed: own[-1]["eval/accuracy"] for seed, own in seeds.items()} for seeds in runs.values()]
    pairs = [[ends[0][seed] - end for seed, end in other.items() if seed in ends[0]] for other in ends[1:]]
    lines.append(
        ["held-out of the first minus it, seed by seed", "", *(interval(pair) if pair else "-" for pair in pairs)]
    )
    return harness.table(["", *runs], lines)


def main() -> None:
    args = harness.options(
        __doc__, config="spice_nano", out="runs/seeds", seeds="0,1,2,3,4", only="", record="", recorded="", words=[]
    )
    if args.recorded:
        print(summarize(harness.lines(Path(args.recorded))))
        return
    variants = {name: (args.config, switches) for name, switches in VARIANTS.get(args.config, SPICE).items()}
    variants |= {name: (config, []) for name, config in OTHERS.get(args.config, {}).items()}
    names = harness.chosen(args.only, list(variants)) if args.only else list(variants)
    rows = []
    for seed in map(int, args.seeds.split(",")):
        for name in names:
            config, switches = variants[name]
            workdir = Path(args.out) / f"{name.replace(' ', '_')}-{seed}"
            found = run(workdir, config, seed, [*switches, *args.words])
            rows += [{"run": name, "seed": seed} | {key: rounded(value) for key, value in row.items()} for row in found]
    rows.sort(key=lambda row: (names.index(row["run"]), row["seed"]))
    if args.record:
        Path(args.record).write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(summarize(rows))


if __name__ == "__main__":
    main()

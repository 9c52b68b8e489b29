"""What a study found: means over seeds with 95 % intervals, and each claim beside the paper's direction."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from scipy import stats

from spicejax.lab.studies import ACCURACY, Claim, Place, Study
from spicejax.report import curves
from spicejax.report.read import Rows

# Shown where they were measured: what a run ends with (start -> end).
QUANTITIES = {
    ACCURACY: "held-out",
    "eval/said": "held-out, anywhere in the text",
    "eval/accuracy/general": "facts of the world",
    "eval/accuracy/math": "calculations",
    **{f"{ACCURACY}/facts_{n}": f"questions of {n} fact{'s' * (n > 1)}" for n in range(1, 6)},
    "eval/unseen/accuracy": "facts that no document holds",
    "eval/unseen/said": "the same, anywhere in the text",
    "eval/plain/said": "plain instructions",
    "probe/fixed_challenger/pass_rate": "first Challenger, later Reasoner",
    "probe/current/pass_rate": "later Challenger, later Reasoner",
    "probe/fixed_reasoner/pass_rate": "later Challenger, first Reasoner",
    "probe/fixed_challenger/frontier_distance": "distance from 1/2: first Challenger, later Reasoner",
    "probe/current/frontier_distance": "distance from 1/2: later Challenger, later Reasoner",
    "probe/fixed_reasoner/frontier_distance": "distance from 1/2: later Challenger, first Reasoner",
    "challenger/valid_fraction": "valid questions",
    "reasoner/pass_rate": "Reasoner's pass rate",
    "proposer/valid": "valid questions",
    "proposer/reward": "Proposer's reward",
    "proposer/true": "true, of the valid ones",
    "proposer/hops": "facts of a proposed question",
    "verifier/false_rejections": "true questions that the verifier rejects",
    "verifier/false_acceptances": "false questions that it lets pass",
    "proposer/searches": "Proposer's searches",
    "solver/pass_rate": "Solver's pass rate",
    "solver/searches": "Solver's searches",
}
Runs = dict[str, dict[int, Rows]]  # evaluations of an arm and a seed, first to last


def by_run(rows: Rows) -> Runs:
    """Group rows by arm and seed, both in the order in which they come."""
    runs: Runs = defaultdict(lambda: defaultdict(list))
    for row in rows:
        runs[row["run"]][row["seed"]].append(row)
    return runs


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and the half width of its 95 % interval over seeds (Student's t); None for a single seed."""
    if len(values) < 2:
        return statistics.mean(values), None
    return statistics.mean(values), float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))


def _signed(values: Sequence[float]) -> str:
    mean, half = interval(values)
    return f"{mean:+.3f}" + ("" if half is None else f" ± {half:.3f}")


def _cell(seeds: dict[int, Rows], quantity: str) -> str:
    pairs = [
        (own[0][quantity], own[-1][quantity]) for own in seeds.values() if quantity in own[0] and quantity in own[-1]
    ]
    if not pairs:
        return "-"
    starts, ends = zip(*pairs, strict=True)
    change = _signed([end - start for start, end in pairs])
    return f"{statistics.mean(starts):.3f} → {statistics.mean(ends):.3f} ({change})"


def outcomes(rows: Rows, *, paired: bool = False) -> str:
    """The table of arms: mean start -> mean end, and the mean change with its interval.

    Args:
      paired: with a line of what the first arm ends with less each other one, seed by seed.
    """
    runs = by_run(rows)
    shown = [q for q in QUANTITIES if any(q in own[-1] for seeds in runs.values() for own in seeds.values())]
    lines = [[QUANTITIES[q], *(_cell(seeds, q) for seeds in runs.values())] for q in shown]
    first, *others = runs
    less = [differences(Claim("", Place(first), Place(other), ""), rows) for other in others if paired]
    if any(less):
        lines.append(["held-out of the first less it, seed by seed", "", *(_signed(d) if d else "-" for d in less)])
    return markdown(["", *runs], lines)


def differences(claim: Claim, rows: Rows) -> list[float]:
    """What the claim's first place has more than its second, for each seed that has both."""
    runs = by_run(rows)

    def taken(place: Place) -> dict[int, float]:
        of = {seed: own[0 if place.when == "start" else -1] for seed, own in runs.get(place.arm, {}).items()}
        return {seed: row[place.quantity] for seed, row in of.items() if place.quantity in row}

    more, less = taken(claim.more), taken(claim.less)
    return [more[seed] - less[seed] for seed in sorted(more.keys() & less.keys())]


def verdict(found: Sequence[float]) -> str:
    """Agree where the whole 95 % interval is above 0, disagree where it is below; else it cannot be told."""
    if len(found) < 2:
        return "cannot tell"
    mean, half = interval(found)
    assert half is not None
    return "agree" if mean > half else "disagree" if mean < -half else "cannot tell"


def claims(study: Study, rows: Rows) -> str:
    """The table of claims: what the paper has, the difference seed by seed, what that says."""
    lines = []
    for claim in study.claims:
        found = differences(claim, rows)
        lines.append([claim.text, claim.paper, _signed(found) if found else "-", str(len(found)), verdict(found)])
    return markdown(["claim", "the paper", "here, seed by seed", "seeds", ""], lines)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


def section(name: str, study: Study, rows: Rows, picture: str, words: str = "") -> str:
    """A study as a section of a page; `words` are those of its command where they are more than its name."""
    parts = [f"## {name}", f"{study.about} After {study.source}."]
    parts += [study.note] * bool(study.note)
    parts += [f"```bash\nspicejax lab {words or name}\n```", claims(study, rows), outcomes(rows)]
    parts += [f"![Held-out accuracy over iterations]({picture})"]
    return "\n\n".join(parts) + "\n"


def draw(rows: Rows, path: Path) -> None:
    """Write held-out accuracy of each arm over its iterations as a PNG: mean of the seeds, and all of them thin."""
    plt = curves.pyplot()
    figure, axis = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
    for (name, seeds), colour in zip(by_run(rows).items(), curves.COLOURS, strict=False):
        lines = [line(own) for own in seeds.values()]
        for places, values in lines:
            axis.plot(places, values, color=colour, linewidth=0.6, alpha=0.35)
        if shared := sorted(set.intersection(*(set(places) for places, _ in lines))):
            mean = [statistics.mean(values[places.index(at)] for places, values in lines) for at in shared]
            axis.plot(shared, mean, color=colour, linewidth=2, marker="o", markersize=3, label=name)
    axis.set_xlabel("iterations")
    axis.set_ylabel("held-out accuracy")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def line(rows: Rows) -> tuple[list[int], list[float]]:
    """Iterations, those of the stages before counted, and accuracies."""
    held = [row for row in rows if ACCURACY in row]
    return [row.get("before", 0) + row["iteration"] for row in held], [row[ACCURACY] for row in held]

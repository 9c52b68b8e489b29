"""The report of a run, made from its metrics.jsonl: one picture and one page of text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def read_rows(path: Path) -> Rows:
    """Rows of a jsonl file; a torn last line is left out. [] where there is no file."""
    rows = []
    for line in path.read_text(encoding="utf-8").split("\n") if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def series(rows: Rows, name: str) -> tuple[list[float], list[float]]:
    """(iterations, values) of a quantity, where it was measured."""
    points = [(r["iteration"], r[name]) for r in rows if r.get(name) is not None]
    return [p[0] for p in points], [p[1] for p in points]


def smooth(values: list[float], window: int = 5) -> list[float]:
    """Centred moving average, shorter at the ends."""
    half = window // 2
    return [sum(part) / len(part) for i in range(len(values)) if (part := values[max(0, i - half) : i + half + 1])]


def write(workdir: Path) -> list[Path]:
    """Write report.png and report.txt into `workdir` from its metrics; [] where nothing was measured yet."""
    rows, evals = read_rows(workdir / "metrics.jsonl"), read_rows(workdir / "evaluations.jsonl")
    if not rows:
        return []
    picture, page = workdir / "report.png", workdir / "report.txt"
    draw(rows, evals, picture)
    page.write_text(text(rows, evals), encoding="utf-8")
    return [picture, page]


def draw(rows: Rows, evals: Rows, path: Path) -> None:
    """Four panels: held-out accuracy, the Challenger's frontier, the probes of figure 3, rewards and validity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5), constrained_layout=True)
    panel = axes[0, 0]
    panel.set_title("Reasoner, held-out accuracy (greedy)")
    names = sorted({k for r in evals for k in r if k.startswith("eval/accuracy")})
    for name in names:
        label = name.removeprefix("eval/accuracy").strip("/") or "all"
        panel.plot(*series(evals, name), marker="o", label=label, linewidth=2.5 if label == "all" else 1.2)
    panel = axes[0, 1]
    panel.set_title("Challenger, where its questions lie")
    for name, label, style in (
        ("reasoner/pass_rate", "pass rate of its questions", "C0"),
        ("challenger/frontier_distance", "mean |pass rate - 1/2|", "C3"),
    ):
        x, y = series(rows, name)
        panel.plot(x, y, style, alpha=0.25)
        panel.plot(x, smooth(y), style, label=label, linewidth=2)
    panel.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")
    panel = axes[1, 0]
    panel.set_title("Probes: one player held at its start")
    for name, label in (
        ("probe/fixed_reasoner/pass_rate", "later Challenger, first Reasoner"),
        ("probe/fixed_challenger/pass_rate", "first Challenger, later Reasoner"),
        ("probe/current/pass_rate", "later Challenger, later Reasoner"),
    ):
        panel.plot(*series(evals, name), marker="o", label=label)
    panel.set_ylabel("pass rate")
    panel = axes[1, 1]
    panel.set_title("Rewards and validity")
    for name, label in (
        ("challenger/reward", "Challenger reward"),
        ("reasoner/mean_reward", "Reasoner reward"),
        ("challenger/valid_fraction", "valid tasks"),
    ):
        x, y = series(rows, name)
        panel.plot(x, smooth(y), label=label)
    for panel in axes.flat:
        panel.set_xlabel("iteration")
        panel.grid(alpha=0.3)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=8)
    for panel in (axes[0, 0], axes[0, 1], axes[1, 0]):
        panel.set_ylim(0, 1)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def text(rows: Rows, evals: Rows) -> str:
    """First, last and change of the main quantities; for noisy ones the mean of the first and last fifth."""
    lines = [f"{len(rows)} iterations", "", f"{'quantity':<36}{'start':>9}{'end':>9}{'change':>9}"]

    def add(name: str, start: float, end: float) -> None:
        lines.append(f"{name:<36}{start:>9.3f}{end:>9.3f}{end - start:>+9.3f}")

    for name in sorted({k for r in evals for k in r if k.startswith(("eval/", "probe/"))}):
        _, y = series(evals, name)
        add(name, y[0], y[-1])
    part = max(1, len(rows) // 5)
    for name in (
        "challenger/valid_fraction", "challenger/reward", "challenger/frontier_distance", "challenger/never_solved",
        "challenger/always_solved", "reasoner/pass_rate", "reasoner/response_length", "challenger/response_length",
        "learner/grad_norm", "learner/sampler_gap", "time/tokens_per_second",
    ):  # fmt: skip
        _, y = series(rows, name)
        if y:
            add(name, sum(y[:part]) / len(y[:part]), sum(y[-part:]) / len(y[-part:]))
    rejected = {k: sum(r.get(k) or 0 for r in rows) for k in sorted({k for r in rows for k in r if "rejected/" in k})}
    lines += ["", "rejected tasks by reason:"]
    lines += [f"  {name.removeprefix('rejected/'):<24}{count:>8.0f}" for name, count in rejected.items()]
    seconds = sum((r.get("time/play") or 0) + (r.get("time/update") or 0) for r in rows)
    lines += [
        "",
        f"{seconds:.0f} s in iterations: {sum(r.get('time/play') or 0 for r in rows):.0f} s of play, "
        f"{sum(r.get('time/update') or 0 for r in rows):.0f} s of updates",
    ]
    return "\n".join(lines) + "\n"

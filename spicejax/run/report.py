"""The report of a run, made from its metrics.jsonl: one picture and one page of text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spicejax.games.game import Game, Panel

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


def write(workdir: Path, game: Game) -> list[Path]:
    """Write report.png and report.txt into `workdir` from its metrics; [] where nothing was measured yet."""
    rows, evals = read_rows(workdir / "metrics.jsonl"), read_rows(workdir / "evaluations.jsonl")
    if not rows:
        return []
    picture, page = workdir / "report.png", workdir / "report.txt"
    draw(rows, evals, game.panels, picture)
    page.write_text(text(rows, evals, game.counts), encoding="utf-8")
    return [picture, page]


def draw(rows: Rows, evals: Rows, panels: Sequence[Panel], path: Path) -> None:
    """Held-out accuracy, then the game's panels of which anything was measured; rows of iterations are smoothed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [Panel("Held-out accuracy (greedy)", _held_out(evals), "evaluations", (0, 1)), *panels]
    tables = {"evaluations": evals}
    panels = [p for p in panels if any(series(tables.get(p.rows, rows), name)[0] for name, _ in p.series)]
    height = max(1, -(-len(panels) // 2))
    figure, axes = pyplot.subplots(height, 2, figsize=(11, 3.75 * height), constrained_layout=True, squeeze=False)
    for panel, axis in zip(panels, axes.flat, strict=False):
        axis.set(title=panel.title, xlabel="iteration", ylim=panel.limits)
        axis.grid(alpha=0.3)
        for k, (name, label) in enumerate(panel.series):
            if panel.rows in tables:
                axis.plot(*series(evals, name), marker="o", label=label, linewidth=2.5 if label == "all" else 1.2)
            else:
                x, y = series(rows, name)
                axis.plot(x, y, f"C{k}", alpha=0.2)
                axis.plot(x, smooth(y), f"C{k}", label=label, linewidth=2)
        if panel.line is not None:
            axis.axhline(panel.line, color="grey", linewidth=0.8, linestyle=":")
        axis.legend(fontsize=8)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _held_out(evals: Rows) -> tuple[tuple[str, str], ...]:
    """Accuracy with its categories where they are few, the answers said outside a box, and the other suites."""
    names = sorted({k for r in evals for k in r if k.startswith("eval/")})
    categories = [name for name in names if name.startswith("eval/accuracy/")]
    shown = ["eval/accuracy", *(categories if len(categories) < 4 else ["eval/said"])]
    shown += [
        f"eval/{name.split('/')[1]}/said" for name in names if name.count("/") == 2 and name.endswith("/truncated")
    ]
    labels = {"eval/accuracy": "all", "eval/said": "all, in or outside a box"}
    return tuple((name, labels.get(name) or name.removeprefix("eval/accuracy/")) for name in shown if name in names)


def text(rows: Rows, evals: Rows, counts: tuple[str, ...]) -> str:
    """Start, end and change of every quantity; for noisy ones the mean of the first and last fifth. Counts are summed.

    Args:
      counts: prefixes of the quantities that are counts.
    """
    lines = [f"{len(rows)} iterations", "", f"{'quantity':<42}{'start':>11}{'end':>11}{'change':>11}"]

    def add(name: str, start: float, end: float) -> None:
        lines.append(f"{name:<42}{start:>11.3f}{end:>11.3f}{end - start:>+11.3f}")

    def names(table: Rows, *prefixes: str) -> list[str]:
        return sorted({k for r in table for k in r if k.startswith(prefixes)})

    for name in names(evals, "eval/", "probe/"):
        _, y = series(evals, name)
        add(name, y[0], y[-1])
    part = max(1, len(rows) // 5)
    counted = names(rows, *counts) if counts else []
    for name in names(rows, ""):
        _, y = series(rows, name)
        if y and name not in ("iteration", *counted):
            add(name, sum(y[:part]) / len(y[:part]), sum(y[-part:]) / len(y[-part:]))
    lines += ["", "counts over all iterations:"] if counted else []
    lines += [f"  {name:<40}{sum(r.get(name) or 0 for r in rows):>11.0f}" for name in counted]
    play, update = (sum(r.get(f"time/{name}") or 0 for r in rows) for name in ("play", "update"))
    lines += ["", f"{play + update:.0f} s in iterations: {play:.0f} s of play, {update:.0f} s of updates"]
    return "\n".join(lines) + "\n"

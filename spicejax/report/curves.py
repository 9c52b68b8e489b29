"""Pictures of a run: the panels of its game as one PNG, or each as an SVG in the colours of the page around it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spicejax.games.game import Panel
from spicejax.report.read import Rows, series

HELD_OUT = "Held-out accuracy (greedy)"
COLOURS = ("#2f7ed8", "#e07b39", "#3a9d5d", "#c2477f", "#8a63c9", "#a58318", "#2a9fb0", "#d0493e")  # on white and black
STYLES = ("-", "--", ":", "-.")
_INK = "#010203"  # becomes the text colour of the page
_PLAIN = {"text.parse_math": False}  # names are the user's: a $ in them begins no formula
PARTS = ("sampling", "searching", "checking", "programs", "judging")  # of play


def smooth(values: list[float], window: int = 5) -> list[float]:
    """Centred moving average, shorter at the ends."""
    half = window // 2
    return [sum(part) / len(part) for i in range(len(values)) if (part := values[max(0, i - half) : i + half + 1])]


def held_out(evals: Rows) -> Panel:
    """Accuracy with its categories where they are few, the answers said outside a box, and the other suites."""
    names = sorted({k for r in evals for k in r if k.startswith("eval/")})
    categories = [name for name in names if name.startswith("eval/accuracy/")]
    shown = ["eval/accuracy", *(categories if len(categories) < 4 else ["eval/said"])]
    shown += [
        f"eval/{name.split('/')[1]}/said" for name in names if name.count("/") == 2 and name.endswith("/truncated")
    ]
    labels = {"eval/accuracy": "all", "eval/said": "all, in or outside a box"}
    found = tuple((name, labels.get(name) or name.removeprefix("eval/accuracy/")) for name in shown if name in names)
    meaning = "Share of the held-out questions that the policy answers rightly; none of them is trained on."
    return Panel(HELD_OUT, found, "evaluations", (0, 1), meaning=meaning, unit="share of the questions")


def measured(panels: Sequence[Panel], rows: Rows, evals: Rows) -> list[Panel]:
    """The panels of which anything was measured."""
    return [p for p in panels if any(series(_rows(p, rows, evals), name)[0] for name, _ in p.series)]


def draw(rows: Rows, evals: Rows, panels: Sequence[Panel], path: Path) -> None:
    """Write held-out accuracy and the game's panels as one PNG; rows of iterations are smoothed."""
    panels = measured([held_out(evals), *panels], rows, evals)
    height = max(1, -(-len(panels) // 2))
    plt = pyplot()
    with plt.rc_context(_PLAIN):
        figure, axes = plt.subplots(height, 2, figsize=(11, 3.75 * height), constrained_layout=True, squeeze=False)
        for panel, axis in zip(panels, axes.flat, strict=False):
            plot(axis, panel, [Curves(rows, evals)])
            axis.set_title(panel.title)
            axis.legend(fontsize=8)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        figure.savefig(path, dpi=110)
        plt.close(figure)


class Curves(NamedTuple):
    """What a run has measured."""

    rows: Rows  # of metrics.jsonl
    evals: Rows  # of evaluations.jsonl
    run: str = ""  # its name, where several are shown
    place: int | None = None  # among those that are shown, which names its colour; None = it is the only one


def plot(axis: Any, panel: Panel, runs: Sequence[Curves]) -> None:
    """Draw a panel: a colour for each series of one run, or for each of several runs, whose series differ in line."""
    _over_iterations(axis)
    axis.set_ylabel(panel.unit)
    axis.grid(alpha=0.3)
    heights: list[float] = []
    # in the legend, of several runs: each of them, and each series, not every one of every run
    colours: dict[int, tuple[str, dict[str, Any]]] = {}
    lines: dict[int, tuple[str, dict[str, Any]]] = {}
    for rows, evals, run, place in runs:
        for k, (name, label) in enumerate(panel.series):
            x, y = series(_rows(panel, rows, evals), name)
            if not x:
                continue
            heights += [value for value in y if math.isfinite(value)]
            alone = place is None
            look = {"color": COLOURS[(k if place is None else place) % len(COLOURS)], "linewidth": 2.0}
            line = "-" if alone else STYLES[k % len(STYLES)]
            if panel.rows == "evaluations":
                axis.plot(x, y, marker="o", markersize=4, linestyle=line, **look)
            else:
                axis.plot(x, y, alpha=0.2, color=look["color"])
                axis.plot(x, smooth(y), linestyle=line, marker="o" if len(x) == 1 else "", **look)
            colours[k if place is None else place] = label if alone else run, look
            if not alone and len(panel.series) > 1:
                lines[k] = label, {"color": _INK, "linestyle": line}
    for label, look in (*colours.values(), *lines.values()):
        axis.plot([], [], label=f" {label}" if label.startswith("_") else label, **look)  # else _ is left out
    if panel.limits is not None:  # further, where something was measured beyond: a penalty is below 0
        axis.set_ylim(min((panel.limits[0], *heights)), max((panel.limits[1], *heights)))
    if panel.line is not None:
        axis.axhline(panel.line, color="grey", linewidth=0.8, linestyle=":")


def panel_svg(panel: Panel, runs: Sequence[Curves]) -> str:
    """A panel of one or several runs."""
    return _svg(lambda axis: plot(axis, panel, runs))


def shares_svg(rows: Rows, names: Sequence[str], labels: Sequence[str], unit: str) -> str:
    """Quantities of each iteration on top of each other; one that was not measured counts as 0."""
    x = [row["iteration"] for row in rows]
    values = [smooth([float(row.get(name) or 0) for row in rows]) for name in names]
    if len(x) == 1:  # one iteration is as wide as one
        x, values = [x[0] - 0.5, x[0] + 0.5], [value * 2 for value in values]

    def fill(axis: Any) -> None:
        axis.stackplot(x, *values, labels=labels, colors=[COLOURS[k % len(COLOURS)] for k in range(len(names))])
        _over_iterations(axis)
        axis.set(ylabel=unit, ylim=(0, None), xlim=(x[0], x[-1]))

    return _svg(fill)


def histogram_svg(rates: Sequence[tuple[int, float]], columns: int = 24) -> str:
    """How pass rates spread over time, from (iteration, pass rate); each column is a span of iterations.

    The darker a cell, the larger its share of the tasks of its column.
    """
    at, rate = np.array(rates, float).T
    edges = np.linspace(at.min(), at.max() + 1, min(columns, int(at.max() - at.min()) + 1) + 1)
    levels = np.linspace(-1 / 16, 1 + 1 / 16, 10)  # 0, 1/8, ..., 1 in the middle of a row
    counts, _, _ = np.histogram2d(at, rate, (edges, levels))
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)

    def fill(axis: Any) -> None:
        for i, column in enumerate(shares):
            for j, share in enumerate(column):
                where = (edges[i], levels[j]), edges[i + 1] - edges[i], levels[j + 1] - levels[j]
                if share:
                    patch = pyplot().Rectangle(*where, color=COLOURS[0], alpha=float(share) ** 0.5, linewidth=0)
                    axis.add_patch(patch)
        _over_iterations(axis)
        axis.set(ylabel="pass rate of a task", xlim=(edges[0], edges[-1]), ylim=(levels[0], levels[-1]))
        axis.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")

    return _svg(fill)


def _over_iterations(axis: Any) -> None:
    """The x axis counts iterations, in whole numbers."""
    axis.set_xlabel("iteration")
    axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _svg(fill: Callable[[Any], None]) -> str:
    """One pair of axes as inline SVG; text and lines take the colour of the page's text."""
    plt = pyplot()
    ink = {f"{part}color": _INK for part in ("text.", "axes.label", "axes.edge", "xtick.", "ytick.")}
    look = {"svg.fonttype": "none", "legend.framealpha": 0.0, "font.family": "sans-serif", **ink, **_PLAIN}
    with plt.rc_context(look):
        figure, axis = plt.subplots(figsize=(4.6, 2.8), constrained_layout=True)
        fill(axis)
        axis.spines[["top", "right"]].set_visible(False)
        if labels := axis.get_legend_handles_labels()[1]:
            figure.legend(fontsize=9, loc="outside upper left", ncols=1 if max(map(len, labels)) > 30 else 2)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    text = out.getvalue()[out.getvalue().index("<svg") :]
    # no size of its own: it takes the width there is
    text = re.sub(r'^<svg ([^>]*?)(?:width="[^"]*" ?|height="[^"]*" ?)+', r"<svg \1", text, count=1)
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S).replace(_INK, "currentColor")


def _rows(panel: Panel, rows: Rows, evals: Rows) -> Rows:
    return evals if panel.rows == "evaluations" else rows


def pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot

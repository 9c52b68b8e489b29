"""The report of a run as text: where each quantity began and where it ended."""

from __future__ import annotations

from spicejax.games.game import About
from spicejax.report.learnt import learnt
from spicejax.report.read import Rows, series


def text(rows: Rows, evals: Rows, game: About | None) -> str:
    """Start, end and change of every quantity; for noisy ones the mean of the first and last fifth. Counts are summed.

    Args:
      game: says which quantities are counts; None = unknown.
    """
    counts, learning = game.counts if game else (), learnt(rows, game)
    lines = [f"{len(rows)} iterations, {learning.steps} optimizer steps"]
    lines += [f"warning: {learning.why}"] if learning.why else []
    lines += ["", "start and end: of evaluations the first and the last, else means over the first and last fifth"]
    lines += ["", f"{'metric':<42}{'start':>11}{'end':>11}{'change':>11}"]

    def add(name: str, start: float, end: float) -> None:
        lines.append(f"{name:<42}{_short(start):>11}{_short(end):>11}{_short(end - start, '+'):>11}")

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


def _short(value: float, sign: str = "") -> str:
    """Three decimals; where they would all be 0, two digits and the exponent."""
    return f"{value:{sign}.3f}" if value == 0 or abs(value) >= 0.0005 else f"{value:{sign}.1e}"

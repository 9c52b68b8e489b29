"""Results on several benchmarks as the papers' tables have them: a row for each model, a column for each benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spicejax.data.benchmarks import BENCHMARKS
from spicejax.evaluation import versus
from spicejax.evaluation.scores import interval

Summary = Mapping[str, Mapping[str, Any]]


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each benchmark, in the order of the records: its score (mean, low and high of the 95 % interval over
    questions), number of questions and of answers to each, tokens an answer has, and what was reported, in percent."""
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(record["suite"] for record in records):
        benchmark, mine = BENCHMARKS[name], [record for record in records if record["suite"] == name]
        values = np.array([record["scores"][benchmark.score] for record in mine])
        found[name] = {
            **{
                "title": benchmark.title,
                "score": benchmark.score,
                "questions": len(mine),
                "samples": benchmark.samples,
            },
            **interval(values),
            **{"tokens": float(np.mean([record["tokens"] for record in mine])), "reported": dict(benchmark.reported)},
        }
    return found


def compare(records: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """`versus.compare` of each benchmark's own score, by its name. Raises: as that does."""
    versus.require_same([(r["id"], r["question"]) for r in records], others)
    pairs = {}
    for name in dict.fromkeys(record["suite"] for record in records):
        sides = [[r for r in side if r.get("suite") == name] for side in (records, others)]
        pairs[name] = versus.compare(*sides)[BENCHMARKS[name].score]
    return pairs


def _rows(model: str, found: Summary) -> list[tuple[str, list[str], str]]:
    """(model, cell of each benchmark, average) in percent: ours, then what was reported for any of them."""
    ours = [f"{100 * s['mean']:.1f} ({100 * s['low']:.1f}-{100 * s['high']:.1f})" for s in found.values()]
    rows = [(model, ours, f"{100 * float(np.mean([s['mean'] for s in found.values()])):.1f}")]
    for name in dict.fromkeys(name for s in found.values() for name in s["reported"]):
        told = [s["reported"].get(name) for s in found.values()]
        known = [value for value in told if value is not None]
        average = f"{np.mean(known):.1f}" if len(known) == len(told) else ""
        rows.append((f"{name} (reported)", ["" if value is None else f"{value:.1f}" for value in told], average))
    return rows


def markdown(model: str, found: Summary) -> str:
    """The table, and what its scores are of."""
    titles = [s["title"] for s in found.values()]
    lines = ["| " + " | ".join(["", *titles, "average"]) + " |", "|---" + "|--:" * (len(titles) + 1) + "|"]
    lines += ["| " + " | ".join([name, *cells, average]) + " |" for name, cells, average in _rows(model, found)]
    how = [
        f"{s['title']}: {s['score']}, {s['questions']} questions"
        + (f", mean of {s['samples']} samples" if s["samples"] > 1 else "")
        + f", {s['tokens']:.0f} tokens an answer"
        for s in found.values()
    ]
    return "\n".join([*lines, "", "Percent, with 95 % intervals over questions. " + "; ".join(how) + "."])


def latex(model: str, found: Summary) -> str:
    """The same as a tabular."""

    def line(cells: Sequence[str]) -> str:
        escaped = [
            cell.replace("\\", "/").replace("_", r"\_").replace("%", r"\%").replace("&", r"\&") for cell in cells
        ]
        return " & ".join(escaped) + r" \\"

    head = line(["", *(s["title"] for s in found.values()), "Average"])
    body = [line([name, *cells, average]) for name, cells, average in _rows(model, found)]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(found) + 1)}}}"
    return "\n".join([begin, r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"])

"""The report of one or several runs as one HTML page that needs nothing else and runs no text of a model."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from spicejax import config as configuration
from spicejax.games.game import Panel
from spicejax.report import curves, places
from spicejax.report.glossary import meaning
from spicejax.report.learnt import Learnt, learnt
from spicejax.report.read import RunFolder, open_run
from spicejax.report.text import text

SHOWN = 300  # tasks of a run that the page holds, spread over it
NEWEST = 100  # and of its last iteration
CHARS = 4000  # of a document or another long text
SOFTWARE = ("spicejax", "jax", "python")  # whose versions the head has
EVOLVED = 8  # documents whose questions are shown over time
_HERE = Path(__file__).parent / "page"
_COLUMNS = ("number", "iteration", "document_id", "id", "question", "answer", "pass_rate", "reward", "rejected")
_LONG = (dict, list)


def write(workdir: Path) -> list[Path]:
    """Write report.png, report.txt and report.html into a work folder; [] where nothing was measured yet."""
    run = open_run(workdir)
    if not run.metrics:
        return []
    picture, words, page = (workdir / f"report.{kind}" for kind in ("png", "txt", "html"))
    curves.draw(run.metrics, run.evaluations, run.game.panels if run.game else (), picture)
    words.write_text(text(run.metrics, run.evaluations, run.game), encoding="utf-8")
    page.write_text(render([run]), encoding="utf-8")
    return [picture, words, page]


def render(runs: Sequence[RunFolder], *, live: int = 0, version: str = "") -> str:
    """The page.

    Args:
      live: seconds between two checks for something new, where a server gives the page; 0 = none.
      version: the server's name of the state of the files that this was made from.
    """
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing is fetched, no script but ours runs: what models and documents say is text, whatever it looks like.
    policy = (
        f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    )
    policy += "; form-action 'none'; connect-src " + ("'self'" if live else "'none'")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html").render(
        title=", ".join(run.name for run in runs),
        policy=policy,
        live=live,
        version=version,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        runs=[_head(run) for run in runs],
        differences=_differences(runs),
        panels=_panels(runs),
        quantities=_quantities(runs),
        details=[_details(run) for run in runs],
    )


def _head(run: RunFolder) -> dict[str, Any]:
    """The head of the page for one run."""
    done = run.metrics[-1]["iteration"] + 1 if run.metrics else 0
    wanted, learning = run.config.get("iterations"), learnt(run.metrics, run.game)
    start = run.starts[-1] if run.starts else {}
    facts = _results(run, done, learning) | _circumstances(run, start)
    return {
        "name": run.name,
        "share": done / wanted if wanted else None,
        "why": learning.why,
        "over": bool(run.summary.get("complete")) and done == wanted,
        "command": start.get("command"),
        "facts": {name: value for name, value in facts.items() if value not in (None, "")},
    }


def _results(run: RunFolder, done: int, learning: Learnt) -> dict[str, Any]:
    """How far a run came, and what came of it: a value with its unit for each label."""
    wanted, asked = run.config.get("iterations"), run.summary.get("held_out_questions")
    accuracy = [row["eval/accuracy"] for row in run.evaluations if row.get("eval/accuracy") is not None]
    questions = f", greedy, on {asked} questions" if asked else ", greedy"
    return {
        "recipe": run.config.get("name") or run.summary.get("name"),
        "method": run.game.paper if run.game else "",
        "iterations": f"{done} of {wanted}" if wanted else done,
        "held-out accuracy": f"{accuracy[0]:.3f} → {accuracy[-1]:.3f}{questions}" if accuracy else "",
        "sampler/learner gap": _gap(run),
        "optimizer steps": learning.steps if run.metrics else None,
        "valid tasks": "" if learning.valid is None else f"{100 * learning.valid:.0f} % of attempts",
        "nothing learnt in": f"{learning.idle} of {done} iterations{learning.rate}" if learning.idle else "",
        "wall time": _took(run),
    }


def _gap(run: RunFolder) -> str:
    """How far the sampler's logprob of a token was from the learner's, over the run; "" where none was compared."""
    names = ("sampler_gap", "sampler_gap_max", "sampler_kl")
    rows = [[row[f"learner/{name}"] for name in names] for row in run.metrics if row.get("learner/sampler_gap_max")]
    if not rows:
        return ""
    mean, largest, kl = zip(*rows, strict=True)
    return (
        f"{sum(mean) / len(rows):.1e} nats mean, {max(largest):.1e} nats at most, between the two log-probabilities of "
        f"a token; KL divergence {sum(kl) / len(rows):.1e} nats a token; all should be near 0"
    )


def _circumstances(run: RunFolder, start: dict[str, Any]) -> dict[str, Any]:
    """What it was made of, and where and when, without the folders of this machine."""
    config = places.public(run.config)
    model, shape = config.get("model") or {}, (config.get("nano") or {}).get("architecture") or {}
    made = f"nano world, {shape.get('num_layers')} layers of width {shape.get('d_model')}" if shape else ""
    versions = {"python": start.get("python"), **(start.get("versions") or {})}
    began = str((run.starts[0] if run.starts else {}).get("time") or "")
    return {
        "model": model.get("path") or made,
        "adapters": "LoRA" if model.get("lora") else "",
        "corpus": (config.get("corpus") or {}).get("source"),
        "devices": start.get("devices"),
        "started": began.replace("T", " ").replace("+00:00", " UTC")
        + (f", {len(run.starts)} starts" if len(run.starts) > 1 else ""),
        "software": ", ".join(f"{name} {versions[name]}" for name in SOFTWARE if versions.get(name)),
        "commit": start.get("commit"),
    }


def _took(run: RunFolder) -> str:
    """Wall time where the run has ended, and the part of it in iterations."""
    inside = sum(row.get("time/play", 0) + row.get("time/update", 0) for row in run.metrics)
    wall = run.summary.get("seconds") if "seconds/other" in run.summary else None  # it was that of iterations before
    share = f"{_duration(inside)} in iterations"
    return f"{_duration(wall)}, of which {share}" if isinstance(wall, int | float) else share


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} minutes" if minutes < 60 else f"{minutes / 60:.1f} hours"


def _differences(runs: Sequence[RunFolder]) -> list[tuple[str, list[Any]]]:
    """(field, value of each run) where not all have the same; the fields of a game only where all play it."""
    flat, shown = ([configuration.flat(of(run.config)) for run in runs] for of in (dict, places.public))
    names = dict.fromkeys(name for fields in flat for name in fields)
    sections = set.intersection(*({name.partition(".")[0] for name in fields} for fields in flat))
    names = [name for name in names if name.partition(".")[0] in sections]
    differ = [name for name in names if len({repr(fields.get(name, configuration.ABSENT)) for fields in flat}) > 1]
    return [(name, [_short(fields.get(name, configuration.ABSENT)) for fields in shown]) for name in differ]


def _panels(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """The curves: each panel once, with all runs that have it."""
    by_title: dict[str, tuple[Panel, list[curves.Curves]]] = {}
    for place, run in enumerate(runs):
        measured = curves.Curves(run.metrics, run.evaluations, run.name, place if len(runs) > 1 else None)
        panels = [curves.held_out(run.evaluations), *(run.game.panels if run.game else ())]
        for panel in curves.measured(panels, run.metrics, run.evaluations):
            first, drawn = by_title.setdefault(panel.title, (panel, []))
            drawn.append(measured)
            series = tuple(dict.fromkeys((*first.series, *panel.series)))  # held-out categories differ by set
            by_title[panel.title] = first._replace(series=series), drawn
    return [
        {"title": title, "meaning": panel.meaning, "picture": Markup(curves.panel_svg(panel, drawn))}
        for title, (panel, drawn) in by_title.items()
    ]


def _quantities(runs: Sequence[RunFolder]) -> list[tuple[str, str]]:
    """(name, meaning) of what the runs have measured."""
    meanings = {
        name: meaning(name, run.game) for run in runs for row in (*run.metrics, *run.evaluations) for name in row
    }
    unknown = "not told by the game's glossary"
    return [(name, text or unknown) for name, text in sorted(meanings.items()) if name != "iteration"]


def _details(run: RunFolder) -> dict[str, Any]:
    """What is shown of each run by itself: invalid tasks, pass rates, time, tasks."""
    rejected = _totals(run, "rejected/")
    rates, by_document, number = [], defaultdict(list), 0
    shown, wanted = [], _shown([task["iteration"] for task in run.tasks()])
    for number, task in enumerate(run.tasks()):
        if isinstance(task.get("pass_rate"), int | float):
            rates.append((task["iteration"], task["pass_rate"]))
            by_document[task.get("document_id")].append(task)
        if number in wanted:
            shown.append(task | {"number": number})
    by_document.pop(None, None)
    evolved = {document: tasks for document, tasks in by_document.items() if len({t["iteration"] for t in tasks}) > 1}
    longest = sorted(evolved, key=lambda d: (-len({t["iteration"] for t in evolved[d]}), str(d)))[:EVOLVED]
    documents = run.documents({str(t["document_id"]) for t in shown if "document_id" in t} | set(map(str, longest)))
    return {
        "name": run.name,
        "rejected": rejected,
        "rejected_picture": _shares(run, [name for name, _ in rejected[:8]], "rejected/", "replies an iteration"),
        "pass_rates": Markup(curves.histogram_svg(rates)) if rates else "",
        "time": [(n.removeprefix("seconds/"), v) for n, v in run.summary.items() if n.startswith("seconds/")],
        "time_picture": _time(run),
        "tasks": [_task(task, documents) for task in reversed(shown)],
        "number": number + 1 if shown else 0,
        "evolved": [_evolution(document, evolved[document], documents) for document in longest],
    }


def _shown(iterations: Sequence[int]) -> set[int]:
    """Numbers of the tasks that the table holds: spread evenly over the run, and more of its last iteration."""
    every = 1
    while len(iterations) > SHOWN * every:
        every *= 2  # as the run grows, what is shown stays until every second goes
    newest = [n for n, iteration in enumerate(iterations) if iteration == iterations[-1]]
    return {*range(0, len(iterations), every), *newest[:: max(1, -(-len(newest) // NEWEST))]}


def _totals(run: RunFolder, prefix: str) -> list[tuple[str, int]]:
    """Counts over all iterations, the largest first."""
    totals: Counter[str] = Counter()
    for row in run.metrics:
        totals.update({n.removeprefix(prefix): int(v or 0) for n, v in row.items() if n.startswith(prefix)})
    return totals.most_common()


def _shares(run: RunFolder, names: Sequence[str], prefix: str, unit: str) -> Markup | str:
    if not names:
        return ""
    labels = [name.replace("_", " ") for name in names]
    return Markup(curves.shares_svg(run.metrics, [prefix + name for name in names], labels, unit))


def _time(run: RunFolder) -> Markup | str:
    parts = [name for name in (*curves.PARTS, "update") if any(row.get(f"time/{name}") for row in run.metrics)]
    return _shares(run, parts, "time/", "seconds an iteration")


def _task(task: dict[str, Any], documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A row of the table, with all that else is known of it."""
    document = documents.get(str(task.get("document_id")), {})
    answers = _answers(task)
    skipped = {*_COLUMNS, *(["said", "correct"] if answers else [])}
    return {
        "number": task["number"],
        "iteration": task.get("iteration"),
        "source": str(task.get("document_id") or task.get("id") or ""),
        "question": _short(task.get("question") or task.get("text") or ""),
        "answer": _short(task.get("answer") or ""),
        "pass_rate": task.get("pass_rate"),
        "reward": task.get("reward"),
        "rejected": task.get("rejected") or "",
        "document": {"title": document.get("title", ""), "text": document.get("text", "")[:CHARS]}
        if document
        else None,
        "answers": answers,
        "rest": [(n, _pretty(v)) for n, v in task.items() if n not in skipped and v not in (None, "", [])],
    }


def _answers(task: dict[str, Any]) -> list[tuple[str | None, bool | None]]:
    """(answer, whether it is right): None where that is not known."""
    answers, correct = task.get("said"), task.get("correct")
    answers = answers if isinstance(answers, list) else []
    verdicts = correct if isinstance(correct, list) and len(correct) == len(answers) else [None] * len(answers)
    return [(text if text is None else str(text), right) for text, right in zip(answers, verdicts, strict=True)]


def _evolution(document: str, tasks: list[dict[str, Any]], documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """How the questions on one document changed: one of each iteration, the nearest to one half."""
    by_iteration: dict[int, dict[str, Any]] = {}
    for task in sorted(tasks, key=lambda t: -abs(t["pass_rate"] - 0.5)):
        by_iteration[task["iteration"]] = task
    rows = [by_iteration[i] for i in sorted(by_iteration)]
    known = documents.get(str(document), {})
    return {
        "id": str(document),
        "text": known.get("text", "")[:CHARS],
        "rows": [
            (t["iteration"], _short(t.get("question") or ""), _short(t.get("answer") or ""), t["pass_rate"])
            for t in rows
        ],
    }


def _short(value: Any, longest: int = 300) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _pretty(value: Any) -> str:
    return _short(json.dumps(value, indent=1, ensure_ascii=False) if isinstance(value, _LONG) else str(value), CHARS)

"""The card of an exported model: README.md with the metadata that the Hub reads, from what the run wrote."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from spicejax.data import questions, sources
from spicejax.report import places
from spicejax.report.base import Base, base_of
from spicejax.report.game import asked
from spicejax.report.learnt import Learnt, learnt
from spicejax.report.read import PYTHON, RunFolder, open_run
from spicejax.report.usage import usage

# Scores of a set of held-out questions, in the words that the Hub shows
_SCORES = {"accuracy": "boxed answers that are right, greedy", "said": "right answers anywhere in a reply, greedy"}


def write(out: Path, workdir: Path, *, step: int, name: str, adapter: bool = False) -> None:
    """Write README.md into an exported folder, and report.png where the run has one.

    Args:
      step: iterations after which the exported weights were saved.
      name: of the model, or ORG/NAME, by which others will load it from the Hub.
    """
    run = open_run(workdir)
    text = _text(run._replace(config=places.public(run.config)), base_of(run.config, workdir), name, step, adapter)
    (out / "README.md").write_text(text, encoding="utf-8")
    if (workdir / "report.png").is_file():
        shutil.copyfile(workdir / "report.png", out / "report.png")


def _command(command: str) -> str:
    """A command without the folders of this machine: of each path its last name is left."""
    words = []
    for word in shlex.split(command):
        key, equals, value = word.rpartition("=")
        parts = (Path(part).name if part.startswith(("/", "~/", "../")) else part for part in value.split(","))
        words.append(key + equals + ",".join(parts))
    return shlex.join(words)


def _text(run: RunFolder, base: Base, name: str, step: int, adapter: bool) -> str:
    model, corpus = (run.config.get(part) or {} for part in ("model", "corpus"))
    start = run.starts[-1] if run.starts else {}
    command = start.get("command")
    unknown = "the base model's files name none: look it up before you share this" if model.get("path") else ""
    facts = {
        "Method": run.game.paper if run.game else "",
        "Recipe": run.config.get("name"),
        "Base model": base.words,
        "License": f"{base.license['license']}, as the base model's" if base.license else unknown,
        "Corpus": corpus.get("source") or "made by the recipe (nano world)",
        "Parameters trained": "adapters" if model.get("lora") else "all",
        "Precision of the parameters": model.get("param_dtype"),
        "Seed": run.config.get("seed"),
        "Devices": start.get("devices"),
        "Software": ", ".join(f"{n} {v}" for n, v in start.get("versions", {}).items()),
        "Command": None if command in (None, PYTHON) else f"`{_command(command)}`",
        "Started": PYTHON if command == PYTHON else None,
    }
    how, plain = asked(run.config, run.folder), model.get("template") == "conversation"
    learning = learnt([row for row in run.metrics if row.get("iteration", 0) < step], run.game)
    lines = ["---", _metadata(run, base, name, step, adapter).to_yaml(), "---", "", f"# {name}", ""]
    lines += ["A model of spicejax, self-play of language models on a corpus.", "", *_warning(run, learning, base)]
    lines += [f"- **{key}**: {value}" for key, value in facts.items() if value not in (None, "")]
    lines += ["", *_happened(run, learning, step), *_limits(run, step)]
    lines += usage(name, base, how, adapter=adapter, conversation=plain)
    saved = json.dumps(run.config, indent=1)
    lines += ["<details><summary>Configuration</summary>", "", "```json", saved, "```", "", "</details>", ""]
    return "\n".join(lines)


def _metadata(run: RunFolder, base: Base, name: str, step: int, adapter: bool) -> ModelCardData:
    """What the Hub reads: only what is known, nothing is guessed."""
    arxiv = (run.game.paper if run.game else "").partition("arXiv:")[2]
    results = _results(run, step)
    known: dict[str, Any] = {
        # adapters belong to what they are loaded with
        "base_model": base.name if not adapter or base.loads == base.name else "",
        "datasets": _datasets(run),
        "eval_results": results,
        "model_name": name if results else None,
        **base.license,
    }
    return ModelCardData(
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["spicejax", *(["lora"] if adapter else []), *([f"arxiv:{arxiv}"] if arxiv else [])],
        **{key: value for key, value in known.items() if value},
    )


def _datasets(run: RunFolder) -> list[str]:
    """Names of the published data sets in the corpus: those of TensorFlow Datasets, without configuration and split."""
    spec = (run.config.get("corpus") or {}).get("source")
    parts = sources.split_mixture(spec) if spec else []
    named = [part.removeprefix("tfds:").partition(":")[0] for part in parts if part.startswith("tfds:")]
    return list(dict.fromkeys(name.partition("/")[0] for name in named))


def _results(run: RunFolder, step: int) -> list[EvalResult]:
    """The held-out scores of these weights; [] where the run did not evaluate them."""
    row = next((row for row in reversed(run.evaluations) if row["iteration"] == step), {})
    return [
        EvalResult(
            task_type="text-generation",
            dataset_type="held-out questions",  # no data set of the Hub is meant
            dataset_config=spec,
            dataset_name=spec,
            metric_type="accuracy",
            metric_name=meaning,
            metric_value=round(row[key], 4),
        )
        for key, spec, meaning in _measured(run)
        if isinstance(row.get(key), int | float)
    ]


def _measured(run: RunFolder) -> list[tuple[str, str, str]]:
    """(metric, set of questions, meaning) of each score that a run may have."""
    specs = str((run.config.get("eval") or {}).get("tasks") or "")
    sets = questions.suites(specs, alike=True) if specs not in ("", "none") else [("", "nano world")]
    return [
        ("/".join(filter(None, ("eval", suite, score))), questions.name_of(spec), meaning)
        for suite, spec in sets
        for score, meaning in _SCORES.items()
    ]


def _warning(run: RunFolder, learning: Learnt, base: Base) -> list[str]:
    """Says first of all where a run learnt nothing, or may have."""
    if not any("learner/steps" in row for row in run.metrics) or learning.steps and not learning.why:
        return []
    why = f" ({learning.why})" if learning.why else ""
    same = f": no optimizer step was taken, and the weights are those it began from, {base.words}"
    return [f"> **Warning: nothing was learnt{why}**{same if not learning.steps else ''}.", ""]


def _happened(run: RunFolder, learning: Learnt, step: int) -> list[str]:
    """Steps, the share of valid tasks, and what was measured before and after."""
    wanted, asked = run.config.get("iterations"), run.summary.get("held_out_questions")
    lines = ["## What happened", "", f"- **Iterations**: {step}" + (f" of {wanted}" if wanted else "")]
    if any("learner/steps" in row for row in run.metrics):
        lines += [f"- **Optimizer steps**: {learning.steps}"]
        lines += [f"- **Iterations that taught nothing**: {learning.idle}{learning.rate}"] if learning.idle else []
    if learning.valid is not None:
        lines += [f"- **Valid tasks**: {100 * learning.valid:.0f} % of what was written as one"]
    if not run.evaluations:
        return [*lines, ""]
    first, last = run.evaluations[0], run.evaluations[-1]
    begun = f"after {first['iteration']}" if first["iteration"] else "at the start"
    head = f"{begun} | after {last['iteration']} iterations |"
    shown = [row for row in _measured(run) if row[0] in first or row[0] in last]
    table = [f"| {meaning} | {name} | {_number(first, key)} | {_number(last, key)} |" for key, name, meaning in shown]
    if table:
        many = f" ({asked} in all)" if asked else ""
        lines += ["", f"| share of | held-out questions{many} | {head}", "|---|---|--:|--:|", *table]
    keys = dict.fromkeys(key for row in run.evaluations for key in row if key.startswith(("eval/", "probe/", "loss/")))
    every = [f"| {key} | {_number(first, key)} | {_number(last, key)} |" for key in keys]
    lines += ["", "<details><summary>All that was measured</summary>", "", f"| quantity | {head}", "|---|--:|--:|"]
    lines += [*every, "", "</details>", ""]
    return [*lines, *(["![Curves of the run](report.png)", ""] if (run.folder / "report.png").is_file() else [])]


def _limits(run: RunFolder, step: int) -> list[str]:
    """What the model must not be taken for."""
    last = run.evaluations[-1]["iteration"] if run.evaluations else None
    lines = ["No held-out question was asked: how good it is, is not known."]
    if last is not None:
        lines = ["Measured was what stands above, greedily and in the words below; nothing else."]
        lines += [f"These very weights were not: the last evaluation came after {last} iterations."] * (last != step)
    if run.game and run.game.written:
        lines += ["The questions and answers that it learnt from were written by a model, and not checked by people."]
    lines += ["What it says may be wrong, and may repeat its corpus. Whether it is safe or fair was not looked at."]
    return ["## Limits", "", *(f"- {line}" for line in lines), ""]


def _number(row: Mapping[str, Any], key: str) -> str:
    return f"{row[key]:.3f}" if isinstance(row.get(key), int | float) else ""

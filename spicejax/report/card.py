"""The card of an exported model: README.md with the metadata that the Hub reads, from what the run wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from spicejax.data import questions, sources
from spicejax.report import places
from spicejax.report.base import Base, base_of
from spicejax.report.read import PYTHON, RunFolder, open_run

# of a set of held-out questions: what the Hub shows
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
        "Iterations": step,
        "Parameters trained": "adapters" if model.get("lora") else "all",
        "Precision of the parameters": model.get("param_dtype"),
        "Seed": run.config.get("seed"),
        "Devices": start.get("devices"),
        "Software": ", ".join(f"{n} {v}" for n, v in start.get("versions", {}).items()),
        "Command": None if command in (None, PYTHON) else f"`{command}`",
        "Started": PYTHON if command == PYTHON else None,
    }
    lines = ["---", _metadata(run, base, name, step, adapter).to_yaml(), "---", "", f"# {name}", ""]
    lines += ["Trained with spicejax, self-play of language models on a corpus.", ""]
    lines += [f"- **{key}**: {value}" for key, value in facts.items() if value not in (None, "")]
    lines += ["", *_scores(run), *_use(name, base, adapter)]
    lines += ["## Configuration", "", "```json", json.dumps(run.config, indent=1), "```", ""]
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
    specs = str((run.config.get("eval") or {}).get("tasks") or "")
    sets = questions.suites(specs) if specs not in ("", "none") else [("", "nano world")]
    found = []
    for suite, spec in sets:
        for score, meaning in _SCORES.items():
            value = row.get("/".join(filter(None, ("eval", suite, score))))
            if isinstance(value, int | float):
                found.append(
                    EvalResult(
                        task_type="text-generation",
                        dataset_type="held-out questions",  # no data set of the Hub is meant
                        dataset_config=questions.named(spec),
                        dataset_name=questions.named(spec),
                        metric_type="accuracy",
                        metric_name=meaning,
                        metric_value=round(value, 4),
                    )
                )
    return found


def _scores(run: RunFolder) -> list[str]:
    """What was measured before and after, as a table."""
    shown = [key for row in run.evaluations for key in row if key.startswith(("eval/", "probe/"))]
    if not shown:
        return []
    first, last = run.evaluations[0], run.evaluations[-1]
    lines = ["## Evaluations during training", ""]
    lines += [f"| quantity | after {first['iteration']} iterations | after {last['iteration']} |", "|---|--:|--:|"]
    lines += [f"| {key} | {_number(first, key)} | {_number(last, key)} |" for key in dict.fromkeys(shown)]
    picture = ["", "![Curves of the run](report.png)"] if (run.folder / "report.png").is_file() else []
    return [*lines, *picture, ""]


def _number(row: Mapping[str, Any], key: str) -> str:
    return f"{row[key]:.3f}" if isinstance(row.get(key), int | float) else ""


def _use(name: str, base: Base, adapter: bool) -> list[str]:
    if adapter and not base.loads:
        return [
            *("## Use", "", f"These are adapters for {base.words}, which transformers and PEFT cannot load by a name."),
            "Of the run that made them, this writes the whole model, adapters merged:",
            *("", "```bash", "spicejax export --run=RUN --out=FOLDER", "```", ""),
            'and `pipeline("text-generation", model="FOLDER")` of transformers loads it.',
            "",
        ]
    if adapter:
        code = [
            "from peft import PeftModel",
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            f"base = AutoModelForCausalLM.from_pretrained({json.dumps(base.loads)})",
            f"model = PeftModel.from_pretrained(base, {json.dumps(name)})",
            f"tokenizer = AutoTokenizer.from_pretrained({json.dumps(name)})",
        ]
    else:
        code = [
            "from transformers import pipeline",
            "",
            f'speak = pipeline("text-generation", model={json.dumps(name)})',
            'speak([{"role": "user", "content": "..."}], max_new_tokens=512, return_full_text=False)',
        ]
    return ["## Use", "", "```python", *code, "```", ""]

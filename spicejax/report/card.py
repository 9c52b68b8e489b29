"""The card of an exported model: README.md with the metadata that the Hub reads, from what the run wrote."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from spicejax.report.read import PYTHON, RunFolder, open_run

_HUB = re.compile(r"[\w.-]+/[\w.-]+")


def write(out: Path, workdir: Path, *, name: str, adapter: bool = False) -> None:
    """Write README.md into an exported folder, and report.png where the run has one.

    name: of the model; the folder may not have its own yet.
    """
    run = open_run(workdir)
    (out / "README.md").write_text(_text(run, name, adapter), encoding="utf-8")
    if (workdir / "report.png").is_file():
        shutil.copyfile(workdir / "report.png", out / "report.png")


def _text(run: RunFolder, name: str, adapter: bool) -> str:
    paper = run.game.paper if run.game else ""
    arxiv = paper.partition("arXiv:")[2]
    model, corpus = (run.config.get(part) or {} for part in ("model", "corpus"))
    base = str(model.get("path") or "")
    metadata: dict[str, Any] = {
        "library_name": "peft" if adapter else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["spicejax", *([f"arxiv:{arxiv}"] if arxiv else [])],
    }
    if _HUB.fullmatch(base):
        metadata["base_model"] = base
    start, summary = (run.starts[-1] if run.starts else {}), run.summary
    command = start.get("command")
    facts = {
        "Method": paper,
        "Recipe": run.config.get("name"),
        "Base model": base or "made by the recipe (nano world)",
        "Corpus": corpus.get("source") or "made by the recipe (nano world)",
        "Iterations": summary.get("iterations"),
        "Parameters trained": "adapters" if model.get("lora") else "all",
        "Precision of the parameters": model.get("param_dtype"),
        "Seed": run.config.get("seed"),
        "Devices": start.get("devices"),
        "Software": ", ".join(f"{n} {v}" for n, v in start.get("versions", {}).items()),
        "Command": None if command in (None, PYTHON) else f"`{command}`",
        "Started": PYTHON if command == PYTHON else None,
    }
    lines = ["---", ModelCardData(**metadata).to_yaml(), "---", "", f"# {name}", ""]
    lines += [
        "Trained with [spicejax](https://pypi.org/project/spicejax/): self-play of a language model on a corpus.",
        "",
    ]
    lines += [f"- **{key}**: {value}" for key, value in facts.items() if value not in (None, "")]
    lines += ["", *_scores(run), *_use(name, base, adapter, bool(model.get("path")))]
    lines += ["## Configuration", "", "```json", json.dumps(run.config, indent=1), "```", ""]
    return "\n".join(lines)


def _scores(run: RunFolder) -> list[str]:
    """What was measured before and after, as a table."""
    shown = [key for row in run.evaluations for key in row if key.startswith(("eval/", "probe/"))]
    if not shown:
        return []
    first, last = run.evaluations[0], run.evaluations[-1]
    lines = ["## Evaluations during training", "", "| quantity | start | end |", "|---|--:|--:|"]
    lines += [f"| {key} | {_number(first, key)} | {_number(last, key)} |" for key in dict.fromkeys(shown)]
    picture = ["", "![Curves of the run](report.png)"] if (run.folder / "report.png").is_file() else []
    return [*lines, *picture, ""]


def _number(row: Mapping[str, Any], key: str) -> str:
    return f"{row[key]:.3f}" if isinstance(row.get(key), int | float) else ""


def _use(name: str, base: str, adapter: bool, known: bool) -> list[str]:
    if adapter:
        code = [
            "from peft import PeftModel",
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            f'base = AutoModelForCausalLM.from_pretrained("{base if known else "BASE"}")',
            f'model = PeftModel.from_pretrained(base, "{name}")',
            f'tokenizer = AutoTokenizer.from_pretrained("{name}")',
        ]
    else:
        code = [
            "from transformers import pipeline",
            "",
            f'speak = pipeline("text-generation", model="{name}")',
            'speak([{"role": "user", "content": "..."}], max_new_tokens=512, return_full_text=False)',
        ]
    return ["## Use", "", "```python", *code, "```", ""]

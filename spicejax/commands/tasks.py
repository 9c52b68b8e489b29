"""Write the questions that a run generated as a data set: spicejax tasks RUN --out=DIR [--solved=0.1,0.9]

DIR gets data/train.parquet and README.md, as the Hugging Face Hub reads them. Only valid tasks, each question once,
with answer, document id, sha256 of the document's text, recipe, iteration, pass rate, verdicts on the single answers
and reward. --solved keeps those with a pass rate in a range. --jsonl writes tasks.jsonl instead, which can be a
--corpus of other games, and needs no pyarrow. --source_text adds the text of each document, which is left out else.

--license=cc-by-4.0 names a licence in the card, and without it the command asks for one: think of that of your
documents. --push=ORG/NAME uploads the folder
to the Hub as a data set (`hf auth login` first); where that fails the folder stays. RUN may be a chain: its last stage
that has tasks is taken.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCardData

from spicejax.commands import Parser
from spicejax.report import places, publish
from spicejax.report.read import RunFolder, holds, last_stage, open_run, rows_of
from spicejax.run import preflight

COLUMNS = {
    "question": "what was asked",
    "answer": "what its author, or the set it comes from, holds to be right",
    "answer_type": "form of the answer: String, Integer, MCQ, ...",
    "document_id": "the document that the question is about, as the run names it",
    "document_sha256": "sha256 of its text as the run read it, in UTF-8",
    "document_text": "its text",
    "config": "recipe of the run",
    "iteration": "when the question was first answered, from 0; first asked, where it never was",
    "pass_rate": "share of the answers of the policy of that iteration which were right",
    "verdicts": "whether each of them was right",
    "reward": "what the question earned its author",
}

# As the Hub sorts data sets -> rows below which they are of this size
_SIZES = {"n<1K": 1e3, "1K<n<10K": 1e4, "10K<n<100K": 1e5, "100K<n<1M": 1e6, "1M<n<10M": 1e7, "n>10M": float("inf")}


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(__name__, __doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="work folder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--solved", metavar="LOW,HIGH", help="only tasks with a pass rate from LOW to HIGH")
    parser.add_argument("--jsonl", action="store_true", help="JSON lines instead of parquet")
    parser.add_argument("--source_text", action="store_true", help="with the text of each document")
    parser.add_argument("--license", metavar="ID", help="licence of the data set, as the Hub calls it: cc-by-4.0, ...")
    parser.add_argument("--push", metavar="ORG/NAME", help="upload the folder to the Hugging Face Hub")
    parser.add_argument("--private", action="store_true", help="with --push: nobody else sees it")
    options = parser.parse_intermixed_args(argv)
    publish.require_name(options.push)
    if options.license is not None and not re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", options.license):
        raise ValueError(f"--license={options.license}: give an identifier of the Hub, such as cc-by-4.0 or apache-2.0")
    return options


def main(argv: Sequence[str]) -> None:
    """Write the data set."""
    options = arguments(argv)
    low, high = _range(options.solved)
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise FileExistsError(f"{options.out} is not empty; give a new folder")
    preflight.require_folder(options.out, "--out")
    if not options.jsonl and importlib.util.find_spec("pyarrow") is None:
        raise ImportError('parquet needs pyarrow: pip install "spicejax[parquet]", or add --jsonl')
    run = open_run(last_stage(options.run, holds("tasks.jsonl"), "a tasks.jsonl"))
    rows = tasks(run)
    if options.solved is not None:
        rows = [row for row in rows if row["pass_rate"] is not None and low <= row["pass_rate"] <= high]
    if not rows:
        raise ValueError(f"{options.run} has no valid task" + (f" solved {options.solved}" if options.solved else ""))
    rows = _with_text(run, rows) if options.source_text else rows
    options.out.mkdir(parents=True, exist_ok=True)
    if options.jsonl:
        file = options.out / "tasks.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        file = _parquet(options.out / "data" / "train.parquet", rows)
    card = _card(run, rows, file.relative_to(options.out), file.stat().st_size, options.license)
    (options.out / "README.md").write_text(card, encoding="utf-8")
    print(f"{file}: {len(rows)} tasks")
    if options.license is None:
        print("the card names no licence: give --license=ID before you share it (that of your documents carries over)")
    if options.push:
        print(publish.push(options.out, options.push, private=options.private, kind="dataset"))


def tasks(run: RunFolder) -> list[dict[str, Any]]:
    """The valid tasks of a run, each question and answer once: the first time it has a pass rate, or was asked."""
    digests = {
        row["id"]: hashlib.sha256(str(row["text"]).encode()).hexdigest()
        for row in rows_of(run.folder / "documents.jsonl")
    }
    found: dict[tuple[Any, Any], dict[str, Any]] = {}
    for task in run.tasks():
        question, answer, document = task.get("question"), task.get("answer"), task.get("document_id")
        if not question or answer is None or task.get("rejected"):
            continue
        earlier = found.get((question, answer))
        if earlier and (earlier["pass_rate"] is not None or task.get("pass_rate") is None):
            continue
        found[question, answer] = {
            "question": question,
            "answer": str(answer),
            "answer_type": task.get("format"),
            "document_id": document,
            "document_sha256": digests.get(document) if document else None,
            "config": run.config.get("name"),
            "iteration": task["iteration"],
            "pass_rate": task.get("pass_rate"),
            "verdicts": task.get("correct"),
            "reward": task.get("reward"),
        }
    return list(found.values())


def _with_text(run: RunFolder, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each task with the text of its document."""
    documents = run.documents({row["document_id"] for row in rows if row["document_id"]})
    if not documents:
        raise ValueError(f"--source_text: {run.folder} has read no document that its tasks name; leave it out")
    return [row | {"document_text": documents.get(row["document_id"], {}).get("text")} for row in rows]


def _range(text: str | None) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(",")) if text else (0.0, 1.0)
    except ValueError:
        low, high = 1.0, 0.0
    if not 0 <= low <= high <= 1:
        raise ValueError(f"--solved={text}: give two pass rates, LOW,HIGH, from 0 to 1")
    return low, high


def _parquet(file: Path, rows: list[dict[str, Any]]) -> Path:
    import pyarrow
    import pyarrow.parquet

    text, number = pyarrow.string(), pyarrow.float64()
    types = {"iteration": pyarrow.int64(), "pass_rate": number, "reward": number}
    types["verdicts"] = pyarrow.list_(pyarrow.bool_())
    schema = pyarrow.schema([(name, types.get(name, text)) for name in rows[0]])
    file.parent.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), file)
    return file


def _card(run: RunFolder, rows: list[dict[str, Any]], file: Path, size: int, license: str | None) -> str:
    """Args: size: of the file, in bytes."""
    written = run.game is None or run.game.written  # else the questions were given
    data = DatasetCardData(
        license=license,
        task_categories=["question-answering"],
        size_categories=[next(name for name, most in _SIZES.items() if len(rows) < most)],
        tags=["spicejax", *(["synthetic"] if written else [])],
        configs=[{"config_name": "default", "data_files": [{"split": "train", "path": str(file)}]}],
    )
    source = (places.public(run.config).get("corpus") or {}).get("source") or "the nano world of the recipe"
    summary = f"{len(rows)} questions of {source} that a model was trained on, with their answers."
    if written:
        summary = (
            f"{len(rows)} questions that a model wrote in self-play on {source}, with the answers it gave them. "
            "The answers were not checked by people."
        )
    about = [f"| `{name}` | {text} |" for name, text in COLUMNS.items() if name in rows[0]]
    head = ["---", data.to_yaml(), "---", "", f"# Questions of {run.name}", "", summary, ""]
    named = f"Licence: {license}." if license else "No licence is named yet: choose one before you share this."
    head += [f"{named} That of the corpus carries over to what quotes it.", ""]
    head += [f"{len(rows)} rows, {size / 1e6:.2f} MB.", "", "| column | what it holds |", "|---|---|"]
    method = run.game.paper if run.game else "unknown"
    return "\n".join([*head, *about, "", f"Recipe: {run.config.get('name')}; method: {method}.", ""])

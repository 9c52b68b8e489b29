"""Write the questions that a run generated as a data set: spicejax tasks RUN --out=DIR [--solved=0.1,0.9]

DIR gets data/train.parquet and README.md, as the Hugging Face Hub reads them. Only valid tasks, each question once,
with answer, document id, sha256 of the document's text, iteration, pass rate and reward. --solved keeps pass rates in a
range. --jsonl writes tasks.jsonl instead, which can be a --corpus of other games, and needs no pyarrow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCardData

from spicejax.commands import Parser
from spicejax.report.read import RunFolder, holds, last_stage, open_run, rows_of


def main(argv: Sequence[str]) -> None:
    """Write the data set."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="work folder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--solved", metavar="LOW,HIGH", help="only tasks with a pass rate from LOW to HIGH")
    parser.add_argument("--jsonl", action="store_true", help="JSON lines instead of parquet")
    options = parser.parse_intermixed_args(argv)
    low, high = _range(options.solved)
    run = open_run(last_stage(options.run, holds("tasks.jsonl"), "a tasks.jsonl"))
    rows = [row for row in tasks(run) if options.solved is None or low <= (row["pass_rate"] or 0.0) <= high]
    if not rows:
        raise ValueError(f"{options.run} has no valid task" + (f" solved {options.solved}" if options.solved else ""))
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise FileExistsError(f"{options.out} is not empty; give a new folder")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.jsonl:
        file = options.out / "tasks.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        file = _parquet(options.out / "data" / "train.parquet", rows)
    (options.out / "README.md").write_text(_card(run, rows, file.relative_to(options.out)), encoding="utf-8")
    print(f"{file}: {len(rows)} tasks")


def tasks(run: RunFolder) -> Iterator[dict[str, Any]]:
    """The valid tasks of a run, each question and answer once: the first time it was asked."""
    digests = {
        row["id"]: hashlib.sha256(str(row["text"]).encode()).hexdigest()
        for row in rows_of(run.folder / "documents.jsonl")
    }
    seen = set()
    for task in run.tasks():
        question, answer, document = task.get("question"), task.get("answer"), task.get("document_id")
        if not question or answer is None or task.get("rejected") or (question, answer) in seen:
            continue
        seen.add((question, answer))
        yield {
            "question": question,
            "answer": str(answer),
            "answer_type": task.get("format"),
            "document_id": document,
            "document_sha256": digests.get(document) if document else None,
            "iteration": task["iteration"],
            "pass_rate": task.get("pass_rate"),
            "reward": task.get("reward"),
        }


def _range(text: str | None) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(",")) if text else (0.0, 1.0)
    except ValueError:
        low, high = 1.0, 0.0
    if not 0 <= low <= high <= 1:
        raise ValueError(f"--solved={text}: give two pass rates, LOW,HIGH, from 0 to 1")
    return low, high


def _parquet(file: Path, rows: list[dict[str, Any]]) -> Path:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('parquet needs pyarrow: pip install "spicejax[parquet]", or add --jsonl') from error
    text, number = pyarrow.string(), pyarrow.float64()
    types = {"iteration": pyarrow.int64(), "pass_rate": number, "reward": number}
    schema = pyarrow.schema([(name, types.get(name, text)) for name in rows[0]])
    file.parent.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), file)
    return file


def _card(run: RunFolder, rows: list[dict[str, Any]], file: Path) -> str:
    data = DatasetCardData(
        task_categories=["question-answering"],
        tags=["spicejax", "synthetic"],
        configs=[{"config_name": "default", "data_files": [{"split": "train", "path": str(file)}]}],
    )
    source = (run.config.get("corpus") or {}).get("source") or "the nano world of the recipe"
    lines = ["---", data.to_yaml(), "---", "", f"# Questions of {run.name}", ""]
    lines += [f"{len(rows)} questions that a model wrote in self-play on {source}, with the answers it gave them.", ""]
    lines += ["The answers were not checked by people. The licence of the corpus carries over to what quotes it.", ""]
    lines += [
        "`document_sha256` is of the document's text as the run read it; `pass_rate` is the share of the answers of"
    ]
    lines += [f"the policy of that iteration which were right. Recipe: {run.config.get('name')}; method: "]
    lines[-1] += f"{run.game.paper if run.game else 'unknown'}."
    return "\n".join([*lines, ""])

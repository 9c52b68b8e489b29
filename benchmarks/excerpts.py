"""What a SPICE run wrote early and late, as Markdown: the first attempt at each document, whatever became of it.

    python benchmarks/excerpts.py --run=RUN [--iterations=4]

The rule is the same for every run, so that nothing is picked by hand: of the first and of the last `--iterations`
iterations the first attempt at each document, with the first answer of the Reasoner.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import harness


def first_attempts(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first record of each document of each iteration."""
    seen: dict[tuple[int, str], dict[str, Any]] = {}
    for record in records:
        seen.setdefault((record["iteration"], record["document_id"]), record)
    return list(seen.values())


def row(record: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if "question" in record:
        rate = record["pass_rate"]
        told = [record["question"], record["answer"], "-" if rate is None else f"{rate:.0%}", record["sample_answer"]]
    else:
        told = [record["text"], f"*{record['rejected']}*", "-", "-"]
    cells = [str(cell).replace("\n", " ⏎ ").replace("|", "\\|").replace("<", "&lt;") for cell in told]
    return [str(record["iteration"] + 1), record["document_id"], *cells]


def main() -> None:
    args = harness.options(__doc__, run="runs/smollm2", iterations=4)
    records = [json.loads(line) for line in (Path(args.run) / "tasks.jsonl").read_text().splitlines()]
    last = records[-1]["iteration"]
    parts = {
        f"Iterations 1 to {args.iterations}": range(args.iterations),
        f"Iterations {last + 2 - args.iterations} to {last + 1}": range(last + 1 - args.iterations, last + 1),
    }
    for title, wanted in parts.items():
        rows = [row(record) for record in first_attempts([r for r in records if r["iteration"] in wanted])]
        head = ("iteration", "document", "question, or what was written", "answer, or why not", "solved", "an answer")
        print(f"### {title}\n\n{harness.table(head, rows)}\n")


if __name__ == "__main__":
    main()

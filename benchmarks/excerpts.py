"""What a SPICE run wrote early and late, as Markdown: the first attempt at each document, whatever became of it.

    python benchmarks/excerpts.py RUN [--iterations=4]

The rule is the same for every run, so that nothing is picked by hand: of the first and of the last `--iterations`
iterations the first attempt at each document, with the first answer of the Reasoner.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def first_attempts(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first record of each document of each iteration."""
    seen: dict[tuple[int, str], dict[str, Any]] = {}
    for record in records:
        seen.setdefault((record["iteration"], record["document_id"]), record)
    return list(seen.values())


def row(record: dict[str, Any]) -> str:
    """One line of the table."""
    if "question" in record:
        rate = record["pass_rate"]
        told = [record["question"], record["answer"], "-" if rate is None else f"{rate:.0%}", record["sample_answer"]]
    else:
        told = [record["text"], f"*{record['rejected']}*", "-", "-"]
    cells = [str(cell).replace("\n", " ⏎ ").replace("|", "\\|").replace("<", "&lt;") for cell in told]
    return f"| {record['iteration'] + 1} | {record['document_id']} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--iterations", type=int, default=4)
    args = parser.parse_args()
    records = [json.loads(line) for line in (args.run / "tasks.jsonl").read_text().splitlines()]
    last = records[-1]["iteration"]
    parts = {
        f"Iterations 1 to {args.iterations}": range(args.iterations),
        f"Iterations {last + 2 - args.iterations} to {last + 1}": range(last + 1 - args.iterations, last + 1),
    }
    for title, wanted in parts.items():
        print(f"### {title}\n")
        print("| iteration | document | question, or what was written | answer, or why not | solved | an answer |")
        print("|--:|---|---|---|--:|---|")
        for record in first_attempts([r for r in records if r["iteration"] in wanted]):
            print(row(record))
        print()


if __name__ == "__main__":
    main()

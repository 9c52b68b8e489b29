"""Print documents that a run has read: spicejax documents RUN [ID ...] [--json]

tasks.jsonl and the printed examples name documents by id. Without an ID it lists all of them, with their titles.
Of a chain its last stage that has read some is taken.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from spicejax.commands import Parser, tell
from spicejax.report.read import holds, last_stage, open_run, rows_of


def main(argv: Sequence[str]) -> None:
    """Print documents."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="work folder")
    parser.add_argument("id", nargs="*", metavar="ID", help="of a document, as tasks.jsonl names it")
    parser.add_argument("--json", action="store_true", help="print one JSON object a document")
    options = parser.parse_intermixed_args(argv)
    run = open_run(last_stage(options.run, holds("documents.jsonl"), "a documents.jsonl"))
    if not (run.folder / "documents.jsonl").is_file():
        raise ValueError(f"{options.run} has no documents.jsonl: its game reads none, or no iteration is done yet")
    if not options.id:
        for row in rows_of(run.folder / "documents.jsonl"):
            tell(json.dumps(row) if options.json else f"{row['id']}\t{row['title']}")
        return
    found = run.documents(options.id)
    if missing := [name for name in options.id if name not in found]:
        raise ValueError(
            f"{options.run} has read no document {missing[0]!r}; spicejax documents {options.run} lists them"
        )
    for row in (found[name] for name in options.id):
        tell(json.dumps(row) if options.json else f"{row['id']}  {row['title']}\n\n{row['text']}\n")

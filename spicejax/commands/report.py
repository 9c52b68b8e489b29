"""Write the report of a run, or of several side by side: spicejax report RUN [RUN ...] [--out=FILE]

RUN is a work folder; of a chain, all its stages. One RUN: report.html, report.png and report.txt in its folder (of each
stage), as at the end of training. Several: one page, with the fields in which they differ, as --out (default
report.html). The page needs nothing else and can be sent to anybody.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from spicejax.commands import Parser
from spicejax.report import page
from spicejax.report.read import open_run, stages_of
from spicejax.run import preflight


def main(argv: Sequence[str]) -> None:
    """Write reports."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("run", nargs="+", type=Path, metavar="RUN", help="work folder")
    parser.add_argument("--out", type=Path, help="where the page goes")
    options = parser.parse_args(argv)
    if options.out and options.out.is_dir():
        raise ValueError(f"--out={options.out} is a folder; give the name of a file in it, report.html")
    if options.out:
        preflight.require_folder(options.out.parent, "--out")
    folders = [stage for run in options.run for stage in stages_of(run)]
    runs = [open_run(folder) for folder in folders]
    if len(options.run) > 1 or options.out:
        out = options.out or Path("report.html")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page.render(runs), encoding="utf-8")
        print(out)
        return
    for folder in folders:
        if not os.access(folder, os.W_OK):
            raise OSError(f"{folder} cannot be written, where its report would stand; add --out=FILE")
        if not (written := page.write(folder)):
            raise ValueError(f"{folder}: nothing was measured yet; report again after the first iteration")
        print(*written, sep="\n")

"""Run a study of the papers' ablations over seeds: spicejax lab STUDY [STUDY ...] [--seeds=5] [--workdir=runs/lab]

Every arm with every seed is an ordinary run in a folder of its own below --workdir, that studies share; --jobs of them
go on at a time, each on its share of the cores. Finished ones are not repeated: the same command goes on where it was
stopped (one at a time in a folder). Written there: STUDY.md with the tables (means over seeds, 95 % intervals, the
paper's direction beside ours), STUDY.png, and STUDY.jsonl with the evaluations of all runs. Fields a.b=c are given to
every run.

spicejax lab                            list the studies
spicejax lab --recorded=STUDY.jsonl     print the table of recorded evaluations
spicejax lab --page=docs/lab.md         write one page of all studies whose evaluations stand in --records
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from spicejax.commands import Parser
from spicejax.lab import runs, tables
from spicejax.lab.studies import STUDIES
from spicejax.report import read
from spicejax.report.read import Rows
from spicejax.run import preflight


def main(argv: Sequence[str]) -> None:
    """Run studies, or write their page."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("words", nargs="*", metavar="STUDY", help="; ".join(STUDIES))
    parser.add_argument("--seeds", type=int, default=5, help="of each arm, from 0 on")
    parser.add_argument("--workdir", type=Path, default=Path("runs/lab"), help="folder of all runs")
    parser.add_argument("--jobs", type=int, default=0, help="runs at a time; default: one a core, at most 8")
    parser.add_argument("--records", type=Path, help="folder with STUDY.jsonl of studies; default: --workdir")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="print the table of such a file instead")
    parser.add_argument("--page", type=Path, help="write a page of the recorded studies instead")
    options = parser.parse_intermixed_args(argv)
    names = [word for word in options.words if "=" not in word]
    fields = [word for word in options.words if "=" in word]
    if unknown := [name for name in names if name not in STUDIES]:
        parser.error(f"no study {unknown[0]}; choose from {', '.join(STUDIES)}")
    if options.recorded:
        if not (rows := _recorded(options.recorded)):
            raise ValueError(f"{options.recorded} has no evaluations with their run and seed; give a lab's STUDY.jsonl")
        print(tables.outcomes(rows, paired=True))
        return
    records = options.records or options.workdir
    if options.page:
        write_page(options.page, records, names or list(STUDIES))
        return
    if not names:
        print("\n".join(f"{name:<16}{study.about}" for name, study in STUDIES.items()))
        return
    if options.seeds < 1 or options.jobs < 0:
        wrong = f"--seeds={options.seeds}" if options.seeds < 1 else f"--jobs={options.jobs}"
        parser.error(f"{wrong}: give 1 or more")
    changed = [field for field in fields if not field.startswith(f"{runs.KEPT}=")]
    if options.records and changed:
        parser.error(f"{changed[0]} makes another study than the one that --records keeps; leave one of them out")
    for folder, name in ((options.workdir, "--workdir"), (records, "--records")):
        preflight.require_folder(folder, name)
        folder.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    planned = {name: runs.planned(STUDIES[name], options.workdir, options.seeds, fields) for name in names}
    failed = runs.finish([run for each in planned.values() for run in each], options.jobs or min(cores, 8))
    for name, each in planned.items():
        if not all(run.finished for run in each):
            continue
        rows = [row for run in each for row in runs.measured(run)]
        (records / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        tables.draw(rows, options.workdir / f"{name}.png")
        words = " ".join([name, *([] if options.seeds == 5 else [f"--seeds={options.seeds}"]), *changed])
        text = tables.section(name, STUDIES[name], rows, f"{name}.png", words)
        (options.workdir / f"{name}.md").write_text(text, encoding="utf-8")
        print(text)
    if failed:
        raise OSError(f"{len(failed)} runs ended early; the same command goes on with them; {failed[0].log} says why")


def _recorded(path: Path) -> Rows:
    """Evaluations of a file, without what is none."""
    return [row for row in read.rows_of(path) if {"run", "seed"} <= row.keys()]


def write_page(page: Path, records: Path, names: Sequence[str]) -> None:
    """Write a page with a section for each recorded study, pictures beside it."""
    found = {name: rows for name in names if (rows := _recorded(records / f"{name}.jsonl"))}
    if not found:
        raise FileNotFoundError(f"{records} has no STUDY.jsonl; run a study with --records={records} first")
    preflight.require_folder(page.parent, "--page")
    page.parent.mkdir(parents=True, exist_ok=True)
    parts = [INTRODUCTION]
    for name, rows in found.items():
        picture = f"{page.stem}_{name}.png"
        tables.draw(rows, page.with_name(picture))
        parts.append(tables.section(name, STUDIES[name], rows, picture))
    page.write_text("\n".join(parts), encoding="utf-8")
    print(page)


INTRODUCTION = """# The lab: the papers' ablations, over seeds

Models of about a million parameters in made worlds, so that an ablation takes minutes on a core and every arm has
several seeds. They say what the code does and which effects such a world can show, not what a paper's model would do.
Unless a study's note says otherwise an arm differs from the first one in one thing and all arms of a seed start from
the same model; settings were fixed before the seeds were run.

*Agree*: the 95 % interval of the difference, seed by seed (Student's t), lies on the paper's side of 0; *disagree*: on
the other; else one *cannot tell*. Of twenty such intervals one misses by chance. In the tables of arms a cell is mean
at the start → mean at the end (mean change ± its interval); of what every iteration measures, the means of the first
four iterations and of the last four. Curves: all seeds thin, their mean bold.
"""

"""Try what a recipe survives: spicejax torture --config=NAME [--hours=H] [--workdir=DIR] [a.b=c ...]

Two runs are left alone and must end alike. Then others are killed, stopped, paused, given no more time, a full disk,
no descriptors, no memory or another clock, at random and at named moments, and their checkpoints are damaged; each is
started again by the same command until it ends.
--damages=N damages the files of the run left alone so often before, in a copy, and reads them.
A run that ends otherwise than the one left alone, in any bit of its arrays, state or logs, goes on from an older step
than it had saved, or says an error in another form than one line, is a difference: its folder and its log stay in
--workdir, whose trials.jsonl holds all trials. The same command goes on with new ones. Exit code 1 where one differed.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path

from spicejax import configs
from spicejax.commands import Parser, tell
from spicejax.endurance import damages, faults, trials
from spicejax.report import read
from spicejax.run import chain, preflight


def main(argv: Sequence[str]) -> int:
    """Make trials until the time is over; return 1 if any of the work folder's differed."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--config", required=True, metavar="NAME", help="a recipe; give it few, short iterations")
    parser.add_argument("--hours", type=float, default=1.0, help="no trial begins after that; default 1")
    parser.add_argument("--trials", type=int, default=0, metavar="N", help="no more than so many; default: any number")
    parser.add_argument(
        "--damages", type=int, default=0, metavar="N", help="first damage files of the undisturbed run so often"
    )
    parser.add_argument("--faults", type=int, default=3, metavar="N", help="most faults in a trial; default 3")
    parser.add_argument(
        "--actions", default=",".join(faults.ACTIONS), help="what may happen, joined by commas; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the faults: trial K is always the same")
    parser.add_argument("--workdir", type=Path, default=Path("runs/torture"))
    parser.add_argument("--patience", type=float, default=3600.0, help="seconds until a start counts as hung")
    parser.add_argument("fields", nargs="*", metavar="a.b=c", help="fields of the recipe")
    options = parser.parse_intermixed_args(argv)
    for name in ("hours", "patience"):
        if not getattr(options, name) > 0:
            parser.error(f"--{name}={getattr(options, name):g}: give more than 0")
    for name, least in (("trials", 0), ("damages", 0), ("faults", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name}={getattr(options, name)}: give 1 or more")
    actions = tuple(options.actions.split(","))
    if unknown := set(actions) - set(faults.ACTIONS):
        parser.error(f"--actions: {min(unknown)!r} is none of {', '.join(faults.ACTIONS)}")
    stages = chain.override(configs.stages(options.config), options.fields)
    preflight.require_folder(options.workdir, "--workdir")
    end = time.monotonic() + 3600 * options.hours
    chain.require(stages, options.workdir)
    options.workdir.mkdir(parents=True, exist_ok=True)
    recipe = trials.Recipe(
        (f"--config={options.config}", *options.fields),
        lambda folder: chain.folders(stages, folder),
        tuple(cfg.iterations for cfg in stages),
        options.faults,
        actions,
    )
    asked, record = options.workdir / "words.json", options.workdir / "trials.jsonl"
    if asked.exists() and json.loads(asked.read_text()) != list(recipe.words):
        raise ValueError(f"{options.workdir} holds trials of other words ({asked}); choose another --workdir")
    asked.write_text(json.dumps(recipe.words))
    usual = trials.reference(recipe, options.workdir / "reference", options.patience)
    tell(f"one run takes {usual.seconds:.0f} s")
    unseen: list[str] = []
    if options.damages:
        folders = recipe.folders(usual.folder)
        done, unseen = damages.many(folders, options.workdir / "damaged", options.damages, options.seed)
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(done.items()))
        tell("\n".join([*unseen, f"{done.total()} damages, {len(unseen)} of them not seen: {told}"]))
    rows = read.read_rows(record)
    first = 1 + max((row["number"] for row in rows if row["seed"] == options.seed), default=0)
    number = first
    while time.monotonic() < end and (not options.trials or number < first + options.trials):
        folder = options.workdir / f"trial{number}-{options.seed}"
        made = trials.trial(recipe, folder, usual, number, options.seed, options.patience)
        rows.append(dataclasses.asdict(made))
        with record.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        outcome = "; ".join(made.wrong) or "the same"
        tell(f"trial {number}: {' | '.join(made.faults) or 'no fault came'}: {outcome} ({made.seconds:.0f} s)")
        number += 1
    tell(trials.table(rows))
    if number == first and not options.damages:
        raise ValueError(f"--hours={options.hours:g}: no time was left for a trial; give more")
    return 1 if unseen or any(row["wrong"] for row in rows) else 0

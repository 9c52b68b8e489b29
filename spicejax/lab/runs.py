"""The runs of a study: each an ordinary `spicejax train` in a folder of its own, several at a time on the cores."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spicejax import configs
from spicejax.lab.studies import Arm, Study
from spicejax.report import read
from spicejax.report.read import Rows, RunFolder
from spicejax.run import chain
from spicejax.worlds.nano import linked

log = logging.getLogger("spicejax")

PLAYED = 4  # iterations whose mean stands with the first evaluation, and with the last
ROLES = ("challenger", "reasoner", "proposer", "solver", "decomposer", "subquestion")  # whose quantities are kept


class Run(NamedTuple):
    """An arm with a seed, and its work folder, which other studies share."""

    name: str
    arm: Arm
    seed: int
    folder: Path

    @property
    def stages(self) -> list[Path]:
        """The work folders of its stages, or its own."""
        return chain.folders(configs.stages(self.arm.recipe), self.folder)

    @property
    def finished(self) -> bool:
        """Whether its last stage has ended; one that a signal stopped has not."""
        summary = self.stages[-1] / "summary.json"
        return summary.is_file() and json.loads(summary.read_text(encoding="utf-8"))["complete"]

    def command(self, fields: Sequence[str]) -> list[str]:
        """The command that makes it, or goes on with it."""
        train = [sys.executable, "-m", "spicejax", "train", f"--config={self.arm.recipe}", f"--workdir={self.folder}"]
        return [*train, *self.arm.fields, *fields, f"seed={self.seed}"]


def planned(study: Study, folder: Path, seeds: int, fields: Sequence[str]) -> list[Run]:
    """All runs of a study, arm by arm, so that the models of the seeds are made before others need them.

    Raises: ConfigError where an arm has no such field, or refuses its value.
    """
    for arm in study.arms.values():
        chain.override(configs.stages(arm.recipe), [*arm.fields, *fields])
    return [
        Run(name, arm, seed, folder / _slug(arm, fields) / f"seed{seed}")
        for name, arm in study.arms.items()
        for seed in range(seeds)
    ]


def _slug(arm: Arm, fields: Sequence[str]) -> str:
    """A folder's name for an arm and what else is given: a run with other fields is another run."""
    given = [field for field in fields if not field.startswith("nano.cache=")]  # which changes nothing
    return re.sub(r"[^A-Za-z0-9_.=-]", "_", "+".join([arm.recipe, *arm.fields, *given]))


def finish(runs: Sequence[Run], fields: Sequence[str], jobs: int) -> None:
    """Make or go on with the runs that are not finished, `jobs` at a time, each on its share of the cores.

    Raises: OSError naming the log of a run that failed, when the others have ended.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    share = max(1, len(cores) // jobs)
    free = [cores[k * share : (k + 1) * share] or cores for k in range(jobs)]
    waiting = list({run.folder: run for run in runs if not run.finished}.values())
    going: list[tuple[Run, subprocess.Popen[bytes], list[int], float]] = []
    failed: list[Run] = []
    total = len(waiting)
    try:
        while waiting or going:
            while waiting and free:
                run, where = waiting.pop(0), free.pop()
                going.append((run, _start(run, fields, where), where, time.monotonic()))
            time.sleep(0.5)
            for each in [each for each in going if each[1].poll() is not None]:
                going.remove(each)
                run, process, where, began = each
                free.append(where)
                failed += [run] * (not run.finished)
                outcome = "done" if run.finished else f"failed ({process.returncode}), see {run.folder / 'log.txt'}"
                left = f"{len(waiting) + len(going)} of {total} to go"
                log.info("%s, seed %d: %s, %.0f s; %s", run.name, run.seed, outcome, time.monotonic() - began, left)
    finally:
        for _, process, *_ in going:  # a signal: each saves and ends; the same command goes on
            with contextlib.suppress(OSError):
                process.terminate()
        for _, process, *_ in going:
            process.wait()
    if failed:
        raise OSError(
            f"{len(failed)} of {total} runs failed; the first one's last words are in {failed[0].folder / 'log.txt'}"
        )


def _start(run: Run, fields: Sequence[str], cores: list[int]) -> subprocess.Popen[bytes]:
    run.folder.mkdir(parents=True, exist_ok=True)
    before = os.sched_getaffinity(0) if cores else set()
    if cores:
        os.sched_setaffinity(0, cores)  # which the process inherits
    try:
        with (run.folder / "log.txt").open("ab") as file:
            return subprocess.Popen(
                run.command(fields), stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
            )
    finally:
        if cores:
            os.sched_setaffinity(0, before)


def measured(run: Run) -> Rows:
    """Evaluations of a finished run, first to last, with its arm and seed, and of a chain its stage.

    The first and the last one have the means of the iterations beside them, and what only a made world can know.
    """
    stages = list(map(read.open_run, run.stages))
    rows: Rows = []
    for number, stage in enumerate(stages, 1):
        of = {"run": run.name, "seed": run.seed} | ({"stage": number} if len(stages) > 1 else {})
        rows += [of | {key: _rounded(value) for key, value in row.items()} for row in stage.evaluations]
    if not rows:
        raise ValueError(f"{run.folder} was not evaluated; a study compares evaluations: give no eval.every=0")
    for row, stage, first in ((rows[0], stages[0], True), (rows[-1], stages[-1], False)):
        near = stage.metrics[:PLAYED] if first else stage.metrics[-PLAYED:]
        keys = {key for iteration in near for key in iteration if key.split("/")[0] in ROLES}
        means = {key: statistics.mean(r[key] for r in near if key in r) for key in sorted(keys)}
        means |= _known(stage, {r["iteration"] for r in near})
        row |= {key: _rounded(value) for key, value in means.items() if key not in row}
    return rows


def _known(stage: RunFolder, iterations: Collection[int]) -> dict[str, float]:
    """What a made world knows of the questions that were proposed in these iterations."""
    made = stage.config.get("nano") or {}
    if made.get("world") not in ("linked", "graded"):
        return {}
    world = linked.facts(stage.config["seed"], made["world"] == "graded")
    tasks = (task for task in stage.tasks() if task.get("iteration") in iterations)
    return linked.measured(world, [(t["question"], t["answer"], t["rejected"]) for t in tasks if "rejected" in t])


def _rounded(value: Any) -> Any:
    """A number as it is recorded, to six digits."""
    return float(f"{value:.6g}") if isinstance(value, float) else value

"""The runs of a study: each an ordinary `spicejax train` in a folder of its own, several at a time on the cores."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
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
from typing import Any

from spicejax import configs
from spicejax.lab.studies import Arm, Study
from spicejax.report import read
from spicejax.report.read import Rows, RunFolder
from spicejax.run import chain, preflight
from spicejax.run.config import RunConfig
from spicejax.run.store import record
from spicejax.worlds.nano import linked

log = logging.getLogger("spicejax")

PLAYED = 4  # iterations whose mean stands with the first evaluation, and with the last
ROLES = ("challenger", "reasoner", "proposer", "solver", "decomposer", "subquestion")  # whose quantities are kept
KEPT = "nano.cache"  # where models are kept, which changes nothing
_PLACES = (KEPT, "model.path", "seats.")  # fields that a chain fills with the places of its models
_LONGEST = 120  # characters of a folder's name


@dataclasses.dataclass(frozen=True)
class Run:
    """An arm with a seed and what else is given, and its work folder, which other studies share."""

    name: str
    arm: Arm
    seed: int
    folder: Path
    fields: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """All fields that are given."""
        return [*self.arm.fields, *self.fields, f"seed={self.seed}"]

    @property
    def configured(self) -> list[RunConfig]:
        """Its stages. Raises ConfigError where the recipe has no such field, or refuses its value."""
        return chain.override(configs.stages(self.arm.recipe), self.words)

    @property
    def stages(self) -> list[Path]:
        """The work folders of its stages, or its own."""
        return chain.folders(configs.stages(self.arm.recipe), self.folder)

    @property
    def finished(self) -> bool:
        """Whether its last stage has ended; one that a signal stopped has not."""
        summary = self.stages[-1] / "summary.json"
        return summary.is_file() and json.loads(summary.read_text(encoding="utf-8")).get("complete", False)

    def require_same(self) -> None:
        """Raise ValueError if a finished run was made by another recipe than today's."""
        for cfg, folder in zip(self.configured, self.stages, strict=True):
            changed = [
                f"{path}: {then!r} -> {now!r}"
                for path, then, now in preflight.changes(record.read(folder), cfg, folder)
                if not path.startswith(_PLACES)
            ]
            if changed:
                raise ValueError(
                    f"{folder} was made by another recipe ({'; '.join(changed)}); move it away, or take that back"
                )

    def start(self) -> subprocess.Popen[bytes]:
        """Make it, or go on with it."""
        train = [sys.executable, "-m", "spicejax", "train", f"--config={self.arm.recipe}", f"--workdir={self.folder}"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as file:
            return subprocess.Popen(
                [*train, *self.words], stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
            )

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log.txt"


def planned(study: Study, folder: Path, seeds: int, fields: Sequence[str]) -> list[Run]:
    """All runs of a study, arm by arm.

    Raises: ConfigError where an arm has no such field, or refuses its value; ValueError for a field that a study sets,
      and for runs that would not be evaluated.
    """
    if given := [field for field in fields if field.partition("=")[0] == "seed"]:
        raise ValueError(f"{given[0]}: a study runs each arm with every seed; give --seeds=N")
    runs = [
        Run(name, arm, seed, folder / _slug(arm, fields) / f"seed{seed}", tuple(fields))
        for name, arm in study.arms.items()
        for seed in range(seeds)
    ]
    for run in runs:
        if run.configured[-1].eval.tasks == "none":
            raise ValueError("eval.tasks=none: a study compares evaluations; leave it out")
    return runs


def _slug(arm: Arm, fields: Sequence[str]) -> str:
    """A folder's name for an arm and what else is given: a run with other fields is another run."""
    name = "+".join([arm.recipe, *arm.fields, *(field for field in fields if not field.startswith(f"{KEPT}="))])
    plain = re.sub(r"[^A-Za-z0-9_.,=+-]", "_", name)[:_LONGEST]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def finish(runs: Sequence[Run], jobs: int) -> list[Run]:
    """Make or go on with the runs that are not finished, `jobs` at a time, each on its share of the cores.

    Returns those that ended without being finished. Raises: ValueError if a finished one was made by another recipe.
    """
    distinct = list({run.folder: run for run in runs}.values())
    for run in distinct:
        if run.finished:
            run.require_same()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    jobs = max(1, min(jobs, len(cores) or jobs))
    free = [cores[k::jobs] for k in range(jobs)]
    waiting = [run for run in distinct if not run.finished]
    going: list[tuple[Run, subprocess.Popen[bytes], list[int], float]] = []
    failed: list[Run] = []
    total = len(waiting)
    try:
        while waiting or going:
            while waiting and free:
                run, where = waiting.pop(0), free.pop(0)
                with _on(where):
                    going.append((run, run.start(), where, time.monotonic()))
            time.sleep(0.5)
            for each in [each for each in going if each[1].poll() is not None]:
                going.remove(each)
                run, process, where, began = each
                free.append(where)
                failed += [run] * (not run.finished)
                outcome = "done" if run.finished else f"ended early ({process.returncode}), see {run.log}"
                left = f"{len(waiting) + len(going)} of {total} to go"
                log.info("%s, seed %d: %s, %.0f s; %s", run.name, run.seed, outcome, time.monotonic() - began, left)
    finally:
        for _, process, *_ in going:  # a signal: each saves and ends; the same command goes on
            with contextlib.suppress(OSError):
                process.terminate()
        for _, process, *_ in going:
            process.wait()
    return failed


@contextlib.contextmanager
def _on(cores: list[int]) -> Any:
    """Run on these cores meanwhile; processes that begin here stay there. [] = wherever."""
    before = os.sched_getaffinity(0) if cores else set()
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, before)


def measured(run: Run) -> Rows:
    """Evaluations of a finished run, first to last, with its arm and seed.

    Of a chain: those from the last stage on that starts anew, each with its stage and `before`, the iterations of the
    stages between. The first and the last one have the means of the iterations beside them, and what only a made world
    can know.
    """
    configured = run.configured
    begins = max(k for k, cfg in enumerate(configured) if k == 0 or cfg.from_stage == 0)
    rows: Rows = []
    stage_of: list[RunFolder] = []  # of each row
    before = 0
    for number, (cfg, folder) in list(enumerate(zip(configured, run.stages, strict=True), 1))[begins:]:
        stage, of = read.open_run(folder), {"run": run.name, "seed": run.seed}
        of |= {"stage": number, "before": before} if len(configured) > 1 else {}
        rows += [of | {key: _rounded(value) for key, value in row.items()} for row in stage.evaluations]
        stage_of += [stage] * len(stage.evaluations)
        before += cfg.iterations
    first, last = stage_of[0], stage_of[-1]
    rows[0] |= _played(first, first.metrics[:PLAYED])
    if len(rows) > 1:
        rows[-1] |= _played(last, last.metrics[-PLAYED:])
    return rows


def _played(stage: RunFolder, near: Rows) -> dict[str, Any]:
    """Means of some iterations, with what a made world knows of the questions that were proposed in them."""
    keys = {key for iteration in near for key in iteration if key.split("/")[0] in ROLES}
    means = {key: statistics.mean(row[key] for row in near if key in row) for key in sorted(keys)}
    return {key: _rounded(value) for key, value in (means | _known(stage, {row["iteration"] for row in near})).items()}


def _known(stage: RunFolder, iterations: Collection[int]) -> dict[str, float]:
    made = stage.config.get("nano") or {}
    if made.get("world") not in ("linked", "graded"):
        return {}
    graded = made["world"] == "graded"
    tasks = (task for task in stage.tasks() if task.get("iteration") in iterations)
    proposals = [(task["question"], task["answer"], task["rejected"]) for task in tasks if "rejected" in task]
    known = linked.measured(linked.facts(stage.config["seed"], graded, graded), proposals)
    verified = stage.config.get("ssp", {}).get("verify", False)
    return {key: value for key, value in known.items() if verified or not key.startswith("verifier/")}


def _rounded(value: Any) -> Any:
    """A number as it is recorded, to six digits."""
    return float(f"{value:.6g}") if isinstance(value, float) else value

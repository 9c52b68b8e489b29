"""Chains: a configuration that is a tuple of runs, which start from, and seat, policies of earlier ones."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from spicejax import config as configuration
from spicejax import hosts, interrupt
from spicejax.interrupt import Interrupt
from spicejax.report import page
from spicejax.run import preflight, train
from spicejax.run.config import RunConfig, stage_of
from spicejax.run.host import disk, session
from spicejax.run.host.disk import POLICY
from spicejax.run.store import earlier, export, manifest, record
from spicejax.run.store.checkpoint import Saved

log = logging.getLogger(__name__)

Resume = Literal["auto", "never", "restart"] | int


def override(stages: Sequence[RunConfig], words: Sequence[str]) -> list[RunConfig]:
    """The stages with fields changed: `2.a.b=c` in the second, `a.b=c` in all that have such a field."""
    changed = []
    for number, cfg in enumerate(stages, 1):
        mine = []
        for word in words:
            key, _, rest = word.removeprefix("--").partition(".")
            if key.isdigit() and 0 < int(key) <= len(stages):
                mine += [rest] if key == str(number) else []
            elif len(stages) == 1 or _has(cfg, word) or not any(_has(other, word) for other in stages):
                mine.append(word)
        changed.append(configuration.parse(cfg, mine))
    return changed


def _has(cfg: RunConfig, word: str) -> bool:
    key = word.removeprefix("--").partition("=")[0]
    return any(key == path or path == f"{key.rpartition('.')[0]}.NAME" for path, _ in configuration.leaves(cfg))


def folders(stages: Sequence[RunConfig], workdir: str | Path) -> list[Path]:
    """Work folder of each stage: `workdir` itself for a single run, else workdir/1, workdir/2, ..."""
    return [Path(workdir)] if len(stages) == 1 else [Path(workdir, str(k + 1)) for k in range(len(stages))]


def require(stages: Sequence[RunConfig], workdir: Path, *, planned: bool = False, restart: bool = False) -> None:
    """Check the files, the packages and the disk that a chain needs, before anything slow starts.

    Args:
      planned: for a plan alone: files that the configuration does not name yet, and a full disk, are no error.
      restart: whether what is there is set aside first.
    Raises: OSError for a disk that is too small; as `preflight.require`.
    """
    places = folders(stages, workdir)
    link(stages, places)  # or it raises
    for number, (cfg, folder) in enumerate(zip(stages, places, strict=True)):
        preflight.require(cfg, folder, first=not start(cfg, number), planned=planned)
    if not planned and (why := disk.lacking(stages, places, workdir, restart=restart)):
        raise OSError(why)


def link(stages: Sequence[RunConfig], places: Sequence[Path]) -> list[RunConfig]:
    """The stages with the folders of those models that earlier ones leave, to start from and in seats.

    Raises: ValueError where that stage is no earlier one.
    """
    linked = []
    for k, cfg in enumerate(stages):
        origin, seats = start(cfg, k), {role: stage_of(path) for role, path in cfg.seats.items()}
        for field, number in {"from_stage": origin, **{f"seats.{role}": n for role, n in seats.items()}}.items():
            if number > k:
                raise ValueError(f"{field}: run {number} of the chain comes no earlier than this one, {cfg.name}")
        found = {role: str(places[number - 1] / POLICY) for role, number in seats.items() if number}
        model = dataclasses.replace(cfg.model, path=str(places[origin - 1] / POLICY)) if origin else cfg.model
        linked.append(dataclasses.replace(cfg, model=model, seats=cfg.seats | found))
    return linked


def start(cfg: RunConfig, before: int) -> int:
    """The run of a chain whose policy one starts from, which has so many before it; 0 = model.path."""
    return before if cfg.from_stage < 0 else cfg.from_stage


def run(
    stages: Sequence[RunConfig],
    workdir: Path,
    announce: Callable[[RunConfig, Path, bool], None] = lambda cfg, folder, last: None,
    *,
    began: float | None = None,
    resume: Resume = "auto",
) -> dict[str, Any]:
    """Train every stage in its folder and write its report; return the summary of the last stage that ran.

    A stage before the last is finished, and skipped, once its folder `policy` holds its model; later stages find it
    there. One that is damaged is written again, from the checkpoint.

    Args:
      announce: called before each stage with its configuration, its folder and whether it is the last.
      began: `time.monotonic()` at the beginning of the session, from which all stages count their hours; None =
        `session.began()`.
      resume: "auto" resumes from the newest checkpoint; "never" refuses a folder that holds a run; "restart" sets its
        run aside and starts over; a number, for a single run, is the checkpoint after so many iterations.
    Raises: FileExistsError for "never" if something is saved; FileNotFoundError if a later stage has begun and its
      first model is gone; ValueError if a stage has handed on its policy and its configuration is another now, or has
      more iterations than it is to have; as `link`, `train.train` and `earlier.set_aside`.
    """
    places, summary = folders(stages, workdir), {}
    if resume == "never" and hosts.by_first(lambda: any(map(export.has_saved, places))):
        raise FileExistsError(f"{workdir} holds a run already; choose another --workdir, or leave --resume=never out")
    if isinstance(resume, int) and len(stages) > 1:
        raise ValueError(f"--resume={resume}: one run goes back, and this is a chain of {len(stages)}; auto or never")
    for folder in places if resume == "restart" else ():
        hosts.by_first(lambda folder=folder: earlier.set_aside(folder))
    hosts.by_first(lambda: _require_models(places))
    linked = link(stages, places)
    hosts.by_first(lambda: _require_same(linked, places, resume))
    began = session.began() if began is None else began
    with Interrupt() as asked:
        for k, (cfg, folder) in enumerate(zip(linked, places, strict=True)):
            interrupt.check(f"stopped before stage {k + 1} of {len(stages)}; the same command goes on from there")
            last = k == len(stages) - 1
            if not last and hosts.by_first(lambda folder=folder: _left(folder)):
                continue
            if len(stages) > 1 and hosts.leads():
                print(f"stage {k + 1} of {len(stages)}: {cfg.name}")
            announce(cfg, folder, last)
            hours = cfg.checkpoint.session_hours or math.inf
            back_to = resume if isinstance(resume, int) else None
            limit = session.Session(began + 3600 * hours)
            summary = train.train(cfg, folder, interrupt=asked, session=limit, back_to=back_to)
            if hosts.leads():
                summary["report"] = _report(folder)
            if not summary["complete"]:
                break  # stopped by a signal, or by the end of the session
            if not last:
                export.write_policy(folder, folder / POLICY, lambda made, step: manifest.note(made))
    return summary


def _require_models(places: Sequence[Path]) -> None:
    """Raise FileNotFoundError if a stage has begun and an earlier one has lost its model."""
    begun = max((k for k, folder in enumerate(places) if export.has_saved(folder)), default=0)
    for before in places[:begun]:
        if not export.has_saved(before) and not _left(before):  # from a checkpoint it is written again
            raise FileNotFoundError(
                f"{places[begun]} has begun from a model that {before / POLICY} no longer holds; bring it back, or add "
                "--restart to set all stages aside and begin anew"
            )


def _require_same(stages: Sequence[RunConfig], places: Sequence[Path], resume: Resume) -> None:
    """Raise ValueError if a stage that has handed on its policy is another now, or one is past its iterations."""
    begun = max((k for k, folder in enumerate(places) if export.has_saved(folder)), default=0)
    for k, (cfg, folder) in enumerate(zip(stages, places, strict=True)):
        field = "iterations" if len(stages) == 1 else f"{k + 1}.iterations"
        steps = Saved(folder / "checkpoints").steps()
        done = resume if isinstance(resume, int) else max(steps, default=0)
        if k < len(stages) - 1 and (k < begun or (folder / POLICY).is_dir()):
            if not (made := record.read(folder)):
                continue
            preflight.require_same(made, cfg, folder / POLICY)
            if (was := made.get("iterations")) != cfg.iterations:
                raise ValueError(
                    f"{field}={cfg.iterations}: {cfg.name} in {folder} has handed on its policy after {was}; give "
                    f"{field}={was}, or choose another --workdir"
                )
        elif done > cfg.iterations:
            back = f" --resume={cfg.iterations} to go back," * (len(stages) == 1 and cfg.iterations in steps)
            raise ValueError(
                f"{field}={cfg.iterations}: {folder} goes on from {done} iterations; give {field}={done} or more,"
                f"{back} or choose another --workdir"
            )


def _left(folder: Path) -> bool:
    """Whether a stage has left its model whole; warn of a damaged one."""
    if not (folder / POLICY).is_dir():
        return False
    if why := manifest.damaged(folder / POLICY):
        log.warning("the model in %s is not as it was written: %s", folder / POLICY, why)
    return not why


def _report(folder: Path) -> str:
    """Write the report of a run and return its paths; a failure is logged, since the run itself is saved."""
    try:
        return ", ".join(map(str, page.write(folder)))
    except Exception as error:  # whatever the drawing library raises
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        log.warning("the report of %s failed (%.300s); the run is whole: spicejax report %s", folder, why, folder)
        return ""

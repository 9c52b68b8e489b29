"""Trials of a recipe: one undisturbed run, then runs with faults, started again until they end, compared with it."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spicejax.endurance import compare, damages, faults
from spicejax.endurance.faults import Fault
from spicejax.run.host.disk import POLICY

ARMED = [
    "-c",
    "import sys; from spicejax.endurance import faults; faults.arm(sys.argv.pop(1)); "
    "from spicejax.__main__ import main; sys.exit(main())",
]
PLAIN = ["-m", "spicejax"]
REFUSED = "are damaged"  # what a start says that finds every step damaged


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What is run, words of `spicejax train`, folders and iterations of its stages; and the faults of a trial."""

    words: tuple[str, ...]
    folders: Callable[[Path], list[Path]]
    iterations: tuple[int, ...]
    most: int = 3  # faults in a trial, at least 1
    actions: tuple[str, ...] = tuple(faults.ACTIONS)  # what may happen


@dataclasses.dataclass
class Trial:
    """What was done to a run, and what became of it."""

    number: int
    seed: int
    faults: list[str] = dataclasses.field(default_factory=list)  # those that came
    starts: int = 0
    iterations_again: int = 0  # that a fault cost
    wrong: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0


class Usual(NamedTuple):
    """The undisturbed run: its folder, its seconds, how often each moment came."""

    folder: Path
    seconds: float
    times: dict[str, int]


def reference(recipe: Recipe, folder: Path, patience: float) -> Usual:
    """Make the undisturbed run where it is not there: twice, so that what is made and compiled once is in no time.

    Raises: OSError where it does not end well, or the two differ; its words stand in `folder`.log.
    """
    known, first = folder.with_suffix(".json"), folder.with_suffix(".first")
    if not known.exists():
        for run in (first, folder):
            shutil.rmtree(run, ignore_errors=True)
            began = time.monotonic()
            code, output = _start(recipe, run, [*ARMED, ""], None, patience)
            folder.with_suffix(".log").write_text(output)
            if code:
                raise OSError(f"the undisturbed run ended with {code}; {folder.with_suffix('.log')} says why")
        seconds = time.monotonic() - began
        if differ := compare.differences(recipe.folders(folder), recipe.folders(first)):
            raise OSError(
                f"two undisturbed runs differ ({differ[0]}), so nothing can be compared with them; on GPUs set "
                f"XLA_FLAGS=--xla_gpu_deterministic_ops=true; they stand in {first} and {folder}"
            )
        shutil.rmtree(first)
        known.write_text(json.dumps([seconds, faults.counted(output)]) + "\n")
    return Usual(folder, *json.loads(known.read_text()))


def trial(recipe: Recipe, folder: Path, usual: Usual, number: int, seed: int, patience: float) -> Trial:
    """Disturb a run by faults drawn of its words, seed and number, go on with it, and compare it with the usual one.

    Args:
      patience: seconds until a start counts as hung.
    """
    rng, began, made = random.Random(f"{recipe.words} {seed}/{number}"), time.monotonic(), Trial(number, seed)
    stages = recipe.folders(folder)
    shutil.rmtree(folder, ignore_errors=True)
    drawn = [faults.draw(rng, usual.times, recipe.actions) for _ in range(rng.randint(1, recipe.most))]
    waiting: list[Fault | None] = [*drawn, None]
    good = {stage: set(compare.steps(stage)) for stage in stages}  # steps that must not be lost
    bad: set[tuple[int, int]] = set()  # damaged steps
    while waiting and not made.wrong:
        fault = waiting.pop(0)
        expected = _next(recipe, stages, good)
        inside = [*ARMED, json.dumps(dataclasses.asdict(fault))] if fault and fault.moment else PLAIN
        after = fault.after * usual.seconds if fault and not fault.moment else None
        code, output = _start(recipe, folder, inside, after, patience)
        made.starts += 1
        with folder.with_suffix(".log").open("a" if made.starts > 1 else "w") as log:
            log.write(f"--- start {made.starts}: {fault or 'no fault'}: ended with {code}\n{output}\n")
        made.wrong += _went_on(expected, output)
        happened = fault is not None and faults.came(fault, code, output)
        if why := faults.told(fault.action if fault and happened else "", code, output):
            made.wrong.append(why)
        made.faults += [str(dataclasses.replace(fault, damage=""))] if fault and happened else []
        if code == 0 or fault is None or made.wrong:
            break
        for stage in stages:
            good[stage] = {step for step in compare.steps(stage) if _identity(stage, step) not in bad}
            made.iterations_again += max(0, _written(stage) - max(good[stage], default=0))
        if fault.damage:
            stage = max((each for each in stages if each.exists()), key=stages.index, default=stages[0])
            if done := damages.damage(fault.damage, stage / "checkpoints", rng):
                made.faults[-1] += f", then {fault.damage}"
                made.wrong += _refused(recipe, folder, good[stage], *done, patience)
                bad |= {_identity(stage, step) for step in compare.steps(stage) if step not in good[stage]}
    made.wrong = made.wrong or compare.differences(stages, recipe.folders(usual.folder))
    made.seconds = round(time.monotonic() - began, 1)
    if not made.wrong:
        shutil.rmtree(folder)
        folder.with_suffix(".log").unlink()
    return made


def _identity(stage: Path, step: int) -> tuple[int, int]:
    """Step and inode of a checkpoint: one that is saved again has another."""
    return step, (stage / "checkpoints" / f"{step:08d}").stat().st_ino


def _refused(
    recipe: Recipe,
    folder: Path,
    good: set[int],
    step: int | None,
    undo: Callable[[], object],
    patience: float,
) -> list[str]:
    """Take a damaged step from the good ones; where it was the only one, see the start refuse, and take it back."""
    good.discard(-1 if step is None else step)
    if good or step is None:
        return []
    code, output = _start(recipe, folder, PLAIN, None, patience)
    undo()
    good.add(step)
    if code == 2 and REFUSED in output and "Traceback" not in output:
        return []
    return [f"the only step was damaged, and the start was not refused but ended with {code}"]


def _written(stage: Path) -> int:
    """Iterations that a stage has logged."""
    log = stage / "metrics.jsonl"
    return log.read_text(errors="replace").count("\n") if log.exists() else 0


def _next(recipe: Recipe, stages: Sequence[Path], good: dict[Path, set[int]]) -> int:
    """The iteration, from 1, that the next start must begin with; 0 = none is left."""
    for stage, iterations in zip(stages, recipe.iterations, strict=True):
        done = max(good[stage], default=0)
        if done < iterations and (stage == stages[-1] or not (stage / POLICY).is_dir()):
            return done + 1
    return 0


def _went_on(expected: int, output: str) -> list[str]:
    """Whether the first iteration that a start finished, if any, is the expected one."""
    found = re.search(r"^iteration (\d+)/\d+ ", output, re.MULTILINE)
    if found is None or int(found[1]) == expected:
        return []
    return [f"went on with iteration {found[1]}, not with {expected or 'none'}"]


def _start(
    recipe: Recipe, folder: Path, program: Sequence[str], after: float | None, patience: float
) -> tuple[int, str]:
    """Start the run; return its exit code and what it said. One that hangs is killed: code -1000.

    Args:
      program: words of Python before those of the command.
      after: seconds until it is killed; None = it is not.
    """
    words = [sys.executable, *program, "train", f"--workdir={folder}", *recipe.words]
    kept = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder.parent / "compiled")}
    kept |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # small programs too: there are many starts
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=kept,
        start_new_session=True, errors="replace",
    )  # fmt: skip
    try:
        if after is not None:
            try:
                output, _ = process.communicate(timeout=after)
            except subprocess.TimeoutExpired:
                process.kill()
        output, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return -1000, f"{output}\nhung: killed after {patience:.0f} s"
    finally:
        process.kill()
    return process.returncode, output


def table(trials: Sequence[dict[str, Any]]) -> str:
    """Markdown: what happened, how often, and how many of those runs differed or were not told so."""
    happened, wrong = Counter[str](), Counter[str]()
    for row in trials:
        for name in {part for fault in row["faults"] for part in _kinds(fault)}:
            happened[name] += 1
            wrong[name] += bool(row["wrong"])
    lines = ["| what happened | runs | of them with a difference |", "|---|---|---|"]
    lines += [f"| {name} | {count} | {wrong[name]} |" for name, count in sorted(happened.items())]
    total, again = sum(bool(row["wrong"]) for row in trials), sum(row["iterations_again"] for row in trials)
    count = sum(len(row["faults"]) for row in trials)
    lines += [f"| all | {len(trials)} | {total} |", ""]
    return "\n".join([*lines, f"{count} faults in {len(trials)} runs; {again} iterations were made again."])


def _kinds(fault: str) -> list[str]:
    """The rows that a fault counts in: what and when, and the damage after it."""
    what, _, damage = fault.partition(", then ")
    action = next(name for name in faults.ACTIONS if what.startswith(name))
    moment = what.removeprefix(f"{action} ").partition(", time")[0]
    return [f"{action} {'at any time' if moment.startswith('after 0') else moment}", *([damage] if damage else [])]

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
from typing import Any

from spicejax.endurance import compare, faults
from spicejax.endurance.faults import Fault
from spicejax.run.host.disk import POLICY

ARMED = (
    "import sys; from spicejax.endurance import faults; faults.arm(sys.argv.pop(1)); "
    "from spicejax.__main__ import main; sys.exit(main())"
)
MOST = 3  # faults in a trial
REFUSED = "are damaged"  # what a start says that finds every step damaged


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What is run: words of `spicejax train`, the folders of its stages in a work folder, iterations of each."""

    words: tuple[str, ...]
    folders: Callable[[Path], list[Path]]
    iterations: tuple[int, ...]


@dataclasses.dataclass
class Trial:
    """What was done to a run, and what became of it."""

    number: int
    seed: int
    faults: list[str] = dataclasses.field(default_factory=list)  # those that happened
    starts: int = 0
    iterations_again: int = 0  # that a fault cost
    wrong: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0


def reference(recipe: Recipe, folder: Path, patience: float) -> float:
    """Make the undisturbed run where it is not there; return its seconds without compiling.

    Raises: OSError where it does not end well; its words stand in `folder`.log.
    """
    marker = folder.with_suffix(".seconds")
    if not marker.exists():
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        code, output = _start(recipe, folder, None, patience, patience)
        folder.with_suffix(".log").write_text(output)
        if code:
            raise OSError(f"the undisturbed run ended with {code}; {folder.with_suffix('.log')} says why")
        summaries = [json.loads((stage / "summary.json").read_text()) for stage in recipe.folders(folder)]
        compiling = sum(summary.get("seconds/compiling", 0.0) for summary in summaries)  # once, for all trials
        marker.write_text(f"{time.monotonic() - began - compiling:.3f}\n")
    return float(marker.read_text())


def trial(recipe: Recipe, folder: Path, whole: Path, number: int, seed: int, usual: float, patience: float) -> Trial:
    """Disturb a run by faults drawn of its words, seed and number, go on with it, and compare it with that in `whole`.

    Args:
      usual: seconds of the undisturbed run.
      patience: seconds until a start counts as hung.
    """
    rng, began, made = random.Random(f"{recipe.words} {seed}/{number}"), time.monotonic(), Trial(number, seed)
    stages = recipe.folders(folder)
    shutil.rmtree(folder, ignore_errors=True)
    drawn = [faults.draw(rng, len(stages) > 1, max(recipe.iterations)) for _ in range(rng.randint(1, MOST))]
    waiting: list[Fault | None] = [*drawn, None]
    good = {stage: set(compare.steps(stage)) for stage in stages}  # steps that must not be lost
    while waiting and not made.wrong:
        fault = waiting.pop(0)
        expected = _next(recipe, stages, good)
        code, output = _start(recipe, folder, fault, usual, patience)
        made.starts += 1
        with folder.with_suffix(".log").open("a" if made.starts > 1 else "w") as log:
            log.write(f"--- start {made.starts}: {fault or 'no fault'}: ended with {code}\n{output}\n")
        made.wrong += _went_on(expected, output)
        action = fault.action if fault else "no fault"
        if why := faults.told(action, code, output) if fault else f"ended with {code}" if code else "":
            made.wrong.append(why)
        if code == 0:
            break
        assert fault is not None
        made.faults.append(str(fault))
        for stage in stages:
            good[stage] = set(compare.steps(stage))
            made.iterations_again += max(0, _written(stage) - max(good[stage], default=0))
        if fault.damage:
            made.wrong += _damage(recipe, folder, stages, fault.damage, good, rng, usual, patience)
    made.wrong = made.wrong or compare.differences(stages, recipe.folders(whole))
    made.seconds = round(time.monotonic() - began, 1)
    if not made.wrong:
        shutil.rmtree(folder)
        folder.with_suffix(".log").unlink()
    return made


def _damage(
    recipe: Recipe,
    folder: Path,
    stages: Sequence[Path],
    kind: str,
    good: dict[Path, set[int]],
    rng: random.Random,
    usual: float,
    patience: float,
) -> list[str]:
    """Damage the stage that was going on; where no other step is left, see the start refuse, and take it back."""
    stage = max((each for each in stages if each.exists()), key=stages.index, default=stages[0])
    step, undo = faults.damage(kind, stage / "checkpoints", rng)
    if step is None:
        return []
    good[stage].discard(step)
    if good[stage]:
        return []
    code, output = _start(recipe, folder, None, usual, patience)
    undo()
    good[stage].add(step)
    if code == 2 and REFUSED in output and "Traceback" not in output:
        return []
    return [f"{kind}: the only step was damaged, and the start was not refused but ended with {code}"]


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


def _start(recipe: Recipe, folder: Path, fault: Fault | None, usual: float, patience: float) -> tuple[int, str]:
    """Start the run, with a fault; return its exit code and what it said. One that hangs is killed: code -1000."""
    inside = [json.dumps(dataclasses.asdict(fault))] if fault and fault.moment else []
    program = ["-c", ARMED, *inside] if inside else ["-m", "spicejax"]
    words = [sys.executable, *program, "train", f"--workdir={folder}", *recipe.words]
    kept = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder.parent / "compiled")}
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=kept,
        start_new_session=True, errors="replace",
    )  # fmt: skip
    try:
        if fault and not fault.moment:
            try:
                output, _ = process.communicate(timeout=fault.after * usual)
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

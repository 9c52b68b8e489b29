"""What can go wrong with a run, made to happen: in its process at a named moment, or to its files between starts."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spicejax.run import train
from spicejax.run.store import checkpoint, export, manifest, metrics

# Moments: a function of the loop, and whether the fault comes before it or when it has returned.
MOMENTS: dict[str, tuple[Any, str, str]] = {
    "at the start": (train, "build", "before"),
    "before an iteration": (train, "_iterate", "before"),
    "while playing": (train, "_play", "after"),
    "before the logs": (train, "update", "after"),
    "between the logs": (metrics.MetricsWriter, "tasks", "before"),
    "after the logs": (train, "_iterate", "after"),
    "in an evaluation": (train, "evaluation", "before"),
    "after an evaluation": (train, "_evaluate", "after"),
    "before a save": (checkpoint.Checkpoints, "_begin", "before"),
    "before the arrays": (checkpoint.Checkpoints, "_begin", "after"),
    "before the manifest": (manifest, "write", "before"),
    "after the manifest": (manifest, "write", "after"),
    "while old steps go": (checkpoint, "_drop", "before"),
    "before the summary": (train, "_summarise", "before"),
    "before an export": (export, "write", "before"),
    "in an export": (export, "_write_ends", "after"),
    "after an export": (export, "write_policy", "after"),
}
OF_CHAINS = ("before an export", "in an export", "after an export")
ONCE = (
    "at the start",
    "in an evaluation",
    "after an evaluation",
    "before the summary",
    *OF_CHAINS,
)  # come once, at least
SAVING = ("before the arrays", "before the manifest")  # from where on a disk is full

# What happens, and the exit codes that a run may have then. A signal in the last iteration finds the run finished.
ACTIONS: dict[str, tuple[int, ...]] = {
    "SIGKILL": (-signal.SIGKILL,),
    "SIGTERM": (0, 75),
    "SIGINT": (0, 75),
    "SIGHUP": (0, 75),
    "pause": (0,),
    "full disk": (2,),
    "no descriptors": (2,),
    "clock jumps": (0,),
}
DAMAGES = ("flipped bit", "cut file", "deleted file", "swapped files", "older file", "torn logs")
PAUSE = 2.0  # seconds


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens in one start of a run.

    `moment` is one of MOMENTS, at its `call`-th time, or empty: then SIGKILL comes after the share `after` of the time
    that an undisturbed run takes. Afterwards `damage`, if any, is done to the files of the newest checkpoint.
    """

    action: str
    moment: str = ""
    call: int = 1
    after: float = 0.0
    damage: str = ""

    def __str__(self) -> str:
        where = f"{self.moment}, time {self.call}" if self.moment else f"after {self.after:.3f} of the time"
        return f"{self.action} {where}" + (f", then {self.damage}" if self.damage else "")


def draw(rng: random.Random, chain: bool, iterations: int) -> Fault:
    """A fault at random. Half of all are kills; a third of those is followed by damage.

    Args:
      chain: whether the run exports policies between its stages.
      iterations: of the longest stage: the latest call of a moment.
    """
    if rng.random() < 0.5:
        damage = rng.choice(DAMAGES) if rng.random() < 1 / 3 else ""
        if rng.random() < 0.5:
            return Fault("SIGKILL", after=rng.random(), damage=damage)
        moment = rng.choice([moment for moment in MOMENTS if chain or moment not in OF_CHAINS])
        return Fault("SIGKILL", moment, 1 if moment in ONCE else rng.randint(1, iterations), damage=damage)
    action = rng.choice([action for action in ACTIONS if action != "SIGKILL"])
    moments = SAVING if action in ("full disk", "no descriptors") else [m for m in MOMENTS if m not in OF_CHAINS]
    moments = [moment for moment in moments if moment != "at the start" or action in ("pause", "clock jumps")]
    moment = rng.choice(moments)
    return Fault(action, moment, 1 if moment in ONCE else rng.randint(1, iterations))


def arm(text: str) -> None:
    """Let a fault, as JSON, happen in this process at its moment."""
    fault = Fault(**json.loads(text))
    if not fault.moment:
        return
    owner, name, when = MOMENTS[fault.moment]
    usual, calls = getattr(owner, name), 0

    @functools.wraps(usual)
    def disturbed(*words: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == fault.call and when == "before":
            _happen(fault.action)
        result = usual(*words, **named)
        if calls == fault.call and when == "after":
            _happen(fault.action)
        return result

    setattr(owner, name, disturbed)


def _happen(action: str) -> None:
    if action.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[action])
    elif action == "pause":
        subprocess.Popen(["sh", "-c", f"sleep {PAUSE}; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "full disk":  # no file may grow beyond a few bytes from here on: the kernel refuses the write
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
    elif action == "no descriptors":
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    else:
        usual = time.time
        time.time = lambda: usual() - 86_400.0


def damage(kind: str, checkpoints: Path, rng: random.Random) -> tuple[int | None, Callable[[], None]]:
    """Damage a file of the newest checkpoint, or the ends of the logs beside it.

    Returns: the step that is damaged, None where the logs are or there is nothing to damage; what takes it back.
    """
    steps = sorted(path for path in checkpoints.glob("[0-9]*") if path.name.isdigit())
    if kind == "torn logs":
        for log in checkpoints.parent.glob("*.jsonl"):
            if not log.name.endswith(".discarded.jsonl"):
                with log.open("a") as file:
                    file.write('{"iteration": 0, "cut')
        return None, lambda: None
    if not steps:
        return None, lambda: None
    newest = steps[-1]
    files = sorted(path for path in newest.rglob("*") if path.is_file() and path.stat().st_size)
    file, other = rng.sample(files, 2)
    kept = {path: path.read_bytes() for path in (file, other)}
    if kind == "flipped bit":
        flipped = bytearray(kept[file])
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
    elif kind == "cut file":
        file.write_bytes(kept[file][: rng.randrange(len(kept[file]))])
    elif kind == "deleted file":
        file.unlink()
    elif kind == "swapped files":
        file.write_bytes(kept[other])
        other.write_bytes(kept[file])
    else:
        older = steps[-2] / file.relative_to(newest) if len(steps) > 1 else newest / manifest.NAME
        if not older.is_file():
            return None, lambda: None
        shutil.copyfile(older, file) if older != file else file.write_bytes(kept[other])
    if all(path.exists() and path.read_bytes() == data for path, data in kept.items()):
        return None, lambda: None  # equal files

    def undo() -> None:
        """Bring the step back, from wherever the run has set it aside."""
        for path, data in kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    return int(newest.name), undo


def told(action: str, code: int, output: str) -> str:
    """Why an ending is not as a user was told it is; empty if it is: its exit code, and one line for an error."""
    if code not in ACTIONS[action] and code != 0:  # 0: its moment did not come
        return f"{action} ended it with {code}"
    if code == -signal.SIGKILL:
        return ""
    if "Traceback" in output:
        return f"{action} made a traceback"
    lines = [line for line in output.splitlines() if line.startswith("error:")]
    return "" if len(lines) == (code == 2) else f"{action} ended it with {code} and {len(lines)} lines of errors"

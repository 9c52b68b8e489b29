"""What can go wrong with a run, made to happen: in its process at a named moment, or to its files between starts."""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import functools
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from spicejax.endurance.damages import DAMAGES
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
SAVING = ("before the arrays", "before the manifest")  # from where on a disk is full
# Moments of actions that have not all of them
OF_ACTION = {"full disk": SAVING, "no descriptors": SAVING, "NaN": ("after the logs",)}

# What happens, and the exit codes that a run may have then. A signal in the last iteration finds the run finished.
ACTIONS: dict[str, tuple[int, ...]] = {
    "SIGKILL": (-signal.SIGKILL,),
    "SIGTERM": (0, 75),
    "SIGINT": (0, 75),
    "SIGHUP": (0, 75),
    "session over": (0, 75),
    "pause": (0,),
    "full disk": (2,),
    "no descriptors": (2,),
    # what it has may do; 1 and signals where a library (OpenBLAS, Python, XLA) ends the process in its own way
    "no memory": (0, 1, 2, -signal.SIGABRT, -signal.SIGSEGV),
    "clock jumps": (0,),
    "NaN": (2,),
}
ROOM = 2**25  # bytes that are left where there is no memory: with less a thread of Python may die before it has begun
_PIECE = 2**22  # bytes; smaller holes stay
CAME = "torture:"  # a process says so of its fault
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


def draw(rng: random.Random, times: dict[str, int], actions: Sequence[str] = tuple(ACTIONS)) -> Fault:
    """A fault at random. Half of all are kills, where kills are asked for; a third of those is followed by damage.

    Args:
      times: how often each moment comes in an undisturbed run, see `counted`.
      actions: what may happen, of ACTIONS.
    """
    others = [action for action in actions if action != "SIGKILL"]
    if not others or ("SIGKILL" in actions and rng.random() < 0.5):
        damage = rng.choice(DAMAGES) if rng.random() < 1 / 3 else ""
        if rng.random() < 0.5:
            return Fault("SIGKILL", after=rng.random(), damage=damage)
        moment = rng.choice([moment for moment in MOMENTS if times[moment]])
        return Fault("SIGKILL", moment, rng.randint(1, times[moment]), damage=damage)
    action = rng.choice(others)
    moment = rng.choice([moment for moment in OF_ACTION.get(action, MOMENTS) if times[moment]])
    return Fault(action, moment, rng.randint(1, times[moment]))


def arm(text: str) -> None:
    """Let a fault, as JSON, happen in this process at its moment; of an empty text, count how often each one comes."""
    if text:
        fault = Fault(**json.loads(text))
        times = itertools.count(1)
        _watch(fault.moment, lambda *words: _happen(fault.action, *words) if next(times) == fault.call else None)
        return
    counts = dict.fromkeys(MOMENTS, 0)
    atexit.register(lambda: os.write(2, f"{CAME} {json.dumps(counts)}\n".encode()))
    for moment in MOMENTS:
        _watch(moment, lambda *_, moment=moment: counts.update({moment: counts[moment] + 1}))


def counted(output: str) -> dict[str, int]:
    """How often each moment came, from what a process said that counted them."""
    line = next(line for line in output.splitlines() if line.startswith(f"{CAME} {{"))
    return json.loads(line.removeprefix(CAME))


def _watch(moment: str, act: Callable[..., object]) -> None:
    """Call `act`, with the words of the loop's function, whenever a moment comes in this process."""
    owner, name, when = MOMENTS[moment]
    usual = getattr(owner, name)

    @functools.wraps(usual)
    def watched(*words: Any, **named: Any) -> Any:
        if when == "before":
            act(*words)
        result = usual(*words, **named)
        if when == "after":
            act(*words)
        return result

    setattr(owner, name, watched)


def _happen(action: str, *words: Any) -> None:
    fill = _memory() if action == "no memory" else None
    os.write(2, f"{CAME} {action}\n".encode())
    if action.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[action])
    elif action == "session over":
        train._has_time_for = lambda session, *parts: False
    elif action == "pause":
        subprocess.Popen(["sh", "-c", f"sleep {PAUSE}; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "full disk":  # no file may grow beyond a few bytes from here on: the kernel refuses the write
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
    elif action == "no descriptors":
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    elif fill:
        fill()
    elif action == "NaN":  # one number of the first parameter, as a damaged memory would have it
        run = words[0].run
        leaves, tree = jax.tree.flatten(run.state.params)
        leaves[0] = leaves[0].at[(0,) * leaves[0].ndim].set(jnp.nan)
        run.state = run.state._replace(params=jax.tree.unflatten(tree, leaves))
    else:
        usual = time.time
        time.time = lambda: usual() - 86_400.0


def _memory() -> Callable[[], None]:
    """A function that leaves this process ROOM bytes: it may grow by no more, and holes of its heap are taken."""
    with open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    libc, (_, hard) = ctypes.CDLL(None), resource.getrlimit(resource.RLIMIT_AS)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (taken, hard))
        while libc.malloc(_PIECE):
            pass
        resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, hard))

    return fill


def came(fault: Fault, code: int, output: str) -> bool:
    """Whether a start met its fault: the run may have ended before its moment."""
    return f"{CAME} {fault.action}\n" in output if fault.moment else code == -signal.SIGKILL


def told(action: str, code: int, output: str) -> str:
    """Why an ending is not as a user was told it is; empty if it is: its exit code, and one line for an error.

    Args:
      action: one of ACTIONS, or empty for a start without a fault, which ends with 0.
    """
    if code not in ACTIONS.get(action, (0,)):
        return f"{action or 'no fault'} ended it with {code}"
    if code < 0 or code == 1:
        return ""
    if "Traceback" in output:
        return f"{action or 'no fault'} made a traceback"
    lines = [line for line in output.splitlines() if line.startswith("error:")]
    return (
        ""
        if len(lines) == (code == 2)
        else f"{action or 'no fault'} ended it with {code} and {len(lines)} lines of errors"
    )

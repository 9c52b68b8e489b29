"""Metrics for a tracker, through its own library; metrics.jsonl is written whatever happens there."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from spicejax.run.store.metrics import plain

log = logging.getLogger(__name__)

Name = Literal["none", "tensorboard", "wandb", "trackio"]
_MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}  # module of each
PROJECT = "spicejax"
IDENTITY = "tracker.json"  # of the work folder: the id that a resumed run goes on under
WAITING = 1000  # rows that a slow tracker may be behind; what comes then is left out there
PATIENCE = 60.0  # seconds that the end of a run waits for its tracker


def require(name: Name) -> None:
    """Raise ImportError if the tracker's library is not installed."""
    if name != "none" and importlib.util.find_spec(_MODULES[name]) is None:
        raise ImportError(f'tracker={name} needs {_MODULES[name]}: pip install "spicejax[{name}]"')


class Sink(NamedTuple):
    """A run at a tracker, opened."""

    log: Callable[[int, dict[str, float]], Any]  # (step, numbers)
    close: Callable[[], Any]


class Tracker:
    """A run at a tracker. A thread of its own calls the library, so that it neither ends nor delays the run.

    Calls that fail, and rows that it is too slow to take, are counted in `failures` and reported once.
    """

    def __init__(self, name: Name, *, run: str, workdir: Path, config: Mapping[str, Any], start: int = 0) -> None:
        """start: iterations done before; rows of later ones are replaced where the tracker can do so.

        Without a key W&B stays offline (`wandb sync` uploads later); nothing ever asks for one.
        """
        self._failed = self._left_out = 0
        self._rows: queue.Queue[tuple[int, dict[str, float]] | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        opening: dict[Name, Callable[[], Sink]] = {
            "tensorboard": lambda: _tensorboard(workdir, start),
            "wandb": lambda: _wandb(run, workdir, config, identity(workdir, start)),
            "trackio": lambda: _trackio(f"{run}-{identity(workdir, start)}", config),
        }
        if name != "none":
            # a daemon: one that hangs for ever is left behind when the process ends
            self._thread = threading.Thread(target=self._work, args=(opening[name],), name="tracker", daemon=True)
            self._thread.start()

    @property
    def failures(self) -> int:
        """Number of failed calls, and of rows that the tracker does not have."""
        return self._failed + self._left_out

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Queue the numbers among `values`, after `step` iterations."""
        if self._thread is None:
            return
        numbers = {k: float(v) for k, v in plain(values).items() if isinstance(v, int | float)}
        try:
            self._rows.put_nowait((step, numbers))
        except queue.Full:
            self._left_out += 1
            if self._left_out == 1:
                log.warning("the tracker is %d rows behind; what it cannot take is left out there", WAITING)

    def close(self) -> None:
        """Send the queued rows, within PATIENCE seconds."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        until = time.monotonic() + PATIENCE
        with contextlib.suppress(queue.Full):
            self._rows.put(None, timeout=PATIENCE)
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            self._left_out += self._rows.qsize()
            log.warning("the tracker did not end within %.0f s and is left behind; metrics.jsonl has it all", PATIENCE)

    def _work(self, opening: Callable[[], Sink]) -> None:
        """The thread: open, send what comes, close."""
        sink: Sink | None = self._attempt(opening)
        while (row := self._rows.get()) is not None:
            if sink is None:
                self._failed += 1
            else:
                self._attempt(sink.log, *row)
        if sink is not None:
            self._attempt(sink.close)

    def _attempt(self, act: Callable[..., Any], *words: Any) -> Any:
        try:
            return act(*words)
        except BaseException as error:  # whatever a library of others raises, sys.exit included
            self._failed += 1
            if self._failed == 1:
                log.warning("the tracker failed: %s; training goes on, further failures are only counted", error)
            return None


def identity(workdir: Path, start: int) -> str:
    """The id of a run at its tracker: drawn when the run begins, kept in its work folder for when it is resumed.

    So a run that starts over, or in a folder of the same name elsewhere, is another one.
    """
    file = workdir / IDENTITY
    try:
        known = json.loads(file.read_text(encoding="utf-8"))["id"] if start else None
    except (OSError, ValueError, LookupError, TypeError):
        known = None
    if isinstance(known, str) and known.isalnum():
        return known
    drawn = secrets.token_hex(4)
    with contextlib.suppress(OSError):  # a full disk: the next start is another run there
        file.write_text(json.dumps({"id": drawn}) + "\n", encoding="utf-8")
    return drawn


def _tensorboard(workdir: Path, start: int) -> Sink:
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(
        str(workdir / "tensorboard"), purge_step=start + 1 if start else None, filename_suffix=f".{start}"
    )

    def scalars(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return Sink(scalars, writer.close)


def _wandb(run: str, workdir: Path, config: Mapping[str, Any], known: str) -> Sink:
    import wandb

    mode: Any = os.environ.get("WANDB_MODE") or ("online" if _has_key(wandb) else "offline")
    more: dict[str, Any] = {"config": dict(config), "mode": mode, "id": known, "resume": "allow"}
    # the printed examples show documents: W&B must not upload the output
    settings = wandb.Settings(console="off")
    made = wandb.init(project=PROJECT, name=run, dir=str(workdir), settings=settings, **more)
    return Sink(lambda step, values: made.log(values, step=step), made.finish)


def _has_key(wandb: Any) -> bool:
    """Whether W&B knows a key on this machine; nobody is asked for one, and no server."""
    try:
        return bool(wandb.login(prompt=False, verify=False))
    except TypeError:  # before it took `prompt`
        return bool(wandb.api.api_key)


def _trackio(run: str, config: Mapping[str, Any]) -> Sink:
    import trackio

    trackio.init(project=PROJECT, name=run, config=dict(config), resume="allow", embed=False)
    return Sink(lambda step, values: trackio.log(values, step=step), trackio.finish)

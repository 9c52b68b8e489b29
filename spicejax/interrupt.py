"""Signals that ask a run to stop, as a flag: waits and long stages look at it, and what is finished is saved."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import jax

from spicejax import hosts
from spicejax.errors import SpicejaxError

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GLANCE = 0.2  # seconds between two looks at the flag while nothing else is done


class Stopped(SpicejaxError):
    """A signal asked to stop; the text says what was left, and what is kept."""


class Interrupt:
    """Context in which the first signal sets `requested` and a second one acts at once, as without us.

    A signal stays ignored where whoever started this process has it ignored: a shell does so with SIGINT for jobs in
    its background (they send SIGTERM, and a Ctrl-C that the terminal sends to all is not the first of two), nohup with
    SIGHUP. A terminal that closes may send SIGHUP twice: the second is none. What is written goes nowhere then.
    Outside the main thread no handler can be set; setting `requested` is then the only way to stop.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}
        self._terminals = [stream for stream in (0, 1, 2) if os.isatty(stream)]

    def __enter__(self) -> Interrupt:
        _entered.append(self)
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        _entered.remove(self)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._leave_terminal()
        elif self.requested:
            self._restore()
            os.kill(os.getpid(), number)
            return
        if not self.requested:
            self.requested = True
            say = f"\n{signal.Signals(number).name}: saving what is finished, then leaving; once more to stop at once\n"
            with contextlib.suppress(OSError):  # not print: the signal may have come in the middle of one
                os.write(2, say.encode())

    def _leave_terminal(self) -> None:
        """Redirect the streams of a terminal that is gone, where writing is an error, to nowhere."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in self._terminals:
            os.dup2(nowhere, stream)
        os.close(nowhere)


_entered: list[Interrupt] = []  # the innermost last


def requested() -> bool:
    """Whether this process was asked to stop, and somebody waits for it to."""
    return bool(_entered) and _entered[-1].requested


def check(message: str, *, alone: bool = False) -> None:
    """Raise Stopped, which says `message`, where a signal came.

    Args:
      alone: look at this process only. Else at all hosts, which all must call it at the same point, and raise alike.
    """
    if _entered and (requested() if alone else any(hosts.exchange(requested()))):
        raise Stopped(message)


def glance(message: str) -> None:
    """`check` for work that each host does at its own pace; of several hosts, all are stopped by their next `check`."""
    if requested() and jax.process_count() == 1:  # in this order: a command that only reads touches no device
        raise Stopped(message)


def wait(seconds: float, message: str) -> None:
    """Sleep; raise Stopped where a signal comes to this process meanwhile."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check(message, alone=True)
        time.sleep(min(left, GLANCE))

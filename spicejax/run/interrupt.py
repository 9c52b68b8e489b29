"""SIGTERM and SIGINT as a flag, so that the loop ends its iteration, saves and leaves."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupt:
    """Context in which the first signal sets `requested` and a second one of either kind acts at once, as without us.

    SIGINT stays ignored where whoever started this process has it ignored, as a shell does for jobs in its background:
    they send SIGTERM, and a Ctrl-C that the terminal sends to all is not the first of two.
    Outside the main thread no handler can be set; setting `requested` is then the only way to stop.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
            heard = (signal.SIGTERM,) if ignored else SIGNALS
            self._previous = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self.__exit__()
            os.kill(os.getpid(), number)
            return
        self.requested = True
        name = signal.Signals(number).name
        try:  # not print: the signal may have come in the middle of one
            os.write(2, f"\n{name}: ending this iteration, then saving; once more to stop at once\n".encode())
        except OSError:
            pass

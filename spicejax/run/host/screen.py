"""What a run shows while it goes: on a terminal one live line, elsewhere plain lines."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from spicejax.errors import LINES, plain
from spicejax.run.host.clock import Clock

SLOW = 5.0  # seconds of compilation from which a log mentions it
SILENCE = 30.0  # seconds without a line after which a log says what is going on


class Screen:
    """Lines that stay and, on a terminal, a live line below them. A stream that fails is counted and ends no run.

    A log has one line for each iteration and, before the first, one for each stage; one for each program that takes
    long to compile; and one, with its progress, for whatever else takes long.
    """

    def __init__(
        self, stream: TextIO | None, *, stages: bool = True, now: Callable[[], float] = time.monotonic
    ) -> None:
        """stream: None shows nothing. stages: whether a log has a line for each stage, or only for what takes long."""
        self.failures = 0
        self._stream, self._logs_stages, self._clock = stream, stages, now
        self._live: Live | None = None
        self._line = self._stage = self._count = self._compiling = ""
        self._stage_began = self._last_line = self._compile_began = now()
        self._named = False  # a log has named the program that compiles
        self._announced: set[str] = set()
        self._terminal = stream is not None and _is_terminal(stream)
        self._closed, self._lock = threading.Event(), threading.RLock()
        if stream is not None and not self._terminal:
            threading.Thread(target=self._watch, name="screen", daemon=True).start()

    def show(self, text: str) -> None:
        """Print lines that stay, without the control characters that models and documents may contain."""
        text = plain(text, LINES)
        with self._lock:
            self._last_line = self._clock()
            try:
                if self._live is not None:
                    self._live.console.print(Text(text), soft_wrap=True)
                elif self._stream is not None:
                    print(text, file=self._stream, flush=True)
            except (OSError, ValueError):  # ValueError: the stream was closed
                self.failures += 1

    def progress(self, text: str, more: str = "") -> None:
        """Show the line of an iteration, ending in `more`; on a terminal it replaces the previous one."""
        self._line = text + more
        if self._terminal:
            self._draw()
        else:
            self.show(text)

    def tell(self, what: str, seconds: float | None = None) -> None:
        """Show what begins, a stage or "compiling PROGRAM"; with `seconds`, how long a program took to compile."""
        with self._lock:
            if seconds is not None:
                if seconds > SLOW and not self._terminal:
                    self.show(f"compiled {what} in {seconds:.0f} s")
                return
            self._compiling, self._named = (what if what.startswith("compiling ") else ""), False
            if self._compiling:
                self._compile_began = self._clock()
            elif what != self._stage:
                self._stage, self._count, self._stage_began = what, "", self._clock()
                if self._logs_stages and not self._terminal and not self._line and what not in self._announced:
                    self._announced.add(what)
                    self.show(f"{what} ...")
        self._draw()

    def count(self, done: int, whole: int) -> None:
        """Note the progress of the stage: `done` of `whole` responses."""
        self._count = f", answered {done}/{whole}"
        self._draw()

    def beat(self) -> None:
        """In a log, name a program that takes long to compile, and what is going on after a long silence."""
        with self._lock:
            if self._compiling and not self._named and self._clock() - self._compile_began > SLOW:
                self._named = True
                self.show(f"{self._compiling} ...")
            elif self._stage and self._clock() - self._last_line > SILENCE:
                self.show(self._doing())

    def close(self) -> None:
        """Leave the last line where it is."""
        self._closed.set()
        if self._live is not None:
            self._stage = self._count = self._compiling = ""
            self._live.transient = not self._line
            self._live.stop()
            self._live = None

    def _watch(self) -> None:
        while not self._closed.wait(1.0):
            self.beat()

    def _draw(self) -> None:
        """Start the live line if this is a terminal; it is redrawn four times a second."""
        if not self._terminal or self._live is not None or self._closed.is_set():
            return
        try:
            console = Console(file=self._stream, highlight=False)
            own = self._stream is sys.stdout  # prints of others appear above the line
            self._live = Live(console=console, refresh_per_second=4, get_renderable=self._drawn, redirect_stdout=own)
            self._live.start()
        except (OSError, ValueError):
            self.failures += 1

    def _drawn(self) -> Text:
        """The live line: what is going on and for how long, then the last iteration."""
        return Text("  ".join(filter(None, (self._doing(), self._line))), no_wrap=True, overflow="ellipsis")

    def _doing(self) -> str:
        """What is going on, its progress, and for how long."""
        what, began = self._stage + self._count, self._stage_began
        if self._compiling:
            what, began = self._compiling, self._compile_began
        return f"{what}, {self._clock() - began:.0f} s" if what else ""


@contextlib.contextmanager
def showing(stream: TextIO | None, *, stages: bool = True) -> Iterator[tuple[Screen, Clock]]:
    """A screen and a clock that reports to it, closed with the context; see Screen for the arguments."""
    with contextlib.closing(Screen(stream, stages=stages)) as screen, contextlib.closing(Clock(screen.tell)) as clock:
        yield screen, clock


def _is_terminal(stream: TextIO) -> bool:
    """Whether lines can be overwritten."""
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it was closed
        return False

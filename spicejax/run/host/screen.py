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

SLOW = 5.0  # seconds of compilation that a log tells
SILENCE = 30.0  # seconds after which a log says what still goes on


class Screen:
    """Lines that stay, and under them what goes on now. A stream that is gone ends no run: it is counted.

    A log has a line for every iteration, and before the first of them one for each stage; one for a program as soon as
    it compiles for long, and one for whatever goes on for long, with how far it is.
    """

    def __init__(
        self, stream: TextIO | None, *, stages: bool = True, now: Callable[[], float] = time.monotonic
    ) -> None:
        """stream: None shows nothing. stages: whether a log has lines for what begins, or only for what takes long."""
        self.failures = 0
        self._stream, self._stages, self._clock = stream, stages, now
        self._live: Live | None = None
        self._line = self._now = self._count = self._compiling = ""
        self._began = self._spoke = self._begun = now()  # of the stage, of the last line, of a program's compilation
        self._named = False  # a log has named the program that compiles
        self._told: set[str] = set()
        self._terminal = stream is not None and _is_terminal(stream)
        self._closed, self._lock = threading.Event(), threading.RLock()
        if stream is not None and not self._terminal:
            threading.Thread(target=self._watch, name="screen", daemon=True).start()

    def show(self, text: str) -> None:
        """Print lines that stay. Models and documents may say what a terminal would obey."""
        text = plain(text, LINES)
        with self._lock:
            self._spoke = self._clock()
            try:
                if self._live is not None:
                    self._live.console.print(Text(text), soft_wrap=True)
                elif self._stream is not None:
                    print(text, file=self._stream, flush=True)
            except (OSError, ValueError):  # ValueError: the stream was closed
                self.failures += 1

    def progress(self, text: str, more: str = "") -> None:
        """Show the line of an iteration: on a terminal it replaces the line before, and has `more` at its end."""
        self._line = text + more
        if self._terminal:
            self._draw()
        else:
            self.show(text)

    def tell(self, what: str, seconds: float | None = None) -> None:
        """Show what begins now: a stage, "compiling PROGRAM"; with `seconds` a program that took so long to compile."""
        with self._lock:
            if seconds is not None:
                if seconds > SLOW and not self._terminal:
                    self.show(f"compiled {what} in {seconds:.0f} s")
                return
            self._compiling, self._named = (what if what.startswith("compiling ") else ""), False
            if self._compiling:
                self._begun = self._clock()
            elif what != self._now:
                self._now, self._count, self._began = what, "", self._clock()
                if self._stages and not self._terminal and not self._line and what not in self._told:
                    self._told.add(what)
                    self.show(f"{what} ...")
        self._draw()

    def count(self, done: int, whole: int) -> None:
        """Take down how far the stage is: so many answers of a call."""
        self._count = f", answered {done}/{whole}"
        self._draw()

    def beat(self) -> None:
        """In a log, name a program once it compiles for long, and what goes on where there was no line for long."""
        with self._lock:
            if self._compiling and not self._named and self._clock() - self._begun > SLOW:
                self._named = True
                self.show(f"{self._compiling} ...")
            elif self._now and self._clock() - self._spoke > SILENCE:
                self.show(self._doing())

    def close(self) -> None:
        """Leave the last line where it is."""
        self._closed.set()
        if self._live is not None:
            self._now = self._count = self._compiling = ""
            self._live.transient = not self._line
            self._live.stop()
            self._live = None

    def _watch(self) -> None:
        while not self._closed.wait(1.0):
            self.beat()

    def _draw(self) -> None:
        """Begin the live line, where there is a terminal; it is drawn four times a second."""
        if not self._terminal or self._live is not None or self._closed.is_set():
            return
        try:
            console = Console(file=self._stream, highlight=False)
            own = self._stream is sys.stdout  # what others print there stands above; results of a command do not
            self._live = Live(console=console, refresh_per_second=4, get_renderable=self._drawn, redirect_stdout=own)
            self._live.start()
        except (OSError, ValueError):
            self.failures += 1

    def _drawn(self) -> Text:
        """The live line: what goes on and for how long, then the last iteration."""
        return Text("  ".join(filter(None, (self._doing(), self._line))), no_wrap=True, overflow="ellipsis")

    def _doing(self) -> str:
        """What goes on, how far it is, and for how long."""
        what, began = (self._compiling, self._begun) if self._compiling else (self._now + self._count, self._began)
        return f"{what}, {self._clock() - began:.0f} s" if what else ""


@contextlib.contextmanager
def showing(stream: TextIO | None, *, stages: bool = True) -> Iterator[tuple[Screen, Clock]]:
    """A screen, and a clock that tells it what goes on, until the end of the context; see Screen for the arguments."""
    with contextlib.closing(Screen(stream, stages=stages)) as screen, contextlib.closing(Clock(screen.tell)) as clock:
        yield screen, clock


def _is_terminal(stream: TextIO) -> bool:
    """Whether lines can be drawn over."""
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it was closed
        return False

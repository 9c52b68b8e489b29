"""What a run shows while it goes: on a terminal one live line, elsewhere plain lines."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from spicejax.errors import LINES, plain

SLOW = 5.0  # seconds of compilation that a log tells


class Screen:
    """Lines that stay, and under them what goes on now. A stream that is gone ends no run: it is counted.

    A log has a line for every iteration, and before the first of them one for each stage and each slow compilation.
    """

    def __init__(self, stream: TextIO | None) -> None:
        """stream: None shows nothing."""
        self.failures = 0
        self._stream = stream
        self._live: Live | None = None
        self._line = self._now = ""
        self._told: set[str] = set()

    def show(self, text: str) -> None:
        """Print lines that stay. Models and documents may say what a terminal would obey."""
        text = plain(text, LINES)
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
        if not self._draw(self._now):
            self.show(text)

    def tell(self, what: str, seconds: float | None = None) -> None:
        """Show what begins now; with `seconds` a program that took so long to compile."""
        if seconds is None:
            self._now = what
        if self._draw(self._now) or self._line:
            return
        if seconds is not None and seconds > SLOW:
            self.show(f"compiled {what} in {seconds:.0f} s")
        elif seconds is None and not what.startswith("compiling") and what not in self._told:
            self._told.add(what)
            self.show(f"{what} ...")

    def count(self, done: int, whole: int) -> None:
        """Show how far the stage is; a terminal alone does."""
        self._draw(f"{self._now} {done}/{whole}")

    def close(self) -> None:
        """Leave the last line where it is."""
        if self._live is not None:
            self._live.update(Text(self._line))
            self._live.stop()
            self._live = None

    def _draw(self, now: str) -> bool:
        """Draw the live line, where there is a terminal."""
        try:
            if self._stream is None or not self._stream.isatty():
                return False
            if self._live is None:
                self._live = Live(console=Console(file=self._stream, highlight=False), refresh_per_second=4)
                self._live.start()
            line = "  ".join(filter(None, (now, self._line)))
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        except (OSError, ValueError):
            self.failures += 1
        return True

"""What a run writes for people: metrics.jsonl, evaluations.jsonl, tasks.jsonl, summary.json and the progress line."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

log = logging.getLogger(__name__)


class MetricsWriter:
    """Appends records keyed `iteration`; a resumed run never holds an iteration twice.

    No failure to write ends a run: it is counted in `failures` and told once.
    """

    def __init__(
        self, workdir: str | Path, *, resume_step: int = 0, stream: TextIO | None = None, silent: bool = False
    ) -> None:
        """Open the files of `workdir`; set aside what a run resumed after `resume_step` iterations will write again.

        Records go to `*.discarded.jsonl`: metrics and tasks of iterations >= resume_step (iterations count from 0),
        evaluations made after more than `resume_step` iterations, everything where nothing was saved, torn lines.
        stream: where progress is shown, default stdout.
        silent: touch no file and print nothing: for the processes of a run that are not its first.
        """
        self.workdir = Path(workdir)
        self.failures = 0
        self._silent = silent
        self._stream = sys.stdout if stream is None else stream
        self._line_open = False
        self._attempt("create the folder", lambda: self.workdir.mkdir(parents=True, exist_ok=True))
        evaluated = resume_step + 1 if resume_step else 0  # an evaluation comes before the save of its step
        self._files = {name: _Lines(self.workdir / f"{name}.jsonl") for name in ("metrics", "evaluations", "tasks")}
        for name, file in self._files.items():
            first = evaluated if name == "evaluations" else resume_step
            self._attempt(f"clean {file.path}", lambda file=file, first=first: file.discard_from(first))

    def metrics(self, iteration: int, values: dict[str, Any]) -> None:
        """One line of metrics.jsonl. Raises ValueError for an iteration that was already written."""
        self._append("metrics", iteration, [values])

    def evaluation(self, done: int, values: dict[str, Any]) -> None:
        """One line of evaluations.jsonl, keyed by the number of iterations done."""
        self._append("evaluations", done, [values])

    def tasks(self, iteration: int, records: Iterable[dict[str, Any]]) -> None:
        """A line of tasks.jsonl per generated task of the iteration."""
        self._append("tasks", iteration, list(records))

    def summary(self, values: dict[str, Any]) -> None:
        """Replace summary.json in one rename."""

        text = json.dumps(plain(values), indent=2) + "\n"
        self._attempt("write summary.json", lambda: _replace(self.workdir / "summary.json", text))

    def progress(self, values: dict[str, Any]) -> None:
        """Show one line: on a terminal it replaces the line before, elsewhere it is a line of its own.

        values: text or numbers, None is left out; a name ending in `_seconds` is shown as a duration.
        """
        shown = [f"{name.removesuffix('_seconds')} {_shown(name, v)}" for name, v in values.items() if v is not None]
        text = "  ".join(shown)

        def write() -> None:
            self._line_open = self._stream.isatty()
            width = shutil.get_terminal_size((100, 24)).columns
            line = f"\r{text[: width - 1]}\x1b[K" if self._line_open else f"{text}\n"
            print(line, end="", file=self._stream, flush=True)

        self._attempt("show progress", write)

    def show(self, text: str) -> None:
        """Print lines that stay, under the progress line."""

        def write() -> None:
            print(("\n" if self._line_open else "") + text, file=self._stream, flush=True)
            self._line_open = False

        self._attempt("print", write)

    def close(self) -> None:
        """End the progress line."""
        if self._line_open:
            self.show("")

    def _append(self, name: str, iteration: int, records: list[dict[str, Any]]) -> None:
        file = self._files[name]
        if iteration <= file.last:
            raise ValueError(f"iteration {iteration} of {file.path.name} is already written, up to {file.last}")
        file.last = iteration
        lines = [json.dumps({"iteration": iteration} | plain(record)) for record in records]
        self._attempt(f"write {file.path}", lambda: file.append("".join(f"{line}\n" for line in lines)))

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        if self._silent:
            return
        try:
            act()
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self.failures += 1
            if self.failures == 1:
                log.warning("cannot %s: %s; training goes on, further failures are only counted", what, error)


class _Lines:
    """One append-only file of JSON lines that never keeps half a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = -1  # newest iteration written

    def discard_from(self, iteration: int) -> None:
        """Move records with `iteration` or later, and torn lines, to *.discarded.jsonl; the order stays."""
        if not self.path.exists():
            return
        kept, discarded = [], []
        for line in self.path.read_text(errors="replace").splitlines():
            number = _iteration(line)
            if number is not None and number < iteration:
                kept.append(line)
                self.last = max(self.last, number)
            else:
                discarded.append(line)
        if not discarded:
            return
        # First kept twice, then once: a crash in between loses nothing.
        with open(self.path.with_suffix(".discarded.jsonl"), "a") as out:
            out.writelines(f"{line}\n" for line in discarded)
        _replace(self.path, "".join(f"{line}\n" for line in kept))

    def append(self, text: str) -> None:
        """Write all of `text` or, with OSError, nothing of it."""
        with open(self.path, "ab", buffering=0) as file:
            data, begin = text.encode(), file.tell()
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError:
                file.truncate(begin)
                raise


def plain(value: Any) -> Any:
    """`value` as strict JSON takes it: arrays as Python numbers, not-a-number and infinity as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "dtype"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _replace(path: Path, text: str) -> None:
    """Give a file new contents in one rename."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    os.replace(draft, path)


def _iteration(line: str) -> int | None:
    try:
        return int(json.loads(line)["iteration"])
    except (ValueError, TypeError, KeyError):
        return None


def _shown(name: str, value: Any) -> str:
    if name.endswith("_seconds"):
        minutes, seconds = divmod(max(0, round(value)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)

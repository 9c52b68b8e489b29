"""The logs of a run: metrics, evaluations, items, tasks and documents (.jsonl), and summary.json."""

from __future__ import annotations

import collections
import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spicejax.report.read import rows_of
from spicejax.run.store import manifest
from spicejax.types import Document

log = logging.getLogger(__name__)

LOGS = ("metrics", "evaluations", "items", "tasks", "documents")  # files of lines
SAVED = "saved.json"  # iterations of the newest checkpoint: `checkpoints` may be on another disk
KEPT_BYTES = 64 * 2**20  # of each file that wait in memory; beyond that the oldest are dropped


class MetricsWriter:
    """Appends records keyed `iteration`; a resumed run never holds an iteration twice.

    A failure to write ends no run: it is counted in `failures` and reported once, and the records wait in memory until
    they can be written, in order.
    """

    def __init__(
        self,
        workdir: str | Path,
        *,
        resume_step: int = 0,
        evaluated: int | None = None,
        lines: Mapping[str, int] | None = None,
        silent: bool = False,
    ) -> None:
        """Open the files of `workdir`; set aside what a run resumed after `resume_step` iterations writes again.

        Records go to `*.discarded.jsonl`: metrics and tasks of iterations >= resume_step (iterations count from 0),
        evaluations made after `evaluated` iterations or more, everything where nothing was saved, torn lines.
        evaluated: None = the evaluation after `resume_step` iterations was made before they were saved.
        lines: of each file when the run was saved, see `lines`; missing ones are reported and counted.
        silent: touch no file, for all processes of a run but the first.
        """
        self.workdir = Path(workdir)
        self.failures = 0
        self._silent = silent
        self._attempt("create the folder", lambda: self.workdir.mkdir(parents=True, exist_ok=True))
        if evaluated is None:
            evaluated = resume_step + 1 if resume_step else 0
        firsts = {name: evaluated if name in ("evaluations", "items") else resume_step for name in LOGS}
        self._files = {name: _Lines(self.workdir / f"{name}.jsonl", first) for name, first in firsts.items()}
        self._flush(*self._files.values())
        for name, before in () if silent else (lines or {}).items():
            if name in self._files:
                self._files[name].require(before)
        self._known = set() if silent else {row.get("id") for row in rows_of(self.workdir / "documents.jsonl")}
        if not silent and (missing := self._files["metrics"].missing()):
            log.warning(
                "%s lacks %d of the %d iterations before this start (%s): torn, deleted or never written, they are not "
                "made again",
                self._files["metrics"].path,
                len(missing),
                resume_step,
                ", ".join(map(str, missing[:5])) + (", .." if len(missing) > 5 else ""),
            )

    @property
    def lines(self) -> dict[str, int]:
        """Number of lines, including those that wait, of the files with any number of lines an iteration."""
        return {name: self._files[name].count for name in ("tasks", "documents", "items")}

    def sync(self) -> None:
        """Write what waits and have the disk hold all lines, so that a machine that dies takes none of a saved step."""
        self._flush(*self._files.values())
        for file in self._files.values():
            self._attempt(f"flush {file.path}", file.sync)

    def saved(self, iterations: int) -> None:
        """Note the newest checkpoint beside the logs: the checkpoints may be on another disk."""
        text = json.dumps({"iterations": iterations}) + "\n"
        self._attempt(f"write {SAVED}", lambda: _replace(self.workdir / SAVED, text))

    def metrics(self, iteration: int, values: dict[str, Any]) -> None:
        """One line of metrics.jsonl. Raises ValueError for an iteration that was already written."""
        self._append("metrics", iteration, [values])

    def evaluation(self, done: int, values: dict[str, Any], items: Sequence[dict[str, Any]] = ()) -> None:
        """One line of evaluations.jsonl, and one of items.jsonl a question, keyed by the number of iterations done."""
        self._append("items", done, list(items))
        self._append("evaluations", done, [values])

    def tasks(self, iteration: int, records: Iterable[dict[str, Any]]) -> None:
        """A line of tasks.jsonl per generated task of the iteration."""
        self._append("tasks", iteration, list(records))

    def documents(self, iteration: int, documents: Iterable[Document]) -> None:
        """A line of documents.jsonl per new document; tasks.jsonl names it by its id."""
        new = {d.id: {"id": d.id, "title": d.title, "text": d.text} for d in documents if d.id not in self._known}
        self._known |= new.keys()
        self._append("documents", iteration, list(new.values()))

    def gaps(self) -> dict[str, int]:
        """Entries of the summary on the files, after another attempt to write what waits.

        log_failures: failures of this process. iterations_missing: iterations without a line in metrics.jsonl.
        lines_lost: lines of any file that were torn at this start, or dropped while it could not be written.
        """
        self._flush(*self._files.values())
        missing = 0 if self._silent else len(self._files["metrics"].missing())
        lost = sum(file.lost for file in self._files.values())
        return {"log_failures": self.failures, "iterations_missing": missing, "lines_lost": lost}

    def summary(self, values: dict[str, Any]) -> None:
        """Replace summary.json in one rename."""
        text = json.dumps(plain(values), indent=2) + "\n"
        self._attempt("write summary.json", lambda: _replace(self.workdir / "summary.json", text))

    def close(self) -> None:
        """Write what waits."""
        self._flush(*self._files.values())

    def _append(self, name: str, iteration: int, records: list[dict[str, Any]]) -> None:
        file = self._files[name]
        if iteration <= file.last:
            raise ValueError(f"iteration {iteration} of {file.path.name} is already written, up to {file.last}")
        file.last = iteration
        lines = [json.dumps({"iteration": iteration} | plain(record)) for record in records]
        if not self._silent:
            file.put(iteration, "".join(f"{line}\n" for line in lines))
        self._flush(file)

    def _flush(self, *files: _Lines) -> None:
        for file in files:
            self._attempt(f"write {file.path}", file.flush)

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        if self._silent:
            return
        try:
            act()
        except OSError as error:
            self.failures += 1
            if self.failures == 1:
                log.warning("cannot %s: %s; training goes on, further failures are only counted", what, error)


class _Lines:
    """One append-only file of whole JSON lines; what cannot be written waits."""

    def __init__(self, path: Path, first: int) -> None:
        """first: before anything is written, torn lines and iterations from `first` on move to *.discarded.jsonl."""
        self.path = path
        self.last = -1  # newest iteration given
        self.lost = 0  # lines that were torn or gone, or waited until there were too many
        self.count = 0  # lines, those that wait included
        self._first = first
        self._clean = False
        self._synced = False  # the disk holds what was written, also by an earlier process
        self._written: set[int] = set()
        self._waiting: collections.deque[tuple[int, bytes]] = collections.deque()

    def missing(self) -> list[int]:
        """Iterations up to the newest, or before the first, that the file lacks."""
        return [i for i in range(max(self._first, self.last + 1)) if i not in self._written]

    def require(self, before: int) -> None:
        """Warn if the file has fewer lines than when the run was saved."""
        if self._clean and self.count < before:
            log.warning(
                "%s lacks %d of the %d lines that it held when the run was saved: torn, deleted or changed since, they "
                "are not made again",
                self.path,
                before - self.count,
                before,
            )
            self.lost = max(self.lost, before - self.count)

    def put(self, iteration: int, text: str) -> None:
        """Queue the lines of one iteration for `flush`."""
        self.count += text.count("\n")
        while sum(len(data) for _, data in self._waiting) > KEPT_BYTES:
            self.lost += self._waiting.popleft()[1].count(b"\n")
        self._waiting.append((iteration, text.encode()))

    def flush(self) -> None:
        """Write what waits, each iteration whole. Raises OSError if something could not be written."""
        if not self._clean:
            self._discard()
            self._clean = True
        if not self._waiting:
            return
        self._synced = False
        with open(self.path, "ab", buffering=0) as file:
            while self._waiting:
                iteration, data = self._waiting[0]
                begin = file.tell()
                try:
                    while data:
                        data = data[file.write(data) :]
                except OSError:
                    file.truncate(begin)
                    raise
                self._waiting.popleft()
                self._written.add(iteration)

    def sync(self) -> None:
        """Flush what was written since the last time from the system's memory to the disk, the file's name too."""
        if not self._synced and self.path.exists():
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())
            manifest.flush_folder(self.path.parent)
        self._synced = True

    def _discard(self) -> None:
        """Move lines that are to be discarded; the order stays."""
        if not self.path.exists():
            return
        kept, discarded = [], []
        text, torn = self.path.read_text(errors="replace"), 0
        for line in text.splitlines():
            number = _iteration(line)
            torn += number is None
            if number is not None and number < self._first:
                kept.append(line)
                self._written.add(number)
            else:
                discarded.append(line)
        self.last = max([self.last, *self._written])
        self.count += len(kept)
        if not discarded and (not text or text.endswith("\n")):
            return
        # First kept twice, then once: a crash in between loses nothing.
        if discarded:
            with open(self.path.with_suffix(".discarded.jsonl"), "a") as out:
                out.writelines(f"{line}\n" for line in discarded)
                out.flush()
                os.fsync(out.fileno())
        _replace(self.path, "".join(f"{line}\n" for line in kept))
        self.lost += torn


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
    """Give a file new contents in one rename, which finds them on the disk."""
    draft = path.with_name(f"{path.name}.draft")
    with open(draft, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(draft, path)


def _iteration(line: str) -> int | None:
    try:
        return int(json.loads(line)["iteration"])
    except (ValueError, TypeError, KeyError):
        return None


def progress_line(values: dict[str, Any]) -> str:
    """Values as one line: text or numbers, None is left out; a name ending in `_seconds` is shown as a duration."""
    return "  ".join(
        f"{name.removesuffix('_seconds')} {_shown(name, v)}" for name, v in values.items() if v is not None
    )


def bars(rates: Sequence[float], bins: int = 5) -> str:
    """How many of `rates`, between 0 and 1, lie in each of `bins` equal parts: a block each, the most is full."""
    counts, _ = np.histogram(rates, bins, (0.0, 1.0))
    return "".join(" ▁▂▃▄▅▆▇█"[math.ceil(8 * count / counts.max())] for count in counts)


def _shown(name: str, value: Any) -> str:
    if name.endswith("_seconds"):
        minutes, seconds = divmod(max(0, round(value)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)

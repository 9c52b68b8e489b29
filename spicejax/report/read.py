"""A work folder read for reports: rows of its files, its configuration, what its game says of itself."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spicejax.games.game import About
from spicejax.report import game
from spicejax.text.vocabulary import well_formed

log = logging.getLogger(__name__)

PYTHON = "from Python"  # the command of a start, where another program called us

Rows = list[dict[str, Any]]
_LARGEST = 2**53  # up to here every reader holds whole numbers exactly


class RunFolder(NamedTuple):
    """What a run has written so far."""

    folder: Path
    name: str  # of the folder, for the eye
    config: dict[str, Any]  # {} where it was made before configurations were written
    game: About | None
    starts: Rows
    metrics: Rows
    evaluations: Rows
    summary: dict[str, Any]

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Every task generated so far, one at a time."""
        return rows_of(self.folder / "tasks.jsonl")

    def documents(self, ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """The documents with these ids that the run has read, by id: title and text."""
        wanted, found = set(ids), {}
        for row in rows_of(self.folder / "documents.jsonl") if wanted else ():
            if row.get("id") in wanted:
                found.setdefault(row["id"], row)
        return found


def open_run(folder: Path) -> RunFolder:
    """Read a work folder. Raises FileNotFoundError where no run has begun to write."""
    if not (folder / "metrics.jsonl").is_file() and not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} is no work folder of a run: it has no metrics.jsonl; give its --workdir")
    saved = sorted(folder.glob("checkpoints/*/config.json"))  # a run from before it wrote config.json has these
    config = _config(_object(folder / "config.json")) or (_config(_object(saved[-1])) if saved else {})
    summary = _object(folder / "summary.json")
    summary = {name: value for name, value in summary.items() if not name.startswith("seconds") or _number(value)}
    metrics, evaluations, starts = (
        read_rows(folder / f"{name}.jsonl") for name in ("metrics", "evaluations", "starts")
    )
    return RunFolder(folder, _name(folder), config, game.about(config, folder), starts, metrics, evaluations, summary)


def stages_of(folder: Path) -> list[Path]:
    """The work folders of a chain, in order, or the folder itself."""
    numbered = sorted((p for p in folder.glob("*") if p.name.isdigit() and p.is_dir()), key=lambda p: int(p.name))
    return numbered or [folder]


def last_stage(folder: Path, has: Callable[[Path], bool], what: str) -> Path:
    """The last stage of a chain that `has` what is wanted, which is logged; a folder that is no chain as it is.

    Args:
      what: the name of what is wanted, for messages.
    Raises: FileNotFoundError for a chain without such a stage.
    """
    if (stages := stages_of(folder)) == [folder] or has(folder):
        return folder
    found = next((stage for stage in reversed(stages) if has(stage)), None)
    if found is None:
        raise FileNotFoundError(
            f"{folder} is a chain, and none of its {len(stages)} stages has {what}; train on, or give another folder"
        )
    log.info("%s is a chain: stage %s is read, the last that has %s", folder, found.name, what)
    return found


def holds(file: str) -> Callable[[Path], bool]:
    """Whether a folder has lines in a file, for `last_stage`."""
    return lambda folder: (folder / file).is_file() and (folder / file).stat().st_size > 0


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a jsonl file of a run, one at a time; none where there is no file.

    A line that is no row, torn or odd, is left out with a warning; a field of the wrong kind is left out of its row.
    """
    if not path.is_file():
        return
    form, odd = _FORMS.get(path.name.partition(".")[0], dict), 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            row = form(_sound(found) if "\\ud" in line.lower() else found) if isinstance(found, dict) else None
            odd += row is None and bool(line.strip())
            if row is not None:
                yield row
    if odd:
        _tell(path, odd)


@functools.cache  # once, not whenever a page that is watched is made anew
def _tell(path: Path, odd: int) -> None:
    log.warning("%s: %d lines are no rows of a run, torn or changed since; they are left out", path, odd)


def _sound(value: Any) -> Any:
    """JSON without lone surrogates, which no file and no page can hold."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(key): _sound(item) for key, item in value.items()}
    return [_sound(item) for item in value] if isinstance(value, list) else value


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < _LARGEST  # neither NaN nor infinite


def _numbered(row: dict[str, Any]) -> dict[str, Any] | None:
    return row if type(row.get("iteration")) is int and 0 <= row["iteration"] < _LARGEST else None


def _measured(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of metrics.jsonl or evaluations.jsonl: numbers; what was not measured is not there."""
    return _numbered({name: value for name, value in row.items() if _number(value)})


def _task(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of tasks.jsonl: what readers ask for is of its kind."""
    texts = ("question", "document_id", "format", "rejected", "text", "id")
    kept = {name: value for name, value in row.items() if name not in texts or value is None or isinstance(value, str)}
    for name in ("pass_rate", "reward"):
        if not _number(kept.get(name)):
            kept.pop(name, None)
    if isinstance(kept.get("answer"), dict | list):
        del kept["answer"]
    correct = kept.get("correct")
    if not isinstance(correct, list) or not all(isinstance(one, bool) for one in correct):
        kept.pop("correct", None)
    return _numbered(kept)


def _document(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of documents.jsonl."""
    texts = {"id": row.get("id"), "title": row.get("title", ""), "text": row.get("text")}
    return row | texts if all(isinstance(text, str) for text in texts.values()) else None


def _start(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of starts.jsonl."""
    kept = {name: value for name, value in row.items() if value is None or isinstance(value, str | int)}
    return kept | {"versions": row["versions"] if isinstance(row.get("versions"), dict) else {}}


# What makes a row of each file out of a JSON object; None = the object is no row
_FORMS: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    **dict.fromkeys(("metrics", "evaluations"), _measured),
    "tasks": _task,
    "documents": _document,
    "starts": _start,
}


def read_rows(path: Path) -> Rows:
    """All rows of a jsonl file, see `rows_of`."""
    return list(rows_of(path))


def series(rows: Sequence[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """(iterations, values) of a quantity, where it was measured."""
    points = [(r["iteration"], r[name]) for r in rows if r.get(name) is not None]
    return [p[0] for p in points], [p[1] for p in points]


def _name(folder: Path) -> str:
    place = folder.resolve()
    return f"{place.parent.name}/{place.name}" if place.name.isdigit() else place.name


def _config(found: dict[str, Any]) -> dict[str, Any]:
    """A configuration without what cannot be one: parts that readers look into are objects, the rest is of its kind."""
    parts = ("model", "corpus", "eval", "nano", "seats", "retrieval", "checkpoint")
    kinds = {**dict.fromkeys(parts, (dict, type(None))), "name": (str,), "iterations": (int,)}
    return {name: value for name, value in found.items() if isinstance(value, kinds.get(name, (object,)))}


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return _sound(found) if isinstance(found, dict) else {}

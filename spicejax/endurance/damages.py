"""Damage to what a run has saved: one of a kind, and many, each of which the next reading must see."""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from spicejax.run.host.disk import POLICY
from spicejax.run.store import checkpoint, manifest

DAMAGES = ("flipped bit", "cut file", "deleted file", "swapped files", "older file", "torn logs", "damaged policy")


def damage(kind: str, checkpoints: Path, rng: random.Random) -> tuple[int | None, Callable[[], object]] | None:
    """Damage a file of the newest checkpoint, the ends of the logs beside it, or a model that an earlier run left.

    Returns: the step that is damaged, None where it is none; what takes it back. None where nothing could be damaged.
    """
    steps = sorted(path for path in checkpoints.glob("[0-9]*") if path.name.isdigit())
    if kind == "torn logs":
        for log in checkpoints.parent.glob("*.jsonl"):
            if not log.name.endswith(".discarded.jsonl"):
                with log.open("a") as file:
                    file.write('{"iteration": 0, "cut')
        return None, lambda: None
    if kind == "damaged policy":
        files = sorted(path for path in checkpoints.parent.parent.glob(f"[0-9]*/{POLICY}/*") if path.stat().st_size)
        if not files:
            return None
        file = rng.choice(files)
        before = file.read_bytes()
        _flip(file, rng)
        return None, lambda: file.write_bytes(before)
    if not steps:
        return None
    newest = steps[-1]
    files = sorted(path for path in newest.rglob("*") if path.is_file() and path.stat().st_size)
    file, other = rng.sample(files, 2)
    kept = {path: path.read_bytes() for path in (file, other)}
    if kind == "flipped bit":
        _flip(file, rng)
    elif kind == "cut file":
        file.write_bytes(kept[file][: rng.randrange(len(kept[file]))])
    elif kind == "deleted file":
        file.unlink()
    elif kind == "swapped files":
        file.write_bytes(kept[other])
        other.write_bytes(kept[file])
    else:
        older = steps[-2] / file.relative_to(newest) if len(steps) > 1 else newest / manifest.NAME
        if not older.is_file():
            return None
        shutil.copyfile(older, file) if older != file else file.write_bytes(kept[other])
    if all(path.exists() and path.read_bytes() == data for path, data in kept.items()):
        return None  # equal files

    def undo() -> None:
        """Bring the step back, from wherever the run has set it aside."""
        for path, data in kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    return int(newest.name), undo


def _flip(file: Path, rng: random.Random) -> None:
    flipped = bytearray(file.read_bytes())
    flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    file.write_bytes(flipped)


def many(stages: Sequence[Path], copy: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damage the checkpoints and policies of a finished run `count` times, one damage at a time, in a copy.

    Every time the newest step that is whole must be the one before the damaged one, or a damaged policy be seen.

    Returns: how often each kind was done; what was not seen, or lost beside it, a line each.
    """
    rng, done, wrong = random.Random(seed), Counter[str](), []
    shutil.rmtree(copy, ignore_errors=True)  # of a call that was killed
    for stage in stages:
        for name in ("checkpoints", POLICY):
            if (stage / name).is_dir():
                shutil.copytree(stage / name, copy / stage.name / name)
    places = sorted(copy.iterdir())
    told = logging.getLogger(checkpoint.__name__)
    told.addFilter(_nothing)  # else a warning a damage
    try:
        while done.total() < count:
            place, kind = rng.choice(places), rng.choice([kind for kind in DAMAGES if kind != "torn logs"])
            if (damaged := damage(kind, place / "checkpoints", rng)) is None:
                continue
            step, undo = damaged
            done[kind] += 1
            if not (_policy_is_damaged(places) if step is None else _newest(place) == _newest(place, but=step)):
                wrong.append(f"damage {done.total()} of seed {seed}, {kind}: not seen")
            undo()
    finally:
        told.removeFilter(_nothing)
        shutil.rmtree(copy)
    return done, wrong


def _newest(place: Path, but: int | None = None) -> int | None:
    """The step that a run would go on from; with `but`, the newest other one there is."""
    with checkpoint.Saved(place / "checkpoints") as saved:
        if but is not None:
            return max((step for step in saved.steps() if step != but), default=None)
        with contextlib.suppress(checkpoint.CheckpointError):  # all are damaged
            return saved.latest_good()
    return None


def _policy_is_damaged(places: Sequence[Path]) -> bool:
    return any(manifest.damaged(place / POLICY) for place in places if (place / POLICY).is_dir())


def _nothing(record: logging.LogRecord) -> bool:
    return False

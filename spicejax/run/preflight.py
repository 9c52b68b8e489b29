"""Checks of the files, formats and packages that a configuration names, before anything slow starts."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from spicejax import config as configuration
from spicejax.data import questions
from spicejax.data.items import check_items
from spicejax.models import exported, hf
from spicejax.report import places
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run import golds
from spicejax.run.config import RunConfig
from spicejax.run.host.disk import existing
from spicejax.run.store import track
from spicejax.score.verifiers import Verifier
from spicejax.text import tokens
from spicejax.types import Task

# Fields that may change when a run is resumed: they do not touch what is learnt from one iteration to the next (another
# mesh adds in another order, which moves the last bits; with another eval.tasks other questions are held out). So may
# all of buckets.prompt but its last, see `_may_change`.
CHANGEABLE = (
    *("iterations", "eval.", "checkpoint.", "show_every", "nano.cache", "mesh.", "sampler_mesh", "sampler_memory"),
    *("buckets.rows", "buckets.refill", "buckets.prefill_chunk", "buckets.kv_tokens"),  # no text depends on them
    *("buckets.tails", "buckets.drafts"),  # nor on these
    *("learner.rows", "learner.vocab_chunk", "model.remat"),  # no loss does
    *("tracker", "verifier_workers", "retrieval.url", "retrieval.timeout", "retrieval.tries"),
    *("judge.url", "judge.timeout", "judge.tries"),
    "corpus.follow_links",  # other documents have another digest
)


# (field, value of an older run, what it is called now)
RENAMED = (("learner.loss", "drgrpo", "ppo_clip"),)
# Fields that there are no more, with the value that they did nothing at; those of a game stand in `Game.removed`
REMOVED: dict[str, Any] = {"learner.max_skipped": 5}
_MADE_UP = Task("What is 2 + 2?", "4", "Integer")  # asked of a verifier where there is no question


def require(cfg: RunConfig, workdir: Path, *, first: bool = True, planned: bool = False) -> None:
    """Check the files and packages that a run needs, reading only the beginning of each file.

    Args:
      first: whether it starts from model.path; a later stage of a chain takes the model of an earlier one.
      planned: for a plan alone: files that the configuration does not name yet are no error.
    Raises: FileNotFoundError, ValueError, ImportError, OSError, each naming the value and the fix.
    """
    reads, search = cfg.game.game.reads, cfg.retrieval or RetrievalConfig()
    if cfg.nano is None and not planned:
        if first and not cfg.model.path:
            raise ValueError(
                f"{cfg.name} brings no weights; add model.path=FOLDER (config.json, safetensors, tokenizer)"
            )
        if not cfg.corpus.source and reads != "nothing":
            raise ValueError(f"{cfg.name} brings no {reads}; add --corpus=SPEC (see --help for what it takes)")
    if cfg.searches and not planned and (cfg.retrieval or not cfg.nano):
        search.require()
    require_folder(workdir, "--workdir")
    for path in (*([cfg.model.path] if cfg.model.path and first else []), *cfg.folders_of_seats.values()):
        hf.read_config(path)
        tokens.load(path)
    with Verifier(workers=cfg.verifier_workers, function=cfg.verifier) as verifier:
        if cfg.corpus.source:
            _require_items(cfg, verifier)
        for _, spec in questions.suites(cfg.eval.tasks):
            golds.require_questions(spec, questions.load_items(spec), verifier)
        if verifier.function and not verifier.pool.workers:  # it was asked nothing
            verifier.matches([_MADE_UP])
    if cfg.searches and (cfg.retrieval or not cfg.nano):
        search.probe()
    track.require(cfg.tracker)
    if cfg.sampler_weights == "int8" and importlib.util.find_spec("qwix") is None:
        raise ImportError('sampler_weights=int8 needs qwix: pip install "spicejax[int8]"')


def _require_items(cfg: RunConfig, verifier: Verifier) -> None:
    """Raise ValueError if the items cannot be read, or their gold answers would be judged wrong."""
    game = cfg.game.game
    items = check_items(game.reads, cfg.corpus.source, cfg.corpus.text_field, follow_links=cfg.corpus.follow_links)
    if items is None or game.matches is None:
        return
    matches, rows = game.matches, cast(Sequence[Any], items.sequence)
    if matches == "verifier":
        golds.require(cfg.corpus.source, rows, verifier.matches)
    else:
        golds.require(cfg.corpus.source, rows, lambda asked: [matches(cfg.game, item) for item in asked])


def require_folder(folder: Path, option: str) -> None:
    """Raise OSError if a folder, or its nearest parent that exists, cannot be written; ValueError for a bucket.

    Args:
      option: what names it on the command line.
    """
    exported.require_mounted(folder)
    place = existing(folder)
    try:
        with tempfile.TemporaryFile(dir=place):  # what the permissions say is not enough: /proc, read-only mounts
            pass
    except OSError as error:
        why = error.strerror or error
        raise OSError(f"{place} is no folder that can be written: {why}; choose another {option}") from error


def require_same(saved: dict[str, Any] | None, cfg: RunConfig, place: Path) -> None:
    """Raise ValueError if the checkpoints of `place`, a folder of the run's, were made by another configuration."""
    if saved is None:
        return
    changed = [
        f"{path}: {_from_difference(old, new)} -> {_from_difference(new, old)}"
        for path, old, new in changes(saved, cfg, place.parent)
        if not _may_change(path, old, new)
    ]
    if changed:
        raise ValueError(
            f"{place} was made by another configuration ({'; '.join(changed)}); "
            "take these changes back or choose another --workdir"
        )


def _may_change(path: str, old: Any, new: Any) -> bool:
    """Whether a field may change when a run is resumed; without a judge's server a seat would judge instead."""
    if path == "buckets.prompt":
        # The longest prompt accepted; no text depends on the others, but for the rounding of an int8 cache
        return old[-1] == new[-1]
    return path.startswith(CHANGEABLE) and (path != "judge.url" or bool(old and new))


def changes(saved: dict[str, Any], cfg: RunConfig, folder: Path) -> list[tuple[str, Any, Any]]:
    """(field, then, now) of all in which a configuration differs from the one that made the run in `folder`.

    These are no changes: a field that is newer than the run and has the value by which the run behaves as before (see
    `config.readable`), a removed field at the value that switched it off, a renamed value, a path to the same file from
    another folder, a path that was moved with the run, and the date that a run keeps from its first start.
    """
    then = configuration.readable(cfg, saved, unknown=True)
    now = places.found(places.kept(configuration.to_json(cfg), folder), folder)
    section = configuration.key_of(type(cfg.game))
    removed = REMOVED | {f"{section}.{name}": value for name, value in cfg.game.game.removed.items()}
    return [
        (path, old, new)
        for path, old, new in configuration.diff(then, now)
        if not (new == configuration.ABSENT and path in removed and removed[path] == old)
        and (path, old, new) not in RENAMED
        and not places.moved(path, old, new)
        and not (path == "model.date" and new == "")
    ]


def _from_difference(value: Any, other: Any) -> str:
    """A value as text; where it is long, from shortly before it differs from the other."""
    text, start = repr(value), len(os.path.commonprefix([repr(value), repr(other)])) - 40
    return text if len(text) <= 200 else f"{'...' if start > 0 else ''}{text[max(start, 0) :]:.200}"

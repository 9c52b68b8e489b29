"""How a run was started: config.json, a line of starts.jsonl for each start, file and description of a user's game."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
import itertools
import json
import logging
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

from spicejax import config as configuration
from spicejax import hosts
from spicejax.report import game, places
from spicejax.report.read import PYTHON
from spicejax.run.config import RunConfig
from spicejax.run.store.checkpoint import Saved
from spicejax.text import tokens
from spicejax.worlds.nano import maker as nano

log = logging.getLogger("spicejax")

CONFIG = "config.json"  # --config=RUN/config.json runs the same again
STARTS = "starts.jsonl"
_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = (
    *("spicejax", "jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "grain", "tokenizers"),
    *("sentencepiece", "numpy", "scann", "huggingface-hub"),
)


def remembered(cfg: RunConfig, workdir: Path) -> RunConfig:
    """The configuration with what earlier starts of the run chose: the folder of its nano world, and a date."""
    return dated(with_cache(cfg, workdir), workdir)


def with_cache(cfg: RunConfig, workdir: Path) -> RunConfig:
    """The configuration with the folder of nano worlds that this run or another stage of its chain has used, if its own
    lacks this world: the same command from another folder does not make the model again.
    """

    def known() -> str:
        if cfg.nano is None or nano.made(cfg.nano, cfg.seed, model=not cfg.model.path):
            return ""
        for folder in (workdir, *workdir.parent.glob("[0-9]*")):
            cache = (read(folder).get("nano") or {}).get("cache") or ""
            if cache and nano.made(dataclasses.replace(cfg.nano, cache=cache), cfg.seed, model=not cfg.model.path):
                return cache
        return ""

    cache = hosts.by_first(known)
    return dataclasses.replace(cfg, nano=dataclasses.replace(cfg.nano, cache=cache)) if cfg.nano and cache else cfg


def dated(cfg: RunConfig, workdir: Path) -> RunConfig:
    """The configuration with the date of the run's first start, if one of its chat templates writes a date.

    A run from before this date was kept goes on with that of each day.
    """
    paths = [path for path in (cfg.model.path, *cfg.seats.values()) if path]
    if cfg.model.date or not any(chat.dated for path in paths if (chat := tokens.load(path).chat)):
        return cfg

    def first() -> str:
        made = read(workdir)
        return made.get("model", {}).get("date", "") if made else datetime.date.today().isoformat()

    date = hosts.by_first(first)
    if date and hosts.leads():
        log.info("the chat template writes the date: %s for all of this run (model.date)", date)
    return dataclasses.replace(cfg, model=dataclasses.replace(cfg.model, date=date))


def write(workdir: Path, cfg: RunConfig) -> None:
    """Write the configuration and a user's game; append this start: time, command, versions, devices, commit."""
    workdir.mkdir(parents=True, exist_ok=True)
    kept = places.kept(configuration.to_json(cfg), workdir)
    (workdir / CONFIG).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    game.write(workdir, cfg.game)
    _keep_code(workdir, Path(type(cfg.game).__module__))
    with (workdir / STARTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(_start()) + "\n")


def _keep_code(workdir: Path, file: Path) -> None:
    """Copy the file of a user's game into the work folder, so that the run can be resumed and asked anywhere."""
    if file.suffix != ".py":
        return
    copy, code = workdir / file.name, file.read_bytes()
    if copy.exists() and (before := copy.read_bytes()) != code:
        number = next(n for n in itertools.count(1) if not copy.with_suffix(f".{n}.py").exists())
        kept = copy.with_suffix(f".{number}.py")
        kept.write_bytes(before)
        what = "%s has changed since this run was last started; the run goes on with what it is now (kept: %s)"
        log.warning(what, file, kept.name)
    copy.write_bytes(code)


def read(workdir: Path) -> dict[str, Any]:
    """The configuration of a run as JSON, with full paths: from its folder, else its newest checkpoint, else {}."""
    try:
        return places.found(json.loads((workdir / CONFIG).read_text(encoding="utf-8")), workdir)
    except (OSError, ValueError, AttributeError, RecursionError):
        return Saved(workdir / "checkpoints").saved_config() or {}


def versions() -> dict[str, str]:
    """Versions of the packages that a run depends on, those that are installed."""
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _start() -> dict[str, Any]:
    devices = jax.devices()
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command(),
        "python": platform.python_version(),
        "versions": versions(),
        "devices": f"{len(devices)} {devices[0].device_kind}",
        "processes": jax.process_count(),
        "commit": _commit(),
    }


def command() -> str:
    """The command as typed, without the folders of this machine; `from Python` if another program called us."""
    called = Path(sys.argv[0] if sys.argv else "").resolve()
    if called.name == "spicejax":
        start = "spicejax"
    elif called == _ROOT / "spicejax" / "__main__.py":
        start = "python -m spicejax"
    elif called.parent.name == "launch" and (called.parent / "tpu_pod.sh").is_file():
        start = f"python launch/{called.name}"
    else:  # a notebook, a script or a test: its arguments are not ours
        return PYTHON
    return f"{start} {shlex.join(sys.argv[1:])}"


def _commit() -> str | None:
    """Commit of the code, with `-dirty` if files differ from it; None outside a checkout."""
    if not (_ROOT / ".git").exists():
        return None
    words = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None

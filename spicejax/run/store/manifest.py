"""The manifest of a checkpoint: size and sha256 of every file, shape and dtype of every array, and its own digest.

A step is written to a folder of another name. When everything is on disk, one rename gives it the step's name; before
it is removed it is renamed back. So a folder with a step's name was once a whole checkpoint, and any fault is damage.
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import jax
import msgspec


class Manifest(TypedDict):
    """Content of the file, without its own digest."""

    format: int
    step: int
    files: dict[str, tuple[int, str]]  # size, sha256
    leaves: list[tuple[str, list[int], str]]  # path, shape, dtype


NAME = "MANIFEST.json"
FORMAT = 1
PARTIAL = ".partial"


def partial(folder: Path) -> Path:
    """Name of a step's folder while it is being written or removed."""
    return folder.with_name(folder.name + PARTIAL)


def fault(folder: Path, *, contents: bool = True, only: str | None = None) -> str | None:
    """Why a step's folder is not a whole checkpoint; None if it is.

    contents: False compares sizes alone. only: check this file alone.
    """
    manifest = read(folder)
    if isinstance(manifest, str):
        return manifest
    files = manifest["files"] if only is None else {only: manifest["files"].get(only, [0, ""])}
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(_file_fault, folder, name, size, sha, contents) for name, (size, sha) in files.items()]
        return next((reason for reason in (job.result() for job in jobs) if reason), None)


def read(folder: Path) -> dict[str, Any] | str:
    """The manifest of a step's folder, or why there is none that can be trusted."""
    try:
        manifest = json.loads((folder / NAME).read_text())
        claimed = manifest.pop("sha256")
    except FileNotFoundError:
        return f"no {NAME}: it was deleted, or copying was cut short"
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        return f"{NAME} cannot be read: {error!r}"
    if claimed != _own_digest(manifest):
        return f"{NAME} is damaged: its digest differs"
    try:
        msgspec.convert(manifest, Manifest, strict=True)
    except msgspec.ValidationError as error:
        return f"{NAME} is not as it was written here: {error}"
    if manifest["format"] != FORMAT or f"{manifest['step']:08d}" != folder.name.removesuffix(PARTIAL):
        return f"{NAME} is of format {manifest['format']} and step {manifest['step']}"
    if absent := {"extra.json", "config.json"} - manifest["files"].keys():
        return f"{NAME} does not know {min(absent)}"
    return manifest


def write(folder: Path, step: int, state: Any) -> None:
    """Flush and digest every file of the partial folder, add the manifest, then rename the folder to `folder`.

    Raises: OSError if a file has changed meanwhile.
    """
    draft = partial(folder)
    files = sorted(p for p in draft.rglob("*") if p.is_file())
    with ThreadPoolExecutor(4) as pool:
        digests = list(pool.map(_flushed_digest, files))
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "step": step,
        "files": {p.relative_to(draft).as_posix(): d for p, d in zip(files, digests, strict=True)},
        "leaves": leaves(state),
    }
    manifest["sha256"] = _own_digest(manifest)
    with open(draft / NAME, "w") as out:
        json.dump(manifest, out, indent=0)
        out.flush()
        os.fsync(out.fileno())
    if reason := fault(draft, contents=False):  # contents were read for the digests just now
        raise OSError(f"written, but {reason}")
    for inner in [*(p for p in draft.rglob("*") if p.is_dir()), draft]:
        flush_folder(inner)
    draft.rename(folder)
    flush_folder(folder.parent)


def note(folder: Path) -> None:
    """Keep the digests of all files of a folder that is no checkpoint, in a manifest among them."""
    files = {path.relative_to(folder).as_posix(): _flushed_digest(path) for path in folder.rglob("*") if path.is_file()}
    (folder / NAME).write_text(json.dumps({"files": files}, indent=0))


def damaged(folder: Path) -> str | None:
    """Why a folder is not as `note` saw it, None if it is; older versions left no manifest, and nothing to compare."""
    try:
        files = json.loads((folder / NAME).read_text())["files"].items() if (folder / NAME).exists() else ()
        return next((why for name, (size, sha) in files if (why := _file_fault(folder, name, size, sha, True))), None)
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        return f"{NAME} cannot be read: {error!r}"


def _own_digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _flushed_digest(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        return [os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()]


def flush_folder(folder: Path) -> None:
    """Have the disk hold the names of a folder's files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file_fault(folder: Path, name: str, size: int, digest: str, contents: bool) -> str | None:
    path = folder / name
    try:
        found = path.stat().st_size
        if found != size:
            return f"{name} has {found} bytes, {size} were written"
        if contents:
            with open(path, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    return f"{name} is damaged: its digest differs"
    except OSError as error:
        return f"{name} cannot be read: {error}"
    return None


def leaves(state: Any) -> list[list[Any]]:
    """[path, shape, dtype] of every array, in the order of the tree."""
    named = [(jax.tree_util.keystr(k, simple=True, separator="/"), x) for k, x in jax.tree.leaves_with_path(state)]
    return [[name, list(leaf.shape), str(leaf.dtype)] for name, leaf in named]

"""Folders of exports, replaced as a whole: a new one is written beside the old one, then swapped in."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors
from safetensors.numpy import save_file

# In the header of every weights file that is written here: only folders of such files are replaced.
METADATA = {"format": "pt", "writer": "spicejax"}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


def require_mounted(path: str | Path) -> None:
    """Raise ValueError for a bucket's address (gs://...), which would be taken for a folder's name."""
    if re.match(r"\w+:/", str(path)):
        raise ValueError(f"{path}: mount the bucket (gcsfuse) and give the folder")


def require(path: str | Path, weights: str) -> Path:
    """The folder that `path` leads to, if it may be replaced: it is absent, empty, or was written by spicejax.

    Args:
      weights: pattern of the weights files of what is to be written.
    Raises: FileExistsError for anything else; as `require_mounted`.
    """
    require_mounted(path)
    target = Path(path).expanduser().resolve()
    if target.is_dir() and (not any(target.iterdir()) or _written_here(target, weights)):
        return target
    if os.path.lexists(target):
        raise FileExistsError(
            f"{target} is there and no such folder that spicejax has written; choose another, or move it away: nothing "
            "was changed"
        )
    return target


def _written_here(folder: Path, weights: str) -> bool:
    files = sorted(folder.glob(weights))
    try:
        headers = [safetensors.safe_open(file, framework="np").metadata() or {} for file in files]
    except (OSError, safetensors.SafetensorError):
        return False
    return bool(headers) and all(header.get("writer") == METADATA["writer"] for header in headers)


def save(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write a weights file, readable by all users; equal arrays give equal bytes."""
    save_file(arrays, path, metadata=METADATA)
    with path.open("r+b") as file:  # safetensors writes the metadata in any order
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = METADATA
        file.seek(8)
        file.write(json.dumps(header, separators=(",", ":")).encode().ljust(size))
    path.chmod(0o644)  # its writer lets nobody else read


@contextlib.contextmanager
def folder(target: Path, size: int) -> Iterator[Path]:
    """A folder to write into, which replaces `target` when the block ends; if the block raises, `target` stays.

    A kill leaves the old folder or the new one, whole, and the next call removes its leftovers. On file systems that
    cannot exchange two names (NFS, FUSE) two renames are needed: a kill between them leaves no `target`, and the next
    call restores the old one.

    Args:
      size: bytes that will be written, about.
    Raises: OSError where the disk has no room for it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.writing-{uuid.uuid4().hex[:8]}")
    with _locked(target.parent):
        _tidy(target)
        if size > shutil.disk_usage(target.parent).free:
            raise _full(target, size)
        draft.mkdir()
        lock = _lock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends: its draft is in use
    try:
        yield draft
        _flush(draft)
        with _locked(target.parent):
            _swap_in(draft, target)
    except (OSError, safetensors.SafetensorError) as error:
        if isinstance(error, OSError) and error.errno not in _FULL:
            raise
        raise _full(target, size, f" ({error})") from error
    finally:
        if lock is not None:
            os.close(lock)
        shutil.rmtree(draft, ignore_errors=True)


def _full(target: Path, size: int, why: str = "") -> OSError:
    free = shutil.disk_usage(target.parent).free
    return OSError(
        f"{target} was not written{why}: it takes {size / 1e9:.3g} GB (an older one stays until then) and "
        f"{free / 1e9:.3g} GB are free there; free some, or choose another place"
    )


def _swap_in(draft: Path, target: Path) -> None:
    if not target.exists():
        draft.rename(target)
    elif not _exchange(draft, target):
        old = draft.with_name(draft.name.replace(".writing-", ".old-"))
        target.rename(old)
        try:
            draft.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names at once; False where the system or the file system cannot."""
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return swap(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0


def _tidy(target: Path) -> None:
    """Clear up after killed calls: restore an old folder that nothing has replaced, remove the rest."""
    beside = [path for path in target.parent.iterdir() if path.name.startswith(f".{target.name}.")]
    for old in (path for path in beside if path.name.startswith(f".{target.name}.old-")):
        if not os.path.lexists(target):
            old.rename(target)
        else:
            shutil.rmtree(old, ignore_errors=True)
    for draft in (path for path in beside if path.name.startswith(f".{target.name}.writing-")):
        lock = _lock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:  # nobody writes there any more
            os.close(lock)
            shutil.rmtree(draft, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, where the file system has locks: one process at a time renames in it."""
    lock = _lock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _lock(folder: Path, how: int) -> int | None:
    """A descriptor that holds the lock of a folder while it is open; None where the lock cannot be had."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _flush(folder: Path) -> None:
    """Write all files to the disk: a crash must not leave the folder's name without its contents."""
    for path in filter(Path.is_file, folder.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())

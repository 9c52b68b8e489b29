"""A lock file gives a directory one writer: it names the owner, who rewrites it as long as it lives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from spicejax import interrupt
from spicejax.errors import SpicejaxError

log = logging.getLogger(__name__)

BEAT_SECONDS = 10.0
STALE_SECONDS = 45.0  # an owner on another host that has not beaten for so long is gone


class LockedError(SpicejaxError):
    """Another run owns the directory; the text says which."""


class Lock:
    """Ownership of `directory` from construction until `release`, or until this process dies.

    On the same host a dead owner is recognised at once. Another host cannot see the owner's process (a preempted
    machine comes back under another name), so it waits until the lock file has not changed for `stale_seconds`.
    """

    def __init__(
        self, directory: Path, *, beat_seconds: float = BEAT_SECONDS, stale_seconds: float = STALE_SECONDS
    ) -> None:
        """Take the lock. Raises LockedError, which names the owner, while a living process holds it."""
        self._path = directory / "lock.json"
        self.token = uuid.uuid4().hex  # no two owners have the same, nor those of one process
        self._owner = {"pid": os.getpid(), "started": _started(os.getpid()), "host": _host(), "token": self.token}
        self._beats = 0
        self._stop = threading.Event()
        self._acquire(directory, stale_seconds)
        self._thread = threading.Thread(target=self._beat, args=(beat_seconds,), name="lock", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Raise LockedError if another run took the lock meanwhile: a laptop slept, a machine was taken for dead."""
        owner = _read(self._path)
        if owner is not None and owner.get("token") != self.token:
            raise LockedError(f"{self._path.parent} was taken over by {_name(owner)} while this run stood still")

    def release(self) -> None:
        """Release the directory; a second call does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # one that cannot be read is stale once this process has ended
            if holds(self._path.parent, self.token):
                self._path.unlink(missing_ok=True)

    def _acquire(self, directory: Path, stale_seconds: float) -> None:
        still_since, last = time.monotonic(), None
        while True:
            # The flock makes reading and writing one step for the processes of this host.
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                owner = _read(self._path)
                if owner is None or not _alive(owner):
                    self._write()
                    return
            finally:
                os.close(descriptor)
            if owner.get("host") == _host() or owner != (last or owner):
                raise LockedError(f"{directory} is in use by {_name(owner)}; stop that run or choose another workdir")
            if last is None:
                log.warning("%s is locked by %s; looking whether it still runs", directory, _name(owner))
            if time.monotonic() - still_since > stale_seconds:
                log.warning("lock of %s has stood still for %.0f s: taken over", _name(owner), stale_seconds)
                self._write()
                return
            last = owner
            interrupt.wait(min(1.0, stale_seconds / 10), f"stopped while {directory} was locked; nothing was begun")

    def _write(self) -> None:
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            draft.write_text(json.dumps(self._owner | {"beats": self._beats}))
            os.replace(draft, self._path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def _beat(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            self._beats += 1
            try:
                self.require()
                self._write()
            except LockedError:
                return  # `require` says so again at the next save
            except OSError as error:  # a full disk must not end the run; the next beat tries again
                log.warning("cannot refresh %s: %s", self._path, error)


def holds(directory: Path, token: str) -> bool:
    """Whether the lock of `directory` is the one with this token."""
    return (_read(directory / "lock.json") or {}).get("token") == token


def _read(path: Path) -> dict[str, Any] | None:
    try:
        owner = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return owner if isinstance(owner, dict) else None


def _alive(owner: dict[str, Any]) -> bool:
    """Whether the owner may still run; always true for another host."""
    if owner.get("host") != _host():
        return True
    pid = owner.get("pid")
    return isinstance(pid, int) and _started(pid) == owner.get("started") is not None


def _started(pid: int) -> str | None:
    """Start time of a process, which distinguishes it from a later one with the same id; None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _host() -> str:
    """Name of this machine since its boot; containers on it get names of their own: they do not see each other."""
    parts = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(source) if source.endswith("pid") else Path(source).read_text().strip()[:8])
        except OSError:
            continue
    return "/".join(parts)


def _name(owner: dict[str, Any]) -> str:
    return f"process {owner.get('pid')} on {str(owner.get('host')).partition('/')[0]}"

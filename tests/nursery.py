"""Processes forked from one interpreter that has imported everything: each is a run of its own, and starts at once."""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import processes

NEW_NETWORK, NEW_MOUNTS, NEW_NAME = 0x40000000, 0x20000, 0x4000000  # of Linux's clone(2)
BIND, OF_ITS_OWN = 4096, 0x44000  # of Linux's mount(2)


class Child(NamedTuple):
    """A forked process, whose folder holds what it said, and its exit code once it ended."""

    pid: int
    folder: Path

    def said(self, stream: str = "out") -> str:
        file = self.folder / stream  # which a busy machine makes some time after the child was asked for
        return file.read_text() if file.exists() else ""

    @property
    def code(self) -> int | None:
        path = self.folder / "code"
        return int(path.read_text()) if path.exists() else None

    def send(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)


class Nursery:
    """Forks processes; all are dead when it is left."""

    def __enter__(self) -> "Nursery":
        words = [sys.executable, "-u", str(Path(__file__))]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(processes.ROOT), *sys.path])}
        self._process = subprocess.Popen(
            words, cwd=processes.ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.children: list[Child] = []
        return self

    def fork(self, words: Sequence[object], folder: Path, **order: Any) -> Child:
        """Run `spicejax` with these words, or `meet ROUNDS` and where; `order`: see `obey`."""
        assert self._process.stdin and self._process.stdout
        folder.mkdir(parents=True)
        order |= {"words": [str(word) for word in words], "folder": str(folder)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self.children.append(Child(int(self._process.stdout.readline()), folder))
        return self.children[-1]

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.send(signal.SIGKILL)
        self._process.communicate(timeout=processes.PATIENCE)


def until(true: Callable[[], Any], what: str, patience: float = processes.PATIENCE) -> float:
    """Wait until it is true; return the seconds that took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < patience, f"{what}: not within {patience:.0f} s"
        time.sleep(0.1)
    return time.monotonic() - began


def enter(network: str, hosts: str, name: str) -> None:
    """Move this process into a network namespace, where it has a name and a table of names of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{network}") as there:
        done = [libc.setns(there.fileno(), NEW_NETWORK), libc.unshare(NEW_MOUNTS | NEW_NAME)]
    done += [libc.mount(b"none", b"/", None, OF_ITS_OWN, None)]
    done += [libc.mount(hosts.encode(), b"/etc/hosts", None, BIND, None)]
    assert not any(done), os.strerror(ctypes.get_errno())
    socket.sethostname(name)


def meet(rounds: int, *where: str) -> None:
    """Exchange something again and again; of a search game, that is all that the processes do together."""
    from spicejax import hosts

    coordinator, count, me = (word.partition("=")[2] for word in where)
    hosts.start(coordinator, int(count), int(me))
    for k in range(rounds):
        assert hosts.exchange(k) == [k] * int(count)
        print(f"iteration {k}/{rounds}", flush=True)
        time.sleep(0.1)


def live(order: dict[str, Any]) -> int:
    """Be one process of a run; return its exit code."""
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{order['folder']}/{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(order.get("environment", {}))
    if "network" in order:
        enter(*order["network"])
    from spicejax import commands

    command, *words = order["words"]
    return meet(int(words[0]), *words[1:]) or 0 if command == "meet" else commands.run(command, words)


def serve() -> None:
    """Obey orders, one a line; say the pid of each process, and write its exit code once it ended."""
    import spicejax.commands.train  # noqa: F401  (before the first fork)

    folders: dict[int, str] = {}
    reading = True
    while reading or folders:
        if reading and select.select([0], [], [], 0.05)[0]:
            line = sys.stdin.buffer.raw.readline()  # pyright: ignore[reportAttributeAccessIssue]
            reading = bool(line)
            if line:
                order = json.loads(line)
                pid = os.fork()
                if not pid:
                    sys.exit(live(order))
                folders[pid] = order["folder"]
                print(pid, flush=True)
        pid, status = os.waitpid(-1, os.WNOHANG) if folders else (0, 0)
        if pid:
            made = Path(folders.pop(pid), "making")
            made.write_text(str(os.waitstatus_to_exitcode(status)))
            made.rename(made.with_name("code"))
        elif not reading:
            time.sleep(0.05)


if __name__ == "__main__":
    serve()

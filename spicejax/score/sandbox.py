"""The sandbox for programs that a model wrote: an interpreter process for each, under limits.

Tier 2: namespaces by bubblewrap (only the interpreter's files, read-only; no network; no other process visible), a
filter of system calls, and rlimits. Tier 1: filter and rlimits alone; docs/security.md says what they leave open.
Hostile probe programs find the tier in force; below tier 2 nothing runs unless the user accepts it.

A program returns plain data. No right answer and no reward is inside the sandbox: a program that forges its reply has
only given another answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import zoneinfo
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal

from spicejax import interrupt
from spicejax.score import program as interpreter

How = Literal["value", "error", "form", "timeout", "output", "killed"]
LONGEST = 16 << 10  # characters of a program
_FOLDER = "/"  # where a program starts: not the user's folder, and nothing to clean up after a kill
_EXIT_SECONDS = 5.0  # for bubblewrap to end after its program
_SOURCE = inspect.getsource(interpreter)
_INTERPRETER = os.path.realpath(sys.executable)  # that a virtual environment links to
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
# -I would ignore PYTHONHASHSEED, which keeps sets in one order: isolated by -P -s and an environment of these alone
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC"}  # the machine's own zone is read at tier 1, and not at tier 2
# Hostile probe programs: each returns "free" where it succeeds.
_PROBES = {
    "processes": "import os\ndef f():\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    return 'free'",
    "network": "import socket\ndef f():\n    socket.socket(); return 'free'",
    "signals": "import os\ndef f():\n    os.kill(os.getppid(), 0); return 'free'",
    "memory": "def f():\n    x = bytearray(1 << 31); return 'free'",
    "environment": "import os\ndef f():\n    return 'free' if 'PATH' in os.environ else ''",
    "files": "import os\ndef f():\n    return 'free' if os.path.exists(%r) else ''",
    "writing": "def f():\n    open('x', 'w').close(); return 'free'",
}
_ISOLATED = {"files"}  # probes that succeed at tier 1


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of one program."""

    cpu: int = 2  # seconds
    wall: float = 20.0  # seconds, for programs that wait; ten times `cpu`, for a loaded machine
    memory: int = 256 << 20  # bytes of address space
    output: int = 64 << 10  # bytes printed


@dataclasses.dataclass(frozen=True)
class Ran:
    """The result of a program: its value, or why it has none (how, detail)."""

    how: How
    value: Any = None  # None, bool, int, float, str or a list of these
    detail: str = ""  # name of the exception, or of the type that is not plain data
    printed: str = ""


class Unsafe(ValueError):
    """Programs cannot be isolated from this machine."""


class Sandbox:
    """Run programs in parallel.

    Args:
      accept: allow tier 1, where programs can read the user's files.

    Raises:
      Unsafe: tier 2 is not available, and tier 1 is not accepted or not available.
    """

    def __init__(self, *, accept: bool = False, limits: Limits | None = None, size: int | None = None) -> None:
        self.limits, self.size = limits or Limits(), size or os.cpu_count() or 1
        self.tier, self.why = tier()
        if self.tier == 0 or (self.tier == 1 and not accept):
            accepted = ", or accept that programs read your files" if self.tier else ""
            raise Unsafe(
                f"programs cannot be kept apart from this machine ({self.why}): install bubblewrap and allow user "
                f"namespaces{accepted}; docs/security.md"
            )

    def run(self, programs: Sequence[str], call: str = "solution") -> list[Ran]:
        """Run each program in its own interpreter and call its function without arguments."""

        def one(text: str) -> Ran:
            if interrupt.requested():  # the result is not used
                return Ran("killed", detail="stopped")
            return _run(text, call, self.limits, self.tier)

        with ThreadPoolExecutor(self.size) as threads:
            return list(threads.map(one, programs))


@functools.cache
def tier() -> tuple[int, str]:
    """Probe for the tier in force, once a process; return it and why it is no higher. At 0 not even limits hold."""
    whys = []
    for level in (2, 1):
        if level == 2 and shutil.which("bwrap") is None:
            whys.append("bubblewrap not found")
            continue
        honest = _run("def f():\n    return 6 * 7", "f", Limits(), level)
        if honest.value != 42:
            output = " ".join(honest.printed.split())[:200] or honest.detail or honest.how
            whys.append(f"no program runs at tier {level}: {output}")
            continue
        free = _free(level)
        if not free - (_ISOLATED if level == 1 else set()):
            return level, "; ".join(whys)
        whys.append(f"tier {level} does not keep programs from {', '.join(sorted(free))}")
    return 0, "; ".join(whys)


def _free(level: int) -> set[str]:
    """Names of the probes that succeed at a tier."""
    passed = set()
    for name, text in _PROBES.items():
        ran = _run(text % __file__ if "%r" in text else text, "f", Limits(), level)
        if ran.how != "error" and ran.value != "":
            passed.add(name)
    return passed


@functools.cache
def _wrapped() -> list[str]:
    """The bubblewrap command: a new root with only the interpreter's files and time zones, read-only.

    Installed packages, which may lie among these files, are covered by empty folders.
    """
    base = {"installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}
    base |= {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    folders = {str(Path(sysconfig.get_path(which, vars=base)).resolve()) for which in ("stdlib", "platstdlib")}
    visible = {*folders, str(Path(sys.base_prefix, "lib")), _INTERPRETER, *_LIBRARIES, *zoneinfo.TZPATH}
    binds = [word for path in sorted(visible) for word in ("--ro-bind-try", path, path)]
    packages = {str(path) for each in visible for depth in ("", "*/") for path in Path(each).glob(f"{depth}*-packages")}
    binds += [word for path in sorted(packages) for word in ("--tmpfs", path, "--remount-ro", path)]
    return [
        *(str(shutil.which("bwrap")), "--unshare-user", "--unshare-all", "--uid", "65534", "--gid", "65534"),
        # as process 1: a process of bubblewrap's own in that place would be an orphan, and a zombie where the
        # container's first process (this one, say) takes in no orphans
        *("--cap-drop", "ALL", "--die-with-parent", "--as-pid-1", "--new-session", "--hostname", "sandbox", *binds),
        *("--dir", "/work", "--remount-ro", "/", "--chdir", "/work"),
    ]


def _run(text: str, call: str, limits: Limits, level: int) -> Ran:
    if len(text) > LONGEST:
        return Ran("form", detail="too_long")
    nonce = secrets.token_hex(16)
    request = "\n".join([nonce, call, str(limits.cpu), str(limits.memory), text]).encode("utf-8", "surrogatepass")
    inward, outward = os.pipe()
    info, inform = os.pipe()  # bubblewrap writes the id of its child here
    wrapped, passed = ([*_wrapped(), "--info-fd", str(inform)], (outward, inform)) if level == 2 else ([], (outward,))
    command = [_INTERPRETER, "-P", "-s", "-S", "-B", "-c", _SOURCE, str(outward)]
    with open(inward, "rb", buffering=0) as reply, open(info, "rb", buffering=0) as started:
        try:
            process = subprocess.Popen(
                [*wrapped, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=passed, env=_ENVIRONMENT, cwd=_FOLDER, start_new_session=True, bufsize=0,
            )  # fmt: skip
        finally:
            os.close(outward)
            os.close(inform)
        with process:
            try:
                return _communicate(process, reply, request, nonce, limits)
            finally:
                _end(process, started)


def _end(process: subprocess.Popen[bytes], started: IO[bytes]) -> None:
    """Kill the program, then bubblewrap, which first collects the exit status."""
    if process.poll() is not None:
        return
    os.set_blocking(started.fileno(), False)
    if inner := re.search(rb'"child-pid": *(\d+)', started.read(LONGEST) or b""):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(inner[1]), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_EXIT_SECONDS)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _communicate(process: subprocess.Popen[bytes], reply: IO[bytes], request: bytes, nonce: str, limits: Limits) -> Ran:
    """Send the request, collect output until the program ends or reaches a limit, and read its reply."""
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(request)  # the program reads it first
    process.stdin.close()
    received = {process.stdout: b"", reply: b""}
    limit_of = {process.stdout: limits.output, reply: 2 * interpreter.LONGEST}
    deadline = time.monotonic() + limits.wall
    with selectors.DefaultSelector() as waiting:
        for each in received:
            waiting.register(each, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(deadline - time.monotonic(), 0))
            if not ready:
                return Ran("timeout", detail="wall", printed=_text(received[process.stdout]))
            for key, _ in ready:
                stream: Any = key.fileobj
                received[stream] += (data := os.read(stream.fileno(), 1 << 16))
                if not data:
                    waiting.unregister(stream)
                if len(received[stream]) > limit_of[stream]:
                    return Ran("output", printed=_text(received[stream][: limits.output]))
    printed = _text(received[process.stdout])
    return _read(received[reply], nonce, printed) or _exit_reason(process, deadline, printed)


def _text(printed: bytes) -> str:
    return printed.decode(errors="replace")


def _read(reply: bytes, nonce: str, printed: str) -> Ran | None:
    if not reply.startswith(nonce.encode()):
        return None
    try:
        message = json.loads(reply[len(nonce) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    if "value" in message:
        try:  # the program may have written this itself
            return Ran("value", interpreter.plain(message["value"]), printed=printed)
        except (TypeError, ValueError) as error:
            return Ran("form", detail=str(error)[:80], printed=printed)
    how: How = "error" if "error" in message else "form"
    if not isinstance(detail := message.get(how), str):
        return None
    return Ran(how, detail=detail[:80].encode(errors="replace").decode(), printed=printed)


def _exit_reason(process: subprocess.Popen[bytes], deadline: float, printed: str) -> Ran:
    """Say why there is no reply: a time limit, or another signal."""
    try:
        code = process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return Ran("timeout", detail="wall", printed=printed)
    number = -code if code < 0 else code - 128  # how bubblewrap reports a signal
    if number == signal.SIGKILL:
        return Ran("timeout", detail="cpu", printed=printed)
    return Ran("killed", detail=f"exit status {code}", printed=printed)

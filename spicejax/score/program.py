"""Runs one program that a model wrote, inside the sandbox: limits first, then the program, then what it returned.

Given to an interpreter of its own as text (`-c`), so that nothing of spicejax can be imported there. One JSON request
on standard input; the reply, behind the request's nonce, on the descriptor that is its argument.

Request:  {"nonce": str, "program": str, "call": name, "cpu": seconds, "memory": bytes}
Reply:    {"value": null | bool | number | str | list} | {"error": name of the exception} | {"form": name of the type}
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import resource
import struct
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

LONGEST = 4096  # bytes of a reply
_NUMBERS = {  # of Linux's system calls, by machine; aarch64 has no fork, vfork
    "x86_64": (0xC000003E, {
        "clone": 56, "fork": 57, "vfork": 58, "clone3": 435, "execve": 59, "execveat": 322, "kill": 62, "tkill": 200,
        "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_open": 434, "pidfd_send_signal": 424,
        "pidfd_getfd": 438, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
        "socket": 41, "socketpair": 53, "connect": 42, "bind": 49, "io_uring_setup": 425, "mount": 165, "umount2": 166,
        "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "open_by_handle_at": 304, "fsopen": 430,
        "open_tree": 428, "move_mount": 429, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "add_key": 248,
        "request_key": 249, "keyctl": 250, "memfd_create": 319, "shmget": 29, "semget": 64, "msgget": 68,
        "mq_open": 240, "setsid": 112, "setpgid": 109, "inotify_init": 253, "inotify_init1": 294, "personality": 135,
        "prctl": 157,
    }),
    "aarch64": (0xC00000B7, {
        "clone": 220, "clone3": 435, "execve": 221, "execveat": 281, "kill": 129, "tkill": 130, "tgkill": 131,
        "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "pidfd_open": 434, "pidfd_send_signal": 424,
        "pidfd_getfd": 438, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
        "socket": 198, "socketpair": 199, "connect": 203, "bind": 200, "io_uring_setup": 425, "mount": 40,
        "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "open_by_handle_at": 265,
        "fsopen": 430,
        "open_tree": 428, "move_mount": 429, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "add_key": 217,
        "request_key": 218, "keyctl": 219, "memfd_create": 279, "shmget": 194, "semget": 190, "msgget": 186,
        "mq_open": 180, "setsid": 157, "setpgid": 154, "inotify_init1": 26, "personality": 92, "prctl": 167,
    }),
}  # fmt: skip
_PDEATHSIG, _SECCOMP, _NO_NEW_PRIVILEGES = 1, 22, 38  # of prctl
_SIGKILL, _FILTER, _EPERM = 9, 2, 1


def forbid() -> bool:
    """Make the kernel refuse what no calculation needs: processes, signals, sockets, mounts; say whether it does."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PDEATHSIG, _SIGKILL, 0, 0, 0)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    machine = _NUMBERS.get(os.uname().machine)
    if machine is None:
        return False
    # The filter: load the architecture, then the number; each forbidden one jumps to "refuse", the last but one.
    load, equal, above, back = 0x20, 0x15, 0x35, 0x06
    architecture, numbers = machine[0], sorted(machine[1].values())
    n = len(numbers)
    code = [(load, 0, 0, 4), (equal, 0, n + 3, architecture), (load, 0, 0, 0), (above, n + 1, 0, 0x40000000)]
    code += [(equal, n - i, 0, number) for i, number in enumerate(numbers)]
    code += [(back, 0, 0, 0x7FFF0000), (back, 0, 0, 0x00050000 | _EPERM)]
    text = b"".join(struct.pack("HBBI", *each) for each in code)
    held = ctypes.create_string_buffer(text)
    whole = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(held)))
    return libc.prctl(_SECCOMP, _FILTER, ctypes.byref(whole), 0, 0) == 0


def limit(cpu: int, memory: int) -> None:
    """Bound this process: CPU seconds, address space; no contents of files, few descriptors, no processes, no dump."""
    for what, most in (
        (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        resource.setrlimit(what, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # the first can be caught, the second cannot


def plain(value: Any, depth: int = 3) -> Any:
    """A value as plain data, by exact type, so that no method of the program's is called; TypeError for others."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (Fraction, Decimal):
        return str(value)
    if kind in (list, tuple) and depth and len(value) <= 100:
        return [plain(each, depth - 1) for each in value]
    raise TypeError(kind.__name__)


def play(program: str, call: str) -> dict[str, Any]:
    """Run a program and call its function; what it says is what it returned."""
    own: dict[str, Any] = {"__name__": "program"}
    try:
        exec(compile(program, "program", "exec", dont_inherit=True), own)
        value = own[call]()
    except BaseException as error:
        return {"error": type(error).__name__[:80]}
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
    try:
        return {"value": plain(value)}
    except BaseException:
        return {"form": type(value).__name__[:80]}


def main() -> None:
    """Serve the one request."""
    request = json.loads(sys.stdin.buffer.read())
    channel = int(sys.argv[1])
    random.seed(0)
    limit(request["cpu"], request["memory"])
    forbidden = forbid()
    reply = {"filtered": forbidden} | play(request["program"], request["call"])
    try:
        text = json.dumps(reply)
    except (ValueError, RecursionError, MemoryError):  # an integer of too many digits
        text = '{"form": "too_long"}'
    text = text if len(text) < LONGEST else '{"form": "too_long"}'
    os.write(channel, (request["nonce"] + text + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()

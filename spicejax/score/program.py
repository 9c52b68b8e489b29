"""The inside of the sandbox: set the limits, run one program that a model wrote, reply with its value.

A separate interpreter gets this module as text (`-c`), so that nothing of spicejax can be imported there. It reads the
request from standard input and writes the reply, after the request's nonce, to the descriptor in its argument. Modules
that most programs do not need (json, random, typing, ...) are imported late: they take longer than most programs.

Request:  lines of nonce, name of the function, CPU seconds, bytes of memory; then the program
Reply:    {"value": null | bool | number | str | list} | {"error": name of the exception} | {"form": name of the type}
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST = 4096  # bytes of a reply
RESULTS = ("ans", "answer", "result")  # variables that hold the value of a program without the function
# System calls that calculations need, with their numbers on x86_64 and aarch64, None where there is none. All others
# are refused: a list of forbidden calls would never be complete.
_CALLS = {
    # files, for reading
    "open": (2, None), "openat": (257, 56), "close": (3, 57), "read": (0, 63), "readv": (19, 65), "pread64": (17, 67),
    "lseek": (8, 62), "stat": (4, None), "lstat": (6, None), "fstat": (5, 80), "newfstatat": (262, 79),
    "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17),
    # open descriptors
    "write": (1, 64), "writev": (20, 66), "fcntl": (72, 25), "ioctl": (16, 29), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72),
    # memory, signals, exit
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "futex": (202, 98), "restart_syscall": (219, 128), "exit": (60, 93),
    "exit_group": (231, 94),
    # time, random numbers, the machine
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165),
    "getrandom": (318, 278), "uname": (63, 160), "sysinfo": (99, 179), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "getcpu": (309, 168), "getpid": (39, 172), "gettid": (186, 178),
    "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
}  # fmt: skip
# Calls of which one argument is checked: its place, a mask of its bits, and the values allowed.
_ARGUMENTS = {
    "open": (1, 0o1103, (0,)),  # neither O_WRONLY, O_RDWR, O_CREAT nor O_TRUNC
    "openat": (2, 0o1103, (0,)),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: others lock files, or have a descriptor send signals
    "fcntl": (1, 0xFFFFFFFF, (0, 1, 2, 3, 1030)),
    # TCGETS, TIOCGWINSZ, FIONCLEX, FIOCLEX, TCGETS2: others type into terminals, or change devices
    "ioctl": (1, 0xFFFFFFFF, (0x5401, 0x5413, 0x5450, 0x5451, 0x802C542A)),
}
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of _CALLS, the kernel's name for it
_PDEATHSIG, _DUMPABLE, _SECCOMP, _NO_NEW_PRIVILEGES = 1, 4, 22, 38  # of prctl
_SIGKILL, _FILTER, _EPERM, _ENOSYS = 9, 2, 1, 38


def instructions(machine: str) -> bytes:
    """The filter that allows `_CALLS`, in the kernel's format (linux/filter.h); KeyError for an unknown machine."""
    load, bits, equal, back = 0x20, 0x54, 0x15, 0x06
    allow, refuse = (back, 0, 0, 0x7FFF0000), (back, 0, 0, 0x00050000 | _EPERM)
    absent = (back, 0, 0, 0x00050000 | _ENOSYS)  # so that libraries fall back on an older call
    column, architecture = _MACHINES[machine]
    code = [(load, 0, 0, 4), (equal, 1, 0, architecture), refuse, (load, 0, 0, 0)]
    for name, numbers in _CALLS.items():
        then = [allow]
        if name in _ARGUMENTS:
            which, mask, values = _ARGUMENTS[name]
            then = [(load, 0, 0, 16 + 8 * which), (bits, 0, 0, mask)]  # the kernel too reads these as 32 bits
            then += [step for value in values for step in ((equal, 0, 1, value), allow)]
            then += [refuse]
        if numbers[column] is not None:
            code += [(equal, 0, len(then), numbers[column]), *then]
    return b"".join(struct.pack("HBBI", *each) for each in [*code, absent])


def forbid() -> bool:
    """Have the kernel refuse all other system calls; return whether it does."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PDEATHSIG, _SIGKILL, 0, 0, 0)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)  # a crash is not handed to the machine's collector of crashes
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if os.uname().machine not in _MACHINES:
        return False
    code = instructions(os.uname().machine)
    code_buffer = ctypes.create_string_buffer(code, len(code))
    filter_program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(code_buffer)))
    return libc.prctl(_SECCOMP, _FILTER, ctypes.byref(filter_program), 0, 0) == 0


def limit(cpu: int, memory: int) -> None:
    """Bound this process: CPU seconds, address space; no contents of files, few descriptors, no processes, no dump."""
    for resource_kind, maximum in (
        (resource.RLIMIT_CPU, cpu),  # SIGKILL at once: the first process of a namespace ignores SIGXCPU
        (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        resource.setrlimit(resource_kind, (maximum, maximum))


def plain(value: Any, depth: int = 3) -> Any:
    """Return a value as plain data, by which type it is: no method of a class of the program's is called.

    Unless it puts one in the place of Decimal or Fraction; what it replies is its own in any case.

    Raises:
      TypeError: it is of another type.
      ValueError: it is no number (infinite, undefined), or no text (half a character).
    """
    kind = type(value)
    decimal = getattr(sys.modules.get("decimal"), "Decimal", None)
    fraction = getattr(sys.modules.get("fractions"), "Fraction", None)
    if (kind is float and not math.isfinite(value)) or (kind is decimal and not value.is_finite()):
        raise ValueError(kind.__name__)  # JSON has none
    if kind is str:
        value.encode()
    if value is None or _is(kind, bool, int, float, str):
        return value
    if issubclass(kind, int):  # a member of an enumeration, as calendar's days are from Python 3.12 on
        return int.__index__(value)
    if _is(kind, fraction, decimal):
        return str(value)
    if _is(kind, list, tuple) and depth and len(value) <= 100:
        return [plain(each, depth - 1) for each in value]
    raise TypeError(kind.__name__)


def _is(kind: type, *types: Any) -> bool:
    """Whether it is one of these; `in` would ask its metaclass."""
    return any(kind is each for each in types)


def run(program: str, call: str) -> dict[str, Any]:
    """Run a program, call its function and return the reply with its value.

    Without the function the value is that of the first variable of RESULTS that exists, else null.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        if "random" in program or "statistics" in program:  # which draws by it
            import random

            random.seed(0)
        try:
            exec(compile(program, "program", "exec", dont_inherit=True), namespace)
        except SystemExit:
            pass  # a script's own way to end
        except Exception:
            if not callable(namespace.get(call)):  # else it is what the script does with its function that failed
                raise
        if callable(namespace.get(call)):
            value = namespace[call]()
        else:
            value = next((namespace[name] for name in (call, *RESULTS) if name in namespace), None)
    except BaseException as error:
        return {"error": type(error).__name__[:80]}
    finally:
        try:
            sys.stdout.flush()
        except BaseException:
            pass  # it was the program's
    try:
        return {"value": plain(value)}
    except BaseException:
        return {"form": type(value).__name__[:80]}


def _needs_no_escape(text: str) -> bool:
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def written(reply: dict[str, Any]) -> str:
    """A reply as JSON; numbers and lists of plain text without the module, whose import is a quarter of a run."""
    value = reply.get("value")
    if type(value) in (int, float):
        return f'{{"value": {value!r}}}'
    if type(value) is list and all(type(each) is str and _needs_no_escape(each) for each in value):
        return '{"value": [' + ", ".join(f'"{each}"' for each in value) + "]}"
    import json

    return json.dumps(reply)


def main() -> None:
    """Serve the one request."""
    nonce, call, cpu, memory, program = sys.stdin.buffer.read().decode("utf-8", "surrogatepass").split("\n", 4)
    channel = int(sys.argv[1])
    limit(int(cpu), int(memory))
    reply = run(program, call) if forbid() else {"error": "NoFilter"}
    try:
        text = written(reply)
    except (ValueError, RecursionError, MemoryError):  # an integer of too many digits
        text = '{"form": "too_long"}'
    text = text if len(text) < LONGEST else '{"form": "too_long"}'
    os.write(channel, f"{nonce}{text}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main()

"""One program that asks the kernel for every system call that the sandbox's table does not hold, and lists the answers.

The filter's two refusals get the numbers below for it: numbers that no call asked here would fail with by itself.
"""

from spicejax.score.program import _ARGUMENTS, _CALLS, _MACHINES

ABSENT, CHECKED = 133, 132  # EHWPOISON: not in the table; ERFKILL: in it, with arguments that it does not hold
_HIGHEST = 1024  # far above the newest call
# uretprobe and uprobe of x86_64: the kernel lets them past every filter, and heeds them in a page of its own alone;
# elsewhere a signal ends the process, or nothing is done (hostile_calls.py tries it)
_UNFILTERED = (335, 336)

# All arguments are -1: no call that takes one does anything with that, should it get through.
_TEXT = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
allowed, numbers, own = set({allowed}), {numbers}, os.getpid()
asked, wrong = 0, []
def ask(refusal, number, *given):
    global asked
    asked += 1
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(number), *given)
    if os.getpid() != own: os._exit(1)
    if got != -1 or ctypes.get_errno() != refusal: wrong.append([hex(number), got, ctypes.get_errno()])
def solution():
    none = ctypes.c_long(-1)
    for number in range({highest}):
        for other in [number, number + (1 << 32)] * (number not in allowed) + [number + (1 << 30)]:
            ask({absent}, other, *[none] * 6)
    for name, number in numbers.items():
        for flags in range(1 << 16):
            if name == 'fcntl' and flags not in {fcntl} or name == 'ioctl' and flags not in {ioctl}:
                ask({checked}, number, none, ctypes.c_long(flags), none)
            elif name == 'open' and flags & {mask}:
                ask({checked}, number, b'', ctypes.c_long(flags), none)
            elif name == 'openat' and flags & {mask}:
                ask({checked}, number, none, b'', ctypes.c_long(flags), none)
    return [asked, wrong[:20]]
"""


def _numbers(machine: str) -> dict[str, int]:
    column = _MACHINES[machine][0]
    return {name: each[column] for name, each in _CALLS.items() if each[column] is not None}


def program(machine: str) -> str:
    """The program; it returns how much it asked, and what was answered otherwise than by the filter."""
    numbers = _numbers(machine)
    return _TEXT.format(
        allowed=sorted({*numbers.values(), *_UNFILTERED}),
        numbers={name: numbers[name] for name in _ARGUMENTS if name in numbers},
        highest=_HIGHEST,
        absent=ABSENT,
        checked=CHECKED,
        mask=_ARGUMENTS["open"][1],
        fcntl=_ARGUMENTS["fcntl"][2],
        ioctl=_ARGUMENTS["ioctl"][2],
    )


def asked(machine: str) -> int:
    """How much the program asks: with the calls' numbers, beyond 32 bits, and as those of x32; and the arguments."""
    numbers, wide = _numbers(machine), 1 << 16
    calls = 2 * (_HIGHEST - len({*numbers.values(), *_UNFILTERED})) + _HIGHEST
    flags = wide - wide // 16  # that hold one of four bits at least
    checks = sum(
        flags if name in ("open", "openat") else sum(value not in values for value in range(wide))
        for name, (_, _, values) in _ARGUMENTS.items()
        if name in numbers
    )
    return calls + checks

"""How this process gets its memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

HUGE_PAGES = "glibc.malloc.hugetlb=1"
# One heap that only grows: what a program gives back, the next one gets without asking the system. Pieces of APART
# bytes and more are not of it: something small behind one keeps it, and the next large piece may be larger.
APART = 2**32
REUSE = f"glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold={APART:#x}:glibc.malloc.trim_threshold=0x10000000000"
ROOM = 2 / 3  # of the memory: where less is left, holes of the heap go back (`trim`)
ACCELERATORS = ("accel*", "vfio/[0-9]*", "nvidia[0-9]*")  # in /dev

FRACTION, OLD_FRACTION = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"  # JAX refuses both together
SHARE = 0.92  # of a GPU's memory: programs get no more; JAX's own 0.75 leaves 20 GiB of an H100 unused


def gpu_share() -> float:
    """Share of a GPU's memory that JAX takes at its start, unless the user said another."""
    return float(os.environ.get(FRACTION) or os.environ.get(OLD_FRACTION) or SHARE)


def tune(devices: Path = Path("/dev")) -> None:
    """Have JAX take `gpu_share` of a GPU, and start this Python process again with glibc as XLA:CPU needs it.

    Does nothing the second time.

    XLA:CPU takes new memory for every call, and the system clears it page by page: a third of the time of a train step
    with pages of 4 KiB; with huge pages a quarter of an evaluation's time where a model has half a billion parameters.
    So pages are huge, and where no accelerator computes, the process keeps and reuses most of them. glibc reads the
    settings only when a process starts. Call it before heavy imports. A GLIBC_TUNABLES of the user's own, even an empty
    one, is left alone.
    """
    if not {FRACTION, OLD_FRACTION} & os.environ.keys():
        os.environ[FRACTION] = str(SHARE)
    if sys.platform == "linux" and sys.executable and "GLIBC_TUNABLES" not in os.environ:
        elsewhere = any(any(devices.glob(pattern)) for pattern in ACCELERATORS)
        # other C libraries and old glibcs do not look at it
        os.environ["GLIBC_TUNABLES"] = HUGE_PAGES if elsewhere else f"{HUGE_PAGES}:{REUSE}"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def machine(root: Path = Path("/")) -> tuple[int, int | None]:
    """Bytes of memory that this process may use in all, and how many are free: of the machine, or of its container.

    Files that the system keeps in memory count as free. None where the system does not say what is free.

    Args:
      root: the folder that holds Linux's proc and sys.
    """
    most, free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
    with contextlib.suppress(OSError, ValueError, LookupError):
        words = [line.split() for line in (root / "proc/meminfo").read_text().splitlines()]
        found = {word[0]: int(word[1]) << 10 for word in words if len(word) == 3}
        most, free = found["MemTotal:"], found["MemAvailable:"]
    for limit, held in _limits(root):
        most, free = min(most, limit), max(0, min(limit if free is None else free, limit - held))
    return most, free


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Limits of this process's control groups, of either version, and what each of those holds beside files."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:
            top, names, prefix = root / "sys/fs/cgroup", ("memory.max", "memory.current"), ""
        elif "memory" in controllers.split(","):
            top, names = root / "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
            prefix = "total_"  # of the groups within, too
        else:
            continue
        group = top / path.lstrip("/")
        for folder in (group, *group.parents[: len(group.relative_to(top).parts)]):
            stat: dict[str, int] = {}
            # seen from a container `path` may name a place outside of it; a group without a limit says "max"
            with contextlib.suppress(OSError, ValueError):
                limit, held = (int((folder / name).read_text()) for name in names)
                with contextlib.suppress(OSError, ValueError):
                    pairs = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
                    stat = {name: int(value) for name, value in pairs}
                files = sum(stat.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
                yield min(limit, stat.get("hierarchical_memory_limit", limit)), held - files


def trim() -> bool:
    """Give what is free in the heap back to the system where less than `ROOM` of the memory is left; return whether.

    Call it where one program's turn ends and another's begins: a hole that the one left is seldom where the other, of
    larger pieces, has use for it, so that the heap grows by both. Where there is memory that is cheaper: the system
    clears each page that it hands out again. Does nothing where this process was not started with `REUSE`.
    """
    if REUSE not in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    most, free = machine()
    if free is None or free > most * ROOM:
        return False
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
    return give_back is not None and bool(give_back(ctypes.c_size_t(0)))

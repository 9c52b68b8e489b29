"""How this process gets its memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HUGE_PAGES = "glibc.malloc.hugetlb=1"
# One heap that only grows: what a program gives back, the next one gets without asking the system. Pieces of APART
# bytes and more are not of it: something small behind one keeps it, and the next large piece may be larger.
APART = 2**32
REUSE = f"glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold={APART:#x}:glibc.malloc.trim_threshold=0x10000000000"
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

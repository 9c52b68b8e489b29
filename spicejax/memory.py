"""How this process gets its memory."""

from __future__ import annotations

import os
import sys


def ask_for_huge_pages() -> None:
    """Start this Python process again with glibc asking Linux for huge pages; does nothing the second time.

    XLA:CPU takes new memory for every step and the system fills it page by page, which with pages of 4 KiB is a third
    of the time of a train step. glibc reads the setting only when a process starts. Call it before heavy imports.
    A GLIBC_TUNABLES of the user's own, even an empty one, is left alone.
    """
    if sys.platform == "linux" and sys.executable and "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"  # other C libraries and old glibcs do not look at it
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

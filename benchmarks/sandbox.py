"""Run many short programs in the sandbox: python benchmarks/sandbox.py [--programs=10000] [--alone=500]

Prints one table: how many programs a second with one process a core; milliseconds of one alone, of the same one in a
bare interpreter and of what lies between them; what is left afterwards: processes (dead ones too), memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import harness
import numpy as np

from spicejax.score import sandbox

PROGRAM = "from fractions import Fraction\ndef solution():\n    return float(sum(Fraction(k, 7) for k in range({n})))"
PATIENCE = 5  # seconds after which what was not there before counts as left: others may use the sandbox meanwhile


def left() -> set[str]:
    """Processes of programs, and dead children of this one or of the machine's first that nobody has taken in."""
    lines = subprocess.run(["ps", "-eo", "pid,ppid,stat,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=3) for line in lines.splitlines()]
    ours = {"1", str(os.getpid())}
    return {row[0] for row in rows if row[2][0] == "Z" and row[1] in ours or "Runs one program that a model" in row[3]}


def memory() -> float:
    """MiB of this process that are in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def alone(kept: sandbox.Sandbox, texts: list[str]) -> np.ndarray:
    """Milliseconds of each program alone, and of the same one in a bare interpreter right behind it."""
    rows = []
    for text in texts:
        times = [time.perf_counter()]
        kept.run([text])
        times.append(time.perf_counter())
        bare = [os.path.realpath(sys.executable), "-P", "-s", "-S", "-B", "-c", text + "\nsolution()"]
        subprocess.run(bare, check=True)
        times.append(time.perf_counter())
        rows.append(np.diff(times))
    return 1e3 * np.array(rows)


def main() -> int:
    """Print one table; 1 where a program's value is wrong or something is left."""
    options = harness.options(__doc__, programs=10000, alone=500)
    kept = sandbox.Sandbox(accept=True)
    texts = [PROGRAM.format(n=n % 100) for n in range(max(options.programs, options.alone))]
    kept.run(texts[:10])
    before, held = left(), memory()
    began = time.perf_counter()
    ran = kept.run(texts[: options.programs])
    seconds = time.perf_counter() - began
    wrong = sum(each.how != "value" or abs(each.value - sum(range(n % 100)) / 7) > 1e-9 for n, each in enumerate(ran))
    whole, bare = alone(kept, texts[: options.alone]).T
    grown, deadline = memory() - held, time.monotonic() + PATIENCE
    while (processes := left() - before) and time.monotonic() < deadline:
        time.sleep(0.5)
    rows = {"tier": str(kept.tier), "programs": f"{len(ran):,}", "of these wrong": str(wrong)}
    rows["programs a second"] = f"{len(ran) / seconds:.1f}"
    for name, each in (("one alone", whole), ("bare interpreter", bare), ("overhead", whole - bare)):
        rows[f"{name}, ms: p50, p99"] = f"{np.percentile(each, 50):.1f}, {np.percentile(each, 99):.1f}"
    rows["processes left"] = str(len(processes))
    rows["growth of memory, MiB"] = f"{grown:.1f}"
    print(harness.table(("", ""), list(rows.items())))
    return int(bool(wrong or processes))


if __name__ == "__main__":
    sys.exit(main())

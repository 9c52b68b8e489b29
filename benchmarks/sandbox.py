"""Run many short programs in the sandbox: python benchmarks/sandbox.py [--programs=1000]

Prints one JSON object: the tier, programs a second with one process a core, milliseconds of one alone (median, 99th
percentile) and of the bare interpreter, and what is left afterwards: processes, folders, growth of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from spicejax.score import sandbox

PROGRAM = "from fractions import Fraction\ndef solution():\n    return float(sum(Fraction(k, 7) for k in range({n})))"


def left() -> int:
    """Folders and processes of programs."""
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    folders = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(sandbox.FOLDER)]
    return len(folders) + running.count("Runs one program that a model wrote")


def main() -> int:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    options = parser.parse_args()
    kept = sandbox.Sandbox(accept=True)
    texts = [PROGRAM.format(n=n % 100) for n in range(options.programs)]
    kept.run(texts[:10])
    before, memory = left(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    ran = kept.run(texts)
    seconds = time.perf_counter() - began
    wrong = sum(each.value != sum(range(n % 100)) / 7 and abs(each.value - sum(range(n % 100)) / 7) > 1e-9
                for n, each in enumerate(ran))  # fmt: skip
    alone, bare = [], []
    for text in texts[:100]:
        began = time.perf_counter()
        kept.run([text])
        alone.append(1e3 * (time.perf_counter() - began))
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        bare.append(1e3 * (time.perf_counter() - began))
    report = {
        "tier": kept.tier,
        "programs": len(ran),
        "wrong": wrong,
        "programs_per_second": round(len(ran) / seconds, 1),
        "alone_ms": {"median": round(float(np.median(alone)), 1), "p99": round(float(np.percentile(alone, 99)), 1)},
        "interpreter_ms": round(float(np.median(bare)), 1),
        "left": left() - before,
        "memory_growth_mb": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024, 1),
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

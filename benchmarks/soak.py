"""Does what a command holds grow? python benchmarks/soak.py --hours=6 --out=FILE COMMAND...

Starts COMMAND and looks every --every seconds at it and all processes that it started, on Linux: memory but for what
files are mapped (libraries count the less, the more processes share them), open descriptors, threads, processes, and
files in a folder for temporary ones that is its own. After --hours it is sent SIGTERM. Prints the mean of each quarter
of the time after --settling, and the growth an hour of a line through all that was seen since; FILE has every look.
Exit code 1 where COMMAND failed before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HELD = ("memory_mib", "descriptors", "threads", "processes", "temporary_files")


def tree(first: int) -> list[int]:
    """A process and all that it, or one of them, has started."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:  # it has ended
            continue
    found = [first]
    for pid in found:
        found += children.get(pid, [])
    return found


def look(pids: list[int], temporary: Path) -> dict[str, float]:
    """What processes hold together; one that ends meanwhile counts for what was read of it."""
    held = dict.fromkeys(HELD, 0.0)
    for pid in pids:
        place = Path(f"/proc/{pid}")
        try:
            rollup = (place / "smaps_rollup").read_text()
            held["memory_mib"] += int(rollup.partition("\nPss_Anon:")[2].split()[0]) / 1024
            held["descriptors"] += len(os.listdir(place / "fd"))
            held["threads"] += len(os.listdir(place / "task"))
            held["processes"] += 1
        except (OSError, IndexError):
            continue
    held["temporary_files"] = sum(len(names) for _, _, names in os.walk(temporary))
    return held


def table(looks: list[dict[str, float]], settling: float) -> str:
    """A line a quantity: the mean of each quarter after `settling` seconds, and growth an hour by least squares."""
    kept = [row for row in looks if row["seconds"] >= settling]
    hours = np.array([row["seconds"] for row in kept]) / 3600
    lines = ["| | 1st quarter | 2nd | 3rd | 4th | growth an hour |", "|---|--:|--:|--:|--:|--:|"]
    for name in HELD:
        values = np.array([row[name] for row in kept])
        quarters = " | ".join(f"{part.mean():.1f}" for part in np.array_split(values, 4))
        lines.append(f"| {name.replace('_', ' ')} | {quarters} | {np.polyfit(hours, values, 1)[0]:+.2f} |")
    return "\n".join(lines)


def main() -> int:
    """Start the command, look at it until the time is over, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two looks")
    parser.add_argument("--settling", type=float, default=1200.0, help="seconds of compiling and loading: not counted")
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON a look")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    looks: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as temporary, options.out.open("w") as out:
        process = subprocess.Popen(options.command, env=os.environ | {"TMPDIR": temporary})
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < 3600 * options.hours:
            looks.append({"seconds": time.monotonic() - began} | look(tree(process.pid), Path(temporary)))
            out.write(json.dumps(looks[-1]) + "\n")
            out.flush()
            time.sleep(options.every)
        early = process.poll()
        process.terminate()
        code = process.wait()
        left = sum(len(names) for _, _, names in os.walk(temporary))
    if sum(row["seconds"] >= options.settling for row in looks) >= 4:
        print(table(looks, options.settling))
    hours = looks[-1]["seconds"] / 3600
    print(f"{hours:.2f} hours, {len(looks)} looks; it ended with {code}, {left} temporary files were left")
    return int(bool(early))


if __name__ == "__main__":
    sys.exit(main())

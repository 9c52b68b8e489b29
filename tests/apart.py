"""Damaged files read in a process apart, whose memory and time are bounded: what became of each.

python tests/apart.py KIND SEED FIRST STOP FOLDER reads the damaged files FIRST to STOP-1 of a kind and of a seed, and
prints one line of JSON for each.
"""

import collections
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import damaged
import whole

from spicejax import commands
from spicejax.errors import LINES, SpicejaxError, plain

LONG = 60.0  # seconds of processor time for one file: a hang, on any machine
ROOM = 2**30  # bytes that reading one may take beyond what the whole one has taken
LONGEST = 1500  # characters of an error
TOLD = (ValueError, OSError, ImportError, FloatingPointError, SpicejaxError)  # of commands.run, as one line


def tried(kind: str, seed: int, count: int, folder: Path) -> tuple[collections.Counter[str], list[str]]:
    """How many were "loaded" and "refused", and what went wrong; each with the number that brings it back."""
    outcomes, wrong, first = collections.Counter[str](), [], 0
    whole_folder = folder / "whole"
    whole_folder.mkdir(parents=True)
    whole.KINDS[kind].write(whole_folder)
    while first < count:
        words = [sys.executable, __file__, kind, seed, first, count, folder]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, errors="replace")
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"number"')]
        for line in lines:
            outcomes[line["outcome"]] += 1
            if line["outcome"] == "wrong":
                wrong.append(f"{kind}, number {line['number']} of seed {seed}, {line['told']}")
        first = lines[-1]["number"] + 1 if lines else first
        if done.returncode:
            how = signal.Signals(-done.returncode).name if done.returncode < 0 else done.returncode
            wrong.append(f"{kind}, number {first} of seed {seed}: ended by {how}: {done.stderr[-600:]}")
            outcomes["wrong"] += 1
            first += 1
    return outcomes, wrong


def damage(kind: str, seed: int, number: int, folder: Path) -> str:
    """Damage one file of a whole folder, or two; return their names."""
    rng = random.Random(f"{kind}/{seed}/{number}")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = rng.sample(files, min(len(files), rng.choice((1, 1, 1, 2))))
    for file in chosen:
        file.write_bytes(damaged.damage(rng, file.name, file.read_bytes()))
    return " and ".join(str(file.relative_to(folder)) for file in chosen)


def judged(read, folder: Path) -> tuple[str, str]:
    """What became of reading a folder, and what was told."""
    try:
        read(folder)
    except TOLD as error:
        text = plain(commands._last_words(error, "train")[0], LINES)
        if "\n" in text or len(text) > LONGEST or str(folder) not in text:
            return "wrong", f"{len(text)} characters: {text[:1000]!r}"
        return "refused", text
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error!s:.500}"
    return "loaded", ""


def main(kind: str, seed: int, first: int, stop: int, folder: Path) -> None:
    read, place = whole.KINDS[kind].read, folder / "damaged"
    read(folder / "whole")  # imports, compiles
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, wherever it is
    for number in range(first, stop):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder / "whole", place)
        signal.setitimer(signal.ITIMER_PROF, LONG)
        names = damage(kind, seed, number, place)
        outcome, told = judged(read, place)
        print(json.dumps({"number": number, "outcome": outcome, "told": f"{names}: {told}"}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))

"""Damaged files read in a process apart, whose memory and time are bounded: what became of each.

python tests/apart.py SEED COUNT FIRST FOLDER KIND... reads COUNT damaged files of each kind and of a seed, one kind
after the other, from the one FIRST on, and prints one line of JSON for each.
"""

import collections
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import damaged
import whole

from spicejax import commands
from spicejax.errors import LINES, SpicejaxError, plain

LONG = 60.0  # seconds of processor time for one file: a hang, on any machine
ROOM = 2**30  # bytes that reading one may take beyond what the whole one has taken
LONGEST = 1500  # characters of an error
NAMED = ("chat template failed", "MuSiQue's dev_test_singlehop_questions")  # what errors name instead of a file
_ROOT = Path(__file__).resolve().parent.parent
_PATHS = [str(_ROOT), str(_ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
_ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(_PATHS), "JAX_PLATFORMS": "cpu"}
TOLD = (ValueError, OSError, ImportError, FloatingPointError, SpicejaxError)  # of commands.run, as one line


def tried(kinds: Sequence[str], seed: int, count: int, folder: Path) -> tuple[collections.Counter[str], list[str]]:
    """How many were "loaded" and "refused", and what went wrong; each with the number that brings it back."""
    outcomes, wrong, first = collections.Counter[str](), [], 0
    for kind in kinds:
        (folder / kind).mkdir()
        whole.KINDS[kind].write(folder / kind)
    while first < count * len(kinds):
        words = [sys.executable, __file__, seed, count, first, folder, *kinds]
        done = subprocess.run(list(map(str, words)), env=_ENVIRONMENT, capture_output=True, text=True, errors="replace")
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"outcome"')]
        outcomes.update(line["outcome"] for line in lines)
        wrong += [line["told"] for line in lines if line["outcome"] == "wrong"]
        first += len(lines)
        if done.returncode:
            how = signal.Signals(-done.returncode).name if done.returncode < 0 else done.returncode
            kind, number = kinds[first // count % len(kinds)], first % count
            wrong.append(f"{kind}, number {number} of seed {seed}: ended by {how}: {done.stderr[-600:]}")
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


def judged(read: Callable[[Path], Any], folder: Path) -> tuple[str, str]:
    """What became of reading a folder, and what was told."""
    try:
        read(folder)
    except TOLD as error:
        text = plain(commands._last_words(error, "train")[0], LINES)
        if "\n" in text or len(text) > LONGEST or not any(name in text for name in (str(folder), *NAMED)):
            return "wrong", f"{len(text)} characters: {text[:1000]!r}"
        return "refused", text
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error!s:.500}"
    return "loaded", ""


def main(seed: int, count: int, first: int, folder: Path, kinds: Sequence[str]) -> None:
    place = folder / "damaged"
    for kind in kinds[first // count :]:
        whole.KINDS[kind].read(folder / kind)  # imports, compiles
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, wherever it is
    for kind, number in itertools.islice(itertools.product(kinds, range(count)), first, None):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder / kind, place)
        signal.setitimer(signal.ITIMER_PROF, LONG)
        names = damage(kind, seed, number, place)
        outcome, told = judged(whole.KINDS[kind].read, place)
        told = f"{kind}, number {number} of seed {seed}, {names}: {told}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"outcome": outcome, "told": told}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), Path(sys.argv[4]), sys.argv[5:])

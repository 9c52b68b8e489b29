"""The worker processes of the verifier. A thread drives each worker and replaces it when it dies.

A text that breaks a worker raises nothing: the pool reports its pair as "timeout" or "crashed" and goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from spicejax import interrupt

_SCRIPT = Path(__file__).with_name("worker.py")
_STARTUP_SECONDS = 120.0  # wall, for a worker to import sympy on a loaded machine
_START_ATTEMPTS = 3  # deaths of one worker in a row before its first verdict
_WALL_PER_CPU = 10.0  # wall seconds granted per CPU second before a pair counts as stuck
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One judged answer: right or wrong, and which rule said so; `how` is counted as verdict/HOW.

    By text: none (no answer), too_long, exact, letter, number, boolean, text, list, hedged (several answers for one),
    form (another unit, base, name or kind of brackets, or parts that are all equal or not).
    By a worker: math_verify, or verifier (the user's own). Counted as wrong: timeout (CPU limit), crashed (memory limit
    or a dead worker), raised (the user's own verifier did, or gave no bool), breaker (not begun because too many pairs
    of the batch had timed out).
    """

    correct: bool
    how: str
    why: str = ""  # raised: the error


class Pool:
    """`size` worker processes, started when first needed.

    Args:
        function: name of the user's own verifier (outside.py) that they run; "" = Math-Verify.
    """

    def __init__(self, size: int, function: str = "") -> None:
        self.size, self.function = size, function
        self.workers: dict[int, subprocess.Popen[bytes]] = {}  # by seat; a seat is held by one thread at a time

    def close(self) -> None:
        """End all workers; the next `judge` starts new ones."""
        for seat in list(self.workers):
            self._end(seat)

    def judge(self, pairs: Sequence[Any], *, cpu: float, max_timeouts: int) -> list[Verdict]:
        """Judge claims, each within `cpu` seconds of CPU time, until `max_timeouts` have timed out.

        Args:
            pairs: forms.Claim, or with a `function` what it is given: (text, Task).
        Raises:
            RuntimeError: Math-Verify is not installed, or a worker keeps dying before it is ready.
            ValueError: there is no such `function`, or it takes something else.
        """
        timed_out: list[Any] = []
        seats: queue.SimpleQueue[int] = queue.SimpleQueue()
        for seat in range(self.size):
            seats.put(seat)

        def judge_one(pair: Any) -> Verdict:
            if len(timed_out) >= max_timeouts or interrupt.requested():  # then nobody looks at the verdicts
                return Verdict(False, "breaker")
            seat = seats.get()
            try:
                verdict = self._ask(seat, pair, cpu)
            finally:
                seats.put(seat)
            if verdict.how == "timeout":
                timed_out.append(pair)
            return verdict

        with ThreadPoolExecutor(self.size) as threads:
            return list(threads.map(judge_one, pairs))

    def _ask(self, seat: int, pair: Any, cpu: float) -> Verdict:
        """Judge one pair; once more on a new worker if one dies, since the cause may lie outside (out of memory)."""
        wall = cpu * _WALL_PER_CPU + 5.0
        request = json.dumps({"claim": pair, "cpu": cpu, "wall": wall}, default=dataclasses.asdict) + "\n"
        for _ in range(2):
            process = self.workers.get(seat) or self._start(seat)
            assert process.stdin is not None
            try:
                process.stdin.write(request.encode())
                # The worker gives up at `wall`. Twice that means that it is stopped, or dead with its child alive.
                message = _receive(process, 2 * wall)
                return Verdict(**message)
            except TimeoutError:
                self._end(seat)
                return Verdict(False, "timeout")
            except (EOFError, BrokenPipeError):
                self._end(seat)
        return Verdict(False, "crashed")

    def _start(self, seat: int) -> subprocess.Popen[bytes]:
        message: dict[str, Any] = {}
        for _ in range(_START_ATTEMPTS):
            # -P keeps this folder off the import path; by file, so that no module of spicejax (and no jax) is imported.
            # A fixed hash seed fixes the order in which sympy goes through its sets.
            env = {k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | {"PYTHONHASHSEED": "0"}
            if self.function:  # found as this process finds it; a library's threads may not be started in a child
                env |= {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
                env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            process = self.workers[seat] = subprocess.Popen(
                [sys.executable, "-P", str(_SCRIPT), *([self.function] if self.function else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                env=env,
            )
            with contextlib.suppress(EOFError, TimeoutError):
                message = _receive(process, _STARTUP_SECONDS)
            if "ready" in message:
                return process
            self._end(seat)
            if "fatal" in message and self.function:
                raise ValueError(message["fatal"])
            if "fatal" in message:
                raise RuntimeError(
                    f"Math-Verify cannot be imported ({message['fatal']}): pip install 'math-verify>=0.9'"
                )
        if self.function:
            raise ValueError(f"verifier={self.function}: the process that loads it dies; see what its module does")
        raise RuntimeError(f"Math-Verify workers die at their start; see `{sys.executable} {_SCRIPT}`")

    def _end(self, seat: int) -> None:
        """End a worker and the child it may be running; both are in a session of their own."""
        with self.workers.pop(seat) as process, contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _receive(process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    """Wait for a worker's next message. Raises TimeoutError, or EOFError where it has ended."""
    assert process.stdout is not None
    poll = select.poll()  # select.select cannot take the high file numbers of a large process
    poll.register(process.stdout, select.POLLIN)
    if not poll.poll(seconds * 1000):
        raise TimeoutError
    line = process.stdout.readline()
    if not line:
        raise EOFError
    return json.loads(line)

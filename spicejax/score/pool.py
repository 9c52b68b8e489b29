"""Owns the worker processes that run Math-Verify: starts, feeds, times and replaces them.

A pool never raises for what a text does to a worker; it reports the pair as "timeout" or "crashed" and goes on.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

_SCRIPT = Path(__file__).with_name("worker.py")
_STARTUP_SECONDS = 120.0  # wall, for a worker to import sympy on a loaded machine
_START_ATTEMPTS = 3  # deaths in a row before the first verdict
_WALL_PER_CPU = 10.0  # wall seconds granted per CPU second before a pair counts as stuck
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One judged answer: right or wrong, and which rule said so (one of verifiers.HOWS)."""

    correct: bool
    how: str


@dataclasses.dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    deadline: float  # wall clock; only a guard against a stuck process
    ready: bool = False  # it has imported everything
    dead: bool = False  # it has closed its end of the pipe
    item: int | None = None  # the pair under judgement
    buffer: bytes = b""

    @property
    def lost(self) -> bool:
        busy = self.item is not None or not self.ready
        return self.dead or (busy and time.monotonic() > self.deadline)

    def kill(self) -> None:
        """End the process and the child it may be running; both are in a session of their own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Pool:
    """`size` worker processes, started when first needed; each pair may use `memory_mb` of address space."""

    def __init__(self, size: int, memory_mb: int) -> None:
        self.size, self.memory_mb = size, memory_mb
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def pids(self) -> list[int]:
        """Return the process ids of the running workers."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """End all workers; the next `judge` starts new ones."""
        while self._workers:
            self._workers.pop().kill()

    def judge(self, items: dict[int, tuple[str, str]], *, cpu: float, max_timeouts: int) -> dict[int, Verdict]:
        """Judge (gold, answer) pairs, each within `cpu` seconds of CPU time.

        After `max_timeouts` timeouts the pairs not yet begun get "breaker". A pair whose worker dies under it is tried
        once more on a new one, since the cause may lie outside (an out-of-memory killer).

        Raises:
            RuntimeError: Math-Verify is not installed, or workers keep dying before they are ready.
        """
        queue, verdicts, deaths = collections.deque(items), {}, collections.Counter[int]()
        timeouts = 0
        while len(verdicts) < len(items):
            self._start(min(self.size, len(items) - len(verdicts)))
            for worker in self._workers:
                if queue and worker.ready and worker.item is None and not worker.dead:
                    self._send(worker, queue.popleft(), items, cpu)
            judged = self._receive()
            for i in self._bury(judged):
                deaths[i] += 1
                if deaths[i] == 1:
                    queue.appendleft(i)
                else:
                    judged[i] = Verdict(False, "crashed")
            verdicts |= judged
            timeouts += sum(verdict.how == "timeout" for verdict in judged.values())
            if timeouts >= max_timeouts:
                verdicts |= {i: Verdict(False, "breaker") for i in queue}
                queue.clear()
        return verdicts

    def _start(self, n: int) -> None:
        while len(self._workers) < n:
            # -P keeps this folder off the import path; by file, so that no module of spicejax (and no jax) is imported.
            # A fixed hash seed fixes the order in which sympy goes through its sets.
            process = subprocess.Popen(
                [sys.executable, "-P", str(_SCRIPT), str(self.memory_mb)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                env={k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | {"PYTHONHASHSEED": "0"},
            )
            self._workers.append(_Worker(process, time.monotonic() + _STARTUP_SECONDS))

    def _send(self, worker: _Worker, item: int, items: dict[int, tuple[str, str]], cpu: float) -> None:
        gold, answer = items[item]
        wall = cpu * _WALL_PER_CPU + 5.0
        worker.item, worker.deadline = item, time.monotonic() + 2 * wall  # the worker itself gives up at `wall`
        request = json.dumps({"gold": gold, "answer": answer, "cpu": cpu, "wall": wall}) + "\n"
        assert worker.process.stdin is not None
        try:
            worker.process.stdin.write(request.encode())
        except BrokenPipeError:
            worker.dead = True

    def _receive(self) -> dict[int, Verdict]:
        """Wait up to a second for workers to speak; return their verdicts."""
        judged: dict[int, Verdict] = {}
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                assert worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            for key, _ in selector.select(timeout=1.0):
                worker: _Worker = key.data
                data = os.read(key.fd, 65536)
                worker.dead |= not data
                *lines, worker.buffer = (worker.buffer + data).split(b"\n")
                for message in map(json.loads, lines):
                    self._take(worker, message, judged)
        return judged

    def _take(self, worker: _Worker, message: dict, judged: dict[int, Verdict]) -> None:
        if "fatal" in message:
            self.close()
            raise RuntimeError(f"Math-Verify cannot be imported ({message['fatal']}): pip install 'math-verify>=0.9'")
        if "ready" in message:
            worker.ready, self._failed_starts = True, 0
        elif worker.item is not None:
            judged[worker.item] = Verdict(bool(message["correct"]), message["how"])
            worker.item = None

    def _bury(self, judged: dict[int, Verdict]) -> list[int]:
        """Remove dead and stuck workers; stuck pairs are judged "timeout", the pairs of dead workers returned."""
        orphans = []
        for worker in [worker for worker in self._workers if worker.lost]:
            self._workers.remove(worker)
            worker.kill()
            self._failed_starts += not worker.ready
            if worker.item is not None and worker.dead:
                orphans.append(worker.item)
            elif worker.item is not None:
                judged[worker.item] = Verdict(False, "timeout")
        if self._failed_starts >= _START_ATTEMPTS:
            self.close()
            self._failed_starts = 0
            raise RuntimeError(
                f"Math-Verify workers die at their start; see `{sys.executable} {_SCRIPT} {self.memory_mb}`"
            )
        return orphans

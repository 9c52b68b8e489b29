"""Notice that another process of the run is gone or stands still, and end this one with one line.

Of itself JAX waits for a process that stands still as long as a collective may last, and ends by a traceback, or by an
abort, once one is gone. So every process counts up a number of its own in the store that process 0 holds for all, from
a thread, so that one which compiles for minutes does it too; and every process looks whether the others' numbers move.
A thread is needed also for the end: a process that waits in a collective can not be reached in any other way.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from typing import Any, NoReturn

import jax
from jax._src import distributed

from spicejax import relay

SETTING = "SPICEJAX_HEARTBEAT_SECONDS"  # environment variable: how long a process may be silent
PATIENCE = 80  # its value where it is not set: one that swaps, or waits for a disk, is silent for tens of seconds
LEAST = 5
MARGIN = 40  # seconds that JAX's own heartbeat waits beyond twice ours: it is for when our threads do not run
NUMBERS = "spicejax/heartbeat"  # folder of the store
GOES_ON = "the same command goes on from what was saved"

_ending = threading.Lock()
_heart: Heartbeat | None = None


def patience() -> int:
    """Seconds that a process may be silent. Raises: ValueError for a setting that is no number, or too small."""
    word = os.environ.get(SETTING) or str(PATIENCE)
    if not word.isdecimal() or not LEAST <= int(word) <= 86400:
        raise ValueError(f"{SETTING}={word}: give whole seconds, {LEAST} to 86400 (default {PATIENCE})")
    return int(word)


def initialize(coordinator: str = "", count: int = 0, me: int = 0) -> None:
    """Join the other processes as `jax.distributed.initialize` does; from then on a silent or lost one ends this one.

    Args:
      coordinator: HOST:PORT of process 0; empty where JAX finds the others.
    Raises: ValueError as `patience`.
    """
    global _heart
    seconds = patience()
    # It asks once a second whether the machine will be taken away, which we do not use, and complains when it cannot.
    jax.config.update("jax_enable_preemption_service", False)
    if coordinator and me:
        host, _, port = coordinator.rpartition(":")
        coordinator = relay.Relay(host, int(port), _gone).address
    meeting: dict[str, Any] = {}
    if coordinator:
        meeting = {"coordinator_address": coordinator, "num_processes": count, "process_id": me}
    jax.distributed.initialize(**meeting, heartbeat_timeout_seconds=2 * seconds + MARGIN)
    state = distributed.global_state
    if state.num_processes > 1:
        _heart = Heartbeat(state.client, state.process_id, state.num_processes, seconds)
        _heart.start()


def _gone() -> None:
    """Process 0 closed its connection: the end, unless it is not there yet, or all came to their end."""
    if _heart is not None and not _heart.over:
        end(_heart.gone(0))


def broken(error: BaseException | None) -> bool:
    """Whether an error, or what it came from, is that of a connection to another process."""
    while error is not None:
        said = str(error)  # a ValueError of JAX's where a program is called, a JaxRuntimeError where it is waited for
        if ("Gloo " in said and " failed: " in said) or "CoordinationService" in said:
            return True
        error = error.__cause__ or error.__context__
    return False


def lost() -> str:
    """What is known of the process that is gone."""
    if _heart is None:
        return f"another process of the run is gone; its own last line says why, and {GOES_ON}"
    return _heart.silent(3 * _heart.interval) or _heart.gone()


def end(text: str, code: int = 2) -> NoReturn:
    """Say one line and end this process at once, from any thread. Of several callers the first alone speaks."""
    _ending.acquire()  # for good
    flush = threading.Thread(target=sys.stdout.flush, daemon=True)  # which may wait for whoever reads
    flush.start()
    flush.join(1.0)
    with contextlib.suppress(OSError):
        os.write(2, f"error: {text}\n".encode())
    os._exit(code)


class Heartbeat:
    """The numbers of all processes: this one's is counted up, the others' are watched."""

    def __init__(self, client: Any, me: int, count: int, seconds: float) -> None:
        self.interval = min(5.0, seconds / 16)
        self._client, self._me, self._seconds = client, me, seconds
        self._numbers = [""] * count
        self._ages = [0.0] * count  # seconds since each number was seen to move; the own one: was taken
        self._over = threading.Event()
        self._threads = [threading.Thread(target=act, daemon=True) for act in (self._beat, self._watch)]

    def start(self) -> None:
        """Beat and watch until the process ends or all have come to the end."""
        atexit.register(self._finish)
        for thread in self._threads:
            thread.start()

    def silent(self, seconds: float) -> str:
        """One line about the processes that were silent for so long; empty where there are none."""
        ages = list(self._ages)
        still = [k for k, age in enumerate(ages) if age > seconds and k != self._me]
        if self._me and max(ages) > seconds and ages[self._me] > 3 * self.interval:  # so nobody's number was heard of
            return self._stands_still("process 0", ages[self._me], "does not answer")
        if still:
            names = f"process{'es' * (len(still) > 1)} {', '.join(map(str, still))}"
            return self._stands_still(names, max(ages[k] for k in still), "gave no sign")
        return ""

    def _stands_still(self, who: str, age: float, what: str) -> str:
        return (
            f"{who} of {len(self._ages)} {what} for {age:.0f} s ({SETTING}={self._seconds:.0f}): stopped, or cut off; "
            f"end what is left of the run, and {GOES_ON}"
        )

    def gone(self, k: int | None = None) -> str:
        """One line about a process, the k-th if that is known, whose connection broke."""
        count = len(self._ages)
        k = 1 - self._me if count == 2 else k
        who = "a process" if k is None else f"process {k}"
        return f"{who} of {count} is gone; its own last line says why, and {GOES_ON}"

    @property
    def over(self) -> bool:
        """Whether all processes came to their end."""
        return self._over.is_set()

    def _beat(self) -> None:
        number = 0
        while True:
            with contextlib.suppress(Exception):  # who does not answer is silent
                self._client.key_value_set(f"{NUMBERS}/{self._me}", str(number), True)
                self._hear(self._client.key_value_dir_get(NUMBERS))
            number += 1
            if self._over.wait(self.interval):
                return

    def _hear(self, numbers: list[tuple[str, str]]) -> None:
        """Called by one thread while the other counts: at worst an age is a tick too old, until the next beat."""
        for key, number in numbers:
            k = int(key.rpartition("/")[2])
            if number != self._numbers[k]:
                self._numbers[k], self._ages[k] = number, 0.0

    def _watch(self) -> None:
        tick, before = min(1.0, self.interval), time.monotonic()
        while not self._over.wait(tick):
            now = time.monotonic()
            passed = min(now - before, 2 * tick)  # while this process itself was stopped it could hear nobody
            before, self._ages = now, [age + passed for age in self._ages]
            if text := self.silent(self._seconds):
                end(text)

    def _finish(self) -> None:
        """Wait, under watch, for the others to come to their end, then stop. JAX's own wait after it has no watch."""
        with contextlib.suppress(Exception):
            self._client.wait_at_barrier(f"{NUMBERS}/end", 1000 * 86400)
        self._over.set()
        self._threads[0].join(self.interval)

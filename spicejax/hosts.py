"""Several hosts as one run: how their processes meet, agree and wait for each other. One process pays nothing for it.

Every process runs the same program on the same documents and prompts; only what comes from outside it (a clock, a
signal, a file, a verifier's time limit) can differ. Such a thing is exchanged, never assumed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from spicejax import heartbeat
from spicejax.errors import SpicejaxError

T = TypeVar("T")


class HostError(SpicejaxError):
    """Another process of the run failed, or the processes do not agree; the text says which and on what."""


def start(coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None) -> None:
    """Join the other processes of the run. Call it before anything touches a device.

    On the hosts of a TPU slice no argument is needed. Elsewhere all three are: `coordinator` is HOST:PORT of process
    0, a port that is free there. Without any the run is of this process alone.
    From then on an error that nobody catches ends this process at once (see `leave`), and so does another process that
    is gone, or silent for too long (see `heartbeat`).
    Raises: ValueError for arguments that do not fit together.
    """
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        # Simulated devices on few cores wait for each other for ever when their programs overtake one another.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    settings = {"coordinator": coordinator, "num_processes": num_processes, "process_id": process_id}
    missing = [name for name, value in settings.items() if value is None]
    if len(missing) == len(settings):
        if _on_tpu_slice():
            heartbeat.initialize()
            _joined()
        return
    if coordinator is None or num_processes is None or process_id is None:
        raise ValueError(f"{', '.join(f'--{name}' for name in missing)} missing: several processes need all three")
    if not 0 <= process_id < num_processes:
        raise ValueError(f"--process_id={process_id} must be in 0..{num_processes - 1} (--num_processes)")
    if not coordinator.rpartition(":")[2].isdigit() or ":" not in coordinator:
        raise ValueError(f"--coordinator={coordinator}: give HOST:PORT of process 0")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    heartbeat.initialize(coordinator, num_processes, process_id)
    _joined()


def _joined() -> None:
    sys.excepthook = _fall
    if jax.default_backend() == "cpu":
        # It keeps what process 0 compiled, by keys that the others' programs never have; what is read from it exchanges
        # in another order than what they compile, and gloo ends them.
        jax.config.update("jax_enable_compilation_cache", False)
    wait()  # connects all while they are in step


def _on_tpu_slice() -> bool:
    """Whether this is a host of a TPU slice that knows the others. JAX names the platform where it finds chips."""
    if "tpu" not in (jax.config.jax_platforms or ""):  # pyright: ignore[reportAttributeAccessIssue]
        return False
    if "MEGASCALE_COORDINATOR_ADDRESS" in os.environ:
        return True
    names = os.environ.get("TPU_PROCESS_ADDRESSES") or os.environ.get("TPU_WORKER_HOSTNAMES")
    return "," in names if names else "TPU_SKIP_MDS_QUERY" not in os.environ  # else the metadata server tells


def leads() -> bool:
    """Whether this is process 0, the one that writes files and prints."""
    return jax.process_index() == 0


def exchange(value: Any) -> list[Any]:
    """The JSON-able `value` of every process, in their order. All must call it at the same point of the program."""
    if jax.process_count() == 1:
        return [value]
    text = np.frombuffer(json.dumps(value).encode(), np.uint8)
    lengths = np.asarray(multihost_utils.process_allgather(np.int32(len(text))))
    padded = np.zeros(max(1024, 1 << int(lengths.max()).bit_length()), np.uint8)  # few sizes, since each compiles
    padded[: len(text)] = text
    rows = np.asarray(multihost_utils.process_allgather(padded))
    return [json.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]


def wait() -> None:
    """Return when every process has come here."""
    exchange(None)


def require_same(value: Any, what: str) -> None:
    """Raise HostError where the processes do not all hold the same JSON-able `value`."""
    values = exchange(value)
    others = [k for k, other in enumerate(values) if other != values[0]]
    if others:
        values_seen = f"{values[others[0]]} and {values[0]}"
        detail = f" ({values_seen})" if len(values_seen) < 200 else ""
        raise HostError(
            f"process {others[0]} and process 0 disagree on {what}{detail}; all hosts must run the same command with "
            "the same code, libraries and files"
        )


def by_first(act: Callable[[], T]) -> T:
    """Let process 0 alone `act`, the others wait; all get its JSON-able result.

    Raises: in process 0 what `act` raises; in the others the same where it is an error of ours, else HostError with its
      text. So all do the same about it, or end together.
    """
    if jax.process_count() == 1:
        return act()
    result, failure = None, None
    if leads():
        try:
            result = act()
        except Exception as error:
            failure = error
    sent = [result, *(("", "") if failure is None else (type(failure).__name__, f"{failure}"))]
    shared, kind, text = exchange(sent)[0]
    if failure is not None:
        raise failure
    if kind:
        ours = {each.__name__: each for each in SpicejaxError.__subclasses__()}
        raise ours[kind](text) if kind in ours else HostError(f"process 0: {text or kind}")
    return shared


def miss(error: BaseException) -> None:
    """End this process with one line where the error is that of a connection to another one, which is gone."""
    if jax.distributed.is_initialized() and heartbeat.broken(error) and not os.environ.get("SPICEJAX_DEBUG"):
        heartbeat.end(heartbeat.lost())


def leave(code: int) -> None:
    """After an error, end this process if it is one of several; alone, do nothing.

    The usual way out waits for the others, which wait for this one in some collective. Gone at once, it is missed: they
    end with one line when their connection breaks or its heartbeat stops.
    """
    if jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _fall(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    miss(error)
    sys.__excepthook__(kind, error, trace)
    leave(1)

"""Several processes of one run on this machine, for tests."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 3600.0  # seconds until a process counts as hung: a loaded machine may take ten times as long as a quiet one
ROOT = Path(__file__).resolve().parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def simulated(devices: int) -> str:
    """XLA_FLAGS of a process with so many simulated devices; the flags that all tests run under stay."""
    return f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}".strip()


def start(
    words: Sequence[object], processes: int, *, devices: int, own: Sequence[Sequence[object]] = ()
) -> list[subprocess.Popen]:
    """Start `words` as one run of `processes` processes with `devices` simulated devices each.

    own: more words, of each process.
    """
    port = free_port()
    environment = os.environ | {
        "XLA_FLAGS": simulated(devices),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    started = []
    for i in range(processes):
        meeting = [f"--coordinator=localhost:{port}", f"--num_processes={processes}", f"--process_id={i}"]
        command = [*words, *(meeting if processes > 1 else ()), *(own[i] if own else ())]
        started.append(
            subprocess.Popen(
                [str(word) for word in command],
                cwd=ROOT,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    return started


def finish(started: Sequence[subprocess.Popen], timeout: float = PATIENCE) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of every process; all are dead afterwards, hung or not."""
    try:
        return [(p.wait(timeout), *p.communicate()) for p in started]
    finally:
        for p in started:
            p.kill()
            p.wait()


def python(code: str, *words: object, **environment: str) -> str:
    """What indented `code` prints in a fresh interpreter; an AssertionError with its errors where it fails."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)], cwd=ROOT, env=os.environ | environment,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def kill_after(words: Sequence[object], metrics: Path, iterations: int) -> None:
    """Start a run and kill it once its file of metrics has so many rows: wherever it is then, also in a save."""
    process = subprocess.Popen(
        [str(word) for word in words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= iterations:
            break
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"


def installed(folder: Path) -> dict[str, str]:
    """Make a wheel and unpack it into `folder`/site; return the environment of processes that have it alone."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(words, check=True, timeout=PATIENCE)
    (wheel,) = folder.glob("*.whl")
    unpack = [sys.executable, "-m", "zipfile", "-e", str(wheel), str(folder / "site")]
    subprocess.run(unpack, check=True, timeout=PATIENCE)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAX_COMPILATION_CACHE_DIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(folder / "site"), "JAX_PLATFORMS": "cpu"}

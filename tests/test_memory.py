"""How a process gets its memory: it starts itself again, once, as it was called."""

import json
import os
import subprocess
import sys

import pytest

from spicejax import memory

PROGRAM = """
import json, os, pathlib, sys
from spicejax import memory
print("started", flush=True)
memory.tune(pathlib.Path(sys.argv[1]))
print(json.dumps([os.environ["GLIBC_TUNABLES"], sys.argv, sys.flags.utf8_mode]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's setting")
@pytest.mark.parametrize(
    ("given", "device", "expected", "starts"),
    [
        (None, "null", f"{memory.HUGE_PAGES}:{memory.REUSE}", 2),
        (None, "nvidia0", memory.HUGE_PAGES, 2),
        (None, "accel3", memory.HUGE_PAGES, 2),
        ("", "null", "", 1),
    ],
)
def test_starts_again_once_with_the_same_arguments(tmp_path, given, device, expected, starts):
    """What the user set, even to nothing, stays."""
    script, devices = tmp_path / "script.py", tmp_path / "a b"
    script.write_text(PROGRAM)
    devices.mkdir()
    (devices / device).touch()
    env = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"} | (
        {} if given is None else {"GLIBC_TUNABLES": given}
    )
    command = [sys.executable, "-X", "utf8", str(script), str(devices), "--c=d"]
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()
    assert out[:-1] == ["started"] * starts
    assert json.loads(out[-1]) == [expected, [str(script), str(devices), "--c=d"], 1]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's setting")
def test_what_was_given_back_is_taken_again_without_the_system(tmp_path):
    """100 MB in turns, from another thread: no page is filled a second time."""
    program = """
import ctypes, resource, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def fill():
    place = libc.malloc(100 << 20)
    ctypes.memset(place, 1, 100 << 20)
    libc.free(place)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=fill)
    thread.start(), thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults(), faults())
"""

    def run(tunables: str) -> list[int]:
        env = os.environ | {"GLIBC_TUNABLES": tunables}
        out = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True)
        return [int(word) for word in out.stdout.split()]

    assert run(memory.REUSE)[1] < run("")[1] / 4


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's setting")
def test_large_pieces_go_back_to_the_system():
    """5 GiB that are not touched, with something small behind them; else they stay part of the process for good."""
    program = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def size():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
before, place, behind = size(), libc.malloc(5 << 30), libc.malloc(1 << 20)
libc.free(place)
print(size() - before)
"""
    env = os.environ | {"GLIBC_TUNABLES": memory.REUSE}
    out = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True).stdout
    assert int(out) < 1 << 20  # kB

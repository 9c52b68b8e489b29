"""How a process gets its memory: it starts itself again, once, as it was called."""

import json
import os
import platform
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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's heap")
def test_holes_of_the_heap_go_back_where_memory_is_short():
    """640 MiB in pieces, each with something small behind it."""
    program = """
import ctypes, json, os, sys
from spicejax import memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
memory.machine = lambda: (2**30, int(sys.argv[1]))
before, pieces = resident(), [(libc.malloc(16 << 20), libc.malloc(1 << 16)) for _ in range(40)]
for piece, _ in pieces:
    ctypes.memset(piece, 1, 16 << 20)
    libc.free(piece)
print(json.dumps([resident() - before, memory.trim(), resident() - before]))
"""

    def run(tunables: str, free: int) -> list[int]:
        env = os.environ | {"GLIBC_TUNABLES": tunables}
        words = [sys.executable, "-c", program, str(free)]
        return json.loads(subprocess.run(words, env=env, check=True, capture_output=True, text=True).stdout)

    kept, trimmed, left = run(f"{memory.HUGE_PAGES}:{memory.REUSE}", int(2**30 * memory.ROOM))
    assert kept >= 600 and trimmed and left < 100
    kept, trimmed, left = run(f"{memory.HUGE_PAGES}:{memory.REUSE}", int(2**30 * memory.ROOM) + 1)
    assert kept >= 600 and left >= 600 and not trimmed
    assert not run("", 2**28)[1]


def test_the_limit_of_a_container_is_the_memory_there_is(tmp_path):
    """Of both versions of control groups; the group around the process's own counts too."""
    gib = 2**30

    def machine(cgroup: str, groups: dict[str, dict[str, str]]) -> tuple[float, float]:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        (root / "proc" / "self").mkdir(parents=True)
        (root / "proc" / "meminfo").write_text(
            f"MemTotal: {8 << 20} kB\nMemFree: 100 kB\nMemAvailable: {6 << 20} kB\nHugePages_Total: 0\n"
        )
        if cgroup:
            (root / "proc" / "self" / "cgroup").write_text(cgroup)
        for folder, files in groups.items():
            (place := root / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (place / name).write_text(text)
        most, free = memory.machine(root)
        return most / gib, free / gib

    files = f"anon 5\nactive_file {gib // 4}\ninactive_file {gib // 4}\n"
    second = {"memory.max": f"{4 * gib}\n", "memory.current": f"{3 * gib}\n", "memory.stat": files}
    free_of_it = {"memory.max": "max\n", "memory.current": f"{3 * gib}\n", "memory.stat": ""}
    first = {
        "memory.limit_in_bytes": f"{3 * gib}",
        "memory.usage_in_bytes": f"{gib}",
        "memory.stat": f"inactive_file 7\ntotal_inactive_file {gib // 2}\n",
    }
    wide = first | {"memory.limit_in_bytes": f"{2**63 - 4096}"}
    outer = wide | {"memory.stat": f"hierarchical_memory_limit {2 * gib}\n"}
    unknown = {name: text for name, text in first.items() if name != "memory.stat"}
    assert machine("", {}) == (8, 6)
    assert machine("0::/a/b\n", {"a/b": free_of_it, "a": second}) == (4, 1.5)
    assert machine("0::/a\n", {"a": free_of_it}) == (8, 6)
    assert machine("0::/../outside\n", {"": second}) == (4, 1.5)
    assert machine("4:memory:/docker/a\n0::/\n", {"memory": first}) == (3, 2.5)
    assert machine("4:memory:/a\n5:cpu:/a\n", {"memory": wide, "memory/a": first}) == (3, 2.5)
    assert machine("4:memory,hugetlb:/a\n", {"memory/a": first | {"memory.usage_in_bytes": f"{4 * gib}"}}) == (3, 0)
    assert machine("4:memory:/a\nwhat\n", {"memory/a": outer}) == (2, 1)
    assert machine("4:memory:/a\n", {"memory/a": unknown}) == (3, 2)


def test_what_the_system_does_not_say_is_unknown(tmp_path):
    assert memory.machine(tmp_path)[1] is None
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: many kB\n")
    (tmp_path / "proc" / "self" / "cgroup").mkdir()
    assert memory.machine(tmp_path)[0] > 0 and memory.machine(tmp_path)[1] is None

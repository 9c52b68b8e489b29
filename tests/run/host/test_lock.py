"""One owner of a folder: a dead one is replaced, a living one respected, one that lost it told."""

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from spicejax.run.host.lock import Lock, LockedError


def write_owner(folder: Path, **changes: object) -> None:
    lock = Lock(folder)
    text = json.loads((folder / "lock.json").read_text())
    lock.release()
    (folder / "lock.json").write_text(json.dumps(text | changes))


def test_lock_of_the_dead_is_taken_over(tmp_path):
    for changes in ({"pid": 2**22 + 1}, {"started": "1"}, {"pid": "x"}):  # gone; its number has another owner; damaged
        write_owner(tmp_path, **changes)
        Lock(tmp_path).release()
    (tmp_path / "lock.json").write_text("{half")
    Lock(tmp_path).release()
    assert not (tmp_path / "lock.json").exists()


def test_lock_of_another_host(tmp_path):
    """Standing still it is taken over after a while; beating it is refused; the one that lost it cannot save."""
    write_owner(tmp_path, host="elsewhere", pid=1)
    lock = Lock(tmp_path, stale_seconds=0.3)
    lock.require()
    write_elsewhere = json.loads((tmp_path / "lock.json").read_text()) | {"host": "elsewhere", "token": "another"}
    (tmp_path / "lock.json").write_text(json.dumps(write_elsewhere))
    with pytest.raises(LockedError, match="taken over by process .* on elsewhere"):
        lock.require()
    lock.release()
    assert (tmp_path / "lock.json").exists()  # not ours to remove

    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent("""
            import itertools, os, sys, time
            for n in itertools.count():
                open(sys.argv[1] + "/draft", "w").write('{"host": "elsewhere", "pid": 1, "beats": %d}' % n)
                os.replace(sys.argv[1] + "/draft", sys.argv[1] + "/lock.json")
                time.sleep(0.05)
        """), str(tmp_path)]
    )  # fmt: skip
    try:
        while "beats" not in (tmp_path / "lock.json").read_text():
            time.sleep(0.01)
        with pytest.raises(LockedError, match="process 1 on elsewhere"):
            Lock(tmp_path, stale_seconds=20)
    finally:
        writer.kill()
        writer.wait()


def test_lock_beats(tmp_path):
    lock = Lock(tmp_path, beat_seconds=0.02)
    before = (tmp_path / "lock.json").read_text()
    deadline = time.monotonic() + 20
    while (tmp_path / "lock.json").read_text() == before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (tmp_path / "lock.json").read_text() != before
    lock.require()
    lock.release()

"""Hostile programs stay inside; honest ones come back with what they calculated; nothing is left behind."""

import os
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import hostile
import pytest

from spicejax.score import program, sandbox
from spicejax.score.sandbox import Limits, Ran, Sandbox, Unsafe

CANARY = "canary7f3a9"
LIMITS = Limits(cpu=1, wall=8.0)
isolated = pytest.mark.skipif(sandbox.tier()[0] < 2, reason=f"tier 2 is not to be had: {sandbox.tier()[1]}")


class Host:
    """What the programs are after."""

    def __init__(self, folder: Path):
        self.home, self.tree = folder / "home", folder / "tree"
        self.secret, self.victim, self.marker = self.home / "secret", folder / "victim", folder / "marker"
        self.home.mkdir()
        self.heard = 0
        self.server, self.local = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
        self.local.bind(f"\0{CANARY}")
        self.local.listen()
        threading.Thread(target=self._listen, daemon=True).start()
        self.sibling = subprocess.Popen(["sleep", "600"])
        self.open = self.secret.open("w+")
        self.renew()

    def renew(self):
        self.victim.write_text("x")
        self.tree.mkdir(exist_ok=True)
        self.open.seek(0)
        self.open.write(CANARY)
        self.open.flush()
        self.marker.unlink(missing_ok=True)

    def _listen(self):
        while True:
            try:
                self.server.accept()
            except OSError:
                return
            self.heard += 1

    def whole(self) -> bool:
        files = self.victim.exists() and self.tree.exists() and self.secret.read_text() == CANARY
        return files and not self.marker.exists() and not self.heard and self.sibling.poll() is None

    def names(self) -> dict[str, Any]:
        clone, keyctl = (program._NUMBERS[os.uname().machine][1][name] for name in ("clone", "keyctl"))
        own: dict[str, Any] = {
            name: str(getattr(self, name)) for name in ("home", "tree", "secret", "victim", "marker")
        }
        return own | {
            "port": self.server.getsockname()[1], "sibling": self.sibling.pid, "trainer": os.getpid(),
            "canary": CANARY, "python": sys.executable, "clone": clone, "keyctl": keyctl,
        }  # fmt: skip


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    os.environ["SPICEJAX_CANARY"] = CANARY
    found = Host(tmp_path_factory.mktemp("host"))
    yield found
    del os.environ["SPICEJAX_CANARY"]
    found.server.close()
    found.local.close()
    found.sibling.kill()
    found.sibling.wait()


def _strays() -> set[str]:
    """Processes of this user that run the program's interpreter, and folders of programs."""
    running = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in running.splitlines() if "Runs one program that a model wrote" in line} | {
        name for name in os.listdir(tempfile.gettempdir()) if name.startswith(sandbox.FOLDER)
    }


def _run(case: hostile.Hostile, host: Host, level: int) -> Ran:
    return sandbox._run(case.text.format(**host.names()), "solution", LIMITS, level)


def _out(case: hostile.Hostile, ran: Ran, host: Host) -> bool:
    return ran.value == "out" or not host.whole()


@isolated
@pytest.mark.parametrize("case", hostile.ALL, ids=lambda case: case.name)
def test_a_hostile_program_stays_inside(case, host):
    begun = time.monotonic()
    ran = _run(case, host, 2)
    assert time.monotonic() - begun < LIMITS.wall + 30, "or it ended long after its time"
    assert not _out(case, ran, host), ran
    assert ran.how in case.how, ran
    assert len(ran.printed) <= LIMITS.output


def test_what_tier_1_does_not_keep_from_a_program_is_what_is_listed(host):
    """Also shows that these programs do what they say: there they get out."""
    harmless = [case for case in hostile.ALL if case.how == ("error", "value") and not case.harms]
    free = set()
    for case in harmless:
        if _out(case, _run(case, host, 1), host):
            free.add(case.name)
        host.renew()
    as_root = {"renice", "new groups", "read a sibling's memory"}  # what another user may not do either
    wanted = {case.name for case in harmless if case.free_at_1}
    assert free <= wanted and wanted - free <= as_root
    wanted |= {case.name for case in hostile.ALL if case.harms}
    told = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    assert all(f"- {name}\n" in told for name in wanted)


@isolated
def test_nothing_is_left_behind(host):
    before = _strays()
    names = ("fork bomb", "a daemon", "endless loop", "many files", "a deep tree", "a reply without the nonce")
    for level in (1, 2):
        for case in hostile.ALL:
            if case.name in names:
                _run(case, host, level)
    host.renew()
    assert _strays() <= before


@isolated
def test_installed_packages_are_not_seen():
    """Not those of a virtual environment, nor those beside the interpreter; this one may be installed there as well."""
    where = {sysconfig.get_path("purelib"), *site.getsitepackages(), *site.getsitepackages([sys.base_prefix])}
    text = f"import os\ndef f():\n    return [x for p in {sorted(where)} if os.path.isdir(p) for x in os.listdir(p)]"
    assert any(os.path.isdir(path) and os.listdir(path) for path in where)
    (ran,) = Sandbox().run([text], "f")
    assert (ran.how, ran.value) == ("value", []), ran


def test_honest_programs_come_back_with_their_values():
    ran = Sandbox(accept=True).run(
        [
            "def solution():\n    print('so')\n    return 6 * 7",
            "from fractions import Fraction\ndef solution():\n    return Fraction(1, 3) + 1",
            "import math, statistics, datetime\nrate = [3.5, 4]\ndef solution():\n    return statistics.mean(rate)",
            "def solution():\n    return [('a', True), (None, 2)]",
            "def solution():\n    return 1 / 0",
            "answer = 3",
            "def solution(x):\n    return x",
            "import random\ndef solution():\n    return random.random(), list({'a', 'b', 'c', 'd', 'e'})",
            "import random\ndef solution():\n    return random.random(), list({'a', 'b', 'c', 'd', 'e'})",
            "x = '" + "a" * sandbox.LONGEST + "'",
        ]
    )
    assert ran[0] == Ran("value", 42, printed="so\n")
    assert [each.value for each in ran[1:4]] == ["4/3", 3.75, [["a", True], [None, 2]]]
    assert [(each.how, each.detail) for each in ran[4:7]] == [
        ("error", "ZeroDivisionError"), ("error", "KeyError"), ("error", "TypeError"),
    ]  # fmt: skip
    assert ran[7] == ran[8], "chance and the order of sets are the same every time"
    assert (ran[9].how, ran[9].detail) == ("form", "too_long")


def test_a_forged_reply_is_another_answer_and_no_more():
    """Whatever it finds inside, there is nothing to be won: right or wrong is said outside."""
    forged = """
import os, sys
def solution():
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    os.write(frame.f_locals["channel"], (frame.f_locals["request"]["nonce"] + '{"value": 5, "right": true}').encode())
    os._exit(0)
"""
    (ran,) = Sandbox(accept=True).run([forged])
    assert ran == Ran("value", 5)


@pytest.mark.parametrize("level, accept", [(1, False), (0, False), (0, True)])
def test_below_tier_2_nothing_runs_unless_it_is_accepted(monkeypatch, level, accept):
    monkeypatch.setattr(sandbox, "tier", lambda: (level, "bubblewrap not found"))
    with pytest.raises(Unsafe, match="bubblewrap not found"):
        Sandbox(accept=accept)


def test_the_probe_notices_what_is_missing(monkeypatch):
    """Without the filter of system calls neither tier holds; without bubblewrap tier 1 is all there is."""
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_source", lambda: sandbox._SOURCE.replace("forbid()\n", "False\n"))
        assert {"processes", "network"} <= sandbox._free(1)
    with monkeypatch.context() as patch:
        patch.setattr(sandbox.shutil, "which", lambda name: None)
        level, why = sandbox.tier.__wrapped__()
        assert (level, why) == (1, "bubblewrap not found")

"""Hostile programs stay inside; honest ones come back with what they calculated; nothing is left behind."""

import contextlib
import ctypes
import json
import os
import re
import site
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import zoneinfo
from pathlib import Path
from typing import Any

import benign
import honest
import hostile
import hostile_bombs
import hostile_calls
import hostile_files
import hostile_python
import pytest
import sweep

from spicejax.score import program, sandbox
from spicejax.score.sandbox import Limits, Ran, Sandbox, Unsafe

CANARY = "canary7f3a9"
LIMITS = Limits(cpu=1, wall=8.0)
# What a slip in a hostile program would raise before it came to what it tries; those that mean to
SLIPS = {
    "NameError", "UnboundLocalError", "AttributeError", "TypeError", "KeyError", "IndexError", "SyntaxError",
    "IndentationError", "ImportError", "ModuleNotFoundError",
}  # fmt: skip
MEANT = {"half a program", "deep brackets", "spicejax", "jax"}
MORE = (hostile_calls, hostile_files, hostile_python, hostile_bombs)
EVERY = [*hostile.ALL, *(case for each in MORE for case in each.ALL)]
FIRST = {case.kind: case for case in reversed(EVERY)}  # one of each kind
USUAL = [case for case in EVERY if not case.kind or case is FIRST[case.kind]]
# the programs of a test: the usual ones, and slowly all
EACH = pytest.mark.parametrize("cases", [USUAL, pytest.param(EVERY, marks=pytest.mark.slow)], ids=["usual", "every"])
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
        self.sibling: Any = None
        self.open, self.pipe = self.secret.open("w+"), os.pipe()
        os.set_blocking(self.pipe[0], False)
        self.renew()

    def renew(self):
        if self.sibling is None or self.sibling.poll() is not None:
            self.sibling = subprocess.Popen(["sleep", "600"])
        self.victim.write_text("x")
        self.tree.mkdir(exist_ok=True)
        self.open.seek(0)
        self.open.write(CANARY)
        self.open.flush()
        self.marker.unlink(missing_ok=True)
        with contextlib.suppress(BlockingIOError):
            os.read(self.pipe[0], 100)
        os.write(self.pipe[1], CANARY.encode())

    def _listen(self):
        while True:
            try:
                self.server.accept()
            except OSError:
                return
            self.heard += 1

    def whole(self) -> bool:
        files = self.victim.exists() and self.victim.read_text() == "x" and self.tree.exists()
        files = files and self.secret.read_text() == CANARY and not self.marker.exists()
        return files and not self.heard and self.sibling.poll() is None

    def names(self) -> dict[str, Any]:
        clone, keyctl = {"x86_64": (56, 250), "aarch64": (220, 219)}[os.uname().machine]
        own: dict[str, Any] = {
            name: str(getattr(self, name)) for name in ("home", "tree", "secret", "victim", "marker")
        }
        return own | {
            "port": self.server.getsockname()[1], "sibling": self.sibling.pid, "trainer": os.getpid(),
            "canary": CANARY, "python": sys.executable, "clone": clone, "keyctl": keyctl, "pipe": self.pipe[0],
            "calls": hostile_calls.numbers(os.uname().machine),
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
    """Processes of this user that run the program's interpreter, and files where programs start."""
    running = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    running = {line.split()[0] for line in running.splitlines() if "run one program that a model wrote" in line}
    return running | set(os.listdir(sandbox._FOLDER))


def _run(case: hostile.Hostile, host: Host, level: int) -> Ran:
    return sandbox._run(case.text.format(**host.names()), "solution", LIMITS, level)


def _out(case: hostile.Hostile, ran: Ran, host: Host) -> bool:
    return ran.value == "out" or not host.whole()


def test_no_two_hostile_programs_are_one():
    texts = [" ".join(case.text.split()) for case in EVERY]
    assert len(EVERY) >= 200 and len(set(texts)) == len({case.name for case in EVERY}) == len(EVERY)


@isolated
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=() if case in USUAL else pytest.mark.slow) for case in EVERY],
)
def test_a_hostile_program_stays_inside(case, host):
    begun = time.monotonic()
    ran = _run(case, host, 2)
    assert time.monotonic() - begun < LIMITS.wall + 30, "or it ended long after its time"
    assert not _out(case, ran, host), ran
    assert ran.how in case.how, ran
    assert ran.how != "error" or ran.detail not in SLIPS or case.name in MEANT, ran
    assert len(ran.printed) <= LIMITS.output


@EACH
def test_what_tier_1_does_not_keep_from_a_program_is_what_is_listed(cases, host):
    """Also shows that these programs do what they say: there they get out."""
    free = set()
    for case in cases:
        if (case.how == ("timeout",) and cases is USUAL) or case.harms:
            continue
        if _out(case, ran := _run(case, host, 1), host):
            free.add(case.like or case.name)
        else:
            assert ran.how in case.how or case.free_at_1, (case.name, ran)
        host.renew()
    wanted = {case.name for case in EVERY if case.free_at_1}
    as_root = {"read a sibling's memory"}  # or where the kernel lets a user trace his own processes
    assert free <= wanted and wanted - free <= as_root
    told = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    listed = told.partition("What gets out of **tier 1**:\n\n")[2].partition("\n\n")[0]
    assert {line.removeprefix("- ") for line in listed.splitlines()} == wanted


def test_what_the_filter_keeps_in_gets_out_without_it(host, monkeypatch, tmp_path):
    """So that none of these stays inside for another reason, a slip in it, say."""
    names = {
        "a chosen signal by a pipe", "a signal to a thread by a pipe", "signals by ioctl", "limit a sibling", "renice",
        "overwrite a file that is mapped", "shorten a file", "shorten a file that is read", "rename a file",
        "link a file", "make a pipe", "change a file's rights", "change a file's time", "lock a file", "lease a file",
        "delete a file", "delete a tree", "write a file", "a link out", "many files",
    }  # fmt: skip
    monkeypatch.setattr(sandbox, "_SOURCE", sandbox._SOURCE.replace("if forbid()", "if True"))
    monkeypatch.setattr(sandbox, "_FOLDER", str(tmp_path))
    cases = [case for case in hostile.ALL if case.name in names]
    assert len(cases) == len(names)
    for case in cases:
        assert _out(case, _run(case, host, 1), host), case.name
        host.renew()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a user's own processes are refused by a limit too")
def test_what_the_filter_alone_keeps_in_reaches_the_kernel_without_it(host, monkeypatch):
    """All but what this kernel does not have."""
    monkeypatch.setattr(sandbox, "_SOURCE", sandbox._SOURCE.replace("if forbid()", "if True"))
    cases = [case for case in EVERY if case.filtered]
    absent, inside = [], []
    for case in cases:
        ran = _run(case, host, 1)
        if not _out(case, ran, host):
            (absent if ran.value == "absent" else inside).append((case.name, ran))
        host.renew()
    assert not inside and len(absent) < 10 < len(cases) / 5, (inside, absent)


@pytest.mark.parametrize("level", [1, pytest.param(2, marks=isolated)])
def test_every_call_that_is_not_in_the_table_is_refused_by_the_filter(level, monkeypatch):
    """By the filter, not by the kernel: its refusal is given numbers here with which no call would fail."""
    marked = sandbox._SOURCE.replace(
        "_EPERM, _ENOSYS = 9, 2, 1, 38", f"_EPERM, _ENOSYS = 9, 2, {sweep.CHECKED}, {sweep.ABSENT}"
    )
    monkeypatch.setattr(sandbox, "_SOURCE", marked)
    ran = sandbox._run(sweep.program(os.uname().machine), "solution", Limits(), level)
    assert (ran.how, ran.value) == ("value", [sweep.asked(os.uname().machine), []]), ran


LEAVING = ("fork bomb", "a daemon", "endless loop", "many files", "a deep tree", "a reply without the nonce")
LEAVERS = [case for case in EVERY if case.name in LEAVING]


@contextlib.contextmanager
def _orphans_come_here():
    """The kernel gives orphans of this process, dead ones too, to it instead of to the machine's first process."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    try:
        yield
    finally:
        libc.prctl(36, 0, 0, 0, 0)


def _children() -> set[int]:
    """Processes whose parent is this one, dead ones too."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if path.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(int(path.parent.name))
    return found


@isolated
@pytest.mark.parametrize("cases", [LEAVERS, pytest.param(EVERY, marks=pytest.mark.slow)], ids=["usual", "every"])
def test_nothing_is_left_behind(cases, host):
    assert len(cases) >= len(LEAVING)
    before, own = _strays(), _children() - {host.sibling.pid}
    with _orphans_come_here():
        for level in (1, 2):
            for case in cases:
                if level == 2 or not case.harms:
                    _run(case, host, level)
        host.renew()
        assert _children() - {host.sibling.pid} <= own
    assert _strays() <= before


TRAINER = """
import os, sys
from pathlib import Path
from spicejax.score.sandbox import Limits, Sandbox
def dead():
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    return sum(stat.rpartition(")")[2].split()[0] == "Z" for stat in stats)
own = os.fork()
if not own: os._exit(7)
kept = Sandbox(limits=Limits(cpu=1, wall=3.0), size=2)
whole, loop, flood = "return 6", "while True: pass", "while True: print('a' * 1000)"
wait = "import time; time.sleep(99)"
ran = kept.run([f"def solution():\\n    {each}" for each in (whole, loop, wait, flood, whole, "1 / 0")])
print(os.getpid(), kept.tier, *(each.how for each in ran), dead() - 1, os.waitstatus_to_exitcode(os.waitpid(own, 0)[1]))
"""


@isolated
def test_no_dead_process_is_left_to_a_trainer_that_is_the_first_of_its_container():
    """As in `docker run IMAGE spicejax train`: nobody but it could take in orphans. Its own children stay its own."""
    container = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("unshare may make no container here")
    command = [*container, sys.executable, "-c", TRAINER]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == ["1", "2", "value", "timeout", "timeout", "output", "value", "error", "0", "7"], done


@pytest.mark.parametrize("level", [1, pytest.param(2, marks=isolated)])
def test_time_zones_are_the_same_at_both_tiers(level):
    text = "import time, zoneinfo\ndef f():\n    return 'Asia/Tokyo' in zoneinfo.available_timezones(), *time.tzname"
    ran = sandbox._run(text, "f", LIMITS, level)
    assert ran.value == ["Asia/Tokyo" in zoneinfo.available_timezones(), "UTC", "UTC"], ran


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
            "def other():\n    return 3",
            "def solution(x):\n    return x",
            "import random\ndef solution():\n    return random.random(), list({'a', 'b', 'c', 'd', 'e'})",
            "import random\ndef solution():\n    return random.random(), list({'a', 'b', 'c', 'd', 'e'})",
            "x = '" + "a" * sandbox.LONGEST + "'",
            "import enum\nD = enum.IntEnum('D', 'a b')\ndef solution():\n    return D.a, [D.b]",
            "class M(type):\n    def __eq__(self, other): return True\nclass N(metaclass=M): pass\nanswer = N()",
            "class N(int):\n    def __index__(self): return 8\n    __int__ = __repr__ = __index__\nanswer = N(7)",
        ]
    )
    assert ran[0] == Ran("value", 42, printed="so\n")
    assert [each.value for each in ran[1:4]] == ["4/3", 3.75, [["a", True], [None, 2]]]
    assert [(each.how, each.detail) for each in ran[4:7]] == [
        ("error", "ZeroDivisionError"), ("value", ""), ("error", "TypeError"),
    ]  # fmt: skip
    assert ran[5].value is None
    assert ran[7] == ran[8], "chance and the order of sets are the same every time"
    assert (ran[9].how, ran[9].detail) == ("form", "too_long")
    assert (ran[11].how, ran[11].detail) == ("form", "N")
    assert ran[10].value == [1, [2]] and ran[12].value == 7, "its own methods are not asked"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("each", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_an_honest_program_returns_what_it_returns_without_a_sandbox(each):
    texts, deepest = benign.programs(each), sys.getrecursionlimit()
    ran = Sandbox(accept=True).run(texts)
    try:
        for text, found in zip(texts, ran, strict=True):
            assert found.how == "value" and {"value": found.value} == program.run(text, "solution"), (text, found)
    finally:
        sys.setrecursionlimit(deepest)


OUTSIDE = """
import contextlib, io, json, sys
for text in json.load(sys.stdin):
    namespace = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(text, namespace)
        value = namespace["solution"]()
    print(json.dumps(value))
"""


@pytest.mark.parametrize("count", [40, pytest.param(950, marks=pytest.mark.slow)])
def test_an_honest_program_at_random_returns_what_python_says(count):
    """With the 50 of benign.py a thousand; by an interpreter that knows nothing of this package."""
    texts = honest.programs(count)
    command, env = [sys.executable, "-I", "-c", OUTSIDE], {"TZ": "UTC"}
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, env=env, check=True)
    ran = Sandbox(accept=True).run(texts)
    for text, found, line in zip(texts, ran, done.stdout.splitlines(), strict=True):
        assert found.how == "value" and found.value == json.loads(line), (text, found, line)


def test_a_reply_written_by_hand_is_the_json_of_it():
    texts = ["", "3", "[1, 'a']", 'a "b"', "a\\n", "a\n", "\x7f", "\u00e9", "\ud800", "\u2028", "{}"]
    for value in (3, -1.5, [], ["3"], texts[:3], texts, *([text] for text in texts), [1, "a"], [["a"]], True, None):
        assert json.loads(program.written({"value": value})) == {"value": value}
        assert program.written({"value": value}) == json.dumps({"value": value})


def test_what_is_no_number_and_no_text_is_no_answer():
    """JSON has no infinity, though Python reads and writes one; half a character cannot be written to a file."""
    values = (
        "float('inf')",
        "float('nan')",
        "[1, -float('inf')]",
        "'\\ud800'",
        "-1e308 * 10",
        "NAN",
        "1e308",
        "NUMBER",
    )
    head = "from decimal import Decimal\nNAN, NUMBER = Decimal('NaN'), Decimal('1e400')\ndef solution():\n    return "
    ran = Sandbox(accept=True).run([head + value for value in values])
    assert [(each.how, each.detail) for each in ran[:6]] == [
        ("form", "float"), ("form", "float"), ("form", "list"), ("form", "str"), ("form", "float"), ("form", "Decimal"),
    ]  # fmt: skip
    assert [each.value for each in ran[6:]] == [1e308, "1E+400"]


FORGED = """
import os, sys
def solution():
    frame = sys._getframe()
    while "nonce" not in frame.f_locals:
        frame = frame.f_back
    os.write(frame.f_locals["channel"], (frame.f_locals["nonce"] + %r).encode())
    os._exit(0)
"""


def test_a_forged_reply_is_another_answer_and_no_more():
    """Whatever it finds inside, there is nothing to be won: right or wrong is said outside."""
    values = ("5", "Infinity", "NaN", "1e999", '"\\ud800"', '{"a": 1}', "[[[[1]]]]", "[" * 3000)
    first, *others = Sandbox(accept=True).run([FORGED % f'{{"value": {each}, "right": true}}' for each in values])
    assert first == Ran("value", 5)
    assert [each.how for each in others] == [*["form"] * 6, "killed"] and all(each.value is None for each in others)
    details = ('"\\ud800x"', "5", "null", "[" * 900 + "]" * 900)
    ran = Sandbox(accept=True).run([FORGED % f'{{"error": {each}}}' for each in details])
    assert [(each.how, each.detail) for each in ran] == [("error", "?x"), *[("killed", "exit status 0")] * 3]


def test_the_filter_s_numbers_are_the_kernel_s():
    headers = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}
    for machine, name in headers.items():
        path = Path("/usr/include", name)
        if not path.exists():
            pytest.skip(f"no {name}: the headers of Linux are not installed")
        lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", path.read_text())
        numbers = {"newfstatat" if call == "fstatat" else call: int(number) for call, number in lines}
        column = program._MACHINES[machine][0]
        assert {call: each[column] for call, each in program._CALLS.items()} == {
            call: numbers.get(call) for call in program._CALLS
        }
        assert all(
            len(set(found)) == len(found) for found in [[n[column] for n in program._CALLS.values() if n[column]]]
        )


@pytest.mark.parametrize("level, accept", [(1, False), (0, False), (0, True)])
def test_below_tier_2_nothing_runs_unless_it_is_accepted(monkeypatch, level, accept):
    monkeypatch.setattr(sandbox, "tier", lambda: (level, "bubblewrap not found"))
    with pytest.raises(Unsafe, match="bubblewrap not found"):
        Sandbox(accept=accept)


REFUSED = ["bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns"]  # further namespaces, by the kernel


@isolated
def test_where_the_kernel_refuses_namespaces_nothing_runs_unless_it_is_accepted():
    if subprocess.run([*REFUSED, "true"], capture_output=True).returncode:
        pytest.skip("bubblewrap cannot refuse further namespaces here")
    text = """
from spicejax.score.sandbox import Sandbox, Unsafe
try:
    Sandbox()
except Unsafe as error:
    print(error)
accepted = Sandbox(accept=True)
print(accepted.tier, accepted.run(["def solution():\\n    return 6 * 7"])[0].value)
"""
    command = [*REFUSED, sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert not done.returncode, done.stderr
    said, ran = done.stdout.splitlines()
    why = r"programs cannot be kept apart from this machine \(no program runs at tier 2: bwrap: .*\)"
    fix = "install bubblewrap and allow user namespaces, or accept that programs read your files; docs/security.md"
    assert re.fullmatch(f"{why}: {fix}", said)
    assert ran == "1 42"


def test_the_probe_notices_what_is_missing(monkeypatch, tmp_path):
    """Without the filter neither tier holds; where there can be none nothing runs; without bubblewrap tier 1 does."""
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_FOLDER", str(tmp_path))  # where the probe then writes
        patch.setattr(sandbox, "_SOURCE", sandbox._SOURCE.replace("if forbid()", "if True"))
        assert {"processes", "network", "signals", "writing"} <= sandbox._free(1)
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_SOURCE", sandbox._SOURCE.replace("aarch64", "x").replace("x86_64", "y"))
        whys = [f"no program runs at tier {level}: NoFilter" for level in (2, 1)]
        assert sandbox.tier.__wrapped__() == (0, "; ".join(whys))
    with monkeypatch.context() as patch:
        patch.setattr(sandbox.shutil, "which", lambda name: None)
        level, why = sandbox.tier.__wrapped__()
        assert (level, why) == (1, "bubblewrap not found")

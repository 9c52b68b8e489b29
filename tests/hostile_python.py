"""Hostile programs that go for the interpreter: its reply, its modules, its end.

A program may forge its reply: it has then given another answer. What none may do is to give one that is no plain data,
to stay on after its time, or to have the trainer raise.
"""

from hostile import Hostile, _hostile

_FIND = """
import os, sys
def send(frame, text, times=1):
    while 'nonce' not in frame.f_locals: frame = frame.f_back
    found = frame.f_locals['nonce'].encode()
    os.write(frame.f_locals['channel'] if 'channel' in frame.f_locals else int(sys.argv[1]), (found + text) * times)
"""
_BAD = """b'{{"value": {{"right": "out"}}}}'"""  # no plain data: a dict


def _forges(name: str, body: str, how: tuple[str, ...] = ("form",)) -> Hostile:
    return _hostile(name, _FIND + body, kind="forges", how=how)


def _breaks(name: str, body: str, how: tuple[str, ...] = ("killed",)) -> Hostile:
    return _hostile(name, body, kind="breaks", how=how)


_FORGES = [
    _forges("a reply by the frames", f"send(sys._getframe(), {_BAD}); os._exit(0)"),
    _forges(
        "a reply by a traceback",
        f"""
try: 1 / 0
except ZeroDivisionError as error: send(error.__traceback__.tb_frame.f_back, {_BAD})
os._exit(0)""",
    ),
    _forges(
        "a reply by the threads' frames",
        f"""
send(next(iter(sys._current_frames().values())), {_BAD}); os._exit(0)""",
    ),
    _forges(
        "a reply by a picture of the stack",
        f"""
import traceback
found = traceback.StackSummary.extract(traceback.walk_stack(None), capture_locals=True)
nonce = next(each.locals['nonce'] for each in found if 'nonce' in each.locals)
os.write(int(sys.argv[1]), nonce.strip(chr(39)).encode() + {_BAD})
os._exit(0)""",
    ),
    _forges(
        "a reply by a generator's frame",
        f"""
def later(): yield sys._getframe().f_back
send(next(later()), {_BAD}); os._exit(0)""",
    ),
    _forges(
        "a reply by a trace",
        f"""
def trace(frame, event, value):
    send(frame, {_BAD})
    os._exit(0)
sys.settrace(trace)
return (lambda: 1)()""",
    ),
    _forges(
        "a reply by a profile",
        f"""
def profile(frame, event, value):
    if event == 'return' and frame.f_code.co_name == 'run':
        send(frame, {_BAD})
        os._exit(0)
sys.setprofile(profile)
return 1""",
    ),
    _forges(
        "a reply by an audit",
        f"""
def audit(event, given):
    if event == 'open':
        send(sys._getframe(), {_BAD})
        os._exit(0)
sys.addaudithook(audit)
open('/none')""",
    ),
    _forges(
        "a reply at the end of an object",
        f"""
class Last:
    def __del__(self):
        send(sys._getframe(), {_BAD})
        os._exit(0)
Last()""",
    ),
    _forges(
        "a reply by a display of errors",
        f"""
class Last:
    def __del__(self): raise ValueError
def hook(found):
    send(sys._getframe(), {_BAD})
    os._exit(0)
sys.unraisablehook = hook
Last()""",
    ),
    _forges("two replies", "send(sys._getframe(), b'{{\"value\": 1}}')\nreturn 'out'", ("killed",)),
    _forges("a reply without an end", "send(sys._getframe(), b'{{\"value\": [1')\nwhile True: pass", ("timeout",)),
    _forges("half a reply", "send(sys._getframe(), b'{{\"value\": [1'); os._exit(0)", ("killed",)),
    _forges(
        "a reply of broken letters",
        r"""
send(sys._getframe(), b'{{"value": "\xff\xfe"}}'); os._exit(0)""",
        ("killed",),
    ),
    _forges("a reply in another code", f"send(sys._getframe(), {_BAD}.decode().encode('utf-16')); os._exit(0)"),
    _forges(
        "a reply of digits", "send(sys._getframe(), b'{{\"value\": ' + b'9' * 7000 + b'}}'); os._exit(0)", ("killed",)
    ),
    _forges(
        "a reply of one name twice",
        """
send(sys._getframe(), b'{{"value": 1, "value": {{}}}}'); os._exit(0)""",
    ),
    _forges("a reply that goes on", "send(sys._getframe(), b'{{\"value\": 1}}' * 9, 9999)", ("output",)),
    _forges(
        "a reply with every nonce",
        """
for number in range(99):
    os.write(int(sys.argv[1]), (b'%032x' % number) + b'{{"value": "out"}}')
os._exit(0)""",
        ("killed", "output"),
    ),
]
_MAIN = "import __main__ as harness, sys, os\n"
_BREAKS = [
    _breaks("another check of values", _MAIN + "harness.plain = lambda value: dict(right='out')\nreturn 1", ("form",)),
    _breaks("another way to write", _MAIN + "harness.written = lambda reply: '[1e999'\nreturn 1"),
    _breaks("no way to write", _MAIN + "del harness.written\nreturn 1"),
    _breaks(
        "another code of a function",
        _MAIN
        + """
harness.written.__code__ = (lambda reply: 'none').__code__
return 1""",
    ),
    _breaks("a larger limit of the reply", _MAIN + "harness.LONGEST = 10 ** 9\nreturn 'a' * 10 ** 6", ("output",)),
    _breaks(
        "a limit in memory",
        _MAIN
        + """
import ctypes
ctypes.memmove(id(harness.LONGEST) + 24, (2 ** 29).to_bytes(4, 'little'), 4)
return 'a' * 10 ** 6""",
        ("output",),
    ),
    _breaks(
        "false builtins",
        """
import builtins
builtins.type = lambda value: str
class Right: pass
return Right()""",
    ),
    _breaks(
        "a false module of numbers",
        """
import sys, types
class Right:
    def is_finite(self): return True
    def __str__(self):
        while True: pass
sys.modules['decimal'] = types.SimpleNamespace(Decimal=Right)
return Right()""",
        ("timeout",),
    ),
    _breaks(
        "a false module for the reply",
        """
import sys, types
sys.modules['json'] = types.SimpleNamespace(dumps=lambda value: value)
return [1]""",
        ("killed",),
    ),
    _breaks("no modules", "import sys\nsys.modules.clear()\nreturn [1]", ("killed", "value", "error")),
    _breaks(
        "an import that never ends",
        """
import sys
class Finder:
    def find_spec(self, *given):
        while True: pass
sys.meta_path.insert(0, Finder())
sys.modules.pop('json', None)
return [1.5]""",
        ("timeout",),
    ),
    _breaks("a way out that never ends", "import os\nos._exit = lambda code: list(iter(int, 1))\nreturn 1", ("value",)),
    _breaks("no way out", "import os\nos._exit = None\nreturn [1]", ("value",)),
    _breaks("a reply that is not sent", "import os\nos.write = lambda *given: 0\nreturn 1"),
    _breaks("a closed channel", "import os\nos.closerange(3, 64)\nreturn 1"),
    _breaks("the channel to the output", "import os\nfor fd in range(3, 32): os.dup2(1, fd)\nreturn 'out'"),
    _breaks(
        "an output that never ends",
        """
import sys
class Output:
    def flush(self):
        while True: pass
sys.stdout = Output()
return 1""",
        ("timeout",),
    ),
    _breaks(
        "work at the end",
        """
import atexit
def last():
    while True: print('a' * 1000)
atexit.register(last)
raise SystemExit""",
        ("error",),
    ),
    _breaks("an end by the C library", "import ctypes; ctypes.CDLL(None).exit(0)"),
    _breaks("a fatal error", "import ctypes; ctypes.pythonapi.Py_FatalError(b'out')"),
    _breaks(
        "an exception without a name",
        """
class Kind(type):
    __name__ = property(lambda self: 1 / 0)
class E(Exception, metaclass=Kind): pass
raise E""",
    ),
    _breaks(
        "an exception with an endless name",
        """
class Name(str):
    def __getitem__(self, key): return self
class Kind(type):
    __name__ = property(lambda self: Name('a' * 10 ** 6))
class E(Exception, metaclass=Kind): pass
raise E""",
        ("form",),
    ),
    _breaks(
        "a type with a false name",
        """
class Kind(type):
    __name__ = property(lambda self: 7)
class T(metaclass=Kind): pass
return T()""",
    ),
    _breaks(
        "a crash that is caught",
        """
import ctypes, signal
signal.signal(signal.SIGSEGV, lambda *given: None)
ctypes.string_at(0)""",
        ("timeout",),
    ),
    _breaks(
        "all signals blocked",
        """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: pass""",
        ("timeout",),
    ),
    _breaks(
        "a watch that writes",
        """
import faulthandler
faulthandler.dump_traceback_later(0.01, repeat=True)
return 'out'""",
        ("error", "killed", "timeout"),
    ),
    _breaks(
        "memory of others' types",
        """
import ctypes
ctypes.memset(id(int), 0, 512)
return int('1')""",
    ),
    _breaks(
        "no descriptor left",
        """
import os
try:
    while True: os.dup(0)
except OSError: pass
return [1.5]""",
    ),
    _breaks(
        "no memory left",
        """
import builtins
builtins.kept = kept = []
for size in (1 << 20, 1 << 10, 1):
    try:
        while True: kept.append(bytearray(size))
    except MemoryError: pass
return [1.5]""",
        ("killed", "value", "error", "form", "timeout"),
    ),
    _breaks("an odd recursion", "import sys\nsys.setrecursionlimit(60)\nreturn [[1.5]]", ("killed", "value", "error")),
]
ALL = [*_FORGES, *_BREAKS]

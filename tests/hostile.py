"""Programs that try to get out of the sandbox. Each returns "out" where it got what it wanted; {names} are filled in.

`free_at_1`: what tier 1 does not keep from a program, as docs/security.md says; `harms`: where it got out it would harm
this machine, so that it is not tried at tier 1. More of them, by kind: hostile_bombs.py, hostile_calls.py,
hostile_files.py, hostile_python.py.
"""

import dataclasses
import textwrap


@dataclasses.dataclass(frozen=True)
class Hostile:
    name: str
    text: str
    how: tuple[str, ...] = ("error", "value")  # what may come of it: refused, or a value that is not "out"
    free_at_1: bool = False
    harms: bool = False
    kind: str = ""
    like: str = ""  # one that is free at tier 1, to which this is another way
    filtered: bool = False  # the filter alone keeps it in: without it a program of root's gets out


def _program(body: str) -> str:
    return "def solution():\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")


def _hostile(name: str, body: str, **more) -> Hostile:
    return Hostile(name, _program(body), **more)


_SYSCALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
"""
# A pipe that tells {sibling} by a signal what becomes of it, once the line in between has made that one its owner.
_TOLD = """
import fcntl, os, struct
r, w = os.pipe()
%s
fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)
os.write(w, b'x')
return 'out'
"""
_STUCK = {"how": ("timeout",)}
_HARM = {"harms": True}
ALL = [
    # time, memory, output
    _hostile("endless loop", "while True: pass", **_STUCK),
    _hostile("endless loop that ignores the signal", """
        import signal
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True: pass""", **_STUCK),
    _hostile("one endless product", "return len(str(7 ** 10 ** 8)) and 'out'", how=("timeout", "error")),
    _hostile("catastrophic pattern", "import re; re.match('(a+)+$', 'a' * 64 + 'b'); return 'out'", **_STUCK),
    _hostile("sleeping", "import time; time.sleep(10 ** 6)", **_STUCK),
    _hostile("waiting for input", "import sys; sys.stdin.read(); return ''"),
    _hostile("stopping itself", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); return 'out'"),
    _hostile("memory at once", "x = bytearray(1 << 31); return 'out'"),
    _hostile("memory by and by", """
        x = []
        while len(x) < 2000: x.append(bytes(1 << 20))
        return 'out'"""),
    _hostile("a billion laughs", """
        x = 'ha'
        for _ in range(40): x += x
        return 'out'"""),
    _hostile("a huge number back", "return 10 ** 5000", how=("form",)),
    _hostile("a huge text back", "return 'a' * 10 ** 7", how=("form",)),
    _hostile("a deep list back", "x = []\nfor _ in range(10 ** 5): x = [x]\nreturn x", how=("form",)),
    _hostile("a list that holds itself", "x = []; x.append(x); return x", how=("form",)),
    _hostile("flood of output", "while True: print('a' * 1000)", how=("output",)),
    _hostile("flood of errors", "import sys\nwhile True: sys.stderr.write('a' * 1000)", how=("output",)),
    _hostile("flood past Python", "import os\nwhile True: os.write(1, b'a' * 1000)", how=("output",)),
    _hostile("flood of the channel", """
        import os
        for fd in range(3, 64):
            try:
                while True: os.write(fd, b'a' * 4096)
            except OSError: pass""", how=("output",)),
    _hostile("long traceback", "raise ValueError('a' * 10 ** 7)", how=("error",)),
    _hostile("deep recursion", "def f(n): return f(n + 1) + 1\nreturn f(0)", how=("error",)),
    _hostile("deep recursion without a limit", """
        import sys
        sys.setrecursionlimit(10 ** 9)
        def f(n): return f(n + 1) + 1
        return f(0)""", how=("killed", "error", "timeout")),
    _hostile("deep brackets", "return eval('(' * 10 ** 5 + ')' * 10 ** 5)"),
    _hostile("crash", "import ctypes; ctypes.string_at(0)", how=("killed",)),
    _hostile("abort", "import os; os.abort()", how=("killed",)),
    # processes and signals
    _hostile("fork", "import os\nif os.fork() == 0: os._exit(0)\nreturn 'out'"),
    _hostile("fork bomb", "import os\nwhile True: os.fork()"),
    _hostile("zombies", "import os\nfor _ in range(1000):\n    if os.fork() == 0: os._exit(0)\nreturn 'out'"),
    _hostile("a daemon", """
        import os, time
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        return 'out'"""),
    _hostile("threads", """
        import threading, time
        for _ in range(100): threading.Thread(target=time.sleep, args=(10,)).start()
        return 'out'"""),
    _hostile("clone by number", _SYSCALL + "return 'out' if libc.syscall({clone}, 17, 0, 0, 0, 0) > 0 else ''"),
    _hostile("a shell", "import os; return 'out' if os.system('true') == 0 else ''"),
    _hostile("a subprocess", "import subprocess; subprocess.run(['{python}', '-c', '']); return 'out'"),
    _hostile("multiprocessing", "import multiprocessing as m; m.Process(target=print).start(); return 'out'"),
    _hostile("becoming another program", "import os; os.execv('{python}', ['python', '-c', 'print(1)'])"),
    _hostile("kill the parent", "import os; os.kill(os.getppid(), 9); return 'out'"),
    _hostile("kill the trainer", "import os; os.kill({trainer}, 0); return 'out'"),
    _hostile("kill everything", "import os; os.kill(-1, 0); return 'out'"),
    _hostile("kill the group", "import os; os.killpg(os.getpgid(0), 0); return 'out'"),
    _hostile("queue a signal", _SYSCALL + "return 'out' if libc.sigqueue({trainer}, 0, 0) == 0 else ''"),
    _hostile("trace a sibling", _SYSCALL + "return 'out' if libc.ptrace(16, {sibling}, 0, 0) == 0 else ''"),
    _hostile("read a sibling's memory", "open('/proc/{sibling}/mem', 'rb').close(); return 'out'", free_at_1=True),
    _hostile("read the trainer's environment", """
        return 'out' if b'PATH=' in open('/proc/{trainer}/environ', 'rb').read() else ''""", free_at_1=True),
    _hostile("renice", "import os; os.setpriority(os.PRIO_PROCESS, {sibling}, 19); return 'out'"),
    _hostile("pin a sibling", "import os; os.sched_setaffinity({sibling}, [0]); return 'out'"),
    _hostile("put a sibling last", """
        import os
        os.sched_setscheduler({sibling}, os.SCHED_IDLE, os.sched_param(0))
        return 'out'"""),
    _hostile("limit a sibling", "import resource as r; r.prlimit({sibling}, r.RLIMIT_CORE, (0, 0)); return 'out'"),
    _hostile("a signal by a pipe", _TOLD % "fcntl.fcntl(r, fcntl.F_SETOWN, {sibling})"),
    _hostile("a chosen signal by a pipe", _TOLD % "fcntl.fcntl(r, fcntl.F_SETOWN, {sibling}); fcntl.fcntl(r, 10, 9)"),
    _hostile("a signal to a thread by a pipe", _TOLD % "fcntl.fcntl(r, 15, struct.pack('ii', 0, {sibling}))"),
    _hostile("a signal to a group by a pipe", _TOLD % "fcntl.fcntl(r, 15, struct.pack('ii', 2, {sibling}))"),
    _hostile("signals by ioctl", "import fcntl, os; fcntl.ioctl(os.pipe()[0], 0x5452, b'1234'); return 'out'"),
    _hostile("type into the terminal", """
        import fcntl, os
        for fd in (0, 1, 2, os.open('/dev/ptmx', os.O_RDONLY)):
            try: fcntl.ioctl(fd, 0x5412, b'x')
            except OSError as error:
                if error.errno == 25: continue  # no terminal
                raise
            return 'out'"""),
    _hostile("a timer's signal", _SYSCALL + """
return 'out' if libc.timer_create(1, None, ctypes.create_string_buffer(8)) == 0 else ''"""),
    _hostile("calls of another machine", _SYSCALL + """
return 'out' if libc.syscall(0x40000000 + {clone}, 17, 0, 0, 0, 0) > 0 else ''"""),
    _hostile("calls of an older machine", """
        import ctypes, mmap
        code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
        code.write(bytes.fromhex('b814000000cd80c3'))  # getpid of 32-bit x86
        call = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        return 'out' if call() > 0 else ''""", how=("error", "value", "killed")),
    _hostile("see the processes", "import os; os.stat('/proc/{trainer}'); return 'out'", free_at_1=True),
    _hostile("raise the limits", """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        x = bytearray(1 << 31)
        return 'out'""", how=("error", "value")),
    # files
    _hostile("take from the trainer's pipes", """
        import os
        fd = os.open('/proc/{trainer}/fd/{pipe}', os.O_RDONLY | os.O_NONBLOCK)
        return 'out' if b'{canary}' in os.read(fd, 100) else ''""", free_at_1=True),
    _hostile("read the home folder", "import os; return 'out' if os.listdir('{home}') else ''", free_at_1=True),
    _hostile("read a secret", "return 'out' if open('{secret}').read() else ''", free_at_1=True),
    _hostile("read the accounts", "return 'out' if open('/etc/passwd').read() else ''", free_at_1=True),
    _hostile("delete a file", "import os; os.remove('{victim}'); return 'out'"),
    _hostile("delete a tree", """
        import shutil
        shutil.rmtree('{tree}')
        return 'out'"""),
    _hostile("write a file", "open('{marker}', 'w').close(); return 'out'"),
    _hostile("overwrite a file", "open('{victim}', 'r+').write('y'); return 'out'"),
    _hostile("overwrite a file that is mapped", """
        import mmap
        with open('{victim}', 'r+b') as file:
            mmap.mmap(file.fileno(), 0)[0:1] = b'y'
        return 'out'"""),
    _hostile("overwrite by its descriptor's name", """
        import os
        fd = os.open('{victim}', os.O_RDONLY)
        os.open(f'/proc/self/fd/{{fd}}', os.O_WRONLY)
        return 'out'"""),
    _hostile("overwrite without limits", """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
        open('{victim}', 'w').write('y')
        return 'out'"""),
    _hostile("shorten a file", "import os; os.truncate('{victim}', 0); return 'out'"),
    _hostile("shorten a file that is read", "import os; os.open('{victim}', os.O_TRUNC); return 'out'"),
    _hostile("rename a file", "import os; os.rename('{victim}', '{marker}'); return 'out'"),
    _hostile("link a file", "import os; os.link('{victim}', '{marker}'); return 'out'"),
    _hostile("make a folder", "import os; os.mkdir('{marker}'); return 'out'"),
    _hostile("make a pipe", "import os; os.mkfifo('{marker}'); return 'out'"),
    _hostile("a file without a name", "import os; os.open('{home}', os.O_TMPFILE | os.O_RDWR); return 'out'"),
    _hostile("change a file's rights", "import os; os.chmod('{victim}', 0o777); return 'out'"),
    _hostile("change a file's owner", "import os; os.chown('{victim}', -1, os.getgid()); return 'out'"),
    _hostile("change a file's time", "import os; os.utime('{victim}'); return 'out'"),
    _hostile("change a file's attributes", "import os; os.setxattr('{victim}', 'user.x', b'y'); return 'out'"),
    _hostile("lock a file", "import fcntl; fcntl.flock(open('{victim}'), fcntl.LOCK_EX); return 'out'"),
    _hostile("lock a part of a file", "import fcntl; fcntl.lockf(open('{victim}'), fcntl.LOCK_SH); return 'out'"),
    _hostile("lease a file", "import fcntl; fcntl.fcntl(open('{victim}'), 1024, fcntl.F_RDLCK); return 'out'"),
    _hostile("write here", "open('here', 'w').close(); return 'out'"),
    _hostile("write to /tmp", "open('/tmp/{canary}', 'w').write('x'); return 'out'", **_HARM),
    _hostile("write to shared memory", "open('/dev/shm/{canary}', 'wb').write(b'x'); return 'out'", **_HARM),
    _hostile("fill the disk", "import os\nf = open('big', 'wb')\nwhile f.write(b'0' * 2 ** 20): pass", how=("error",)),
    _hostile("a link out", "import os; os.symlink('{secret}', 'x'); return 'out' if open('x').read() else ''"),
    _hostile("many files", "for k in range(1000): open(str(k), 'w').close()\nreturn 'out'"),
    _hostile("a deep tree", """
        import os
        for _ in range(500):
            os.mkdir('d')
            os.chdir('d')
        return 'out'"""),
    _hostile("sitecustomize",
             "import os; open(os.__file__[:-5] + 'sitecustomize.py', 'w').write('x'); return 'out'", **_HARM),
    _hostile("change the library", "import os; open(os.__file__, 'a').write('x'); return 'out'", **_HARM),
    _hostile("the trainer's descriptors", """
        import os
        return 'out' if any('{secret}' in os.readlink(f'/proc/self/fd/{{k}}') for k in range(64)
                            if os.path.exists(f'/proc/self/fd/{{k}}')) else ''"""),
    _hostile("an inherited descriptor", """
        import os
        for fd in range(3, 1024):
            try:
                if b'{canary}' in os.pread(fd, 100, 0): return 'out'
            except OSError: pass
        return ''"""),
    _hostile("mount", _SYSCALL + "return 'out' if libc.mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0 else ''"),
    _hostile("out of the root", "import os; os.chroot('.'); return 'out'"),
    _hostile("new namespaces", _SYSCALL + "return 'out' if libc.unshare(0x10000000) == 0 else ''"),
    _hostile("new groups", "import os; os.setgroups([0, 1]); return 'out'"),
    # the network
    _hostile("connect", "import socket; socket.create_connection(('127.0.0.1', {port})); return 'out'"),
    _hostile("an abstract socket", """
        import socket
        s = socket.socket(socket.AF_UNIX)
        s.connect(chr(0) + '{canary}')
        return 'out'"""),
    _hostile("names", "import socket; socket.getaddrinfo('localhost', 80); return 'out'", free_at_1=True),
    _hostile("a web page", "import urllib.request as u; u.urlopen('http://127.0.0.1:{port}'); return 'out'"),
    _hostile("kernel keys", _SYSCALL + "return 'out' if libc.syscall({keyctl}, 0, -3, 0) > 0 else ''"),
    _hostile("io_uring", _SYSCALL + """
return 'out' if libc.syscall(425, 8, ctypes.create_string_buffer(256)) > 0 else ''"""),
    # Python itself
    _hostile("the environment", "import os; return 'out' if '{canary}' in str(os.environ) else ''"),
    _hostile("spicejax", "import spicejax; return 'out'"),
    _hostile("jax", "import jax; return 'out'"),
    _hostile("a subclass that opens files", """
        for each in ().__class__.__base__.__subclasses__():
            if each.__name__ == '_wrap_close':
                return 'out' if each.__init__.__globals__['listdir']('{home}') else ''""", free_at_1=True),
    _hostile("a pickle that opens files", """
        import pickle, os
        class P:
            def __reduce__(self): return os.listdir, ('{home}',)
        return 'out' if pickle.loads(pickle.dumps(P())) else ''""", free_at_1=True),
    _hostile("a value of its own class", """
        class Right(float):
            def __eq__(self, other): return True
        return Right(1)""", how=("form",)),
    _hostile("a text of its own class", "class T(str): pass\nreturn T('out')", how=("form",)),
    _hostile("a list of its own class", "class T(list): pass\nreturn [T([1])]", how=("form",)),
    _hostile("a false class", "class T:\n    __class__ = int\nreturn T()", how=("form",)),
    # the verdict
    _hostile("exit 0", "import os; os._exit(0)", how=("killed",)),
    _hostile("sys.exit", "raise SystemExit(0)", how=("error",)),
    _hostile("a printed verdict", "print('{{\"value\": \"out\"}}')\nreturn ''", how=("value",)),
    _hostile("a reply without the nonce", """
        import os
        for fd in range(3, 64):
            try: os.write(fd, b'0' * 32 + b'{{"value": "out"}}')
            except OSError: pass
        os._exit(0)""", how=("killed",)),
    _hostile("a changed json", """
        import json
        json.dumps = lambda *_: '{{"value": 1e999}} []'
        return [1]""", how=("killed",)),
    _hostile("an exception that lies", """
        class E(Exception):
            def __str__(self): return 'out'
        raise E""", how=("error",)),
    _hostile("half a program", "return (", how=("error",)),
]  # fmt: skip

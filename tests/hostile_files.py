"""Hostile programs that go for files: by calls that Python does not use, by C libraries, by what the kernel shows.

`like` names the listed program whose way out at tier 1 another way of reading shares: there a program may read what the
user may read, and what the kernel says of other processes.
"""

from hostile import Hostile, _hostile
from hostile_calls import CALL


def _writes(name: str, body: str, **more) -> Hostile:
    return _hostile(name, body, kind="writes", **{"filtered": True, **more})


def _reads(name: str, body: str, like: str = "read a secret", **more) -> Hostile:
    return _hostile(name, body, kind="reads", like=like, **more)


_WRITES = [
    _writes(
        "overwrite by a newer call",
        CALL
        + """
how = (0o1002).to_bytes(8, 'little') + bytes(16)  # O_RDWR and O_TRUNC, where no filter can see it
call({calls[openat2]}, -100, b'{victim}', how, 24)
return 'out'""",
    ),
    _writes(
        "overwrite by an older call",
        CALL
        + """
try: call({calls[creat]}, b'{victim}', 0o600)
except OSError as error: return 'absent' if error.errno == 38 and {calls[creat]} < 0 else ''
return 'out'""",
    ),
    _writes(
        "flags in the upper half",
        CALL
        + """
call({calls[openat]}, -100, b'{victim}', (5 << 32) | 1)
return 'out'""",
    ),
    _writes("appending only", "import os; os.open('{victim}', os.O_WRONLY | os.O_APPEND); return 'out'"),
    _writes(
        "open for nothing, to write later",
        """
        import os
        fd = os.open('{victim}', os.O_PATH)
        os.open('/dev/fd/' + str(fd), os.O_RDWR)
        return 'out'""",
    ),
    _writes(
        "two files exchanged",
        CALL
        + """
call({calls[renameat2]}, -100, b'{victim}', -100, b'{secret}', 2)
return 'out'""",
    ),
    _writes(
        "a link to an open file",
        """
        import os
        fd = os.open('{victim}', os.O_RDONLY)
        os.link('/proc/self/fd/' + str(fd), '{marker}', follow_symlinks=True)
        return 'out'""",
    ),
    _writes("an open file's rights", "import os; os.fchmod(os.open('{victim}', os.O_RDONLY), 0o600); return 'out'"),
    _writes(
        "room for a file",
        CALL
        + """
fd = os.open('{victim}', os.O_RDONLY)
try: call({calls[fallocate]}, fd, 0, 0, 1)
except OSError as error: return '' if error.errno == 38 else 'out'
return 'out'""",
    ),
    _writes(
        "a device of its own",
        """
        import os, stat
        os.mknod('{marker}', stat.S_IFCHR | 0o600, os.makedev(1, 1))
        return 'out'""",
        filtered=False,
    ),
    _writes(
        "a socket among files",
        """
        import os, stat
        os.mknod('{marker}', stat.S_IFSOCK | 0o600)
        return 'out'""",
    ),
    _writes(
        "a flag of a file",
        """
        import fcntl, os
        fd = os.open('{victim}', os.O_RDONLY)
        try: fcntl.ioctl(fd, 0x40086602, b'12345678')
        except OSError as error: return '' if error.errno == 1 else 'out'
        return 'out'""",
        filtered=False,
    ),
    _writes(
        "a database",
        """
        import sqlite3
        sqlite3.connect('{marker}').execute('create table found (x)')
        return 'out'""",
        filtered=False,
    ),
    _writes(
        "a file by the C library",
        """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        return 'out' if libc.fopen(b'{marker}', b'w') else ''""",
    ),
    _writes(
        "compiled modules",
        """
        import py_compile
        py_compile.compile('{victim}', cfile='{marker}')
        return 'out'""",
    ),
    _writes(
        "protection lifted",
        """
        import ctypes, os
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        fd = os.open('{victim}', os.O_RDONLY)
        found = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))
        return 'out' if libc.mprotect(ctypes.c_void_p(found), ctypes.c_size_t(4096), 3) == 0 else ''""",
        filtered=False,
    ),
    _writes("own memory as a file", "open('/proc/self/mem', 'r+b'); return 'out'"),
    _writes("who is killed first", "open('/proc/self/oom_score_adj', 'r+').write('0'); return 'out'"),
    _writes(
        "a setting of the kernel",
        "import os; os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY); return 'out'",
        filtered=False,
    ),
    _writes(
        "a key for the kernel", "import os; os.open('/proc/sysrq-trigger', os.O_WRONLY); return 'out'", filtered=False
    ),
    _writes("a device of the kernel", "import os; os.open('/dev/kmsg', os.O_WRONLY); return 'out'", filtered=False),
    _writes("a pair of terminals", "import pty; pty.openpty(); return 'out'", filtered=False),
    _writes(
        "a terminal to command",
        """
        import fcntl, os
        fd = os.open('/dev/ptmx', os.O_RDONLY)
        try: fcntl.ioctl(fd, 0x540E, 0)
        except OSError as error: return '' if error.errno == 1 else 'out'
        return 'out'""",
        filtered=False,
    ),
    _writes(
        "a machine inside this one",
        """
        import fcntl, os
        fcntl.ioctl(os.open('/dev/kvm', os.O_RDONLY), 0xAE00)
        return 'out'""",
        filtered=False,
    ),
]
_READS = [
    _reads("the secret past the trainer's root", "return 'out' if open('/proc/{trainer}/root{secret}').read() else ''"),
    _reads("the secret by two dots", "return 'out' if open('../../../../../../{secret}').read() else ''"),
    _reads(
        "the secret in memory",
        """
        import mmap
        with open('{secret}', 'rb') as file:
            return 'out' if mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:] else ''""",
    ),
    _reads(
        "the secret by the C library",
        """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        return 'out' if libc.fopen(b'{secret}', b'r') else ''""",
    ),
    _reads(
        "the secret as a module",
        """
        import importlib.util, sys
        sys.path.insert(0, '{home}')
        from importlib.machinery import SourceFileLoader
        return 'out' if SourceFileLoader('x', '{secret}').get_data('{secret}') else ''""",
    ),
    _reads(
        "the secret as an archive",
        """
        import zipfile
        try: zipfile.ZipFile('{secret}')
        except zipfile.BadZipFile: return 'out'""",
    ),
    _reads(
        "the secret by a copy inside the kernel",
        """
        import os
        return 'out' if os.sendfile(1, os.open('{secret}', os.O_RDONLY), 0, 100) else ''""",
        like="",
        filtered=True,
    ),
    _reads("the secret's size", "import os; return 'out' if os.path.getsize('{secret}') else ''"),
    _reads("a search for files", "import glob; return 'out' if glob.glob('{home}/*') else ''", "read the home folder"),
    _reads(
        "the trainer's folder",
        "import os; return 'out' if os.listdir('/proc/{trainer}/cwd') else ''",
        "read the home folder",
    ),
    _reads(
        "the trainer's descriptor of the secret",
        """
        import os
        for each in os.listdir('/proc/{trainer}/fd'):
            if os.path.realpath('/proc/{trainer}/fd/' + each) == '{secret}': return 'out'""",
    ),
    _reads(
        "the trainer's words", "return 'out' if open('/proc/{trainer}/cmdline').read() else ''", "see the processes"
    ),
    _reads("the trainer's map", "return 'out' if open('/proc/{trainer}/maps').read() else ''", "see the processes"),
    _reads(
        "the trainer's threads",
        "import os; return 'out' if os.listdir('/proc/{trainer}/task') else ''",
        "see the processes",
    ),
    _reads(
        "the parent's environment",
        """
        import os
        return 'out' if b'PATH=' in open('/proc/' + str(os.getppid()) + '/environ', 'rb').read() else ''""",
        "read the trainer's environment",
    ),
    _reads(
        "the first process's environment",
        """
        return 'out' if b'=' in open('/proc/1/environ', 'rb').read() else ''""",
        "read the trainer's environment",
    ),
    _reads(
        "names of sockets", "return 'out' if '{canary}' in open('/proc/net/unix').read() else ''", "see the processes"
    ),
    _reads(
        "who is connected", "return 'out' if len(open('/proc/net/tcp').readlines()) > 1 else ''", "see the processes"
    ),
    _reads("names of networks", "import os; return 'out' if os.listdir('/sys/class/net') else ''", "names"),
    _reads("the mounts", "return 'out' if open('/proc/mounts').read() else ''", "see the processes"),
    _reads("addresses of the kernel", "return 'out' if open('/proc/kallsyms').readline() else ''"),
    _reads("passwords", "return 'out' if open('/etc/shadow').read() else ''", "read the accounts"),
    _reads("the memory of the machine", "return 'out' if open('/dev/mem', 'rb', 0).read(1) else ''"),
    _reads("the core of the kernel", "return 'out' if open('/proc/kcore', 'rb', 0).read(1) else ''"),
    _reads(
        "what the kernel said",
        """
        import os
        return 'out' if os.read(os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK), 4096) else ''""",
    ),
    _reads("open terminals", "import os; return 'out' if os.listdir('/dev/pts') else ''", "read the home folder"),
]
ALL = [*_WRITES, *_READS]

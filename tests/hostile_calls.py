"""Hostile programs that ask the kernel: each for another of the calls that no calculation needs.

Most by number, past every library. The filter answers ENOSYS to a call that is not in its table; any other answer, a
refusal of the kernel's own too, means that the call reached the kernel, and is "out". So nothing has to be harmed to
see it: what would harm gets arguments that the kernel refuses.
"""

from hostile import Hostile, _hostile

# Numbers on x86_64 and aarch64; None where there is none.
_NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "capset": (126, 91),
    "clock_settime": (227, 112), "clone3": (435, 435), "creat": (85, None), "delete_module": (176, 106),
    "execveat": (322, 281), "fallocate": (285, 47), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsopen": (430, 430), "get_robust_list": (274, 100), "inotify_init1": (294, 26), "io_setup": (206, 0),
    "ioperm": (173, None), "iopl": (172, None), "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_load": (246, 104),
    "landlock_create_ruleset": (444, 444), "membarrier": (324, 283), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "migrate_pages": (256, 238), "mlockall": (151, 230), "modify_ldt": (154, None),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "msgctl": (71, 187), "msgget": (68, 186), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "openat": (257, 56), "openat2": (437, 437), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41), "prctl": (157, 167), "process_madvise": (440, 440), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "quotactl": (179, 60), "reboot": (169, 142), "renameat2": (316, 276),
    "request_key": (249, 218), "rt_sigreturn": (15, 139), "rt_tgsigqueueinfo": (297, 240), "sched_setattr": (314, 274),
    "seccomp": (317, 277), "semctl": (66, 191), "semget": (64, 190), "sendmsg": (46, 211), "sethostname": (170, 161),
    "setns": (308, 268), "shmctl": (31, 195), "shmget": (29, 194), "signalfd4": (289, 74), "splice": (275, 76),
    "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "tee": (276, 77), "timerfd_create": (283, 85),
    "umount2": (166, 39), "userfaultfd": (323, 282), "vmsplice": (278, 75),
}  # fmt: skip


def numbers(machine: str) -> dict[str, int]:
    """Every call's number; -1, which is no call, where the machine has none."""
    column = ("x86_64", "aarch64").index(machine)
    return {name: -1 if each[column] is None else int(each[column] or 0) for name, each in _NUMBERS.items()}


CALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *given):
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    wide += [ctypes.c_long(0)] * (6 - len(wide))
    got = libc.syscall(ctypes.c_long(number), *wide)
    if got == -1: raise OSError(ctypes.get_errno(), 'refused')
    return got
def reached(number, *given):
    try: call(number, *given)
    except OSError as error: return 'absent' if error.errno == 38 else 'out'
    return 'out'
room = ctypes.create_string_buffer(4096)
"""


def _asks(kind: str, name: str, body: str, **more) -> Hostile:
    return _hostile(name, CALL + body, **{"kind": kind, "filtered": True, **more})


def _reaches(kind: str, name: str, asked: str, **more) -> Hostile:
    """One call: `asked` is its name, then its arguments."""
    call, _, given = asked.partition(" ")
    return _asks(kind, name, f"return reached({{calls[{call}]}}, {given})", **more)


_OTHERS = [
    _reaches("others", "read a sibling's memory by a call", "process_vm_readv {sibling}, 0, 0, 0, 0, 0"),
    _reaches("others", "write a sibling's memory by a call", "process_vm_writev {sibling}, 0, 0, 0, 0, 0"),
    _reaches("others", "a handle of a sibling", "pidfd_open {sibling}, 0"),
    _asks(
        "others",
        "a signal by a folder of /proc",
        """
fd = os.open('/proc/{sibling}', os.O_RDONLY)
return reached({calls[pidfd_send_signal]}, fd, 0, 0, 0)""",
    ),
    _asks(
        "others",
        "a sibling's descriptor",
        """
return reached({calls[pidfd_getfd]}, os.open('/proc/{sibling}', os.O_RDONLY), 0, 0)""",
    ),
    _asks(
        "others",
        "advice for a sibling's memory",
        """
return reached({calls[process_madvise]}, os.open('/proc/{sibling}', os.O_RDONLY), 0, 0, 21, 0)""",
    ),
    _reaches("others", "compare a sibling", "kcmp os.getpid(), {sibling}, 2, 0, 0"),
    _reaches("others", "move a sibling's memory", "migrate_pages {sibling}, 0, 0, 0"),
    _reaches("others", "a sibling's list of locks", "get_robust_list {sibling}, room, room"),
    _reaches("others", "a signal with a message to a thread", "rt_tgsigqueueinfo {sibling}, {sibling}, 0, room"),
    _asks("others", "the priority of a sibling's disk", "return reached({calls[ioprio_set]}, 1, {sibling}, 0x6000)"),
]
_PROCESSES = [
    _asks(
        "processes",
        "clone by its newest call",
        """
ctypes.memmove(ctypes.addressof(room) + 32, (17).to_bytes(8, 'little'), 8)
if call({calls[clone3]}, room, 88) == 0: os._exit(0)
return 'out'""",
    ),
    _hostile(
        "spawn",
        """
        import os
        os.posix_spawn('{python}', ['python', '-c', ''], dict())
        return 'out'""",
        kind="processes",
        filtered=True,
    ),
    _hostile(
        "a process with a terminal",
        """
        import os
        if os.forkpty()[0] == 0: os._exit(0)
        return 'out'""",
        kind="processes",
        filtered=True,
    ),
    _reaches("processes", "a program that is no file", "execveat -1, b'', 0, 0, 0x1000"),
    _reaches("processes", "a nameless file to run", "memfd_create b'x', 0"),
    _reaches("processes", "memory that the kernel cannot see", "memfd_secret 0"),
    _hostile("leave the session", "import os; os.setsid(); return 'out'", kind="processes"),
    _hostile("a group of its own", "import os; os.setpgid(0, 0); return 'out'", kind="processes"),
    _hostile("become another user", "import os; os.setresuid(1, 1, 1); return 'out'", kind="processes"),
    _reaches("processes", "take capabilities", "capset 0, 0"),
    _asks("processes", "cut the tie to the parent", "return reached({calls[prctl]}, 1, 0)"),
    _asks("processes", "let others look inside", "return reached({calls[prctl]}, 4, 1)"),
    _asks("processes", "anybody may trace", "return reached({calls[prctl]}, 0x59616d61, -1)"),
    _asks("processes", "collect orphans", "return reached({calls[prctl]}, 36, 1)"),
    _asks("processes", "another command line", "return reached({calls[prctl]}, 35, 8, 4096)"),
    _asks(
        "processes",
        "a filter that allows all",
        """
step = (6).to_bytes(8, 'little')[:4] + (0x7FFF0000).to_bytes(4, 'little')
steps = ctypes.create_string_buffer(step, 8)
ctypes.memmove(room, (1).to_bytes(8, 'little') + ctypes.addressof(steps).to_bytes(8, 'little'), 16)
return reached({calls[prctl]}, 22, 2, room)""",
    ),
    _reaches("processes", "listen to the filter", "seccomp 1, 8, room"),
    _reaches("processes", "own rules of Landlock", "landlock_create_ruleset 0, 0, 1"),
    _hostile(
        "machine code that forks",
        """
        import ctypes, mmap, os
        if os.uname().machine != 'x86_64': return ''
        code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
        code.write(bytes.fromhex('b8390000000f05c3'))  # fork, past the C library
        got = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        if got == 0: os._exit(0)
        return 'out' if got > 0 else 'absent'""",
        kind="processes",
        how=("value", "killed"),
        filtered=True,
    ),
    # which the kernel lets past every filter, and answers with a signal
    _asks("processes", "the kernel's own way back", "call(335)\nreturn ''", how=("killed", "error"), filtered=False),
    _asks("processes", "a forged frame of a signal", "call({calls[rt_sigreturn]})", how=("killed",), filtered=False),
]
_KERNEL = [
    _reaches("kernel", "faults of memory as messages", "userfaultfd 1"),
    _reaches("kernel", "a program for the kernel", "bpf 0, room, 64"),
    _reaches("kernel", "counters of the processor", "perf_event_open room, 0, -1, -1, 0"),
    _reaches("kernel", "another personality", "personality 0x0040000"),
    _reaches("kernel", "segments of its own", "modify_ldt 0, room, 16"),
    _reaches("kernel", "the ports of the machine", "iopl 3"),
    _reaches("kernel", "one port of the machine", "ioperm 0x80, 1, 1"),
    _reaches("kernel", "all memory locked", "mlockall 1"),
    _reaches("kernel", "a barrier for all processors", "membarrier 0, 0, 0"),
    _reaches("kernel", "deadlines of the scheduler", "sched_setattr 0, room, 0"),
    _hostile(
        "real time",
        "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); return 'out'",
        kind="kernel",
    ),
    _reaches("kernel", "old asynchronous input", "io_setup 1, room"),
    _reaches("kernel", "another kernel", "kexec_load -1, -1, -1, -1"),
    _reaches("kernel", "a module for the kernel", "finit_module -1, b'', 0"),
    _reaches("kernel", "a module less", "delete_module b'none-{canary}', 2048"),
    _reaches("kernel", "restart", "reboot 0, 0, 0, 0"),
    _reaches("kernel", "a host name", "sethostname room, -1"),
    _reaches("kernel", "the clock", "clock_settime -1, room"),
    _reaches("kernel", "the clock by and by", "adjtimex 0"),
    _reaches("kernel", "the kernel's messages", "syslog 10, 0, 0"),
    _reaches("kernel", "accounts of processes", "acct b'/{canary}/none'"),
    _reaches("kernel", "quotas", "quotactl -1, 0, 0, 0"),
    _reaches("kernel", "memory on a disk", "swapon b'/{canary}/none', 0"),
    _reaches("kernel", "no memory on a disk", "swapoff b'/{canary}/none'"),
    _reaches("kernel", "a key that stays", "add_key b'user', b'{canary}', b'x', 1, -2"),
    _reaches("kernel", "another's key", "request_key b'user', b'none-{canary}', 0, 0"),
]
_MOUNTS = [
    _reaches("mounts", "a file system by parts", "fsopen b'tmpfs', 0"),
    _reaches("mounts", "a copy of the tree", "open_tree -100, b'/', 1"),
    _reaches("mounts", "move a mount", "move_mount -1, b'', -1, b'', 4"),
    _reaches("mounts", "a mount that may be written", "mount_setattr -1, b'', 0, room, 0"),
    _reaches("mounts", "take a mount away", "umount2 b'/{canary}/none', 2"),
    _reaches("mounts", "another root", "pivot_root b'/{canary}/none', b'/{canary}/none'"),
    _asks(
        "mounts",
        "the network of another",
        """
return reached({calls[setns]}, os.open('/proc/self/ns/net', os.O_RDONLY), 0)""",
    ),
    _reaches("mounts", "a file's handle", "name_to_handle_at -100, b'/', room, room, 0"),
    _reaches("mounts", "a file by its handle", "open_by_handle_at -1, room, 0"),
]
_MESSAGES = [
    _asks(
        "messages",
        "memory that is shared",
        """
found = call({calls[shmget]}, 0, 4096, 0o600)
call({calls[shmctl]}, found, 0, 0)
return 'out'""",
    ),
    _asks(
        "messages",
        "semaphores",
        """
found = call({calls[semget]}, 0, 1, 0o600)
call({calls[semctl]}, found, 0, 0, 0)
return 'out'""",
    ),
    _asks(
        "messages",
        "a queue of messages",
        """
found = call({calls[msgget]}, 0, 0o600)
call({calls[msgctl]}, found, 0, 0)
return 'out'""",
    ),
    _asks(
        "messages",
        "a named queue of messages",
        """
call({calls[mq_open]}, b'{canary}', 0o102, 0o600, 0)
call({calls[mq_unlink]}, b'{canary}')
return 'out'""",
    ),
    _asks("messages", "be told of new files", "return reached({calls[inotify_init1]}, 0)"),
    _reaches("messages", "be told of all files", "fanotify_init 0, 0"),
    _hostile(
        "be told of a folder by a signal",
        """
        import fcntl, os
        fcntl.fcntl(os.open('/', os.O_RDONLY), fcntl.F_NOTIFY, 2)
        return 'out'""",
        kind="messages",
    ),
    _asks(
        "messages",
        "move a pipe's pages",
        """
(r, w), (_, other) = os.pipe(), os.pipe()
os.write(w, b'x')
return reached({calls[splice]}, r, 0, other, 0, 1, 0)""",
    ),
    _asks(
        "messages",
        "double a pipe's pages",
        """
(r, w), (_, other) = os.pipe(), os.pipe()
os.write(w, b'x')
return reached({calls[tee]}, r, other, 1, 0)""",
    ),
    _reaches("messages", "own pages for a pipe", "vmsplice os.pipe()[1], 0, 0, 0"),
    _hostile(
        "a large pipe",
        """
        import fcntl, os
        fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)
        return 'out'""",
        kind="messages",
        filtered=True,
    ),
    _hostile(
        "pipes that nobody waits for",
        """
        import fcntl, os
        for fd in (0, 1, 2): fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
        return 'out'""",
        kind="messages",
        filtered=True,
    ),
    _hostile(
        "a timer by and by",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 60); return 'out'",
        kind="messages",
        filtered=True,
    ),
    _hostile(
        "an alarm",
        "import signal; signal.alarm(60); return 'out' if signal.alarm(0) in (59, 60) else ''",
        kind="messages",
        filtered=True,
    ),
    _reaches("messages", "a timer as a file", "timerfd_create 1, 0"),
    _reaches("messages", "signals as a file", "signalfd4 -1, room, 8, 0"),
    _hostile("a counter as a file", "import os; os.eventfd(0); return 'out'", kind="messages", filtered=True),
    _hostile("many descriptors at once", "import select; select.epoll(); return 'out'", kind="messages", filtered=True),
]


def _socket(name: str, words: str, **more) -> Hostile:
    return _hostile(name, f"import socket as s\ns.socket({words})\nreturn 'out'", kind="sockets", **more)


_SOCKETS = [
    _socket("the kernel's own sockets", "s.AF_NETLINK, s.SOCK_RAW, 0", filtered=True),
    _socket("all packets", "s.AF_PACKET, s.SOCK_RAW, 0"),
    _socket("the kernel's ciphers", "38, s.SOCK_SEQPACKET, 0"),
    _socket("the host of this machine", "40, s.SOCK_STREAM, 0"),
    _socket("raw messages", "s.AF_INET, s.SOCK_RAW, 1"),
    _socket("the next Internet", "s.AF_INET6, s.SOCK_DGRAM, 0"),
    _hostile(
        "hand over a descriptor",
        """
        import array, os, socket
        one, other = socket.socketpair()
        one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])
        return 'out'""",
        kind="sockets",
        filtered=True,
    ),
    _asks("sockets", "send by what is open", "return reached({calls[sendmsg]}, 1, room, 0)"),
    _hostile(
        "serve",
        """
        import socketserver
        socketserver.TCPServer(('127.0.0.1', 0), None)
        return 'out'""",
        kind="sockets",
        filtered=True,
    ),
]
ALL = [*_OTHERS, *_PROCESSES, *_KERNEL, *_MOUNTS, *_MESSAGES, *_SOCKETS]

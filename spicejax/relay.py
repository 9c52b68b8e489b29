"""A port of this process alone that leads to another process, and that tells when the other end is gone.

JAX's client, directly connected to process 0, aborts with ten lines at the moment process 0 dies. Behind a relay it
sees a connection that is silent, and we are told.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

CHUNK = 2**16  # bytes that are handed on at once
GLANCE = 0.2  # seconds between two tries to reach the other end


class Relay:
    """Hands on, both ways, whatever is sent over connections to `address`."""

    def __init__(self, host: str, port: int, gone: Callable[[], None]) -> None:
        """gone: is called, in a thread, where the other end closes a connection that this end still has open."""
        self._to, self._gone = (host.strip("[]"), port), gone
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            threading.Thread(target=self._lead, args=(near,), daemon=True).start()

    def _lead(self, near: socket.socket) -> None:
        far, left = self._reach(), threading.Event()

        def leave() -> None:
            _hand_on(near, far)
            left.set()
            with contextlib.suppress(OSError):
                far.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=leave, daemon=True).start()
        _hand_on(far, near)
        if not left.is_set():
            self._gone()
        with contextlib.suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)
        far.close()

    def _reach(self) -> socket.socket:
        """Connect to the other end, which may not be there yet; whoever waits for it knows for how long."""
        while True:
            try:
                far = socket.create_connection(self._to)
                far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return far
            except OSError:
                time.sleep(GLANCE)


def _hand_on(source: socket.socket, sink: socket.socket) -> None:
    """Hand on what comes, to its end."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)

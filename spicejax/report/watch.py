"""A server of the page of runs while they go on; it listens on this machine alone unless asked otherwise."""

from __future__ import annotations

import http.server
import io
import ipaddress
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spicejax.report.page import render
from spicejax.report.read import open_run, stages_of

log = logging.getLogger(__name__)

PATIENCE = 10.0  # seconds in which a request is heard whole, and in which an answer is taken whole
MOST = 64  # connections at once; one more is closed
_FILES = ("metrics.jsonl", "evaluations.jsonl", "tasks.jsonl", "summary.json", "config.json")


def server(folders: Sequence[Path], *, host: str, port: int, every: int) -> http.server.ThreadingHTTPServer:
    """A server, not yet serving, of the page at / and of what it polls at /version.

    Args:
      folders: work folders; of a chain all stages that there are when the page is asked for.
      host: the address it listens on, or a name of it. Only requests that name it, or this machine, are answered: a
        web page elsewhere cannot read it through a name of its own.
      port: 0 = any that is free.
      every: seconds between two checks of the page for something new.
    Raises: OSError where this machine has no such address, or the port is taken.
    """
    made: dict[str, bytes] = {}
    drawing = threading.Lock()  # requests have threads of their own, matplotlib has none

    def version() -> str:
        stats = [(p / name).stat() for p in _stages(folders) for name in _FILES if (p / name).exists()]
        return "-".join(f"{s.st_mtime_ns}.{s.st_size}" for s in stats)

    def page() -> bytes:
        with drawing:
            now = version()
            if now not in made:
                made.clear()
                made[now] = render([open_run(folder) for folder in _stages(folders)], live=every, version=now).encode()
            return made[now]

    handler = type("Handler", (_Handler,), {"answers": {"/": page, "/version": lambda: version().encode()}})
    handler.names = _names(host)
    try:
        addresses: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)  # IPv4 first
        return type("Server", (_Server,), {"address_family": family})(address, handler)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen on {in_url(host)}:{port}: {why}; choose --host and --port") from error


def in_url(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _names(host: str) -> set[str]:
    """What a request may call this machine; empty = anything, where it listens on all its addresses."""
    try:
        address: Any = ipaddress.ip_address(host)
    except ValueError:
        return {host.lower(), "localhost", "127.0.0.1", "[::1]"}
    return set() if address.is_unspecified else {in_url(str(address)), "localhost", "127.0.0.1", "[::1]"}


def _stages(folders: Sequence[Path]) -> list[Path]:
    """The work folders that hold something by now."""
    stages = [stage for folder in folders for stage in stages_of(folder)]
    return [stage for stage in stages if (stage / "metrics.jsonl").exists() or (stage / "config.json").exists()]


class _Server(http.server.ThreadingHTTPServer):
    """A thread for each connection, of which there are MOST."""

    def __init__(self, *args: Any) -> None:
        self._free = threading.BoundedSemaphore(MOST)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Heard(io.RawIOBase):
    """What a connection sends within PATIENCE seconds in all."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._end = connection, time.monotonic() + PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._connection.settimeout(max(self._end - time.monotonic(), 1e-3))
        return self._connection.recv_into(buffer)


class _Handler(http.server.BaseHTTPRequestHandler):
    answers: dict[str, Callable[[], bytes]]
    names: set[str]  # that a request may call this machine; empty = any

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Heard(self.connection))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        called = re.sub(r":\d+$", "", self.headers.get("Host", "").lower())
        if self.names and called not in self.names:
            self.send_error(403, "this address is not served; start it with --host=ADDRESS")
        elif path not in self.answers:
            self.send_error(404)
        else:
            try:
                body = self.answers[path]()
            except Exception as error:  # whatever a file of the run holds: the next look may find it mended
                why = f"{type(error).__name__}: {error}".partition("\n")[0]
                log.warning("the page cannot be made (%.300s)", why)
                return self.send_error(500, "the page cannot be made", f"{why:.300}")
            self.connection.settimeout(PATIENCE)  # of all that is sent
            self.send_response(200)
            self.send_header("Content-Type", f"text/{'html' if path == '/' else 'plain'}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

"""Serves the page of runs while they go on, to this machine unless asked otherwise."""

from __future__ import annotations

import http.server
from collections.abc import Callable, Sequence
from pathlib import Path

from spicejax.report.page import render
from spicejax.report.read import open_run, stages_of

_FILES = ("metrics.jsonl", "evaluations.jsonl", "tasks.jsonl", "summary.json", "config.json")


def server(folders: Sequence[Path], *, host: str, port: int, every: int) -> http.server.ThreadingHTTPServer:
    """A server, not yet serving, of the page at / and of what it polls at /version.

    Args:
      folders: work folders; of a chain all stages that there are when the page is asked for.
      host: the address it listens on. Only requests that name it, or this machine, are answered: a web page elsewhere
        cannot read it through a name of its own.
      port: 0 = any that is free.
      every: seconds between two looks of the page.
    Raises: OSError where the port is taken.
    """
    made: dict[str, bytes] = {}

    def version() -> str:
        stats = [(p / name).stat() for p in _stages(folders) for name in _FILES if (p / name).exists()]
        return "-".join(f"{s.st_mtime_ns}.{s.st_size}" for s in stats)

    def page() -> bytes:
        now = version()
        if now not in made:
            made.clear()
            made[now] = render([open_run(folder) for folder in _stages(folders)], live=every, version=now).encode()
        return made[now]

    handler = type("Handler", (_Handler,), {"answers": {"/": page, "/version": lambda: version().encode()}})
    found = http.server.ThreadingHTTPServer((host, port), handler)
    handler.names = {host, "localhost", "127.0.0.1", "[::1]"} if host not in ("0.0.0.0", "::") else set()
    return found


def _stages(folders: Sequence[Path]) -> list[Path]:
    """The work folders that hold something by now."""
    stages = [stage for folder in folders for stage in stages_of(folder)]
    return [stage for stage in stages if (stage / "metrics.jsonl").exists() or (stage / "config.json").exists()]


class _Handler(http.server.BaseHTTPRequestHandler):
    answers: dict[str, Callable[[], bytes]]
    names: set[str]  # that a request may call this machine; empty = any

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.names and self.headers.get("Host", "").rpartition(":")[0] not in self.names:
            self.send_error(403, "this address is not served; start it with --host=ADDRESS")
        elif path not in self.answers:
            self.send_error(404)
        else:
            body = self.answers[path]()
            self.send_response(200)
            self.send_header("Content-Type", f"text/{'html' if path == '/' else 'plain'}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

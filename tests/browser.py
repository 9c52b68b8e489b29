"""A real browser without a window, driven over its DevTools protocol through two pipes."""

import contextlib
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing leaves this machine
    "--remote-debugging-pipe",
)


class Browser:
    """One tab."""

    def __init__(self, to: int, back: int) -> None:
        """to, back: descriptors that it reads commands from, and writes answers to."""
        self._to, self._back, self._read, self._sent, self._session = to, back, b"", 0, None
        self._events: list[str] = []
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **words: Any) -> Any:
        """A command of the protocol; its result."""
        self._sent += 1
        where = {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps({"id": self._sent, "method": method, "params": words} | where).encode() + b"\0")
        while (said := self._next()).get("id") != self._sent:
            self._events.append(said.get("method", ""))
        assert "error" not in said, f"{method}: {said['error']}"
        return said["result"]

    def open(self, address: str) -> None:
        """Open a page, and wait until all of it is there and what it has to do at once is done."""
        self._events.clear()
        assert "errorText" not in (found := self.call("Page.navigate", url=address)), found
        while "Page.loadEventFired" not in self._events:
            self._events.append(self._next().get("method", ""))
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))")

    def run(self, expression: str) -> Any:
        """The value of JavaScript; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def write(self, into: str, text: str) -> None:
        """Write into an input as a keyboard would, instead of what is there."""
        self.run(f"(document.querySelector({json.dumps(into)}).focus(), document.activeElement.select())")
        self.call("Input.insertText", text=text)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            assert select.select([self._back], [], [], PATIENCE)[0], "the browser says nothing"
            more = os.read(self._back, 2**20)
            assert more, "the browser ended"
            self._read += more
        said, _, self._read = self._read.partition(b"\0")
        return json.loads(said)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a new profile; the test skips where none is installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser is installed ({', '.join(NAMES)}): apt install chromium")
    commands, to = os.pipe()
    back, answers = os.pipe()
    # it takes them as descriptors 3 and 4
    script = 'exec "${@:3}" 3<&"$1" 4>&"$2"'
    words = ["bash", "-c", script, "bash", str(commands), str(answers), program, *FLAGS, f"--user-data-dir={profile}"]
    with (profile.parent / "browser.log").open("w") as log:
        process = subprocess.Popen(words, pass_fds=(commands, answers), stdout=log, stderr=log)
        try:
            for end in (commands, answers):
                os.close(end)
            yield Browser(to, back)
        finally:
            process.kill()
            process.wait()
            for end in (to, back):
                os.close(end)

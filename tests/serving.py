"""The real retriever server, as a process of its own."""

import contextlib
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from processes import PATIENCE

SERVER = Path(__file__).parents[1] / "launch" / "serve_retriever.py"


@contextlib.contextmanager
def serving(corpus, port):
    """Serve a corpus by words; yields the process when it answers."""
    words = [sys.executable, SERVER, "--engine=words", "--words=0", f"--corpus={corpus}", f"--port={port}"]
    process = subprocess.Popen(words)
    try:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=PATIENCE).close()
                break
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()

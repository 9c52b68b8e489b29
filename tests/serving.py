"""Servers on localhost: the real retriever as a process of its own, and one that answers as a test tells it to."""

import contextlib
import http.server
import json
import subprocess
import sys
import threading
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


@contextlib.contextmanager
def answering(*answers):
    """Serve POST requests; yields the address. Each answer, JSON to (status, bytes), is given once, the last often."""
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, said = (left.pop(0) if len(left) > 1 else left[0])(asked)
            self.send_response(status)
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # who asked waits no longer
                self.wfile.write(said)

        def log_message(self, *_):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{made.server_address[1]}"
    finally:
        made.shutdown()
        made.server_close()

"""Follow runs in a browser while they go on: spicejax watch RUN [RUN ...] [--port=8765] [--host=127.0.0.1]

Serves the page of `spicejax report`, which takes what is new without losing your place. Only this machine sees it
unless --host says otherwise (0.0.0.0, or :: with IPv6: whoever reaches this machine sees tasks and documents). Of a
remote machine: ssh -L 8765:localhost:8765 MACHINE, and open http://localhost:8765 here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spicejax.commands import Parser
from spicejax.report import watch

EVERY = 5  # seconds between two looks of the page


def main(argv: Sequence[str]) -> None:
    """Serve until interrupted."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("run", nargs="+", type=Path, metavar="RUN", help="work folder")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8765, help="0 = any that is free")
    options = parser.parse_args(argv)
    for run in options.run:
        if not run.is_dir():
            raise FileNotFoundError(f"{run} is no folder; give the --workdir of a run")
    if not options.host or not 0 <= options.port < 65536:
        raise ValueError(f"--host={options.host} --port={options.port}: give an address, and a port up to 65535")
    with watch.server(options.run, host=options.host, port=options.port, every=EVERY) as found:
        print(f"http://{watch.in_url(options.host)}:{found.server_port}  (Ctrl-C ends it)", flush=True)
        try:
            found.serve_forever()
        except KeyboardInterrupt:
            print()

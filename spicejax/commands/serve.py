"""Serve an index, or a small corpus, to runs on other machines: POST /retrieve and /queries, GET /status.

spicejax serve --index=indexes/wiki --encoder=FOLDER --port=5003
spicejax serve --engine=words --corpus=facts --words=0

A run takes it with retrieval.engine=http retrieval.url=http://HOST:5003/retrieve.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from spicejax import sharding
from spicejax.commands import Parser
from spicejax.retrieval.source import RetrievalConfig, open_search
from spicejax.sharding import MeshConfig


def main(argv: Sequence[str]) -> None:
    """Serve until stopped."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--index", default="", help="folder that spicejax index wrote")
    parser.add_argument("--encoder", default="", help="what it was built with: Hugging Face folder, or package:NAME")
    parser.add_argument("--engine", default="scann", choices=("scann", "in_graph", "words"), help="as retrieval.engine")
    parser.add_argument("--corpus", default="", help="engine words without an index: the passages of this corpus")
    parser.add_argument("--words", type=int, default=100, help="its longest passage; 0 = documents as they are given")
    parser.add_argument("--follow_links", action="store_true", help="take what links out of its folder lead to")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 = all of this machine")
    parser.add_argument("--port", type=int, default=5003)
    options = parser.parse_args(argv)
    try:
        from spicejax.retrieval import serve
    except ImportError as error:
        raise ImportError('the server is not installed: pip install "spicejax[serve]"') from error
    _require_port(options.host, options.port)
    names = ("engine", "index", "encoder", "corpus", "words", "follow_links")
    cfg = RetrievalConfig(**{name: getattr(options, name) for name in names})
    search = open_search(cfg, sharding.make_mesh(MeshConfig()))
    search(["who"], 1)  # compiles before anybody waits for it
    serve.run(search, options.host, options.port)


def _require_port(host: str, port: int) -> None:
    """Raise OSError where nothing can listen there: found out before an index is read."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen on {host}:{port}: {why}; choose --host and --port") from error

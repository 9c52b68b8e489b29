"""Searching on a server: the protocols of Search-R1 and SSP (/retrieve) and of R1-Searcher (/queries)."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from spicejax.data import sources
from spicejax.remote import Server, ServerError, ask
from spicejax.retrieval.passages import readable
from spicejax.retrieval.search import Search
from spicejax.types import Passage

BATCH = 64  # queries of a request


def search(url: str, *, timeout: float, tries: int) -> Search:
    """Search on a server; `url` is the whole address, such as http://localhost:5003/retrieve.

    The first host asks and sends the answer to the others. A request that fails for any reason is tried `tries` times
    in all, waiting 1, 2, 4 ... 60 seconds in between.

    Args:
      timeout: seconds from the begin of a request to the end of its answer.
    Raises: ValueError for another protocol; ServerError, on all hosts, where the server does not answer now.
      The search raises ServerError too, and interrupt.Stopped after a signal.
    """
    name = url.rstrip("/").rpartition("/")[2]
    if not url.startswith(("http://", "https://")) or name not in PROTOCOLS:
        known = " or ".join(f"/{p}" for p in PROTOCOLS)
        raise ValueError(f"retrieval.url={url}: give the whole address, http://HOST:PORT and {known}")
    body_of, passages_of = PROTOCOLS[name]
    server = Server(f"retriever {url}", url, "retrieval", timeout, tries)

    def find(queries: Sequence[str], k: int, server: Server = server) -> list[list[Passage]]:
        if k < 1:
            raise ValueError(f"k={k}: ask for at least one passage")

        def read(body: dict[str, Any], answer: Any) -> list[list[list[str]]]:
            rows = passages_of(answer)
            if len(rows) != len(body["queries"]):
                raise ValueError(f"{len(rows)} lists for {len(body['queries'])} queries")
            return [row[:k] for row in rows]

        parts = ask(server, [body_of(list(queries[at : at + BATCH]), k) for at in range(0, len(queries), BATCH)], read)
        return [[Passage(*fields) for fields in row] for part in parts for row in part]

    try:
        find(["who"], 1, dataclasses.replace(server, tries=1))
    except ServerError as error:
        raise ServerError(f"{error}; start it (launch/serve_retriever.py) or correct retrieval.url") from None
    return find


def _retrieve_passages(answer: Any) -> list[list[list[str]]]:
    return [[_document(entry["document"]) for entry in row] for row in answer["result"]]


def _document(document: dict[str, Any]) -> list[str]:
    """[id, title, text]; contents are a title in quotation marks, a line end and the text."""
    contents = readable(document["contents"])
    title, end, text = contents.partition("\n")
    parts = sources.titled(contents) or ((title.strip(), text) if end else ("", contents))
    declared = document.get("id")
    return [_name(contents) if declared is None else readable(str(declared)), *parts]


def _queries_passages(answer: Any) -> list[list[list[str]]]:
    return [[[_name(contents), "", contents] for contents in map(readable, row)] for row in answer["answers"]]


def _name(text: str) -> str:
    """Make an id for a passage without one; games identify passages by it."""
    return f"{zlib.crc32(text.encode()):08x}"


_Protocol = tuple[Callable[[list[str], int], dict[str, Any]], Callable[[Any], list[list[list[str]]]]]
PROTOCOLS: dict[str, _Protocol] = {
    "retrieve": (lambda queries, k: {"queries": queries, "topk": k, "return_scores": True}, _retrieve_passages),
    "queries": (lambda queries, k: {"queries": queries, "k": k}, _queries_passages),
}

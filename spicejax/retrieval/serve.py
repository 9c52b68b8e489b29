"""A search engine as a server that speaks both protocols of `remote`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from spicejax.retrieval.search import Search
from spicejax.types import Passage

MAX_TOGETHER = 256  # queries that are searched together
MAX_PASSAGES = 100  # of a query
MAX_QUERIES = 2**14  # of a request
MAX_BYTES = 8 * 2**20  # of a request


class _TooLarge(Exception):
    """A request larger than MAX_BYTES."""


class _Waiting(NamedTuple):
    """A request that waits for its passages."""

    queries: list[str]
    k: int
    result: asyncio.Future[list[list[Passage]]]


def app(search: Search) -> Starlette:
    """Serve POST /retrieve and /queries, GET /status. Requests that wait during a search are searched together next.

    A bad request gets status 400, a too large one 413, and {"error": one line}.
    """
    queue: asyncio.Queue[_Waiting] = asyncio.Queue()

    async def ask(queries: Any, k: Any) -> list[list[Passage]]:
        if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
            raise ValueError("queries: give a list of texts")
        if len(queries) > MAX_QUERIES:
            raise ValueError(f"{len(queries)} queries: give {MAX_QUERIES} at most")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_PASSAGES:
            raise ValueError(f"{k!r} passages a query: give 1 to {MAX_PASSAGES}")
        waiting = _Waiting(queries, k, asyncio.get_running_loop().create_future())
        await queue.put(waiting)
        return await waiting.result

    async def work() -> None:
        while True:
            batch = [await queue.get()]
            while not queue.empty() and sum(len(w.queries) for w in batch) < MAX_TOGETHER:
                batch.append(queue.get_nowait())
            together = [query for w in batch for query in w.queries]
            try:
                found = await asyncio.to_thread(search, together, max(w.k for w in batch))
            except Exception as error:
                for w in batch:
                    if not w.result.cancelled():
                        w.result.set_exception(RuntimeError(str(error)))
                continue
            at = 0
            for w in batch:
                if not w.result.cancelled():
                    w.result.set_result([row[: w.k] for row in found[at : at + len(w.queries)]])
                at += len(w.queries)

    async def parsed(request: Request) -> Any:
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > MAX_BYTES:
                raise _TooLarge(f"a request of more than {MAX_BYTES >> 20} MiB; send fewer queries at once")
        try:
            return json.loads(content)
        except RecursionError:
            raise ValueError("too deep to be read") from None

    async def retrieve(request: Request) -> JSONResponse:
        body = await parsed(request)
        found = await ask(body["queries"], 3 if body.get("topk") is None else body["topk"])
        rows = [[{"id": p.id, "contents": f'"{p.title}"\n{p.text}'} for p in row] for row in found]
        if body.get("return_scores"):  # engines score differently, so none is given
            return JSONResponse({"result": [[{"document": d, "score": None} for d in row] for row in rows]})
        return JSONResponse({"result": rows})

    async def queries(request: Request) -> JSONResponse:
        body = await parsed(request)
        found = await ask(body["queries"], 3 if body.get("k") is None else body["k"])
        return JSONResponse({"answers": [[f"{p.title} {p.text}".strip() for p in row] for row in found]})

    async def status(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "waiting": queue.qsize()})

    def refused(_: Request, error: Exception) -> JSONResponse:
        text = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        return JSONResponse({"error": text}, status_code=413 if isinstance(error, _TooLarge) else 400)

    def failed(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=500)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        worker = asyncio.create_task(work())
        yield
        worker.cancel()

    post = [Route(f"/{handler.__name__}", handler, methods=["POST"]) for handler in (retrieve, queries)]
    bad = dict.fromkeys((ValueError, KeyError, TypeError, AttributeError, _TooLarge), refused)
    return Starlette(
        routes=[*post, Route("/status", status)],
        exception_handlers={**bad, RuntimeError: failed},
        lifespan=lifespan,
    )

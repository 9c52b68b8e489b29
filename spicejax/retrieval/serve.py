"""A search engine as a server that speaks both protocols of `remote`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from spicejax.retrieval.search import Search
from spicejax.types import Passage

MAX_TOGETHER = 256  # queries that are searched together
MAX_PASSAGES = 100  # of a query
MAX_QUERIES = 2**14  # of a request
MAX_BYTES = 8 * 2**20  # of a request
MAX_CONNECTIONS = 512  # at once; one more is closed
PATIENCE = 60.0  # seconds in which the head of a request comes whole, and then its body


class _TooLarge(Exception):
    """A request larger than MAX_BYTES."""


class _Waiting(NamedTuple):
    """A request that waits for its passages."""

    queries: list[str]
    k: int
    result: asyncio.Future[list[list[Passage]]]


class Connection(H11Protocol):
    """A connection on which something must happen: uvicorn hears out one that drips, and waits for one that reads not.

    Every PATIENCE seconds it is closed if it has neither begun nor ended a request since, or took nothing of an answer.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # as uvicorn
        super().connection_made(transport)
        self._answered, self._timer = 0, None
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._look_after(self._state())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def on_response_complete(self) -> None:
        self._answered += 1
        super().on_response_complete()

    def _state(self) -> tuple[int, bool, int]:
        """Answers made, whether one is being made, bytes that wait to be taken."""
        busy = self.cycle is not None and not self.cycle.response_complete
        return self._answered, busy, self.transport.get_write_buffer_size()

    def _look_after(self, before: tuple[int, bool, int]) -> None:
        def look() -> None:
            answered, busy, waiting = now = self._state()
            same = answered == before[0]
            if same and (waiting >= before[2] > 0 or not (waiting or busy or before[1])):
                self.transport.abort()
            else:
                self._look_after(now)

        self._timer = self.loop.call_later(PATIENCE, look)


def run(search: Search, host: str, port: int) -> None:
    """Serve `app` until a signal."""
    uvicorn.run(app(search), host=host, port=port, log_level="warning", http=Connection)


def app(search: Search) -> Starlette:
    """Serve POST /retrieve and /queries, GET /status. Requests that wait during a search are searched together next.

    A bad request gets status 400, a too large one 413, one whose body does not come 408, and {"error": one line}.
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
        async with asyncio.timeout(PATIENCE):
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

    def late(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse({"error": f"the request did not come whole in {PATIENCE:g} s"}, status_code=408)

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
        exception_handlers={**bad, RuntimeError: failed, TimeoutError: late},
        lifespan=lifespan,
    )

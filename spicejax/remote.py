"""Asking a server that may be slow, gone, confused or hostile: JSON over HTTP, tried again after growing waits."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import logging
import os
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx2

from spicejax import hosts, interrupt
from spicejax.errors import SpicejaxError, plain

log = logging.getLogger("spicejax")

WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds before the second try, doubled up to the longest
LARGEST = 32 * 2**20  # bytes of an answer; 64 queries with 20 passages of 100 words take 1 MiB
SHOWN = 200  # characters of what a server says that messages show

T = TypeVar("T")


class ServerError(SpicejaxError):
    """A server is gone, or does not say what it should; the text says which server and what it did."""


@dataclasses.dataclass(frozen=True)
class Server:
    """Where requests go, and how long it is waited for."""

    who: str  # as messages name it
    url: str
    setting: str  # section of the configuration that has the timeout
    timeout: float  # seconds from the beginning of a request to the end of its answer
    tries: int  # times a request is tried, waiting 1, 2, 4 ... 60 seconds in between
    at_once: int = 1  # requests
    key: str = dataclasses.field(default="", repr=False)  # bearer token, for this address alone


def ask(server: Server, bodies: Sequence[Any], read: Callable[[Any, Any], T]) -> list[T]:
    """Send each body as JSON; return what `read` makes of the answers. The first host asks and tells the others.

    A request fails for whatever it or `read` raises, an answer larger than LARGEST and a redirect included: nothing is
    sent to an address that nobody named.

    Args:
      read: called with a body and the JSON of its answer; returns something JSON-able, or raises where it is none.
    Raises: ServerError where all tries of a request failed, interrupt.Stopped where a signal came meanwhile, on
      all hosts.
    """

    def act() -> list[T]:
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:  # a notebook's own thread has a loop that runs already
            try:
                return pool.submit(asyncio.run, _unless_stopped(_all(server, bodies, read), over)).result()
            finally:
                over.set()

    return hosts.by_first(act)


async def _unless_stopped(work: Any, over: threading.Event) -> Any:
    """Do the work; leave it where this process is asked to stop, or nobody waits for it any more."""
    task = asyncio.ensure_future(work)
    while not (await asyncio.wait([task], timeout=interrupt.GLANCE))[0]:
        if over.is_set() or interrupt.requested():
            raise interrupt.Stopped("stopped while a server was asked")  # leaving the loop ends the task
    return task.result()


async def _all(server: Server, bodies: Sequence[Any], read: Callable[[Any, Any], T]) -> list[T]:
    free = asyncio.Semaphore(server.at_once)
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {server.key}"} if server.key else {}
    try:  # the deadline of `_once` covers all that could take time; redirects are not followed
        opened = httpx2.AsyncClient(headers=headers, timeout=None, verify=_trusted())
    except (ImportError, ValueError) as error:  # a proxy that the environment names and that cannot be used
        raise ServerError(f"{server.who}: {error}; unset ALL_PROXY, or name another proxy there") from error
    async with opened as client:

        async def one(body: Any) -> T:
            async with free:
                return await _patiently(server, client, body, read)

        return await asyncio.gather(*map(one, bodies))


@functools.cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _patiently(server: Server, client: httpx2.AsyncClient, body: Any, read: Callable[[Any, Any], T]) -> T:
    reason = ""
    for n in range(1, server.tries + 1):
        try:
            async with asyncio.timeout(server.timeout):
                content = await _once(server, client, body)
            try:
                return read(body, json.loads(content))
            except Exception as error:
                raise _Odd(f"an answer that is none ({error or type(error).__name__})") from error
        except Exception as error:  # the library's, the system's, and what strange answers bring about here
            reason = plain(_said(error, server.setting))[: 2 * SHOWN]
            if n < server.tries:
                wait = min(WAIT * 2 ** min(n - 1, 30), LONGEST_WAIT)
                log.warning("%s: %s; trying again in %g s (%d of %d)", server.who, reason, wait, n + 1, server.tries)
                await asyncio.sleep(wait)
    raise ServerError(f"{server.who}: {reason}, {server.tries} times in a row")


class _Odd(Exception):
    """An answer that is not what was asked for; the text says how."""


async def _once(server: Server, client: httpx2.AsyncClient, body: Any) -> bytes:
    """The bytes of an answer, as they come: what is packed could grow without end."""
    async with client.stream("POST", server.url, content=json.dumps(body)) as response:
        found, right = bytearray(), response.is_success
        async for part in response.aiter_raw():
            found += part
            if len(found) > LARGEST:
                raise _Odd(f"an answer of more than {LARGEST >> 20} MiB")
            if not right and len(found) > SHOWN:
                break
        if response.is_redirect:
            to = response.headers.get("location", "")[:SHOWN]
            raise _Odd(f"status {response.status_code}: it names another address, {to}, which is not asked")
        if not right:
            raise _Odd(f"status {response.status_code} ({found[:SHOWN].decode(errors='replace')})")
        return bytes(found)


def _said(error: BaseException, setting: str) -> str:
    """One line about a request that failed."""
    if isinstance(error, TimeoutError):
        return f"no answer in time ({setting}.timeout)"
    if isinstance(error, _Odd):
        return str(error)
    while deeper := _below(error):  # to what the system said
        error = deeper
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def _below(error: BaseException) -> BaseException | None:
    """The error that caused another one."""
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    return error.__cause__ or error.__context__

"""Asking a server that may be slow, gone or talk nonsense: JSON over HTTP, tried again after growing waits."""

from __future__ import annotations

import http.client
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from spicejax.errors import SpicejaxError

log = logging.getLogger("spicejax")

WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds before the second try, doubled up to the longest

T = TypeVar("T")


class ServerError(SpicejaxError):
    """A server is gone, or does not say what it should; the text says which server and what it did."""


def post(url: str, body: Any, *, timeout: float, headers: Mapping[str, str] | None = None) -> Any:
    """Send JSON and return the JSON that comes back; `timeout` seconds without a sign of life are an error."""
    sent = {"Content-Type": "application/json"} | dict(headers or {})
    request = urllib.request.Request(url, json.dumps(body).encode(), sent)
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return json.load(response)


def patiently(ask: Callable[[], T], who: str, *, tries: int, setting: str) -> T:
    """What `ask` returns, at the first of `tries` that does not fail, waiting 1, 2, 4 ... 60 seconds in between.

    Args:
      ask: raises as `post` does, or ValueError, TypeError, LookupError, AttributeError for an answer that is none.
      who: the server, as messages name it. setting: the section of the configuration that has its timeout.
    Raises: ServerError.
    """
    said = ""
    for n in range(1, tries + 1):
        try:
            return ask()
        except (OSError, http.client.HTTPException, ValueError, TypeError, LookupError, AttributeError) as error:
            said = _said(error, setting)
            if n < tries:
                wait = min(WAIT * 2 ** (n - 1), LONGEST_WAIT)
                log.warning("%s: %s; trying again in %g s (%d of %d)", who, said, wait, n + 1, tries)
                time.sleep(wait)
    raise ServerError(f"{who}: {said}, {tries} times in a row")


def _said(error: Exception, setting: str) -> str:
    """One line about a request that failed."""
    if isinstance(error, urllib.error.HTTPError):
        return f"status {error.code} ({error.read(200).decode(errors='replace')})"
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return f"no answer in time ({setting}.timeout)"
    if isinstance(error, OSError | http.client.HTTPException):
        return f"{getattr(error, 'reason', None) or error or type(error).__name__}"
    return f"an answer that is none ({error or type(error).__name__})"

"""A model behind an OpenAI-compatible server, for what is asked of it in words alone, such as a judge's verdict."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from spicejax import hosts
from spicejax.remote import ServerError, patiently, post
from spicejax.types import Messages

AT_ONCE = 8  # requests
Chat = Callable[[Sequence[Messages]], list[str]]  # conversations to replies


@dataclasses.dataclass(frozen=True)
class EndpointConfig:
    """An OpenAI-compatible server. Its key, where it wants one, is read from the environment: OPENAI_API_KEY."""

    # http://HOST:PORT/v1; empty = none
    url: str = ""
    # name of the model there
    model: str = ""
    # longest reply, in tokens
    max_new: int = 16
    # seconds without a sign of life after which a request has failed
    timeout: float = 60.0
    # times a request is tried, waiting 1, 2, 4 ... 60 seconds in between
    tries: int = 5

    def __post_init__(self) -> None:
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"judge.url={self.url}: give the whole address, such as http://localhost:8000/v1")
        if self.url and not self.model:
            raise ValueError("judge.model is empty: name the model that the server is to ask")
        for name, least in (("max_new", 1), ("tries", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"judge.{name}={getattr(self, name)}: must be at least {least}")
        if self.timeout <= 0:
            raise ValueError(f"judge.timeout={self.timeout}: must be positive")


def chat(cfg: EndpointConfig) -> Chat:
    """Greedy replies of the server's model. The first host asks and tells the others.

    Raises: ServerError, on all hosts, where the server does not answer now; the replies themselves raise it too.
    """
    url = f"{cfg.url.rstrip('/')}/chat/completions"
    key = os.environ.get("OPENAI_API_KEY", "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    def once(messages: Messages) -> str:
        body = {"model": cfg.model, "messages": messages, "temperature": 0, "max_tokens": cfg.max_new}
        said = post(url, body, timeout=cfg.timeout, headers=headers)["choices"][0]["message"]["content"]
        if not isinstance(said, str):
            raise TypeError(f"content is {said!r:.40}, no text")
        return said

    def act(conversations: Sequence[Messages], tries: int) -> dict[str, Any]:
        def reply(messages: Messages) -> str:
            return patiently(functools.partial(once, messages), f"judge {url}", tries=tries, setting="judge")

        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                return {"replies": list(pool.map(reply, conversations))}
        except ServerError as error:  # told and not raised, so that it ends all hosts alike
            return {"error": str(error)}

    def replies(conversations: Sequence[Messages], tries: int = cfg.tries) -> list[str]:
        told = hosts.by_first(lambda: act(conversations, tries))
        if "error" in told:
            raise ServerError(told["error"])
        return told["replies"]

    try:
        replies([[{"role": "user", "content": "Say yes."}]], 1)
    except ServerError as error:
        raise ServerError(f"{error}; start it, or correct judge.url, judge.model or OPENAI_API_KEY") from None
    return replies

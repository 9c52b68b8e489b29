"""A model behind an OpenAI-compatible server, asked for text alone, such as a judge's verdict."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from spicejax.remote import Server, ServerError, ask
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
    # seconds from the begin of a request to the end of its answer
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
    """Greedy replies of the server's model. The first host asks and shares them.

    Raises: ValueError for a key that no request can carry; ServerError, on all hosts, where the server does not answer
      now. The replies themselves raise ServerError too, and interrupt.Stopped where a signal came meanwhile.
    """
    url, key = f"{cfg.url.rstrip('/')}/chat/completions", os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("OPENAI_API_KEY holds signs that no key has; set it again")  # not shown: it is a secret
    server = Server(f"judge {url}", url, "judge", cfg.timeout, cfg.tries, AT_ONCE, key)

    def read(_: Any, answer: Any) -> str:
        content = answer["choices"][0]["message"]["content"]
        if not isinstance(content, str):
            raise TypeError(f"content is {content!r:.40}, no text")
        return content

    def replies(conversations: Sequence[Messages], server: Server = server) -> list[str]:
        settings = {"model": cfg.model, "temperature": 0, "max_tokens": cfg.max_new}
        return ask(server, [settings | {"messages": messages} for messages in conversations], read)

    try:
        replies([[{"role": "user", "content": "Say yes."}]], dataclasses.replace(server, tries=1))
    except ServerError as error:
        raise ServerError(f"{error}; start it, or correct judge.url, judge.model or OPENAI_API_KEY") from None
    return replies

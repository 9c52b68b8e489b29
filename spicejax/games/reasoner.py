"""How a Reasoner is asked: one question, its answer in a box. All games and the evaluation ask alike."""

from __future__ import annotations

import functools
import json
from typing import Any, Literal, get_args

from spicejax.text import prompts
from spicejax.types import Messages

# `full` is a request; `simple` adds two worked examples, for small models; `nano` is the bare question, for models of a
# few million parameters.
Style = Literal["full", "simple", "nano"]
STYLES: tuple[str, ...] = get_args(Style)

SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def messages(question: str, style: Style = "full") -> Messages:
    """Ask one question. Raises ValueError for an unknown style."""
    check_style(style)
    if style == "nano":
        return [{"role": "user", "content": question}]
    turns = [SYSTEM]
    for example in _examples() if style == "simple" else ():
        turns += [_request(example["question"]), {"role": "assistant", "content": example["reply"]}]
    return [*turns, _request(question)]


def check_style(style: str) -> None:
    """Raise ValueError for an unknown style."""
    if style not in STYLES:
        raise ValueError(f"unknown prompt style {style!r}: choose one of {', '.join(STYLES)}")


def _request(question: str) -> dict[str, str]:
    return {"role": "user", "content": prompts.fill(prompts.read("spicejax.games", "reasoner.txt"), question=question)}


@functools.cache
def _examples() -> list[dict[str, Any]]:
    return json.loads(prompts.read("spicejax.games", "reasoner_examples.json"))

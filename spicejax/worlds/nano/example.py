"""What a warm start learns from: a prompt and what follows it, by whom it is written."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple


class Part(NamedTuple):
    """A stretch of an example: the model's reply, which alone is trained; what it is shown; what the user asks then."""

    by: Literal["reply", "shown", "asked"]
    text: str


@dataclasses.dataclass(frozen=True)
class Example:
    """One supervised example of the warm start."""

    role: str
    prompt: str  # the user's turn
    parts: tuple[Part, ...]  # what follows; begins with a reply

"""Held-out questions put to the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spicejax.data.questions import Item
from spicejax.games.game import Exam, Reply
from spicejax.games.world import World
from spicejax.types import Messages

_STREAM = 64  # far from the streams of the games


def answers(
    world: World, items: Sequence[Item], exam: Exam, samples: int, first_row: Sequence[int] | None = None
) -> list[list[Reply]]:
    """Replies to each item, asked as in training, or bare where it is no question for a box."""
    rows = [k * samples for k in range(len(items))] if first_row is None else first_row
    boxed = [k for k, item in enumerate(items) if item.boxed]
    bare = [k for k, item in enumerate(items) if not item.boxed]
    replies: dict[int, list[Reply]] = {}
    settings: dict[str, Any] = {"samples": samples, "stream": _STREAM, "max_new": exam.max_new}
    if boxed:
        tasks = [items[k].task for k in boxed]
        replies |= zip(boxed, exam.respond(world, tasks, first_row=[rows[k] for k in boxed], **settings), strict=True)
    if bare:
        prompts = [question(items[k], exam) for k in bare]
        rollouts = world.ask(exam.role, prompts, first_row=[rows[k] for k in bare], **settings)
        replies |= {k: [Reply(None, r) for r in of_item] for k, of_item in zip(bare, rollouts, strict=True)}
    return [replies[k] for k in range(len(items))]


def question(item: Item, exam: Exam) -> Messages:
    """What an item's first prompt is."""
    bare = [{"role": "user", "content": item.task.question}]
    return exam.ask(item.task) if item.boxed else bare

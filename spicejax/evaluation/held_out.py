"""The policy on held-out questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from spicejax.data.questions import Item
from spicejax.evaluation.said import said
from spicejax.games.game import Exam, Reply
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.types import Messages, Metrics

_STREAM = 64  # far from the streams of the games


def held_out(world: World, items: Sequence[Item], exam: Exam, *, samples: int = 1) -> Metrics:
    """Scores on `items`, greedy unless several samples are asked for (avg@k).

    Returns: of the first suite eval/accuracy (the verifier's word on the box), eval/said (the answer stands anywhere in
      the text: what is known without the form), both also by /CATEGORY, and eval/truncated, each in [0, 1]; of other
      suites eval/SUITE/accuracy and so on.
    """
    settings = SamplerConfig(temperature=0.0) if samples == 1 else world.sampler
    world = dataclasses.replace(world, sampler=settings)
    replies = answers(world, items, exam, samples)
    answered = [(reply, item.task) for item, of_item in zip(items, replies, strict=True) for reply in of_item]
    # Differs: the training's verifier judges; SPICE's evaluation (section 3.1) asks GPT-4o whether answers are equal
    verdicts = world.check([(reply.answer, task) for reply, task in answered])
    scores = {
        "accuracy": _means([v.correct for v in verdicts], samples),
        "said": _means([said(reply.rollout.text, task) for reply, task in answered], samples),
        "truncated": _means([reply.rollout.finish_reason == "length" for reply, _ in answered], samples),
    }
    metrics: Metrics = {}
    for suite in sorted({item.suite for item in items}):
        in_suite = [k for k, item in enumerate(items) if item.suite == suite]
        prefix = f"eval/{suite}" if suite else "eval"
        reported = scores if items[in_suite[0]].boxed else {name: s for name, s in scores.items() if name != "accuracy"}
        metrics |= {f"{prefix}/{name}": float(score[in_suite].mean()) for name, score in reported.items()}
        categories = sorted({items[k].category for k in in_suite})
        for category in categories if len(categories) > 1 else ():
            members = [k for k in in_suite if items[k].category == category]
            for name in set(reported) - {"truncated"}:
                metrics[f"{prefix}/{name}/{category}"] = float(reported[name][members].mean())
    return metrics


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


def _means(values: Sequence[bool], samples: int) -> np.ndarray:
    """Mean over each item's samples."""
    return np.array(values, float).reshape(-1, samples).mean(1)

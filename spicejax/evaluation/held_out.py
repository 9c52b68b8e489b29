"""The policy on held-out questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from spicejax.data.questions import Item
from spicejax.evaluation.said import said
from spicejax.games import solver
from spicejax.games.game import Exam
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.types import Messages, Metrics, Rollout

_STREAM = 64  # far from the streams of the games


def held_out(world: World, items: Sequence[Item], exam: Exam, *, samples: int = 1) -> Metrics:
    """Scores on `items`, greedy unless several samples are asked for (avg@k).

    Returns: of the first suite eval/accuracy (the verifier's word on the box), eval/said (the answer stands anywhere in
      the text: what is known without the form), both also by /CATEGORY, and eval/truncated, each in [0, 1]; of other
      suites eval/SUITE/accuracy and so on.
    """
    settings = SamplerConfig(temperature=0.0) if samples == 1 else world.sampler
    world = dataclasses.replace(world, sampler=settings)
    replies, rollouts = answers(world, items, exam, samples)
    # Differs: the training's verifier judges; SPICE's evaluation (section 3.1) asks GPT-4o whether answers are equal
    pairs = [(exam.read(r), item.task) for item, rs in zip(items, replies, strict=True) for r in rs]
    scores = {
        "accuracy": _means([v.correct for v in world.check(pairs)], samples),
        "said": _means(
            [said(r.text, item.task) for item, rs in zip(items, rollouts, strict=True) for r in rs], samples
        ),
        "truncated": _means([r.finish_reason == "length" for rs in rollouts for r in rs], samples),
    }
    metrics: Metrics = {}
    for suite in sorted({item.suite for item in items}):
        mine = [k for k, item in enumerate(items) if item.suite == suite]
        prefix = f"eval/{suite}" if suite else "eval"
        asked = scores if items[mine[0]].boxed else {name: s for name, s in scores.items() if name != "accuracy"}
        metrics |= {f"{prefix}/{name}": float(score[mine].mean()) for name, score in asked.items()}
        categories = sorted({items[k].category for k in mine})
        for category in categories if len(categories) > 1 else ():
            members = [k for k in mine if items[k].category == category]
            for name in set(asked) - {"truncated"}:
                metrics[f"{prefix}/{name}/{category}"] = float(asked[name][members].mean())
    return metrics


def answers(
    world: World, items: Sequence[Item], exam: Exam, samples: int, first_row: Sequence[int] | None = None
) -> tuple[Sequence[Sequence[Any]], list[list[Rollout]]]:
    """The replies as `exam.read` takes them, and as rollouts without what was found by searches."""
    rows = [k * samples for k in range(len(items))] if first_row is None else first_row
    asked: dict[str, Any] = {"samples": samples, "first_row": rows, "stream": _STREAM}
    messages = [question(item, exam) for item in items]
    if exam.search is None:
        rollouts = world.ask(exam.role, messages, max_new=exam.max_new, **asked)
        return rollouts, rollouts
    tags, limits = exam.search
    found = world.search(exam.role, messages, tags=tags, limits=limits, **asked)
    return found, [[dataclasses.replace(s.rollout, text=solver.written(s)) for s in rows] for rows in found]


def question(item: Item, exam: Exam) -> Messages:
    """How an item is asked: as in training, or bare."""
    bare = [{"role": "user", "content": item.task.question}]
    return exam.ask(item.task.question) if item.boxed else bare


def _means(values: Sequence[bool], samples: int) -> np.ndarray:
    """Mean over each item's samples."""
    return np.array(values, float).reshape(-1, samples).mean(1)

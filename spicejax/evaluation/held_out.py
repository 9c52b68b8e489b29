"""The policy on held-out questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from spicejax.data.questions import Item
from spicejax.games import reasoner
from spicejax.games.game import Exam
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.types import Metrics

_STREAM = 64  # far from the streams of the games


def held_out(world: World, items: Sequence[Item], exam: Exam, *, samples: int = 1) -> Metrics:
    """Accuracy on `items`, greedy unless several samples are asked for (avg@k).

    Returns: eval/accuracy, eval/accuracy/CATEGORY, eval/truncated, each in [0, 1].
    """
    settings = SamplerConfig(temperature=0.0) if samples == 1 else world.sampler
    world = dataclasses.replace(world, sampler=settings)
    rollouts = world.ask(
        exam.role,
        [reasoner.messages(i.task.question, exam.style, exam.templates) for i in items],
        samples=samples,
        first_row=[k * samples for k in range(len(items))],
        max_new=exam.max_new,
        stream=_STREAM,
    )
    # Differs: the training's verifier judges; SPICE's evaluation (section 3.1) asks GPT-4o whether answers are equal
    answered = zip(items, rollouts, strict=True)
    pairs = [(reasoner.answer(r, exam.judge_truncated), item.task) for item, rs in answered for r in rs]
    correct = np.array([v.correct for v in world.check(pairs)], float).reshape(len(items), samples).mean(1)
    metrics: Metrics = {
        "eval/accuracy": float(correct.mean()),
        "eval/truncated": float(np.mean([r.finish_reason == "length" for rs in rollouts for r in rs])),
    }
    categories = sorted({i.category for i in items})
    for category in categories if len(categories) > 1 else ():
        members = [k for k, i in enumerate(items) if i.category == category]
        metrics[f"eval/accuracy/{category}"] = float(correct[members].mean())
    return metrics

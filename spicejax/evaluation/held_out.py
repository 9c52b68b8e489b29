"""Evaluation: the Reasoner on held-out questions, and the two probes of the paper's figure 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from spicejax.data.questions import Item
from spicejax.games import reasoner
from spicejax.games.spice import game as spice
from spicejax.games.spice.game import SpiceConfig
from spicejax.games.world import World
from spicejax.generate.policy import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.score.answers import extract_answer
from spicejax.types import Document, Metrics

_STREAM = 64  # far from the streams of the games


def held_out(world: World, items: Sequence[Item], *, style: reasoner.Style, max_new: int, samples: int = 1) -> Metrics:
    """Accuracy of the world's Reasoner on `items`, greedy unless several samples are asked for (avg@k).

    Returns: eval/accuracy, eval/accuracy/CATEGORY, eval/truncated, each in [0, 1].
    """
    settings = SamplerConfig(temperature=0.0) if samples == 1 else world.sampler
    world = dataclasses.replace(world, sampler=settings)
    rollouts = world.ask(
        "reasoner",
        [reasoner.messages(i.task.question, style) for i in items],
        samples=samples,
        first_row=[k * samples for k in range(len(items))],
        max_new=max_new,
        stream=_STREAM,
    )
    pairs = [(extract_answer(r.text), i.task) for i, rs in zip(items, rollouts, strict=True) for r in rs]
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


def probes(
    world: World, documents: Sequence[Document], current: Player, initial: Player, cfg: SpiceConfig, *, group: int
) -> Metrics:
    """Pass rates of mixed pairings on fixed documents and fixed random streams (figure 3 of the paper).

    fixed_reasoner: the current Challenger's questions, answered by the initial Reasoner; falls as questions get harder.
    fixed_challenger: the initial Challenger's questions, answered by the current Reasoner; rises as it learns.
    current: both as they are now (ours). Its distance from a pass rate of one half, against that of fixed_challenger,
      says whether the Challenger has moved towards the frontier of today's Reasoner.
    """
    cfg = dataclasses.replace(
        cfg,
        group_size=group,
        max_attempts=group,
        documents=len(documents),
        task_type="random" if cfg.task_type == "model" else cfg.task_type,
    )
    seats = {
        "fixed_reasoner": {"challenger": current, "reasoner": initial},
        "fixed_challenger": {"challenger": initial, "reasoner": current},
        "current": {"challenger": current, "reasoner": current},
    }
    metrics: Metrics = {}
    for name, players in seats.items():
        # No run reaches this iteration, so no training draw is repeated here.
        played = spice.play(dataclasses.replace(world, players=players, iteration=2**31 - 1), documents, cfg)
        for quantity in ("reasoner/pass_rate", "challenger/frontier_distance"):
            if quantity in played.metrics:
                metrics[f"probe/{name}/{quantity.split('/')[1]}"] = played.metrics[quantity]
    return metrics

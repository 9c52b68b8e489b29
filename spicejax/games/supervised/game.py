"""Supervised fine-tuning as a game: replies are given, not sampled, and each is worth 1.

Set learner.loss=supervised: the negative log-likelihood of the replies' tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from spicejax.games import reasoner
from spicejax.games.game import Ask, Exam, Game, Panel, Played, Prompts
from spicejax.games.world import World
from spicejax.types import Episode, Example


@dataclasses.dataclass(frozen=True)
class SupervisedConfig:
    """The game."""

    # examples per iteration
    examples: int = 64
    # longest reply that is learnt, in tokens, end of turn included; longer ones are left out and counted
    max_new: int = 1024
    # how held-out questions are asked: `full`, `simple` with two worked examples, `nano` the bare question
    style: reasoner.Style = "full"

    @property
    def items(self) -> int:
        """Examples of an iteration."""
        return self.examples

    def __post_init__(self) -> None:
        for name in ("examples", "max_new"):
            if getattr(self, name) < 1:
                raise ValueError(f"supervised.{name}={getattr(self, name)}: must be at least 1")


def play(world: World, examples: Sequence[Example], cfg: SupervisedConfig, state: None = None) -> Played:
    """Write the examples as rollouts; one too long for the longest prompt bucket or `max_new` is left out."""
    given = [world.given("reasoner", example) for example in examples]
    longest = world.players["reasoner"].buckets.prompt[-1]
    # Differs: AceSearcher's code cuts what is longer than 2304 tokens; half a reply teaches to end nowhere
    fits = [len(r.prompt_ids) <= longest and len(r.token_ids) <= cfg.max_new for r in given]
    lessons = [Episode("reasoner", k, r, 1.0) for k, (r, fit) in enumerate(zip(given, fits, strict=True)) if fit]
    metrics = {
        "reasoner/too_long": float(len(examples) - len(lessons)),
        "reasoner/response_length": sum(len(e.rollout.token_ids) for e in lessons) / max(len(lessons), 1),
    }
    progress = {"examples": float(len(lessons))}
    return Played(lessons, metrics, [], progress=progress, totals={"examples_seen": len(lessons)})


def demand(cfg: SupervisedConfig) -> list[Ask]:
    """Nothing is sampled."""
    taught: dict[str, Any] = {"trained": cfg.examples, "group": 1, "estimator": "none", "lesson": "given"}
    return [Ask("reasoner", cfg.examples, 0, cfg.max_new, "document", **taught)]


def exam(cfg: SupervisedConfig) -> Exam:
    """The policy answers with as many tokens as a reply may have."""
    return reasoner.exam(cfg.style, cfg.max_new)


def prompts_of(cfg: SupervisedConfig, example: Example) -> Prompts:
    """The policy is given the example's prompt."""
    return [("reasoner", example.messages)]


PANELS = (
    Panel(
        "Negative log-likelihood of the replies",
        (("learner/loss", "loss"),),
        meaning="How unlikely the policy finds the replies it is shown; lower is better.",
    ),
)
GAME = Game(
    reads="examples",
    play=play,
    demand=demand,
    exam=exam,
    prompts_of=prompts_of,
    panels=PANELS,
    paper="supervised fine-tuning",
    fixes={"reasoner/too_long": "raise the last of buckets.prompt, or supervised.max_new"},
)

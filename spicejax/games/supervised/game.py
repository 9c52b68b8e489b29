"""Supervised fine-tuning as a game: replies are given, not sampled, and each is worth 1.

Set learner.loss=supervised: the negative log-likelihood of the replies' tokens. An example may have searched: what it
was shown between its turns is read and not learnt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from spicejax.games import reasoner, solver
from spicejax.games.game import About, Ask, Exam, Game, Panel, Played, Prompts, read_prompts, require
from spicejax.games.world import World
from spicejax.generate.search import Limits
from spicejax.types import Episode, Example, Rollout, Task


@dataclasses.dataclass(frozen=True)
class SupervisedConfig:
    """The game."""

    game: ClassVar[Game]

    # examples per iteration
    examples: int = 64
    # longest reply that is learnt, in tokens, end of turn included; longer ones are left out and counted. With
    # `request` it is limits.total
    max_new: int = 1024
    # how questions are asked, held-out ones and those of examples: `full`, `simple` with two worked examples, `nano`
    # the bare question
    style: reasoner.Style = "full"
    # the same of a Solver who searches, see r1searcher.request and ssp.request; "" = nobody searches, `style` holds
    request: Literal["", solver.Request] = ""
    # with `request`: what a row may take, in tokens
    limits: Limits = Limits(turns=9, turn=512, observation=768, total=4096)
    # folder of your own prompts, files named as in games/prompts/; read once, when the configuration is made
    prompts: str = ""
    # prompts by name (supervised.templates.reasoner=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def items(self) -> int:
        """Examples of an iteration."""
        return self.examples

    @property
    def longest(self) -> int:
        """Most tokens of a reply, with what it was shown."""
        return self.limits.total if self.request else self.max_new

    def __post_init__(self) -> None:
        read_prompts(self, solver.PACKAGE)
        require(self, {"examples": 1, "max_new": 1})


def play(world: World, examples: Sequence[Example], cfg: SupervisedConfig, state: None = None) -> Played:
    """Make rollouts of the examples; one whose prompt or reply is too long is left out and counted."""
    examination, role = exam(cfg), exam(cfg).role
    rollouts = [world.given(role, example, examination.ask) for example in examples]
    room = world.players[role].buckets.prompt[-1]

    # Differs: AceSearcher's code cuts what is longer than 2304 tokens; half a reply teaches to end nowhere
    def fits(r: Rollout) -> bool:
        behind = len(r.token_ids) - 1 if cfg.request else 0  # a row that searches stands whole in a bucket
        return len(r.prompt_ids) + behind <= room and len(r.token_ids) <= cfg.longest

    lessons = [Episode(role, k, r, 1.0) for k, r in enumerate(rollouts) if fits(r)]
    metrics = {
        f"{role}/too_long": float(len(examples) - len(lessons)),
        f"{role}/response_length": sum(float(e.rollout.loss_mask.sum()) for e in lessons) / max(len(lessons), 1),
    }
    if any(example.turns for example in examples):
        observed = [float((e.rollout.loss_mask == 0).sum()) for e in lessons]
        metrics[f"{role}/observation_length"] = sum(observed) / max(len(lessons), 1)
    progress = {"examples": float(len(lessons))}
    return Played(lessons, metrics, [], progress=progress, totals={"examples_seen": len(lessons)})


def demand(cfg: SupervisedConfig) -> list[Ask]:
    """Nothing is sampled."""
    taught: dict[str, Any] = {"trained": cfg.examples, "group": 1, "estimator": "none", "lesson": "given"}
    if cfg.request:
        return [Ask("solver", cfg.examples, 0, cfg.longest, turn_limits=cfg.limits.turn_limits, **taught)]
    return [Ask("reasoner", cfg.examples, 0, cfg.longest, "document", **taught)]


def exam(cfg: SupervisedConfig) -> Exam:
    """The policy answers with as many tokens as a reply may have, searching or not."""
    if cfg.request:
        return solver.exam(cfg.request, cfg.limits, cfg.templates)
    return reasoner.exam(cfg.style, cfg.max_new, templates=cfg.templates)


def prompts_of(cfg: SupervisedConfig, example: Example) -> Prompts:
    """The policy is given the example's prompt."""
    examination = exam(cfg)
    return [(examination.role, example.messages or examination.ask(Task(example.question, "", "String")))]


PANELS = (
    Panel(
        "Negative log-likelihood of the replies",
        (("learner/loss", "loss"),),
        meaning="How unlikely the policy finds the replies it is shown; lower is better.",
        unit="nats",
    ),
)
ABOUT = About(
    panels=PANELS,
    fixes={
        "reasoner/too_long": "raise the last of buckets.prompt, or supervised.max_new",
        "solver/too_long": "raise the last of buckets.prompt, or supervised.limits.total",
    },
    paper="supervised fine-tuning",
)
SupervisedConfig.game = Game("examples", play, demand, exam, prompts_of, ABOUT)

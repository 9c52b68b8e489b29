"""RLVR: the Reasoner answers the user's own questions, whose answers are known, and learns from which were right.

Group advantages as in Dr. GRPO (arXiv:2503.20783) or GRPO (arXiv:2402.03300); the reward is the verifier's word, 1 or 0
(arXiv:2411.15124). The baseline that self-play is compared with.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from spicejax.games import reasoner
from spicejax.games.game import About, Ask, Exam, Game, Played, Prompts, Record, read_prompts, require
from spicejax.games.world import Verdict, World
from spicejax.types import Episode, Estimator, Messages, Metrics, Rollout, Task


@dataclasses.dataclass(frozen=True)
class RlvrConfig:
    """The game."""

    game: ClassVar[Game]

    # questions per iteration
    questions: int = 128
    # dynamic sampling (DAPO): a question whose answers are all right or all wrong is refused and another one asked,
    # until `questions` are left, or so many were drawn; 0 = none is refused. What is drawn in vain comes an epoch later
    candidates: int = 0
    # answers to each of them, which share a baseline [G]
    group_size: int = 8
    # how rewards become advantages: mean = minus the mean of the group (Dr. GRPO), mean_std = divided by its standard
    # deviation too (GRPO), none = the reward itself; docs/losses.md has all
    estimator: Estimator = "mean"
    # how a question is asked: `full`, `simple` with two worked examples for small models, `nano` the bare question
    style: reasoner.Style = "full"
    # folder of your own prompts, files named as in games/prompts/; read once, when the configuration is made
    prompts: str = ""
    # prompts by name (rlvr.templates.reasoner=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)
    # longest answer, in tokens, end of turn included
    max_new: int = 1024
    # judge an answer that stands in a box before the response was cut off by its longest length; false = it is wrong
    judge_truncated: bool = False

    @property
    def items(self) -> int:
        """Questions of an iteration."""
        return self.candidates or self.questions

    def __post_init__(self) -> None:
        read_prompts(self, reasoner.PACKAGE)
        require(self, {"questions": 1, "group_size": 1, "max_new": 1})
        if self.candidates and self.candidates < self.questions:
            raise ValueError(f"rlvr.candidates={self.candidates}: give at least questions={self.questions}, or 0")
        if self.candidates and self.group_size < 2:
            raise ValueError(
                f"rlvr.candidates={self.candidates}: one answer is all right or all wrong; give group_size=2"
            )


class _Group(NamedTuple):
    """A question's answers."""

    question: int
    rollouts: list[Rollout]
    said: list[str | None]
    verdicts: list[Verdict]

    @property
    def correct(self) -> list[bool]:
        return [v.correct for v in self.verdicts]

    def record(self, task: Task) -> Record:
        transcript, rate = [{"wrote": self.rollouts[0].text[-300:]}], float(np.mean(self.correct))
        return Record(task.question, task.answer, self.said, self.correct, rate, transcript, {"id": task.id})


def play(world: World, questions: Sequence[Task], cfg: RlvrConfig, state: None = None) -> Played:
    """Answer every question G times. Questions that do not fit the longest prompt bucket are left out and counted."""
    messages = [reasoner.messages(task.question, cfg.style, cfg.templates) for task in questions]
    fits = [world.fits("reasoner", prompt) for prompt in messages]
    fitting = [k for k, fit in enumerate(fits) if fit]
    groups: list[_Group] = []
    taught: list[_Group] = []
    # Differs: DAPO asks whole batches until one is full; here each round asks as many questions as are missing
    while now := fitting[len(groups) :][: cfg.questions - len(taught)]:
        groups += _answer(world, questions, messages, now, cfg)
        taught = [group for group in groups if not cfg.candidates or len(set(group.correct)) == 2]
    lessons = [
        Episode("reasoner", g.question, r, float(c)) for g in taught for r, c in zip(g.rollouts, g.correct, strict=True)
    ]
    metrics: Metrics = {"reasoner/too_long": float(len(questions) - len(fitting))}
    for how, count in collections.Counter(v.how for group in groups for v in group.verdicts).items():
        metrics[f"verdict/{how}"] = float(count)
    if cfg.candidates:
        metrics |= {"reasoner/asked": float(len(groups)), "reasoner/refused": float(len(groups) - len(taught))}
    correct = np.array([group.correct for group in groups], bool)
    metrics |= reasoner.metrics_of(correct, [r for group in groups for r in group.rollouts])
    records = [group.record(questions[group.question]) for group in groups]
    totals = {"questions_asked": len(groups), "answers_right": int(correct.sum())}
    progress = {"pass_rate": metrics.get("reasoner/pass_rate"), "truncated": metrics.get("reasoner/truncated")}
    return Played(lessons, metrics, records, progress=progress, totals=totals)


def _answer(
    world: World, questions: Sequence[Task], messages: Sequence[Messages], indices: Sequence[int], cfg: RlvrConfig
) -> list[_Group]:
    """Answer the questions of these numbers and judge the answers."""
    sampled = world.ask(
        "reasoner",
        [messages[k] for k in indices],
        samples=cfg.group_size,
        first_row=[k * cfg.group_size for k in indices],
        max_new=cfg.max_new,
        stream=0,
    )
    given = [[reasoner.answer(r, cfg.judge_truncated) for r in rollouts] for rollouts in sampled]
    pairs = [(text, questions[k]) for k, texts in zip(indices, given, strict=True) for text in texts]
    verdicts = iter(world.check(pairs))
    rows = zip(indices, sampled, given, strict=True)
    return [_Group(k, rollouts, texts, [next(verdicts) for _ in texts]) for k, rollouts, texts in rows]


def demand(cfg: RlvrConfig) -> list[Ask]:
    """Every question fits, and with `candidates` the last of them is needed."""
    return [Ask("reasoner", cfg.items, cfg.group_size, cfg.max_new, trained=cfg.questions, estimator=cfg.estimator)]


def exam(cfg: RlvrConfig) -> Exam:
    """The Reasoner answers as in training."""
    return reasoner.exam(cfg.style, cfg.max_new, cfg.judge_truncated, cfg.templates)


def prompts_of(cfg: RlvrConfig, task: Task) -> Prompts:
    """The Reasoner is asked the question."""
    return [("reasoner", reasoner.messages(task.question, cfg.style, cfg.templates))]


ABOUT = About(
    panels=(reasoner.PANEL,),
    glossary=reasoner.GLOSSARY
    | {
        "reasoner/asked": "questions asked until enough of them were left (`rlvr.candidates`)",
        "reasoner/refused": "questions whose answers were all right or all wrong, left out",
    },
    counts=("verdict/",),
    fixes={
        "reasoner/too_long": "raise the last of buckets.prompt",
        "reasoner/truncated": "raise rlvr.max_new",
    },
    paper="reinforcement learning from questions with known answers",
)
RlvrConfig.game = Game("questions", play, demand, exam, prompts_of, ABOUT, "verifier")

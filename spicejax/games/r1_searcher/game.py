"""R1-Searcher (arXiv:2503.05592): a Solver learns to search, first that it does, then to what end; and Search-R1.

Two runs in a chain: `retrieve` rewards searching and form, `answer` the token F1 of the answer. Search-R1
(arXiv:2503.09516) is the same play with other tags and the reward `exact`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from spicejax.games import solver
from spicejax.games.game import About, Ask, Exam, Game, Panel, Played, Prompts, Record, read_prompts, require
from spicejax.games.r1_searcher import rewards
from spicejax.games.world import World
from spicejax.generate.search import Limits
from spicejax.score import qa
from spicejax.types import Episode, Estimator, Metrics, Task


@dataclasses.dataclass(frozen=True)
class R1SearcherConfig:
    """The game."""

    game: ClassVar[Game]

    # questions per iteration
    questions: int = 64
    # answers to each of them, which share a baseline [G]
    group_size: int = 16
    # how rewards become advantages: mean_whiten = REINFORCE++ with the group's mean (R1-Searcher), mean_std = GRPO
    # (Search-R1), mean = Dr. GRPO; docs/losses.md has all
    estimator: Estimator = "mean_whiten"
    # how a question is asked: base, instruct = R1-Searcher's tags; tags = Search-R1's; evidence = R-Search's; simple =
    # two worked examples with Search-R1's tags, for small models; nano = the bare question
    request: solver.Request = "base"
    # what is rewarded: retrieve = that it searches and keeps the form (stage 1), answer = F1 of the answer and the form
    # (stage 2), answer_exact, answer_cover = exact and cover-exact match in the place of F1, exact = the right answer
    # alone (Search-R1)
    reward: rewards.RewardKind = "answer"
    # answer, answer_exact, answer_cover: taken off where the form is wrong
    penalty: float = 2.0
    # retrieve: a right answer adds 1, a wrong one takes 1 off, as in the code's stage 1 for Llama; the paper has none
    correctness: bool = False
    # the form's further rules that the code has for Qwen
    strict: bool = True
    # exact: what a row is worth for thoughts before each search and before the answer and not a word elsewhere, and
    # without that a wrong answer between its tags (Search-R1: 0 in version 0.2, 0.2 and 0.1 in 0.3)
    structure: float = 0.0
    tagged: float = 0.0
    # learn the model's own words alone; false = what was found as well (Search-R1's ablation). What is measured over
    # tokens that are learnt, learner/sampler_gap say, is then a mean over these too
    mask: bool = True
    # of a row, in tokens
    limits: Limits = Limits(turns=9, turn=512, observation=768, total=4096)
    # folder of your own prompts, files named as in games/prompts/; read once, when the configuration is made
    prompts: str = ""
    # prompts by name (r1searcher.templates.search_base=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def items(self) -> int:
        """Questions of an iteration."""
        return self.questions

    def __post_init__(self) -> None:
        read_prompts(self, solver.PACKAGE)
        require(self, {"questions": 1, "group_size": 1, "penalty": 0, "structure": 0, "tagged": 0})
        if max(self.structure, self.tagged) > 1 or self.tagged and not self.structure:
            raise ValueError(
                f"r1searcher.structure={self.structure}, tagged={self.tagged}: shares of a reward, at most 1 each; the "
                "second needs the first"
            )
        if self.structure and (self.reward, self.request) != ("exact", "tags"):
            raise ValueError(
                f"r1searcher.structure={self.structure}: the form of Search-R1, which r1searcher.request=tags asks for "
                f"and r1searcher.reward=exact rewards, not {self.request} and {self.reward}"
            )


def play(world: World, questions: Sequence[Task], cfg: R1SearcherConfig, state: None = None) -> Played:
    """Answer every question G times, searching. Questions too long for prompt and row are left out and counted."""
    fitting = [k for k, task in enumerate(questions) if world.fits("solver", _ask(cfg, task), cfg.limits.total - 1)]
    sampled = world.search(
        "solver",
        [_ask(cfg, questions[k]) for k in fitting],
        tags=solver.tags_of(cfg.request),
        limits=cfg.limits,
        samples=cfg.group_size,
        first_row=[k * cfg.group_size for k in fitting],
        stream=0,
    )
    faults: collections.Counter[str] = collections.Counter()
    lessons, records, exact = [], [], []
    for k, rows in zip(fitting, sampled, strict=True):
        task = questions[k]
        broken = [
            rewards.disorder(row, cfg.request) if cfg.structure else rewards.fault(row, cfg.request, strict=cfg.strict)
            for row in rows
        ]
        numbers = {name: getattr(cfg, name) for name in ("penalty", "correctness", "structure", "tagged")}
        judged = zip(rows, broken, strict=True)
        earned = [rewards.reward(row, task, fault, kind=cfg.reward, **numbers) for row, fault in judged]
        answers = [solver.answer(row) for row in rows]
        right = [qa.exact(answer, (task.answer, *task.aliases)) for answer in answers]
        taught = [row.rollout if cfg.mask else row.rollout.unmasked() for row in rows]
        lessons += [Episode("solver", k, rollout, r) for rollout, r in zip(taught, earned, strict=True)]
        faults.update(filter(None, broken))
        exact.append(float(np.mean(right)))
        extra = {"id": task.id, "rewards": earned, "fault": broken[0]}
        reward, transcript = float(np.mean(earned)), solver.transcript(rows[0])
        records.append(Record(task.question, task.answer, answers, right, reward, transcript, extra))
    metrics: Metrics = {"solver/too_long": float(len(questions) - len(fitting))}
    metrics |= {f"fault/{name}": float(count) for name, count in faults.items()}
    rows = [row for each in sampled for row in each]
    if rows:
        metrics |= solver.metrics_of("solver", rows) | {
            "solver/pass_rate": float(np.mean(exact)),
            "solver/well_formed": 1 - sum(faults.values()) / len(rows),
            "solver/answered": float(np.mean([solver.answer(row) is not None for row in rows])),
        }
    progress = ("pass_rate", "searches", "well_formed")
    return Played(
        lessons,
        metrics,
        records,
        progress={name: metrics.get(f"solver/{name}") for name in progress},
        totals={"questions_asked": len(fitting), "searches": sum(map(solver.searches, rows))},
    )


def _ask(cfg: R1SearcherConfig, task: Task) -> list[dict[str, str]]:
    return solver.messages(task.question, cfg.request, cfg.templates)


def demand(cfg: R1SearcherConfig) -> list[Ask]:
    """Every question fits."""
    n, row = cfg.questions, cfg.limits
    return [
        Ask("solver", n, cfg.group_size, row.total, trained=n, estimator=cfg.estimator, turn_limits=row.turn_limits)
    ]


def exam(cfg: R1SearcherConfig) -> Exam:
    """The Solver answers as in training."""
    return solver.exam(cfg.request, cfg.limits, cfg.templates)


def prompts_of(cfg: R1SearcherConfig, task: Task) -> Prompts:
    """The Solver is asked the question."""
    return [("solver", _ask(cfg, task))]


PANELS = (
    Panel(
        "Training questions",
        tuple((f"solver/{name}", name.replace("_", " ")) for name in ("pass_rate", "answered", "well_formed")),
        limits=(0, 1),
        meaning="Share of the rollouts that are right, that give an answer at all, and that keep to the form.",
        unit="share of the rollouts",
    ),
    Panel(
        "Searches in a response",
        (("solver/searches", "searches"),),
        meaning="How often the policy searches before it answers.",
        unit="searches",
    ),
)
ABOUT = About(
    panels=PANELS,
    glossary=solver.GLOSSARY,
    counts=("fault/",),
    fixes={
        "solver/too_long": "raise the last of buckets.prompt",
        "solver/truncated": "raise r1searcher.limits.total, or lower r1searcher.limits.turns",
    },
    paper="R1-Searcher, arXiv:2503.05592",
)
R1SearcherConfig.game = Game(
    "questions", play, demand, exam, prompts_of, ABOUT,
    lambda cfg, task: qa.matches_itself((task.answer, *task.aliases)),
)  # fmt: skip

"""R-Zero (arXiv:2508.05004): a Challenger and a Reasoner (its Solver) learn in turns, from one model and no data.

A run is one turn, a chain of them (configs/r_zero_nano.py) the method. In the Challenger's, it is paid for questions on
whose answer a frozen Reasoner votes half and half, and for asking what the rest of its batch does not ask. In the
Reasoner's, the frozen Challenger first writes a pool of questions; those on which the votes are neither agreed nor
scattered stay, with the commonest answer as the right one, and the Reasoner is taught by them as by any questions.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from spicejax.games import reasoner
from spicejax.games.game import About, Ask, Exam, Game, Panel, Played, Prompts, Record, read_prompts, require
from spicejax.games.r_zero import repetition, votes
from spicejax.games.r_zero.votes import Vote
from spicejax.games.solver import last_pair
from spicejax.games.world import World
from spicejax.score.answers import extract_answer
from spicejax.text import prompts
from spicejax.types import Episode, Estimator, Messages, Metrics, Rollout

PACKAGE = "spicejax.games.r_zero"  # that holds the Challenger's prompts
_WRITE, _VOTE, _ANSWER, _ORDER = range(4)  # random streams
_QUESTION = ("<question>", "</question>")
_LINES = re.compile(r"question: (.+)\nanswer: (.+)")  # the nano style


@dataclasses.dataclass(frozen=True)
class RZeroConfig:
    """The game."""

    game: ClassVar[Game]

    # whose turn this run is
    trains: Literal["challenger", "reasoner"] = "challenger"
    # groups an iteration: of questions (the Challenger is always asked the same), or questions that are answered
    groups: int = 512
    # questions of a group (paper: 4) or answers to a question (5), which share a baseline
    group_size: int = 4
    # answers of the Reasoner that vote on a question [m]; the code takes 9 for the pool
    votes: int = 10
    # what a question earns, p being the share of the commonest answer: code = min(p, 1 - p) less its repetition, and -1
    # less that where none is asked; paper = 1 - 2 |p - 0.5| less its repetition, at least 0, and 0 where none is asked
    reward: Literal["code", "paper"] = "code"
    # when p counts: any = always, as in the paper and the code of today; own = only where the commonest answer is the
    # one that the Challenger wrote, and p above 0.1, as in the code until December 2025
    majority: Literal["any", "own"] = "any"
    # weight of the repetition, the share of the batch that asks nearly the same; 0 = none
    repetition: float = 1.0
    # distance in BLEU below which clusters of questions are one
    repetition_distance: float = 0.5
    # reasoner: questions that the Challenger writes before the first iteration
    pool: int = 8000
    # reasoner: least and most share of the commonest answer to a question that stays (paper: 0.25, 0.75)
    keep: tuple[float, float] = (0.3, 0.8)
    # reasoner: part of the reward that is for the form, a readable box; the rest is for the answer
    format_weight: float = 0.1
    # how rewards become advantages: mean_std = GRPO; docs/losses.md has all
    estimator: Estimator = "mean_std"
    # how both are asked: `full`, `simple` with worked examples for small models, `nano` without a word around it
    style: reasoner.Style = "full"
    # folder of your own prompts, files named as in games/prompts/ and games/r_zero/prompts/; read once, when the
    # configuration is made
    prompts: str = ""
    # prompts by name (rzero.templates.challenger=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)
    # longest reply of each, in tokens, end of turn included
    challenger_max_new: int = 4096
    reasoner_max_new: int = 4096

    @property
    def items(self) -> int:
        """Nothing is read: one number for each group."""
        return self.groups

    def __post_init__(self) -> None:
        read_prompts(self, reasoner.PACKAGE, PACKAGE)
        counts = ("groups", "group_size", "votes", "pool", "challenger_max_new", "reasoner_max_new")
        weights = ("repetition", "repetition_distance", "format_weight")
        require(self, {**dict.fromkeys(counts, 1), **dict.fromkeys(weights, 0)})
        if self.format_weight > 1:
            raise ValueError(f"rzero.format_weight={self.format_weight}: a share of the reward, at most 1")
        if not 0 <= self.keep[0] <= self.keep[1] <= 1:
            raise ValueError(f"rzero.keep={self.keep}: the least and the most share of votes, from 0 to 1")


@dataclasses.dataclass
class Proposal:
    """What the Challenger wrote, and what became of it."""

    rollout: Rollout
    question: str = ""
    answer: str | None = None  # its own
    rejected: str = ""  # why nobody answers it
    vote: Vote | None = None

    def record(self, **more: Any) -> Record:
        label, said, agree = (self.vote.label, self.vote.said, self.vote.agree) if self.vote else (None, (), ())
        extra = {name: value for name, value in (("own_answer", self.answer), ("rejected", self.rejected)) if value}
        transcript = [{"wrote": self.rollout.text[-300:]}]
        return Record(self.question or None, label, said, agree, transcript=transcript, extra=extra, **more)


def challenger_messages(cfg: RZeroConfig) -> Messages:
    """Ask for a question; always the same words."""
    name = "challenger" if cfg.style == "full" else f"challenger_{cfg.style}"
    template = prompts.read(PACKAGE, name, cfg.templates)
    if cfg.style == "nano":
        return [{"role": "user", "content": template}]
    examples = prompts.read(PACKAGE, "challenger_simple_examples", cfg.templates) if cfg.style == "simple" else "[]"
    return [reasoner.SYSTEM, *prompts.turns(template, examples, {})]


def read(text: str, style: reasoner.Style = "full") -> tuple[str, str | None] | None:
    """The question and the answer that the Challenger gives it, which may be absent; None without a question."""
    if style == "nano":
        found = _LINES.fullmatch(text.strip())
        return (found[1].strip(), found[2].strip()) if found else None
    question = last_pair(text, _QUESTION)
    return (question, extract_answer(text)) if question else None


def _write(world: World, cfg: RZeroConfig, groups: int, size: int) -> list[Proposal]:
    """Questions of the Challenger, group by group."""
    rollouts_of = world.ask(
        "challenger",
        [challenger_messages(cfg)] * groups,
        samples=size,
        first_row=range(0, groups * size, size),
        max_new=cfg.challenger_max_new,
        stream=_WRITE,
    )
    return [_proposal(world, rollout, cfg) for rollouts in rollouts_of for rollout in rollouts]


def _proposal(world: World, rollout: Rollout, cfg: RZeroConfig) -> Proposal:
    found = read(rollout.text, cfg.style)
    if found is None:
        return Proposal(rollout, rejected="truncated" if rollout.finish_reason == "length" else "no_question")
    proposal = Proposal(rollout, *found)
    if not world.fits("reasoner", reasoner.messages(proposal.question, cfg.style, cfg.templates)):
        proposal.rejected = "question_too_long"
    return proposal


def _vote(world: World, proposals: Sequence[Proposal], cfg: RZeroConfig) -> None:
    """Let the Reasoner answer what can be asked."""
    asked = [(n, proposal) for n, proposal in enumerate(proposals) if not proposal.rejected]
    said = _answers(world, [p.question for _, p in asked], [n for n, _ in asked], cfg.votes, _VOTE, cfg)[1]
    for (_, proposal), vote in zip(asked, votes.count(world, [p.question for _, p in asked], said), strict=True):
        proposal.vote = vote


def _answers(
    world: World, questions: Sequence[str], rows: Sequence[int], samples: int, stream: int, cfg: RZeroConfig
) -> tuple[list[list[Rollout]], list[list[str | None]]]:
    """The Reasoner's replies to each question, and the answers in them."""
    rollouts_of = world.ask(
        "reasoner",
        [reasoner.messages(question, cfg.style, cfg.templates) for question in questions],
        samples=samples,
        first_row=[row * samples for row in rows],
        max_new=cfg.reasoner_max_new,
        stream=stream,
    )
    return rollouts_of, [[reasoner.answer(r) for r in rollouts] for rollouts in rollouts_of]


def play(world: World, numbers: Sequence[int], cfg: RZeroConfig, state: Any = None) -> Played:
    """Play an iteration of the turn. The state of a Reasoner's is its pool: [question, label] of each that stays."""
    return _challenge(world, cfg) if cfg.trains == "challenger" else _solve(world, cfg, state)


def _challenge(world: World, cfg: RZeroConfig) -> Played:
    proposals = _write(world, cfg, cfg.groups, cfg.group_size)
    _vote(world, proposals, cfg)
    repeated = repetition.shares(["" if p.rejected else p.question for p in proposals], cfg.repetition_distance)
    earned = [challenger_reward(p, share, cfg) for p, share in zip(proposals, repeated, strict=True)]
    lessons = [
        Episode("challenger", n // cfg.group_size, proposal.rollout, reward)
        for n, (proposal, reward) in enumerate(zip(proposals, earned, strict=True))
    ]
    metrics = _metrics_of(proposals) | {
        "challenger/reward": float(np.mean(earned)),
        "challenger/repetition": float(np.mean(repeated)),
    }
    records = [p.record(reward=reward) for p, reward in zip(proposals, earned, strict=True)]
    progress = {name: metrics.get(f"challenger/{name}") for name in ("valid_fraction", "share", "reward")}
    return Played(lessons, metrics, records, progress=progress, totals={"questions_written": len(proposals)})


def challenger_reward(proposal: Proposal, repeated: float, cfg: RZeroConfig) -> float:
    """What a question earns, where this share of its batch, 0 to 1, asks nearly the same."""
    penalty = cfg.repetition * repeated
    if proposal.vote is None:
        return -1.0 - penalty if cfg.reward == "code" else 0.0
    p = proposal.vote.share
    # Differs: the whole answer is compared; the code compares the last character of it
    if cfg.majority == "own" and (p <= 0.1 or proposal.vote.label != proposal.answer):
        p = 0.0
    return min(p, 1 - p) - penalty if cfg.reward == "code" else max(0.0, 1 - 2 * abs(p - 0.5) - penalty)


def _solve(world: World, cfg: RZeroConfig, state: Any) -> Played:
    records, metrics, written = [], {}, 0
    if state is None:
        proposals = _write(world, cfg, cfg.pool, 1)
        _vote(world, proposals, cfg)
        state = [[p.question, label] for p in proposals if (label := taught(p, cfg))]
        metrics, records, written = _metrics_of(proposals), [p.record() for p in proposals], len(proposals)
        if not state:
            raise ValueError(
                f"rzero.keep={cfg.keep}: none of {cfg.pool} questions stays, and "
                f"{sum(p.vote is not None for p in proposals)} could be asked; raise rzero.pool, or widen rzero.keep"
            )
    # Differs: a pool of less than a batch makes smaller batches; the code stops there
    picked = _batch(world, len(state), cfg.groups)
    tasks = [votes.task(*state[k]) for k in picked]
    rollouts_of, said = _answers(world, [t.question for t in tasks], range(len(tasks)), cfg.group_size, _ANSWER, cfg)
    pairs = [(text, task) for task, texts in zip(tasks, said, strict=True) for text in texts]
    right = np.array([v.correct for v in world.check(pairs)], bool).reshape(len(tasks), cfg.group_size)
    # Differs: a box is the form; the code wants a block of thoughts as well, which its prompt does not ask for
    form = np.array([[text is not None for text in texts] for texts in said], float)
    rewards = (1 - cfg.format_weight) * right + cfg.format_weight * form
    lessons = [
        Episode("reasoner", k, rollout, float(reward))
        for k, (rollouts, row) in enumerate(zip(rollouts_of, rewards, strict=True))
        for rollout, reward in zip(rollouts, row, strict=True)
    ]
    metrics |= {"reasoner/pool": float(len(state)), "reasoner/no_answer": float(1 - form.mean())}
    metrics |= reasoner.metrics_of(right, [r for rollouts in rollouts_of for r in rollouts])
    records += [
        Record(t.question, t.answer, texts, list(row), float(np.mean(earned)), [{"wrote": rollouts[0].text[-300:]}])
        for t, texts, row, earned, rollouts in zip(tasks, said, right, rewards, rollouts_of, strict=True)
    ]
    totals = {"questions_written": written, "questions_asked": len(tasks)}
    progress = {"pass_rate": metrics["reasoner/pass_rate"], "truncated": metrics["reasoner/truncated"]}
    return Played(lessons, metrics, records, state, progress, totals)


def taught(proposal: Proposal, cfg: RZeroConfig) -> str | None:
    """The answer that a question of the pool is taught with; None where it does not stay."""
    vote = proposal.vote
    if vote is None or vote.label is None or not cfg.keep[0] <= vote.share <= cfg.keep[1]:
        return None
    # as the code has it: proofs, questions that speak of boxes, answers that are left in words
    odd = any(word in proposal.question for word in ("证明", "box")) or "text" in vote.label
    return None if odd else vote.label


def _batch(world: World, size: int, most: int) -> list[int]:
    """Places in the pool that an iteration asks: every epoch a new order, each question at most once in it."""
    each = min(most, size)
    epoch, batch = divmod(world.iteration, size // each)
    order = np.random.default_rng([world.seed, _ORDER, epoch]).permutation(size)
    return [int(k) for k in order[batch * each : (batch + 1) * each]]


def _metrics_of(proposals: Sequence[Proposal]) -> Metrics:
    """Of what the Challenger wrote."""
    voted = [(p, p.vote) for p in proposals if p.vote]
    metrics: Metrics = {
        "challenger/valid_fraction": len(voted) / len(proposals),
        "challenger/response_length": float(np.mean([len(p.rollout.token_ids) for p in proposals])),
        "challenger/truncated": float(np.mean([p.rollout.finish_reason == "length" for p in proposals])),
    }
    if voted:
        metrics["challenger/share"] = float(np.mean([vote.share for _, vote in voted]))
        metrics["challenger/own_answer"] = float(np.mean([p.answer == vote.label is not None for p, vote in voted]))
    reasons = collections.Counter(p.rejected for p in proposals if p.rejected)
    return metrics | {f"rejected/{reason}": float(count) for reason, count in reasons.items()}


def demand(cfg: RZeroConfig) -> list[Ask]:
    """Every question can be asked, and the whole pool stays."""
    mine = cfg.trains == "challenger"
    groups, size = (cfg.groups, cfg.group_size) if mine else (cfg.pool, 1)
    asker, voter = ("policy", "initial") if mine else ("initial", "policy")
    learns = {"trained": cfg.groups * mine, "estimator": cfg.estimator, "once": not mine}
    written = Ask("challenger", groups, size, cfg.challenger_max_new, **learns, player=asker)
    voted = Ask("vote", groups * size, cfg.votes, cfg.reasoner_max_new, seat="reasoner", player=voter, once=not mine)
    answers = (cfg.groups, cfg.group_size, cfg.reasoner_max_new)
    answered = Ask("reasoner", *answers, trained=cfg.groups, estimator=cfg.estimator)
    return [written, voted] if mine else [written, voted, answered]


def exam(cfg: RZeroConfig) -> Exam:
    """The Reasoner answers."""
    return reasoner.exam(cfg.style, cfg.reasoner_max_new, templates=cfg.templates)


def prompts_of(cfg: RZeroConfig, number: int) -> Prompts:
    """The Challenger's request, the same for every group."""
    return [("challenger", challenger_messages(cfg))]


ABOUT = About(
    panels=(
        Panel(
            "Questions",
            tuple((f"challenger/{name}", name.replace("_", " ")) for name in ("valid_fraction", "share", "repetition")),
            limits=(0, 1),
            meaning="Of questions, those that can be asked; of the votes, those that agree, paid most at one half; of "
            "a batch, what asks nearly the same.",
            unit="share",
        ),
        reasoner.PANEL,
    ),
    glossary=reasoner.GLOSSARY
    | {
        "challenger/valid_fraction": "share of questions that can be asked",
        "challenger/share": "share of the votes that the commonest answer of a question has, mean over questions",
        "challenger/own_answer": "share of questions whose commonest answer is the Challenger's, by the letter",
        "challenger/repetition": "share of the batch in a question's cluster by BLEU, mean over questions",
        "reasoner/pool": "questions that stay to be taught",
        "reasoner/no_answer": "share of replies without a readable box",
    },
    counts=("rejected/",),
    valid="challenger/valid_fraction",
    fixes={
        "rejected/truncated": "raise rzero.challenger_max_new",
        "rejected/question_too_long": "raise buckets.prompt",
        "reasoner/truncated": "raise rzero.reasoner_max_new",
    },
    written=True,
    paper="R-Zero: Self-Evolving Reasoning LLM from Zero Data, arXiv:2508.05004",
)
RZeroConfig.game = Game("nothing", play, demand, exam, prompts_of, ABOUT)

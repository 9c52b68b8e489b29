"""Search Self-Play (arXiv:2510.18821): a Proposer searches for a question with a given answer, a Solver for the answer.

One policy plays both (section 3, algorithm 1): the Proposer is rewarded for valid questions that the Solver fails, the
Solver for being right. A question is valid where rules hold and where what the Proposer was shown is enough to answer
it, other passages among it. Questions of earlier iterations stand in for invalid ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from spicejax.games import solver
from spicejax.games.game import Ask, Exam, Game, Played, Prompts, read_prompts, require
from spicejax.games.ssp import proposals, report, rewards
from spicejax.games.ssp.pool import Kept, Pool
from spicejax.games.ssp.proposals import Proposal, Rules
from spicejax.games.ssp.report import Slot
from spicejax.games.world import World
from spicejax.generate.search import Limits
from spicejax.score import judge, qa
from spicejax.types import Answer, Episode, Estimator, Messages

_SOLVE = 2  # stream of the Solver's rows; round r of the Proposer has the streams 3r and 3r + 1


@dataclasses.dataclass(frozen=True)
class SspConfig:
    """The game."""

    game: ClassVar[Game]

    # answers per iteration, each of which a question is sought for
    answers: int = 256
    # questions tried for each answer, which share a baseline; 1 = REINFORCE as published
    proposer_samples: int = 1
    # answers to each question, which share a baseline [n]
    solver_samples: int = 5
    # how rewards become advantages: none = REINFORCE, whiten = REINFORCE++, mean_std = GRPO, mean = GRPO without the
    # standard deviation; the paper's eq. 4 has none, its code has. docs/losses.md has all
    proposer_estimator: Estimator = "none"
    solver_estimator: Estimator = "mean_std"
    # a role that the first policy keeps playing, untrained: proposer = the paper's Solver-Only, solver = Proposer-Only
    fixed: Literal["", "proposer", "solver"] = ""
    # how questions and answers are asked for: tags = as in the paper, evidence = with R-Search's tags (for a start from
    # its models), simple = by two worked examples (for small models), nano = without a word around them
    request: Literal["tags", "evidence", "simple", "nano"] = "tags"
    # searches a Proposer is asked for where the answer does not say: least and most, drawn for each
    searches: tuple[int, int] = (2, 4)
    # what makes a question valid
    rules: Rules = Rules()
    # a valid question is one that is answered from what the Proposer was shown (RAG verification)
    verify: bool = True
    # documents of other rows among them
    noise: int = 4
    # longest answer of a verification, in tokens
    verify_max_new: int = 256
    # how right an answer is, a verification's too: exact, f1; judge = exact, and where that fails the word of the seat
    # `judge` (the policy, or seats.judge=FOLDER) or of a server (judge.url)
    # Differs: exact match alone, which needs no other model and cannot be talked round; the code asks a judge as well
    judged: rewards.Judged = "exact"
    # longest verdict of that seat, in tokens
    judge_max_new: int = 16
    # more than ten answer tags cost three quarters of a reward, as in the code; the paper's reward is plain
    limit_tags: bool = True
    # of a valid question: failures = share of wrong answers; bounded = 4 p (1 - p) of the share p of right ones, as
    # the code can have it
    proposer_reward: rewards.ProposerReward = "failures"
    # of an invalid one; the paper tried -0.1, and the Proposer fell silent
    invalid_reward: float = 0.0
    # what takes the place of an invalid question: dummy = nothing, resample = another try, replay = an earlier question
    strategy: Literal["dummy", "resample", "replay"] = "replay"
    # resample: most further tries
    tries: int = 4
    # replay: iterations after which the earlier questions are forgotten; 0 = never (full reuse)
    reset_every: int = 10
    # replay: only questions that were solved at most this share of the time
    replay_threshold: float = 1.0
    # replay: most of them in an iteration, none twice; 0 = every place is filled, at the start with few questions often
    replay_most: int = 0
    # of a Proposer's row and of a Solver's, in tokens
    proposer_limits: Limits = Limits(turns=10, turn=1024, observation=1024, total=8192)
    solver_limits: Limits = Limits(turns=10, turn=1024, observation=1024, total=8192)
    # folder of your own prompts, files named as in games/ssp/prompts/ and games/prompts/; read once
    prompts: str = ""
    # prompts by name (ssp.templates.propose=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def items(self) -> int:
        """Answers of an iteration."""
        return self.answers

    @property
    def slots(self) -> int:
        """Questions of an iteration."""
        return self.answers * self.proposer_samples

    def __post_init__(self) -> None:
        read_prompts(self, proposals.PACKAGE, solver.PACKAGE)
        positive = ("answers", "proposer_samples", "solver_samples", "verify_max_new", "tries")
        require(self, dict.fromkeys(positive, 1) | {"noise": 0, "reset_every": 0, "replay_most": 0})
        if len(self.searches) != 2 or not 1 <= self.searches[0] <= self.searches[1]:
            raise ValueError(f"ssp.searches={self.searches}: give the least and the most, such as (2, 4)")


def play(world: World, answers: Sequence[Answer], cfg: SspConfig, state: Any = None) -> Played:
    """Propose, check, fill, solve, reward. `state` is what Pool.state made."""
    proposed, tried = _proposals(world, answers, cfg)
    slots = [Slot(p, None if p.rejected else (p.question, p.answer)) for p in proposed]
    pool = Pool.of(state)
    failed = [slot for slot in slots if slot.asked is None]
    drawn = []
    if cfg.strategy == "replay":
        drawn = pool.drawn(len(failed), cfg.replay_threshold, world.rng(_SOLVE), cfg.replay_most)
    for slot, place in zip(failed, drawn, strict=False):
        slot.asked, slot.place = (pool.kept[place].question, pool.kept[place].answer), place
    _solve(world, slots, cfg)
    return _scored(slots, cfg, pool, tried)


def _proposals(world: World, answers: Sequence[Answer], cfg: SspConfig) -> tuple[list[Proposal], int]:
    """The proposals of an iteration, and how many were made."""
    targets = [answer for answer in answers for _ in range(cfg.proposer_samples)]
    proposed = _propose(world, targets, list(range(len(targets))), cfg, 0)
    tried = len(proposed)
    for again in range(1, cfg.tries + 1 if cfg.strategy == "resample" else 0):
        failed = [slot for slot, proposal in enumerate(proposed) if proposal.rejected]
        retried = _propose(world, [targets[slot] for slot in failed], failed, cfg, again, proposed)
        tried += len(retried)
        for slot, proposal in zip(failed, retried, strict=True):
            # Differs: the last failure is kept as the slot's lesson; the paper is silent on those before it
            proposed[slot] = proposal
    return proposed, tried


def _propose(
    world: World, targets: Sequence[Answer], slots: Sequence[int], cfg: SspConfig, again: int,
    batch: Sequence[Proposal] = (),
) -> list[Proposal]:  # fmt: skip
    """One row of the Proposer for each of these answers, judged by the rules and verified.

    Args:
      slots: their places in the iteration's batch. batch: what stands there, to be replaced in these places.
    """
    if not targets:
        return []
    low, high = cfg.searches
    counts = [
        answer.searches or int(world.rng(3 * again, slot).integers(low, high + 1))
        for answer, slot in zip(targets, slots, strict=True)
    ]
    rows = world.search(
        "proposer",
        [proposals.messages(a, n, cfg.request, cfg.templates) for a, n in zip(targets, counts, strict=True)],
        tags=proposals.tags_of(cfg.request),
        limits=cfg.proposer_limits,
        samples=1,
        first_row=slots,
        stream=3 * again,
    )
    read = [
        proposals.read(row, answer, cfg.rules, world.examines) for (row,), answer in zip(rows, targets, strict=True)
    ]
    read = [
        dataclasses.replace(p, rejected="too_long")
        if not p.rejected and not world.fits("solver", _question(cfg, p.question), cfg.solver_limits.total - 1)
        else p
        for p in read
    ]
    whole = dict(enumerate(batch)) | dict(zip(slots, read, strict=True))
    return _verified(world, read, slots, list(whole.values()), cfg, 3 * again + 1) if cfg.verify else read


def _verified(
    world: World, read: list[Proposal], slots: Sequence[int], batch: Sequence[Proposal], cfg: SspConfig, stream: int
) -> list[Proposal]:
    """The proposals, those that their evidence does not answer rejected; noise is drawn from all rows of the batch."""
    places: list[int] = []
    prompts: list[Messages] = []
    for place, (proposal, slot) in enumerate(zip(read, slots, strict=True)):
        if proposal.rejected:
            continue
        if messages := _verification(world, proposal, batch, cfg, world.rng(stream, slot)):
            places.append(place)
            prompts.append(messages)
        else:
            read[place] = dataclasses.replace(proposal, rejected="too_much_evidence")
    replies = world.ask(
        "verifier",
        prompts,
        samples=1,
        first_row=[slots[place] for place in places],
        max_new=cfg.verify_max_new,
        stream=stream,
    )
    claims = [
        (read[place].question, read[place].answer, solver.answer_in(reply.text))
        for place, (reply,) in zip(places, replies, strict=True)
    ]
    for place, right in zip(places, _right(world, claims, cfg), strict=True):
        if right < 1:
            read[place] = dataclasses.replace(read[place], rejected="not_verified")
    return read


def _right(world: World, claims: Sequence[tuple[str, Answer, str | None]], cfg: SspConfig) -> list[float]:
    """How right the answers to questions are, 0 to 1."""
    worth = [rewards.right(said, answer, cfg.judged) for _, answer, said in claims]
    if cfg.judged == "judge":
        doubtful = [n for n, right in enumerate(worth) if not right]
        unsure = [judge.Claim(question, answer.texts, said) for question, answer, said in (claims[n] for n in doubtful)]
        for n, agrees in zip(doubtful, world.judge(unsure, max_new=cfg.judge_max_new), strict=True):
            worth[n] = float(agrees)
    return worth


def _verification(
    world: World, proposal: Proposal, others: Sequence[Proposal], cfg: SspConfig, rng: np.random.Generator
) -> Messages | None:
    """The prompt of a verification, with as much of the noise as fits; None where the evidence alone does not."""
    extra = proposals.noise(proposal, others, cfg.noise, rng)
    for count in range(len(extra), -1, -1):
        documents = [*proposal.evidence, *extra[:count]]
        shuffled = [documents[i] for i in rng.permutation(len(documents))]
        messages = proposals.verification(proposal.question, shuffled, cfg.request, cfg.templates)
        if world.fits("verifier", messages):
            return messages
    return None


def _question(cfg: SspConfig, question: str) -> Messages:
    return solver.messages(question, cfg.request, cfg.templates)


def _solve(world: World, slots: Sequence[Slot], cfg: SspConfig) -> None:
    """Let the Solver answer the question of every slot that has one, and judge the answers."""
    # Differs: a slot without a question is not asked; the code has a dummy answered there, which teaches nothing
    asked = [(number, slot, slot.asked) for number, slot in enumerate(slots) if slot.asked is not None]
    if not asked:
        return
    rows_of = world.search(
        "solver",
        [_question(cfg, question) for _, _, (question, _) in asked],
        tags=solver.tags_of(cfg.request),
        limits=cfg.solver_limits,
        samples=cfg.solver_samples,
        first_row=[number * cfg.solver_samples for number, _, _ in asked],
        stream=_SOLVE,
    )
    pairs = list(zip(asked, rows_of, strict=True))
    worth = iter(_right(world, [(*of, solver.answer(row)) for (_, _, of), rows in pairs for row in rows], cfg))
    for (_, slot, _), rows in pairs:
        slot.rows, slot.right = rows, [next(worth) for _ in rows]


def _scored(slots: Sequence[Slot], cfg: SspConfig, pool: Pool, tried: int) -> Played:
    """Rewards and lessons; `tried` proposals were made."""
    lessons = []
    for number, slot in enumerate(slots):
        judged = list(zip(slot.rows, slot.right, strict=True))
        slot.earned = [rewards.solved(row, right, limit_tags=cfg.limit_tags) for row, right in judged]
        valid = not slot.proposal.rejected
        slot.reward = rewards.proposed(slot.right, cfg.proposer_reward) if valid else cfg.invalid_reward
        lessons.append(Episode("proposer", number // cfg.proposer_samples, slot.proposal.row.rollout, slot.reward))
        solvers = zip(slot.rows, slot.earned, strict=True)
        lessons += [Episode("solver", cfg.answers + number, row.rollout, reward) for row, reward in solvers]
    new = [Kept(s.proposal.question, s.proposal.answer, s.success) for s in slots if not s.proposal.rejected]
    metrics, after = report.metrics_of(slots, tried), None
    if cfg.strategy == "replay":
        after = pool.after(new, {s.place: s.success for s in slots if s.place is not None}, cfg.reset_every)
        metrics["pool/questions"] = float(len(after.kept))
    progress = {"valid": "proposer/valid", "pass_rate": "solver/pass_rate", "searches": "solver/searches"}
    searches = sum(solver.searches(row) for slot in slots for row in (slot.proposal.row, *slot.rows))
    return Played(
        lessons,
        metrics,
        list(map(report.record, slots)),
        state=after.state if after is not None else None,
        progress={name: metrics.get(key) for name, key in progress.items()},
        totals={"questions_proposed": tried, "questions_valid": len(new), "searches": searches},
    )


def demand(cfg: SspConfig) -> list[Ask]:
    """Every question is valid."""
    verifier = Ask("verifier", cfg.slots, 1, cfg.verify_max_new, prompt="document", player=_player(cfg, "solver"))
    return [
        _searching(cfg, "proposer", 1, cfg.proposer_limits, cfg.proposer_estimator),
        *([verifier] if cfg.verify else []),
        *([Ask("judge", cfg.slots * cfg.solver_samples, 1, cfg.judge_max_new)] if cfg.judged == "judge" else []),
        _searching(cfg, "solver", cfg.solver_samples, cfg.solver_limits, cfg.solver_estimator),
    ]


def _searching(cfg: SspConfig, role: str, samples: int, row: Limits, estimator: Estimator) -> Ask:
    alike = cfg.proposer_samples if role == "proposer" else samples
    return Ask(
        role, cfg.slots, samples, row.total, trained=0 if cfg.fixed == role else cfg.slots, estimator=estimator,
        compared=alike, player=_player(cfg, role), turn_limits=row.turn_limits,
    )  # fmt: skip


def _player(cfg: SspConfig, role: str) -> Literal["policy", "initial"]:
    return "initial" if cfg.fixed == role else "policy"


def exam(cfg: SspConfig) -> Exam:
    """The Solver answers as in training."""
    return solver.exam(cfg.request, cfg.solver_limits, cfg.templates)


def prompts_of(cfg: SspConfig, answer: Answer) -> Prompts:
    """The Proposer is given the answer; how long a question is, is up to it."""
    return [("proposer", proposals.messages(answer, answer.searches or cfg.searches[1], cfg.request, cfg.templates))]


SspConfig.game = Game(
    "answers", play, demand, exam, prompts_of, report.ABOUT,
    lambda cfg, answer: cfg.judged == "judge" or qa.matches_itself(answer.texts),
    removed={"bounded_left": 0.0, "bounded_width": 1.0, "noise_unit": "passage"},
)  # fmt: skip

"""Absolute Zero (arXiv:2505.03335): one policy writes programs as tasks and solves them; an interpreter is the judge.

As a Proposer it writes a program with an input (deduction, abduction), or inputs and a hint for an earlier program
(induction); it is paid for tasks that it solves seldom, yet sometimes. As a Solver it says the output, an input, or the
program. No data is read: tasks that ran go into buffers, from which later ones take examples.
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from spicejax.games import reasoner
from spicejax.games.absolute_zero import tasks
from spicejax.games.absolute_zero.tasks import KINDS, PACKAGE, Kind, Task
from spicejax.games.game import About, Ask, Exam, Game, Panel, Played, Prompts, Record, read_prompts, require
from spicejax.games.world import World
from spicejax.score import functions
from spicejax.types import Episode, Estimator, Messages, Metrics, Rollout

_SEED, _PROPOSE, _ATTEMPT, _SOLVE, _DRAW = range(5)  # random streams
Buffers = dict[Kind, list[Task]]


@dataclasses.dataclass(frozen=True)
class AbsoluteZeroConfig:
    """The game."""

    game: ClassVar[Game]

    # tasks of each kind that an iteration proposes, and that it solves
    batch: int = 64
    # kinds of tasks; fewer are the paper's ablations
    kinds: tuple[Kind, ...] = KINDS
    # answers that say how hard a new task is [n]; they teach nothing
    attempts: int = 8
    # earlier tasks that a Proposer is shown [K]
    references: int = 6
    # inputs that are asked for a program of an induction; half of them are shown to the Solver
    inputs: int = 10
    # tasks of each kind that the first policy proposes before the first iteration; 0 = only x -> x is known
    seeds: int = 256
    # most tasks of a buffer; the oldest stay, as in the code
    capacity: int = 16384
    # what a task earns that is never or always solved: 0 (paper), -0.5 (code); else 1 - share of right answers
    extreme_reward: float = 0.0
    # what a task earns that cannot be run, -0.5 (paper) or -1 (code); a wrong answer; what has another form
    invalid_reward: float = -0.5
    wrong_reward: float = -0.5
    form_reward: float = -1.0
    # how rewards become advantages, of each role and kind apart: whiten = the paper's task-relative REINFORCE++
    estimator: Estimator = "whiten"
    # programs of the model run apart from this machine, or not at all (sandbox); accept = with limits alone
    programs: Literal["sandbox", "accept"] = "sandbox"
    # how it is asked: `full`, `simple` with worked examples for small models, `nano` without a word around it
    style: reasoner.Style = "full"
    # folder of your own prompts, named as those of games/prompts/ and games/absolute_zero/prompts/; read once
    prompts: str = ""
    # prompts by name (absolutezero.templates.solve_deduction=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)
    # longest reply of each role, in tokens, end of turn included
    proposer_max_new: int = 8096
    solver_max_new: int = 8096

    @property
    def items(self) -> int:
        """Nothing is read: one number for each proposal."""
        return self.batch * len(self.kinds)

    def __post_init__(self) -> None:
        read_prompts(self, reasoner.PACKAGE, PACKAGE)
        require(self, dict.fromkeys(("batch", "attempts", "inputs", "capacity"), 1) | {"references": 0, "seeds": 0})
        require(self, dict.fromkeys(("proposer_max_new", "solver_max_new"), 1))
        if not self.kinds or set(self.kinds) - set(KINDS):
            raise ValueError(f"absolutezero.kinds={self.kinds}: choose from {', '.join(KINDS)}")
        if not {"deduction", "abduction"} & set(self.kinds):
            raise ValueError(f"absolutezero.kinds={self.kinds}: induction is about programs of the others; add one")
        if self.inputs < 2:
            raise ValueError(f"absolutezero.inputs={self.inputs}: at least 2, one to show and one to judge by")


class Solution(NamedTuple):
    """A Solver's reply to a task."""

    kind: Kind
    rollout: Rollout
    answer: str | None  # None where its form is another
    right: bool


@dataclasses.dataclass
class Proposal:
    """What a Proposer wrote, and what became of it."""

    kind: Kind
    rollout: Rollout
    task: Task  # with the outputs of its runs
    rejected: str  # why nobody is asked; empty where it is valid
    attempts: Sequence[Solution] = ()

    @property
    def rate(self) -> float:
        """Share of right attempts."""
        return sum(s.right for s in self.attempts) / len(self.attempts)

    def reward(self, cfg: AbsoluteZeroConfig) -> float:
        """What it earns."""
        if self.rejected:
            return cfg.form_reward if self.rejected == "form" else cfg.invalid_reward
        return 1 - self.rate if 0 < self.rate < 1 else cfg.extreme_reward

    def record(self, cfg: AbsoluteZeroConfig, **more: Any) -> Record:
        extra = {"kind": self.kind, **({"rejected": self.rejected} if self.rejected else {}), **more}
        question, gold = json.dumps(self.task[:2]), json.dumps(self.task.outputs)
        said, right = [s.answer for s in self.attempts], [s.right for s in self.attempts]
        reward, wrote = None if more else self.reward(cfg), [{"wrote": self.rollout.text[-300:]}]
        return Record(question if self.task.program else None, gold, said, right, reward, wrote, extra)


def play(world: World, numbers: Sequence[int], cfg: AbsoluteZeroConfig, state: Any = None) -> Played:
    """Propose, see how hard it is, and solve. The state is the buffers: kind -> tasks, each a list of its fields."""
    kept = (state or {}).get
    buffers: Buffers = {kind: [Task(a, tuple(b), tuple(c), d) for a, b, c, d in kept(kind, ())] for kind in KINDS}
    records: list[Record] = []
    if state is None:
        for kind in KINDS[:2]:
            buffers[kind].append(tasks.NANO_FIRST if cfg.style == "nano" else tasks.FIRST)
        # Differs: one round of attempts; the code goes on until the buffers are full
        for kinds in (KINDS[:2], KINDS[2:]):  # inductions are about programs that are there by then
            _keep(buffers, seeds := propose(world, buffers, cfg, cfg.seeds, _SEED, kinds), cfg)
            records += [p.record(cfg, seed=True) for p in seeds]
    proposals = propose(world, buffers, cfg, cfg.batch, _PROPOSE)
    valid = [p for p in proposals if not p.rejected]
    attempts = solve(world, [(p.kind, p.task) for p in valid], cfg, cfg.attempts, _ATTEMPT)
    for proposal, solutions in zip(valid, attempts, strict=True):
        proposal.attempts = solutions
    taught = _picked(world, buffers, valid, cfg)
    _keep(buffers, proposals, cfg)
    solved = [solution for (solution,) in solve(world, taught, cfg, 1, _SOLVE)]
    lessons = [Episode(f"propose_{p.kind}", n, p.rollout, p.reward(cfg)) for n, p in enumerate(proposals)]
    for s in solved:
        reward = 1.0 if s.right else cfg.form_reward if s.answer is None else cfg.wrong_reward
        lessons.append(Episode(f"solve_{s.kind}", len(lessons), s.rollout, reward))
    metrics = _metrics_of(proposals, solved, buffers, cfg)
    records += [p.record(cfg) for p in proposals]
    progress = {name: metrics.get(name) for name in ("proposer/valid", "solver/pass_rate")}
    totals = {"tasks_proposed": len(proposals), "tasks_valid": len(valid)}
    state = {kind: [list(task) for task in buffer] for kind, buffer in buffers.items()}
    return Played(lessons, metrics, records, state, progress, totals)


def propose(
    world: World, buffers: Buffers, cfg: AbsoluteZeroConfig, count: int, stream: int, kinds: Sequence[Kind] = KINDS
) -> list[Proposal]:
    """Ask for `count` tasks of each of these kinds that the game has, and run them."""
    rows = [(k, n) for k, kind in enumerate(KINDS) if kind in kinds and kind in cfg.kinds for n in range(count)]
    plans: list[tuple[Kind, str, Messages]]
    plans = [(KINDS[k], *_request(world, buffers, cfg, KINDS[k], stream, n)) for k, n in rows]
    asked, sampling = [messages for _, _, messages in plans], {"max_new": cfg.proposer_max_new, "stream": stream}
    rollouts_of = world.ask("proposer", asked, samples=1, first_row=[k * count + n for k, n in rows], **sampling)
    proposals = []
    for (kind, program, _), (rollout,) in zip(plans, rollouts_of, strict=True):
        task = tasks.read_proposal(kind, rollout.text, cfg.style, program)
        why = "form" if task is None else "" if tasks.allowed(task) else "not_allowed"
        proposals.append(Proposal(kind, rollout, task or tasks.NOTHING, why))
    run = [p for p in proposals if not p.rejected]
    outputs = functions.returned(world.execute, [(p.task.program, p.task.inputs) for p in run], times=2)
    for p, made in zip(run, outputs, strict=True):
        p.task = p.task._replace(outputs=tuple(made or ()))
        if made is None:
            p.rejected = "does_not_run"
        elif p.kind == "induction" and len(made) < 2:
            p.rejected = "one_input"
        elif not tasks.allowed(p.task) or not world.fits("solver", _question(p.kind, p.task, cfg)):
            p.rejected = "too_long"
    return proposals


def _request(
    world: World, buffers: Buffers, cfg: AbsoluteZeroConfig, kind: Kind, stream: int, n: int
) -> tuple[str, Messages]:
    """The program of an induction, and the prompt; as many examples as fit."""
    rng = world.rng(_DRAW, stream, KINDS.index(kind), n)
    if kind == "induction":
        known = [task for other in KINDS[:2] for task in buffers[other]]
        asked = [(task.program, [task]) for task in (known[rng.integers(len(known))], known[0])]  # which is short
    else:
        order = rng.permutation(len(buffers[kind]))[: cfg.references]
        asked = [("", [buffers[kind][k] for k in order[:most]]) for most in range(len(order), -1, -1)]
    written = [(p, tasks.messages(f"propose_{kind}", cfg.style, cfg.templates, s, cfg.inputs)) for p, s in asked]
    return next((each for each in written if world.fits("proposer", each[1])), written[-1])


def _question(kind: Kind, task: Task, cfg: AbsoluteZeroConfig) -> Messages:
    return tasks.messages(f"solve_{kind}", cfg.style, cfg.templates, [task])


def solve(
    world: World, asked: Sequence[tuple[Kind, Task]], cfg: AbsoluteZeroConfig, samples: int, stream: int
) -> list[list[Solution]]:
    """Replies to each task, and which are right."""
    messages, rows = [_question(kind, task, cfg) for kind, task in asked], range(0, len(asked) * samples, samples)
    sampling = {"samples": samples, "max_new": cfg.solver_max_new, "stream": stream}
    rollouts_of = world.ask("solver", messages, first_row=rows, **sampling)
    read = [[tasks.read_answer(kind, rollout.text, cfg.style) for rollout in rollouts]
            for (kind, _), rollouts in zip(asked, rollouts_of, strict=True)]  # fmt: skip
    every = [(*each, answer) for each, answers in zip(asked, read, strict=True) for answer in answers]
    right = np.array(tasks.right(world, every), bool).reshape(len(asked), samples).tolist()
    found = zip(asked, rollouts_of, read, right, strict=True)
    return [[Solution(kind, *reply) for reply in zip(*replies, strict=True)] for (kind, _), *replies in found]


def _keep(buffers: Buffers, proposals: Sequence[Proposal], cfg: AbsoluteZeroConfig) -> None:
    """Put what ran into the buffers, solved or not."""
    for kind in cfg.kinds:
        new = [p.task for p in proposals if p.kind == kind and not p.rejected]
        buffers[kind] = (buffers[kind] + new)[: cfg.capacity]


def _picked(
    world: World, buffers: Buffers, valid: Sequence[Proposal], cfg: AbsoluteZeroConfig
) -> list[tuple[Kind, Task]]:
    """What is solved: the tasks of this iteration, then earlier ones drawn from the buffers; fewer where none are."""
    picked = []
    for kind in cfg.kinds:
        new = [p.task for p in valid if p.kind == kind]
        order = world.rng(_DRAW, _SOLVE, KINDS.index(kind)).permutation(len(buffers[kind]))
        picked += [(kind, task) for task in [*new, *(buffers[kind][k] for k in order)][: cfg.batch]]
    return picked


def _metrics_of(
    proposals: Sequence[Proposal], solved: Sequence[Solution], buffers: Buffers, cfg: AbsoluteZeroConfig
) -> Metrics:
    measured: dict[str, list[float]] = {"proposer/valid": [not p.rejected for p in proposals]}
    measured["solver/pass_rate"] = [s.right for s in solved]
    for kind in cfg.kinds:
        mine = [p for p in proposals if p.kind == kind]
        measured[f"proposer/{kind}_valid"] = [not p.rejected for p in mine]
        measured[f"proposer/{kind}_reward"] = [p.reward(cfg) for p in mine]
        measured[f"proposer/{kind}_pass_rate"] = [p.rate for p in mine if not p.rejected]
        measured[f"solver/{kind}_pass_rate"] = [s.right for s in solved if s.kind == kind]
        measured[f"buffer/{kind}"] = [len(buffers[kind])]
    for role, rollouts in (("proposer", [p.rollout for p in proposals]), ("solver", [s.rollout for s in solved])):
        measured[f"{role}/response_length"] = [len(r.token_ids) for r in rollouts]
        measured[f"{role}/truncated"] = [r.finish_reason == "length" for r in rollouts]
    reasons = collections.Counter(f"rejected/{p.rejected}" for p in proposals if p.rejected)
    measured |= {name: [n] for name, n in reasons.items()}
    return {name: float(np.mean(of)) for name, of in measured.items() if of}


def demand(cfg: AbsoluteZeroConfig) -> list[Ask]:
    """Every proposal is a task that runs. What is sampled, of all kinds at once; then what is learnt from, of each."""
    most = {"proposer": cfg.proposer_max_new, "solver": cfg.solver_max_new}
    last = "induction" in cfg.kinds
    first, batch = len(cfg.kinds) - last, cfg.batch * len(cfg.kinds)
    sampled = (("seeds", cfg.seeds * first, 1, "proposer"), ("induction_seeds", cfg.seeds * last, 1, "proposer"),
               ("proposals", batch, 1, "proposer"), ("attempts", batch, cfg.attempts, "solver"),
               ("solutions", batch, 1, "solver"))  # fmt: skip
    asks = [Ask(role, n, samples, most[seat], "document", seat=seat, programs=cfg.programs, once="seeds" in role)
            for role, n, samples, seat in sampled if n]  # fmt: skip
    for role, seat in (("propose", "proposer"), ("solve", "solver")):
        learns = {"group": 1, "estimator": cfg.estimator, "seat": seat}
        asks += [Ask(f"{role}_{k}", cfg.batch, 0, most[seat], "document", cfg.batch, **learns) for k in cfg.kinds]
    return asks


def exam(cfg: AbsoluteZeroConfig) -> Exam:
    """Questions of any kind, asked as every Reasoner is."""
    told = cfg.style, cfg.templates
    return reasoner.asked(lambda task: reasoner.messages(task.question, *told), cfg.solver_max_new, role="solver")


def prompts_of(cfg: AbsoluteZeroConfig, number: int) -> Prompts:
    """The shortest: what does not fit is left out later."""
    return [("proposer", tasks.messages(f"propose_{cfg.kinds[0]}", cfg.style, cfg.templates, [tasks.FIRST]))]


ABOUT = About(
    panels=(
        Panel(
            "Tasks",
            (("proposer/valid", "valid"), ("solver/pass_rate", "solved")),
            limits=(0, 1),
            meaning="Of what is proposed, the share that runs; of what is asked, what is solved. A new task is "
            "paid more the less often it is solved, and nothing if never or always.",
            unit="share",
        ),
    ),
    glossary={
        "proposer/*_pass_rate": "share of right answers to new tasks of the kind, mean over tasks",
        "proposer/*valid": "share of proposals, of one kind or of all, that run, twice alike",
        "solver/*pass_rate": "share of right answers, of one kind or of all, to new tasks and earlier ones",
        "buffer/*": "tasks of the kind that are kept",
    },
    counts=("rejected/", "buffer/"),
    valid="proposer/valid",
    fixes={
        "rejected/form": "raise absolutezero.proposer_max_new, or take absolutezero.style=simple",
        "rejected/too_long": "raise buckets.prompt",
        "solver/truncated": "raise absolutezero.solver_max_new",
    },
    written=True,
    paper="Absolute Zero: Reinforced Self-play Reasoning with Zero Data, arXiv:2505.03335",
)
AbsoluteZeroConfig.game = Game("nothing", play, demand, exam, prompts_of, ABOUT)

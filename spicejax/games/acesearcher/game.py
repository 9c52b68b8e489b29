"""AceSearcher (arXiv:2509.24193): one policy splits questions and answers them, and learns from its own better replies.

For each question m plans, for each plan m' paths (paths.py), for each path the worth of its answer (rewards.py); what
is learnt is preferences between plans, sub-answers and final answers (pairs.py), or the good paths alone. A round of
the paper is a run whose paths are sampled by the policy that it starts from, which is also the reference; rounds
are a chain of runs.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from spicejax.games.acesearcher import pairs, paths, rewards
from spicejax.games.acesearcher.paths import Path, Way
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.game import Ask, Exam, Game, Panel, Played, Prompts, Reply
from spicejax.games.world import World
from spicejax.text import prompts
from spicejax.types import Episode, Lesson, Messages, Metrics, Preference, Rejection, Rollout, Task

_ROLES = ("decomposer", "subquestion", "solver")  # of lessons
_SUB_ANSWERS = 1  # stream; plans have the one before, final answers the one behind


@dataclasses.dataclass(frozen=True)
class AceSearcherConfig:
    """The game."""

    # questions per iteration
    questions: int = 64
    # plans of each question [m]
    plans: int = 3
    # paths along each plan [m']
    solutions: int = 4
    # what is asked: qa = questions, claim = claims to be checked, both with passages that are looked up; document =
    # questions about a text that comes with them ("context" in their file)
    kind: paths.Kind = "qa"
    # how it is asked: full = requests; nano = bare, for models of a few million parameters
    request: paths.Request = "full"
    # most sub-questions of a plan; a plan with more is none
    most_questions: int = 6
    # passages looked up for each sub-question
    found: int = 10
    # passages of the final prompt, shared among the sub-questions [N]
    total: int = 15
    # longest plan, sub-answer, final answer, in tokens
    plan_max_new: int = 256
    answer_max_new: int = 32
    final_max_new: int = 512
    # what an answer is worth: exact = exact match of a well-formed one, 0 or 1 (paper); summed = exact match +
    # containment + F1, 0 to 3 (code)
    reward: rewards.RewardKind = "exact"
    # what is learnt: pairs = better against worse replies (learner.loss=dpo, ipo, simpo); best = each question's best
    # path, if it is worth anything (RAFT); right = all paths of full worth (ReST-EM); both with learner.loss=supervised
    learn: Literal["pairs", "best", "right"] = "pairs"
    # which replies are paired: paper = best and worst; code = by the public code's thresholds, for `summed`
    rule: pairs.Rule = "paper"
    # which sub-answers are paired: all that differ (paper), first = the first that differ, if they share no word, none
    sub_pairs: pairs.SubPairs = "all"
    # whose paths are learnt from: initial = those of the policy that the run starts from (a round of the paper);
    # policy = of today's
    sampled_by: Literal["initial", "policy"] = "initial"
    # how held-out questions are answered: plan = as in training; direct = at once, with `found` passages
    exam: Literal["plan", "direct"] = "plan"
    # folder of your own prompts, files named as in games/acesearcher/prompts/; read once, at the start
    prompts: str = ""
    # prompts by name (acesearcher.templates.plan_qa=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def items(self) -> int:
        """Questions of an iteration."""
        return self.questions

    @property
    def way(self) -> Way:
        """How a question is answered."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(Way)}
        return Way(**own)

    def __post_init__(self) -> None:
        own = prompts.own("acesearcher", self.templates, self.prompts, paths.PACKAGE)
        object.__setattr__(self, "templates", own)
        object.__setattr__(self, "prompts", "")
        counts = "questions plans solutions most_questions found total plan_max_new answer_max_new final_max_new"
        for name in counts.split():
            if getattr(self, name) < 1:
                raise ValueError(f"acesearcher.{name}={getattr(self, name)}: must be at least 1")
        if self.rule == "code" and self.reward != "summed":
            raise ValueError(
                "acesearcher.rule=code: its thresholds are of rewards to 3; give acesearcher.reward=summed"
            )


def play(world: World, questions: Sequence[Task], cfg: AceSearcherConfig, state: None = None) -> Played:
    """Walk m x m' paths of every question. Questions too long to be planned are left out and counted."""
    way = cfg.way
    asked = [k for k, task in enumerate(questions) if world.fits("decomposer", _ask(way, task))]
    replies, read, walked = _walk(
        world, [questions[k] for k in asked], cfg, samples=cfg.plans, first_row=[k * cfg.plans for k in asked],
        copies=cfg.solutions, stream=0,
    )  # fmt: skip
    lessons: list[Lesson] = []
    records, totals = [], collections.Counter[str]()
    rejected = collections.Counter(r.reason for plans in read for r in plans if isinstance(r, Rejection))
    for k, plan_replies, plans, own in zip(asked, replies, read, walked, strict=True):
        task = questions[k]
        worth = [[_worth(path, task, cfg) for path in found] for found in own]
        new = _lessons(k, plan_replies, plans, own, worth, cfg)
        lessons += new
        totals.update(lesson.role for lesson in new)
        records.append(_record(task, plan_replies, plans, own, worth))
    metrics: Metrics = {"decomposer/too_long": float(len(questions) - len(asked))}
    metrics |= {f"rejected/{reason}": float(n) for reason, n in rejected.items()}
    metrics |= {f"{role}/lessons": float(totals[role]) for role in _ROLES}
    metrics |= _measured(walked, read, records)
    shown = {"formed": "solver/formed", "pass_rate": "solver/pass_rate", "lessons": "decomposer/lessons"}
    return Played(
        lessons,
        metrics,
        records,
        progress={name: metrics.get(quantity) for name, quantity in shown.items()},
        totals={"questions_asked": len(asked), "lessons": len(lessons)},
        example="\n".join(f"  {name}: {value!r}" for name, value in records[0].items()) if records else "",
    )


def _walk(
    world: World, tasks: Sequence[Task], cfg: AceSearcherConfig, *, samples: int, first_row: Sequence[int],
    copies: int, stream: int,
) -> tuple[list[list[Rollout]], list[list[Plan | Rejection]], list[list[list[Path]]]]:  # fmt: skip
    """Plans of each question as replies and as read, and the paths along each of them; [] along what is no plan."""
    way = cfg.way
    replies = world.ask(
        "decomposer", [_ask(way, task) for task in tasks], samples=samples, first_row=first_row,
        max_new=way.plan_max_new, stream=stream,
    )  # fmt: skip
    read = [[paths.read_plan(reply, way) for reply in own] for own in replies]
    walked = [
        [
            [Path(task, plan, (first + i) * copies + j) for j in range(copies)] if isinstance(plan, Plan) else []
            for i, plan in enumerate(own)
        ]
        for task, first, own in zip(tasks, first_row, read, strict=True)
    ]
    everything = [path for own in walked for found in own for path in found]
    paths.solve(world, everything, way, copies=copies, stream=stream + _SUB_ANSWERS)
    return replies, read, walked


def _ask(way: Way, task: Task) -> Messages:
    return paths.plan_messages(task, way)


def _worth(path: Path, task: Task, cfg: AceSearcherConfig) -> float:
    return rewards.reward(path.said, (task.answer, *task.aliases), formed=path.formed, kind=cfg.reward)


def _lessons(
    question: int,
    replies: Sequence[Rollout],
    read: Sequence[Plan | Rejection],
    walked: Sequence[Sequence[Path]],
    worth: Sequence[Sequence[float]],
    cfg: AceSearcherConfig,
) -> list[Lesson]:
    """What one question's paths teach."""
    if cfg.learn != "pairs":
        return _examples(question, replies, walked, worth, cfg)
    means = [float(np.mean(own)) if own else 0.0 for own in worth]
    found = [("decomposer", pair) for pair in pairs.of_plans(replies, read, means, cfg.rule)]
    for own, values in zip(walked, worth, strict=True):
        for good, bad in pairs.of_paths(own, values, cfg.rule):
            found += [("subquestion", pair) for pair in pairs.sub_answers(good, bad, cfg.sub_pairs)]
            found += [("solver", pair) for pair in pairs.finals(good, bad)]
    return [Preference(role, _group(question, role), better, worse) for role, (better, worse) in found]


def _examples(
    question: int,
    replies: Sequence[Rollout],
    walked: Sequence[Sequence[Path]],
    worth: Sequence[Sequence[float]],
    cfg: AceSearcherConfig,
) -> list[Lesson]:
    """The replies of good paths as given ones; a plan and a sub-answer that several paths share once."""
    full = 1.0 if cfg.reward == "exact" else 3.0
    ranked = sorted(
        ((value, i, path) for i, (own, values) in enumerate(zip(walked, worth, strict=True))
         for path, value in zip(own, values, strict=True)),
        key=lambda each: -each[0],
    )  # fmt: skip
    good = [each for each in ranked if each[0] >= full] if cfg.learn == "right" else ranked[:1]
    found: dict[int, tuple[str, Rollout]] = {}
    for value, i, path in good:
        if value > 0 and path.final is not None:
            found[id(replies[i])] = "decomposer", replies[i]
            found |= {id(reply): ("subquestion", reply) for reply in path.replies.values()}
            found[id(path.final)] = "solver", path.final
    return [Episode(role, _group(question, role), rollout, 1.0) for role, rollout in found.values()]


def _group(question: int, role: str) -> int:
    """Of a question's lessons of one role; roles never share a number."""
    return question * len(_ROLES) + _ROLES.index(role)


def _record(
    task: Task,
    replies: Sequence[Rollout],
    read: Sequence[Plan | Rejection],
    walked: Sequence[Sequence[Path]],
    worth: Sequence[Sequence[float]],
) -> dict[str, Any]:
    """One question for tasks.jsonl: every plan with its paths' worth, and one path in full."""
    told = [
        {"plan": reply.text}
        | ({"rejected": plan.reason} if isinstance(plan, Rejection) else {"rewards": list(values)})
        | ({"faults": [path.fault for path in own]} if any(path.fault for path in own) else {})
        | ({"said": own[0].said, "transcript": own[0].transcript()} if own else {})
        for reply, plan, own, values in zip(replies, read, walked, worth, strict=True)
    ]
    everything = [value for values in worth for value in values]
    mean = float(np.sum(everything)) / max(sum(len(own) or 1 for own in walked), 1)
    return {"id": task.document_id, "question": task.question, "answer": task.answer, "reward": mean, "plans": told}


def _measured(
    walked: Sequence[Sequence[Sequence[Path]]], read: Sequence[Sequence[Plan | Rejection]], records: Sequence[Any]
) -> Metrics:
    everything = [path for own in walked for found in own for path in found]
    plans = [plan for own in read for plan in own]
    if not plans:
        return {}
    good = [plan for plan in plans if isinstance(plan, Plan)]
    metrics = {
        "decomposer/valid": len(good) / len(plans),
        "solver/pass_rate": float(np.mean([record["reward"] for record in records])),
        "solver/formed": float(np.mean([path.formed for path in everything])) if everything else 0.0,
    }
    if good:
        metrics["decomposer/sub_questions"] = float(np.mean([len(plan.questions) for plan in good]))
    faults = collections.Counter(path.fault for path in everything if path.fault)
    return metrics | {f"fault/{name}": float(n) for name, n in faults.items()}


def demand(cfg: AceSearcherConfig) -> list[Ask]:
    """Every pair there can be is made; copies of a plan share the prompt of its first sub-question."""
    n, plans, every = cfg.questions, cfg.questions * cfg.plans, cfg.questions * cfg.plans * cfg.solutions
    if cfg.learn == "pairs":
        counts = n, plans * cfg.most_questions, plans if cfg.rule == "paper" else plans * pairs.COMPARED
    else:
        good = n if cfg.learn == "best" else every
        counts = good, good * cfg.most_questions, good
    group = 2 if cfg.learn == "pairs" else 1
    sought: dict[str, Any] = {"seat": "solver", "finds": cfg.kind != "document"}
    shared: dict[str, Any] = {"group": group, "estimator": "none", "off_policy": cfg.sampled_by == "initial"}
    return [
        Ask("decomposer", n, cfg.plans, cfg.plan_max_new, trained=counts[0], **shared),
        Ask("subquestion", plans, cfg.solutions, cfg.answer_max_new, "document", counts[1], **shared, **sought),
        Ask("later", every, 1, cfg.answer_max_new, "document", **shared, **sought),
        Ask("solver", every, 1, cfg.final_max_new, "document", counts[2], **shared),
    ]


def exam(cfg: AceSearcherConfig) -> Exam:
    """A question is planned and answered as in training, or at once."""
    way = cfg.way

    def planned(
        world: World, tasks: Sequence[Task], *, samples: int, first_row: Sequence[int], stream: int, max_new: int
    ) -> list[list[Reply]]:
        replies, _, walked = _walk(world, tasks, cfg, samples=samples, first_row=first_row, copies=1, stream=stream)
        return [
            [_reply(reply, found[0] if found else None) for reply, found in zip(own, ways, strict=True)]
            for own, ways in zip(replies, walked, strict=True)
        ]

    def direct(world: World, tasks: Sequence[Task], *, max_new: int, **sampling: Any) -> list[list[Reply]]:
        found = paths.direct(world, tasks, way, **sampling)
        return [[Reply(paths.said(r), r, searches=1) for r in own] for own in found]

    respond = planned if cfg.exam == "plan" else direct
    role = "decomposer" if cfg.exam == "plan" else "solver"
    return Exam(role, lambda task: _ask(way, task), respond, cfg.final_max_new, searches=cfg.kind != "document")


def _reply(plan: Rollout, path: Path | None) -> Reply:
    """What came of a plan; where nothing did, the plan is what was written."""
    steps = [{"plan": plan.text}]
    if path is None or path.final is None:
        return Reply(None, plan, steps + (path.transcript() if path else []), len(path.passages) if path else 0)
    return Reply(path.said, path.final, steps + path.transcript(), len(path.passages))


def prompts_of(cfg: AceSearcherConfig, task: Task) -> Prompts:
    """The question is planned; sub-questions and final prompts take as many passages as fit."""
    return [("decomposer", _ask(cfg.way, task))]


PANELS = (
    Panel(
        "Training questions",
        (("solver/pass_rate", "worth of an answer"), ("decomposer/valid", "valid plans"), ("solver/formed", "formed")),
    ),
    Panel("Pairs of replies", (("learner/preference_accuracy", "better one above"),), limits=(0, 1), line=0.5),
    Panel("Lessons", tuple((f"{role}/lessons", role) for role in _ROLES)),
)
GAME = Game(
    reads="questions", play=play, demand=demand, exam=exam, prompts_of=prompts_of, panels=PANELS,
    counts=("rejected/", "fault/"),
)  # fmt: skip

"""AceSearcher (arXiv:2509.24193): one policy splits questions and answers them, and learns from its own better replies.

For each question m plans, for each plan m' paths (paths.py), for each path the worth of its answer (rewards.py); what
is learnt is preferences between plans, sub-answers and final answers (pairs.py), or the good paths alone. A round of
the paper is a run whose paths are sampled by the policy that it starts from, which is also the reference; rounds
are a chain of runs.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from spicejax.games import solver
from spicejax.games.acesearcher import pairs, paths, rewards
from spicejax.games.acesearcher.config import SEARCHING, AceSearcherConfig
from spicejax.games.acesearcher.paths import Path
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.game import About, Ask, Exam, Game, Panel, Played, Prompts, Record, Reply
from spicejax.games.world import World
from spicejax.score import qa
from spicejax.types import Episode, Lesson, Metrics, Preference, Rejection, Rollout, Task

_ROLES = ("decomposer", "subquestion", "solver")  # of lessons
_SUB_ANSWERS = 1  # stream; plans have the one before, final answers the one behind


class Branch(NamedTuple):
    """A plan of a question, as written and as read, and the paths along it; a plan that was rejected has none."""

    reply: Rollout
    plan: Plan | Rejection
    paths: list[Path]

    @property
    def worths(self) -> list[Fraction]:
        """The worth of each path."""
        return [path.worth for path in self.paths]

    @property
    def record(self) -> dict[str, Any]:
        """The plan for tasks.jsonl, with the worth of its paths and one of them in full."""
        record: dict[str, Any] = {"plan": self.reply.text}
        if isinstance(self.plan, Rejection):
            return record | {"rejected": self.plan.reason}
        record["rewards"] = list(map(float, self.worths))
        if any(path.fault for path in self.paths):
            record["faults"] = [path.fault for path in self.paths]
        return record | {"transcript": self.paths[0].transcript()}


def play(world: World, questions: Sequence[Task], cfg: AceSearcherConfig, state: None = None) -> Played:
    """Walk m x m' paths of every question. Questions too long to be planned are left out and counted."""
    fitting = [k for k, task in enumerate(questions) if world.fits("decomposer", paths.plan_messages(task, cfg))]
    walked = _walk(
        world, [questions[k] for k in fitting], cfg, samples=cfg.plans, first_row=[k * cfg.plans for k in fitting],
        copies=cfg.solutions, stream=0,
    )  # fmt: skip
    lessons: list[Lesson] = []
    records = []
    for k, branches in zip(fitting, walked, strict=True):
        for path in _paths(branches):
            path.worth = _worth(path, cfg, cfg.reward)
        lessons += _lessons(k, branches, cfg)
        records.append(_record(questions[k], branches, cfg))
    plans = [branch.plan for branches in walked for branch in branches]
    rejected = collections.Counter(plan.reason for plan in plans if isinstance(plan, Rejection))
    count_of_role = collections.Counter(lesson.role for lesson in lessons)
    metrics: Metrics = {"decomposer/too_long": float(len(questions) - len(fitting))}
    metrics |= {f"rejected/{reason}": float(n) for reason, n in rejected.items()}
    metrics |= {f"{role}/lessons": float(count_of_role[role]) for role in _ROLES}
    metrics |= _measured(plans, [path for branches in walked for path in _paths(branches)], records, cfg)
    progress = {"formed": "solver/formed", "pass_rate": "solver/pass_rate"}
    return Played(
        lessons,
        metrics,
        records,
        progress={name: metrics.get(of) for name, of in progress.items()} | {"lessons": float(len(lessons))},
        totals={"questions_asked": len(fitting), "lessons": len(lessons)},
    )


def _walk(
    world: World, tasks: Sequence[Task], cfg: AceSearcherConfig, *, samples: int, first_row: Sequence[int],
    copies: int, stream: int,
) -> list[list[Branch]]:  # fmt: skip
    """Ask for `samples` plans of each question and walk `copies` paths along each of them."""
    replies_of = world.ask(
        "decomposer", [paths.plan_messages(task, cfg) for task in tasks], samples=samples, first_row=first_row,
        max_new=cfg.plan_max_new, stream=stream,
    )  # fmt: skip
    walked: list[list[Branch]] = []
    for task, first, replies in zip(tasks, first_row, replies_of, strict=True):
        walked.append([])
        for row, reply in enumerate(replies, first):
            plan = paths.read_plan(reply, cfg)
            along = [Path(task, plan, row * copies + j) for j in range(copies)] if isinstance(plan, Plan) else []
            walked[-1].append(Branch(reply, plan, along))
    everything = [path for branches in walked for path in _paths(branches)]
    paths.solve(world, everything, cfg, copies=copies, stream=stream + _SUB_ANSWERS)
    return walked


def _paths(branches: Sequence[Branch]) -> list[Path]:
    return [path for branch in branches for path in branch.paths]


def _worth(path: Path, cfg: AceSearcherConfig, kind: rewards.RewardKind) -> Fraction:
    right = (path.task.answer, *path.task.aliases)
    if paths.kind_of(path.task, cfg) == "program":
        return rewards.of_program(path.answer, right, kind=kind)
    return rewards.reward(path.answer, right, formed=path.formed, kind=kind)


def _is_right(path: Path, cfg: AceSearcherConfig) -> bool:
    return _worth(path, cfg, "exact") == 1


def _lessons(question: int, branches: Sequence[Branch], cfg: AceSearcherConfig) -> list[Lesson]:
    """What one question's paths teach."""
    if cfg.learn != "pairs":
        return _examples(question, branches, cfg)
    of_plans = pairs.of_plans([branch.reply for branch in branches], [branch.worths for branch in branches])
    preferences = [("decomposer", pair) for pair in of_plans]
    for branch in branches:
        for good, bad in pairs.of_paths(branch.paths, branch.worths):
            preferences += [("subquestion", pair) for pair in pairs.sub_answers(good, bad)]
            preferences += [("solver", pair) for pair in pairs.finals(good, bad)]
    return [Preference(role, _group(question, role), better, worse) for role, (better, worse) in preferences]


def _examples(question: int, branches: Sequence[Branch], cfg: AceSearcherConfig) -> list[Lesson]:
    """The replies of good paths as given ones; a plan or a sub-answer that several paths share counts once."""
    ranked = sorted(((b, path) for b in branches for path in b.paths), key=lambda pair: -pair[1].worth)
    # Differs: ReST-EM starts each round from the first model; a round here starts from the one before
    good = [(b, path) for b, path in ranked if _is_right(path, cfg)] if cfg.learn == "right" else ranked[:1]
    chosen: dict[int, tuple[str, Rollout]] = {}
    for branch, path in good:
        if path.worth > 0 and path.final is not None:
            chosen[id(branch.reply)] = "decomposer", branch.reply
            chosen |= {id(reply): ("subquestion", reply) for reply in path.replies.values()}
            chosen[id(path.final)] = "solver", path.final
    return [Episode(role, _group(question, role), rollout, 1.0) for role, rollout in chosen.values()]


def _group(question: int, role: str) -> int:
    """The group of a question's lessons of one role; roles never share a number."""
    return question * len(_ROLES) + _ROLES.index(role)


def _record(task: Task, branches: Sequence[Branch], cfg: AceSearcherConfig) -> Record:
    """One question for tasks.jsonl: the answers of all paths, and every plan; one without paths is worth 0."""
    walked = _paths(branches)
    mean = sum(path.worth for path in walked) / max(sum(len(branch.paths) or 1 for branch in branches), 1)
    answers, right = [path.answer for path in walked], [_is_right(path, cfg) for path in walked]
    extra = {"id": task.id, "plans": [branch.record for branch in branches]}
    return Record(task.question, task.answer, answers, right, float(mean), extra=extra)


def _measured(
    plans: Sequence[Plan | Rejection], walked: Sequence[Path], records: Sequence[Record], cfg: AceSearcherConfig
) -> Metrics:
    if not plans:
        return {}
    good = [plan for plan in plans if isinstance(plan, Plan)]
    metrics = {
        "decomposer/valid": len(good) / len(plans),
        "solver/pass_rate": float(np.mean([record.reward or 0.0 for record in records])) / rewards.FULL[cfg.reward],
        "solver/formed": float(np.mean([path.formed for path in walked])) if walked else 0.0,
    }
    if good:
        metrics["decomposer/sub_questions"] = float(np.mean([len(plan.questions) for plan in good]))
        metrics["decomposer/referring"] = float(np.mean([plan.refers for plan in good]))
    looked_up = sum(len(path.passages.get(k, ())) for path in walked for k in path.shown)
    if looked_up:
        metrics["solver/passages_left_out"] = 1 - sum(sum(path.shown.values()) for path in walked) / looked_up
    faults = collections.Counter(path.fault for path in walked if path.fault)
    return metrics | {f"fault/{name}": float(n) for name, n in faults.items()}


def demand(cfg: AceSearcherConfig) -> list[Ask]:
    """Every pair there can be is made; copies of a plan share the prompt of its first sub-question."""
    n, plans, every = cfg.questions, cfg.questions * cfg.plans, cfg.questions * cfg.plans * cfg.solutions
    if cfg.learn == "pairs":
        counts = n, plans * cfg.most_questions, plans
    else:
        good = n if cfg.learn == "best" else every
        counts = good, good * cfg.most_questions, good
    group, lesson = (2, "pair") if cfg.learn == "pairs" else (1, "given")
    sought: dict[str, Any] = {"seat": "solver", "finds": cfg.kind in SEARCHING}
    shared: dict[str, Any] = {"group": group, "lesson": lesson, "estimator": "none"}
    shared["off_policy"] = cfg.sampled_by == "initial"
    answer = cfg.final_max_new if cfg.steps == "programs" else cfg.answer_max_new
    return [
        Ask("decomposer", n, cfg.plans, cfg.plan_max_new, trained=counts[0], **shared),
        Ask("subquestion", plans, cfg.solutions, answer, "document", counts[1], **shared, **sought),
        Ask("later", every, 1, answer, "document", **shared, **sought),
        Ask("solver", every, 1, cfg.final_max_new, "document", counts[2], programs=cfg.programs, **shared),
    ]


def exam(cfg: AceSearcherConfig) -> Exam:
    """A question is planned and answered as in training, or at once."""

    def planned(
        world: World, tasks: Sequence[Task], *, samples: int, first_row: Sequence[int], stream: int, max_new: int
    ) -> list[list[Reply]]:
        walked = _walk(world, tasks, cfg, samples=samples, first_row=first_row, copies=1, stream=stream)
        return [[_reply(branch) for branch in branches] for branches in walked]

    def direct(world: World, tasks: Sequence[Task], *, max_new: int, **sampling: Any) -> list[list[Reply]]:
        answered = paths.direct(world, tasks, cfg, **sampling)
        searches = [int(paths.kind_of(task, cfg) in SEARCHING) for task in tasks]
        return [[Reply(text, r, searches=n) for r, text in of] for of, n in zip(answered, searches, strict=True)]

    needs = {"searches": cfg.kind in SEARCHING, "programs": cfg.programs != "off"}
    if cfg.exam == "plan":
        return Exam("decomposer", lambda task: paths.plan_messages(task, cfg), planned, cfg.final_max_new, **needs)
    return Exam("solver", lambda task: paths.direct_ask(task, cfg), direct, cfg.final_max_new, **needs)


def _reply(branch: Branch) -> Reply:
    """The answer that a plan led to; where it led to none, the plan is what was written."""
    path, steps = next(iter(branch.paths), None), [{"plan": branch.reply.text}]
    if path is None:
        return Reply(None, branch.reply, steps)
    return Reply(path.answer, path.final or branch.reply, steps + path.transcript(texts=True), path.searches)


def prompts_of(cfg: AceSearcherConfig, task: Task) -> Prompts:
    """The question is planned; sub-questions and final prompts take as many passages as fit."""
    return [("decomposer", paths.plan_messages(task, cfg))]


PANELS = (
    Panel(
        "Training questions",
        (
            ("solver/pass_rate", "score of an answer"),
            ("decomposer/valid", "valid plans"),
            ("solver/formed", "well formed"),
        ),
        meaning="Mean score of final answers, as a share of a right one's; share of plans that can be read, share of "
        "answers that keep to the form.",
        unit="share",
    ),
    Panel(
        "Pairs of replies",
        (("learner/preference_accuracy", "better reply preferred"),),
        limits=(0, 1),
        line=0.5,
        meaning="How often the policy, measured against its reference, prefers the better reply of a pair; one half is "
        "chance.",
        unit="share of the pairs",
    ),
    Panel(
        "Lessons",
        tuple((f"{role}/lessons", role) for role in _ROLES),
        meaning="What an iteration gave each role to learn from; ties give nothing.",
        unit="lessons an iteration",
    ),
)
_TEACH = "a stage of examples teaches plans first (`spicejax mix`, recipes of several stages)"
FIXES = {
    "decomposer/too_long": "raise the last of buckets.prompt",
    "fault/final_answer": "raise acesearcher.final_max_new, or teach the form by a stage of examples first",
    "fault/sub_answer": "raise acesearcher.answer_max_new",
    "fault/too_long": "raise the last of buckets.prompt, or lower acesearcher.total",
    "rejected/bad_reference": _TEACH,
    "rejected/cut_off": "raise acesearcher.plan_max_new",
    "rejected/empty_subquestion": _TEACH,
    "rejected/no_subquestion": _TEACH,
    "rejected/too_many": "raise acesearcher.most_questions",
}
GLOSSARY = {
    "solver/formed": "share of answers in the form asked for",
    "solver/passages_left_out": "share of the passages to be shown for which a prompt had no room",
    "decomposer/valid": "share of plans that can be followed",
    "decomposer/sub_questions": "questions in a valid plan, mean",
    "decomposer/referring": "share of valid plans in which a question refers to the answer of an earlier one",
}
ABOUT = About(
    panels=PANELS,
    glossary=GLOSSARY | solver.GLOSSARY,
    counts=("rejected/", "fault/"),
    valid="decomposer/valid",
    fixes=FIXES,
    paper="AceSearcher, arXiv:2509.24193",
)
AceSearcherConfig.game = Game(
    "questions", play, demand, exam, prompts_of, ABOUT,
    lambda cfg, task: qa.matches_itself((task.answer, *task.aliases)), removed={"sub_pairs": "all", "rule": "paper"},
)  # fmt: skip

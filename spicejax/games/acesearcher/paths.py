"""Paths from a question to an answer: a plan's sub-questions answered from passages, then the question itself.

All paths go side by side. A sub-question is asked as soon as the answers it refers to are there, so that those of all
plans share a call, at whatever depth they stand.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

from spicejax.games.acesearcher import plans
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.world import World
from spicejax.text import prompts
from spicejax.text.prompts import Templates
from spicejax.types import Messages, Passage, Rejection, Rollout, Task

# qa, claim: with passages that are looked up; document: the text that comes with the question
Kind = Literal["qa", "claim", "document"]
Request = Literal["full", "nano"]  # nano: bare, for models of a few million parameters

PACKAGE = "spicejax.games.acesearcher"  # that holds the templates
_APART = 2**24  # between the rows of one sub-question and those of the next
ANSWER = ("<answer>", "</answer>")


@dataclasses.dataclass(frozen=True)
class Way:
    """How questions are planned, looked up and answered."""

    kind: Kind = "qa"
    request: Request = "full"
    most_questions: int = 6  # of a plan
    found: int = 10  # passages looked up for each sub-question
    total: int = 15  # passages of the final prompt, shared among the sub-questions
    plan_max_new: int = 256
    answer_max_new: int = 32
    final_max_new: int = 512
    templates: Templates = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Path:
    """One way to an answer, as far as it has come."""

    task: Task
    plan: Plan
    row: int  # of its draws
    answers: dict[int, str] = dataclasses.field(default_factory=dict)  # by sub-question, from 0
    replies: dict[int, Rollout] = dataclasses.field(default_factory=dict)
    passages: dict[int, list[Passage]] = dataclasses.field(default_factory=dict)
    final: Rollout | None = None
    said: str | None = None  # the final answer
    fault: str = ""  # why it has none, or not in its form

    @property
    def formed(self) -> bool:
        """Whether plan, sub-answers and final text have their form (f of eq. 4.1)."""
        return not self.fault

    def transcript(self) -> list[dict[str, Any]]:
        """The whole of it, for tasks.jsonl."""
        steps = [
            {"asked": self.plan.filled(k, self.answers), "wrote": self.replies[k].text}
            | {"shown": [p.id for p in self.passages.get(k, [])]}
            for k in sorted(self.replies)
        ]
        return [*steps, {"wrote": self.final.text}] if self.final is not None else steps


def plan_messages(task: Task, way: Way) -> Messages:
    """Ask for a plan."""
    if way.request == "nano":
        return _user(f"plan: {task.question}")
    values = {"question": task.question} | ({"documents": task.context} if way.kind == "document" else {})
    return _filled(f"plan_{way.kind}", way.templates, values)


def answer_messages(question: str, documents: str, way: Way) -> Messages:
    """Ask a sub-question."""
    if way.request == "nano":
        return _user(f"{documents}\n{question}")
    return _filled(f"answer_{way.kind}", way.templates, {"documents": documents, "question": question})


def final_messages(question: str, documents: str, steps: str, way: Way) -> Messages:
    """Ask the question itself, with what was found out."""
    if way.request == "nano":
        return _user(f"{steps}\n{question}")
    values = {"question": question, "steps": steps} | ({} if way.kind == "claim" else {"documents": documents})
    return _filled(f"final_{way.kind}", way.templates, values)


def direct_messages(question: str, documents: str, way: Way) -> Messages:
    """Ask the question at once."""
    if way.request == "nano":
        return _user(f"{documents}\nanswer: {question}")
    return _filled("direct", way.templates, {"documents": documents, "question": question})


def _user(text: str) -> Messages:
    return [{"role": "user", "content": text}]


def _filled(name: str, own: Templates, values: dict[str, str]) -> Messages:
    return prompts.turns(prompts.read(PACKAGE, name, own), "[]", values)


def shown(passages: Sequence[Passage], request: Request) -> str:
    """Passages as text."""
    if request == "nano":
        return "\n".join(p.text for p in passages)
    return "\n\n".join(f"[{n}] {p.title}\n{p.text}" for n, p in enumerate(passages, 1))


def read_plan(rollout: Rollout, way: Way) -> Plan | Rejection:
    """What a reply plans; one that was cut off plans nothing."""
    if rollout.finish_reason == "length":
        return Rejection("cut_off")
    return plans.parse(rollout.text, way.most_questions)


def said(rollout: Rollout) -> str | None:
    """What stands between the last pair of answer tags; None without one, or where the reply was cut off."""
    before, closing, _ = rollout.text.rpartition(ANSWER[1])
    if rollout.finish_reason == "length" or not closing or ANSWER[0] not in before:
        return None
    return before.rpartition(ANSWER[0])[2].strip() or None


def solve(world: World, paths: Sequence[Path], way: Way, *, copies: int, stream: int) -> None:
    """Walk all paths to their ends.

    Args:
      paths: in groups of `copies`, each group one plan of one question, their rows side by side.
      stream: of the sub-questions; the final answers have the one behind.
    """
    while open_ones := _ready(paths):
        _look_up(world, open_ones, way)
        _answer(world, open_ones, way, copies, stream)
    _finish(world, [path for path in paths if not path.fault], way, stream + 1)


def _ready(paths: Sequence[Path]) -> list[tuple[Path, int]]:
    return [(path, k) for path in paths if not path.fault for k in path.plan.ready(path.answers)]


def _look_up(world: World, asked: Sequence[tuple[Path, int]], way: Way) -> None:
    if way.kind == "document":
        return
    queries = [path.plan.filled(k, path.answers) for path, k in asked]
    for (path, k), found in zip(asked, world.look_up(queries, way.found), strict=True):
        path.passages[k] = found


def _answer(world: World, asked: Sequence[tuple[Path, int]], way: Way, copies: int, stream: int) -> None:
    """Ask sub-questions. One that all copies of a plan have in common is a prompt with as many samples."""
    groups: list[tuple[Messages, int, list[Path]]] = []
    for path, k in sorted(asked, key=lambda each: (each[1], each[0].row)):
        build = functools.partial(answer_messages, path.plan.filled(k, path.answers), way=way)
        prompt = _fitting(world, path.passages.get(k, []), way, build, path.task.context)
        if prompt is None:
            path.fault = "too_long"
        elif groups and groups[-1][:2] == (prompt, k) and groups[-1][2][0].row // copies == path.row // copies:
            groups[-1][2].append(path)
        else:
            groups.append((prompt, k, [path]))
    whole = [group for group in groups if len(group[2]) == copies]
    parts = [(prompt, k, [path]) for prompt, k, own in groups if len(own) < copies for path in own]
    for chosen in (whole, parts):
        found = world.ask(
            "solver", [prompt for prompt, *_ in chosen], samples=len(chosen[0][2]) if chosen else 1,
            first_row=[own[0].row + k * _APART for _, k, own in chosen], max_new=way.answer_max_new, stream=stream,
        ) if chosen else []  # fmt: skip
        for (_, k, own), replies in zip(chosen, found, strict=True):
            for path, reply in zip(own, replies, strict=True):
                path.replies[k], path.answers[k] = reply, reply.text.strip()
                if reply.finish_reason == "length" or not path.answers[k]:
                    path.fault = "sub_answer"


def _finish(world: World, paths: Sequence[Path], way: Way, stream: int) -> None:
    asked: list[tuple[Path, Messages]] = []
    for path in paths:
        answers = [path.answers[k] for k in range(len(path.plan.questions))]
        build = functools.partial(final_messages, path.task.question, steps=plans.listed(path.plan, answers), way=way)
        share = plans.shares(way.total, len(answers))
        ranks = [path.passages[k][r] for r in range(share) for k in sorted(path.passages) if r < len(path.passages[k])]
        # Differs: in the order of their ranks; the code shuffles them through a set
        best = list({p.id: p for p in ranks}.values())  # each once, the first of every sub-question before the second
        prompt = _fitting(world, best, way, build, path.task.context)
        if prompt is None:
            path.fault = "too_long"
        else:
            asked.append((path, prompt))
    rows, prompts_ = [path.row for path, _ in asked], [prompt for _, prompt in asked]
    found = world.ask("solver", prompts_, samples=1, first_row=rows, max_new=way.final_max_new, stream=stream)
    for (path, _), (reply,) in zip(asked, found, strict=True):
        path.final, path.said = reply, said(reply)
        if path.said is None:
            path.fault = "final_answer"


def _fitting(
    world: World, passages: Sequence[Passage], way: Way, build: Callable[..., Messages], context: str
) -> Messages | None:
    """The prompt with as many of the best passages as fit; None where none of them does, or the context does not."""
    for most in range(len(passages), -1, -1):
        prompt = build(documents=context if way.kind == "document" else shown(passages[:most], way.request))
        if world.fits("solver", prompt):
            return prompt
    return None


def direct(
    world: World, tasks: Sequence[Task], way: Way, *, samples: int, first_row: Sequence[int], stream: int
) -> list[list[Rollout]]:
    """Answer at once, with passages looked up for the question itself: what decomposing is compared with."""
    questions = [task.question for task in tasks]
    looked_up = [[] for _ in tasks] if way.kind == "document" else world.look_up(questions, way.found)
    asked = []
    for task, found in zip(tasks, looked_up, strict=True):
        build = functools.partial(direct_messages, task.question, way=way)
        asked.append(_fitting(world, found, way, build, task.context) or build(documents=""))
    return world.ask("solver", asked, samples=samples, first_row=first_row, max_new=way.final_max_new, stream=stream)

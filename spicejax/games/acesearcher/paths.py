"""Paths from a question to an answer: a plan's sub-questions answered from passages, then the question itself.

All paths go side by side. A sub-question is asked as soon as the answers it refers to are there, so that those of all
plans share a call, at whatever depth they stand.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal, cast, get_args

from spicejax.games.acesearcher import excerpts, plans, programs
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.world import World
from spicejax.text import prompts
from spicejax.text.prompts import Templates
from spicejax.types import Messages, Passage, Rejection, Rollout, Task

# qa, claim: with passages that are looked up; document: about the text that comes with the question; program: likewise,
# and the last reply is a program whose value is the answer
Kind = Literal["qa", "claim", "document", "program"]
KINDS = get_args(Kind)
SEARCHING = ("qa", "claim")
Programs = Literal["off", "sandbox", "accept"]
Steps = Literal["words", "programs"]  # how sub-questions are answered where the final reply is a program
Request = Literal["full", "nano"]  # nano: bare, for models of a few million parameters

PACKAGE = "spicejax.games.acesearcher"  # that holds the templates
_FINAL = -1  # the place of the final prompt among sub-questions
_APART = 2**24  # between the rows of one sub-question and those of the next
ANSWER = ("<answer>", "</answer>")
_PAIR = re.compile(rf"{ANSWER[0]}((?:(?!</?answer>).)*){ANSWER[1]}", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Way:
    """How questions are planned, looked up and answered."""

    kind: Kind = "qa"  # unless the question has one of its own
    programs: Programs = "off"
    steps: Steps = "words"
    request: Request = "full"
    most_questions: int = 6  # of a plan
    found: int = 10  # passages looked up for each sub-question
    total: int = 15  # passages of the final prompt, shared among the sub-questions
    parts: int = 0  # paragraphs of a question's own text that are shown; 0 = all
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
    passages: dict[int, list[Passage]] = dataclasses.field(default_factory=dict)  # found, the best first
    shown: dict[int, int] = dataclasses.field(default_factory=dict)  # how many of them there was room for
    final: Rollout | None = None
    said: str | None = None  # the final answer
    worth: Fraction = Fraction(0)  # of what it says
    fault: str = ""  # why it has none, or not in its form

    @property
    def formed(self) -> bool:
        """Whether plan, sub-answers and final text have their form (f of eq. 4.1)."""
        # Differs: an answer in tags is formed although no reasoning stands before it; the paper wants that too
        return not self.fault

    @property
    def searches(self) -> int:
        """Sub-questions for which passages were looked up."""
        return sum(k != _FINAL for k in self.passages)

    def transcript(self, texts: bool = False) -> list[dict[str, Any]]:
        """The whole of it; of passages shown their ids, or title and text too."""

        def seen(k: int) -> list[Any]:
            passages = self.passages.get(k, [])[: self.shown.get(k)]
            return [dataclasses.asdict(p) if texts else p.id for p in passages]

        steps = [
            {"asked": self.plan.filled(k, self.answers), "wrote": self.replies[k].text, "shown": seen(k)}
            for k in sorted(self.replies)
        ]
        return [*steps, {"wrote": self.final.text, "shown": seen(_FINAL)}] if self.final is not None else steps


def kind_of(task: Task, way: Way) -> Kind:
    """How a question is asked: as it says itself, else as the way does. Raises ValueError for what cannot be."""
    kind = task.kind or way.kind
    if kind not in KINDS:
        raise ValueError(f"question {task.question[:60]!r}: kind={kind!r} is unknown; choose from {', '.join(KINDS)}")
    if kind in SEARCHING and way.kind not in SEARCHING:
        raise ValueError(f"question {task.question[:60]!r}: kind={kind!r} looks up passages; give acesearcher.kind=qa")
    if kind == "program" and way.programs == "off":
        raise ValueError(
            f"question {task.question[:60]!r}: kind='program' runs what the model writes; give "
            "acesearcher.programs=sandbox (docs/security.md)"
        )
    return cast(Kind, kind)


def plan_messages(task: Task, way: Way) -> Messages:
    """Ask for a plan."""
    if way.request == "nano":
        return _user(f"plan: {task.question}")
    if (kind := kind_of(task, way)) in SEARCHING:
        return _filled(f"plan_{kind}", way.templates, {"question": task.question})
    return _filled(
        "plan_document", way.templates, {"question": task.question, "documents": own_text(task, task.question, way)}
    )


def own_text(task: Task, question: str, way: Way) -> str:
    """What a question or one of its sub-questions is shown of the text that comes with it."""
    return excerpts.excerpt(task.context, question, way.parts)


def answer_messages(question: str, documents: str, way: Way, kind: Kind) -> Messages:
    """Ask a sub-question."""
    if way.request == "nano":
        return _user(f"{documents}\n{question}")
    # Differs: by default in words for a program too; the paper has a program for each (figure 14), the code none
    name = "program" if _by_program(kind, way) else f"answer_{kind if kind in SEARCHING else 'document'}"
    return _filled(name, way.templates, {"documents": documents, "question": question})


def final_messages(question: str, documents: str, steps: str, way: Way, kind: Kind) -> Messages:
    """Ask the question itself, with what was found out."""
    if way.request == "nano":
        return _user(f"{steps}\n{question}")
    values = {"question": question, "steps": steps} | ({} if kind == "claim" else {"documents": documents})
    return _filled(f"final_{kind}", way.templates, values)


def direct_messages(question: str, documents: str, way: Way, kind: Kind) -> Messages:
    """Ask the question at once."""
    if way.request == "nano":
        return _user(f"{documents}\nanswer: {question}")
    name = {"qa": "direct", "claim": "direct_claim", "document": "reason", "program": "program"}[kind]
    return _filled(name, way.templates, {"documents": documents, "question": question})


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
    pairs = _PAIR.findall(rollout.text) if rollout.finish_reason != "length" else []
    return pairs[-1].strip() or None if pairs else None


def sub_answer(rollout: Rollout) -> str:
    """What answers a sub-question: all of the reply, but for the tags of final answers where it has some."""
    return rollout.text.rpartition(ANSWER[0])[2].partition(ANSWER[1])[0].strip()


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
    asked = [(path, k) for path, k in asked if kind_of(path.task, way) in SEARCHING]
    if not asked:
        return
    queries = [path.plan.filled(k, path.answers) for path, k in asked]
    for (path, k), found in zip(asked, world.look_up(queries, way.found), strict=True):
        path.passages[k] = found


def _answer(world: World, asked: Sequence[tuple[Path, int]], way: Way, copies: int, stream: int) -> None:
    """Ask sub-questions. One that all copies of a plan have in common is a prompt with as many samples."""
    groups: list[tuple[Messages, int, list[Path]]] = []
    for path, k in sorted(asked, key=lambda each: (each[1], each[0].row)):
        kind = kind_of(path.task, way)
        question = path.plan.filled(k, path.answers)
        build = functools.partial(answer_messages, question, way=way, kind=kind)
        prompt, path.shown[k] = _fitting(world, path.passages.get(k, []), way, build, path.task, question)
        if prompt is None:
            path.fault = "too_long"
        elif groups and groups[-1][:2] == (prompt, k) and groups[-1][2][0].row // copies == path.row // copies:
            groups[-1][2].append(path)
        else:
            groups.append((prompt, k, [path]))
    whole = [group for group in groups if len(group[2]) == copies]
    parts = [(prompt, k, [path]) for prompt, k, own in groups if len(own) < copies for path in own]
    for groups in (whole, parts):
        for programmed in (False, True):
            chosen = [group for group in groups if _by_program(kind_of(group[2][0].task, way), way) == programmed]
            if not chosen:
                continue
            found = world.ask(
                "solver", [prompt for prompt, *_ in chosen], samples=len(chosen[0][2]), stream=stream,
                first_row=[own[0].row + k * _APART for _, k, own in chosen],
                max_new=way.final_max_new if programmed else way.answer_max_new,
            )  # fmt: skip
            answered = [(*each, k) for (_, k, own), replies in zip(chosen, found, strict=True)
                        for each in zip(own, replies, strict=True)]  # fmt: skip
            values = _values(world, [reply for _, reply, _ in answered]) if programmed else map(_in_words, answered)
            for (path, reply, k), (value, fault) in zip(answered, values, strict=True):
                path.replies[k], path.answers[k], path.fault = reply, value or "", path.fault or fault


def _by_program(kind: Kind, way: Way) -> bool:
    return kind == "program" and way.steps == "programs"


def _in_words(answered: tuple[Path, Rollout, int]) -> tuple[str, str]:
    """What a reply answers to a sub-question, and why it answers nothing."""
    _, reply, _ = answered
    said = sub_answer(reply)
    return said, "" if said and reply.finish_reason != "length" else "sub_answer"


def _finish(world: World, paths: Sequence[Path], way: Way, stream: int) -> None:
    asked: list[tuple[Path, Messages]] = []
    for path in paths:
        answers = [path.answers[k] for k in range(len(path.plan.questions))]
        build = functools.partial(
            final_messages, path.task.question, steps=plans.listed(path.plan, answers), way=way,
            kind=kind_of(path.task, way),
        )  # fmt: skip
        share = plans.shares(way.total, len(answers))
        looked_up = [path.passages[k] for k in sorted(path.passages)]
        ranks = [own[r] for r in range(share) for own in looked_up if r < len(own)]
        # Differs: in the order of their ranks; the code takes 5 or 3 of each through a set, and the best ones outermost
        best = list(dict.fromkeys(ranks))  # each once, the first of every sub-question before the second
        prompt, path.shown[_FINAL] = _fitting(world, best, way, build, path.task, path.task.question)
        path.passages[_FINAL] = best
        if prompt is None:
            path.fault = "too_long"
        else:
            asked.append((path, prompt))
    rows, prompts_ = [path.row for path, _ in asked], [prompt for _, prompt in asked]
    found = world.ask("solver", prompts_, samples=1, first_row=rows, max_new=way.final_max_new, stream=stream)
    for (path, _), (reply,) in zip(asked, found, strict=True):
        path.final = reply
    programmed = [path for path, _ in asked if kind_of(path.task, way) == "program"]
    for path, _ in asked:
        path.said = None if path in programmed else said(path.final)
    values = _values(world, [path.final for path in programmed if path.final])
    for path, (value, fault) in zip(programmed, values, strict=True):
        path.said, path.fault = value, fault
    for path, _ in asked:
        if path.said is None:
            path.fault = path.fault or "final_answer"


def _values(world: World, replies: Sequence[Rollout]) -> list[tuple[str | None, str]]:
    """Run what replies have programmed: what each says, and why it says nothing."""
    written = [(k, text) for k, reply in enumerate(replies) if (text := programs.program_of(reply))]
    found: list[tuple[str | None, str]] = [(None, "program_missing")] * len(replies)
    for (k, _), ran in zip(written, world.execute([text for _, text in written]), strict=True):
        found[k] = programs.answer(ran)
    return found


def _fitting(
    world: World, passages: Sequence[Passage], way: Way, build: Callable[..., Messages], task: Task, question: str
) -> tuple[Messages | None, int]:
    """The prompt with as many of the best passages as fit, and how many; None where without them, or with the context,
    there is no room."""
    searching = kind_of(task, way) in SEARCHING
    for most in range(len(passages), -1, -1):
        prompt = build(documents=shown(passages[:most], way.request) if searching else own_text(task, question, way))
        if world.fits("solver", prompt):
            return prompt, most
    return None, 0


def direct(
    world: World, tasks: Sequence[Task], way: Way, *, samples: int, first_row: Sequence[int], stream: int
) -> list[list[tuple[Rollout, str | None]]]:
    """Answer at once, each reply with what it says: what decomposing is compared with.

    Passages are looked up for the question itself; a program's value is what it says.
    """
    kinds: list[Kind] = [kind_of(task, way) for task in tasks]
    searching = [task for task, kind in zip(tasks, kinds, strict=True) if kind in SEARCHING]
    found = iter(world.look_up([task.question for task in searching], way.found) if searching else [])
    asked = []
    for task, kind in zip(tasks, kinds, strict=True):
        build = functools.partial(direct_messages, task.question, way=way, kind=kind)
        prompt, _ = _fitting(world, next(found) if kind in SEARCHING else [], way, build, task, task.question)
        asked.append(prompt or build(documents=""))
    replies = world.ask("solver", asked, samples=samples, first_row=first_row, max_new=way.final_max_new, stream=stream)
    programmed = [own for own, kind in zip(replies, kinds, strict=True) if kind == "program"]
    values = iter(_values(world, [reply for own in programmed for reply in own]))
    return [
        [(reply, next(values)[0] if kind == "program" else said(reply)) for reply in own]
        for own, kind in zip(replies, kinds, strict=True)
    ]

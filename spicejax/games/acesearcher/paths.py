"""Paths from a question to an answer: the sub-questions of a plan are answered from passages, then the question itself.

All paths advance together. A sub-question is asked once the answers it refers to are known, so one call asks the
sub-questions of all plans that are ready, whatever their depth:

    solve:  while sub-questions are ready: _look_up their passages, _answer them
            _finish: the final prompt of each path, its reply, its answer
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, cast, get_args

from spicejax.games.acesearcher import excerpts, plans, programs
from spicejax.games.acesearcher.config import PACKAGE, SEARCHING, AceSearcherConfig, Kind
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.solver import ANSWER
from spicejax.games.world import World
from spicejax.text import prompts
from spicejax.text.prompts import Templates
from spicejax.types import Messages, Passage, Rejection, Rollout, Task

_FINAL = -1  # index of the final prompt among the sub-questions
_APART = 2**24  # distance between the row ids of two sub-questions
_PAIR = re.compile(rf"{ANSWER[0]}((?:(?!</?answer>).)*){ANSWER[1]}", re.DOTALL)


@dataclasses.dataclass(eq=False)
class Path:
    """A path as far as it has come."""

    task: Task
    plan: Plan
    row: int  # row id of its draws
    answers: dict[int, str] = dataclasses.field(default_factory=dict)  # by sub-question, from 0
    replies: dict[int, Rollout] = dataclasses.field(default_factory=dict)
    passages: dict[int, list[Passage]] = dataclasses.field(default_factory=dict)  # best first
    shown: dict[int, int] = dataclasses.field(default_factory=dict)  # number of them in the prompt
    final: Rollout | None = None
    answer: str | None = None  # the final one
    worth: Fraction = Fraction(0)  # reward of the answer
    fault: str = ""  # why the answer is missing or malformed

    @property
    def formed(self) -> bool:
        """Whether plan, sub-answers and final text are well formed (f of eq. 4.1)."""
        # Differs: an answer in tags needs no reasoning before it; the paper asks for some
        return not self.fault

    @property
    def searches(self) -> int:
        """Sub-questions for which passages were looked up."""
        return sum(k != _FINAL for k in self.passages)

    def transcript(self, texts: bool = False) -> list[dict[str, Any]]:
        """All steps; passages by their ids, or with title and text."""

        def passages_of(k: int) -> list[Any]:
            passages = self.passages.get(k, [])[: self.shown.get(k)]
            return [dataclasses.asdict(p) if texts else p.id for p in passages]

        steps = [
            {"asked": self.plan.filled(k, self.answers), "wrote": self.replies[k].text, "shown": passages_of(k)}
            for k in sorted(self.replies)
        ]
        return [*steps, {"wrote": self.final.text, "shown": passages_of(_FINAL)}] if self.final is not None else steps


def kind_of(task: Task, cfg: AceSearcherConfig) -> Kind:
    """The kind of a question: its own, else that of the configuration. Raises ValueError for one that it excludes."""
    kind = task.kind or cfg.kind
    if kind not in get_args(Kind):
        choices = ", ".join(get_args(Kind))
        raise ValueError(f"question {task.question[:60]!r}: kind={kind!r} is unknown; choose from {choices}")
    if kind in SEARCHING and cfg.kind not in SEARCHING:
        raise ValueError(f"question {task.question[:60]!r}: kind={kind!r} looks up passages; give acesearcher.kind=qa")
    if kind == "program" and cfg.programs == "off":
        raise ValueError(
            f"question {task.question[:60]!r}: kind='program' runs what the model writes; give "
            "acesearcher.programs=sandbox (docs/security.md)"
        )
    return cast(Kind, kind)


def plan_messages(task: Task, cfg: AceSearcherConfig) -> Messages:
    """Ask for a plan."""
    if cfg.request == "nano":
        return _user(f"plan: {task.question}")
    if (kind := kind_of(task, cfg)) in SEARCHING:
        return _filled(f"plan_{kind}", cfg.templates, {"question": task.question})
    return _filled(
        "plan_document", cfg.templates, {"question": task.question, "documents": own_text(task, task.question, cfg)}
    )


def own_text(task: Task, question: str, cfg: AceSearcherConfig) -> str:
    """The paragraphs of a question's own text that the prompt of a question or sub-question shows."""
    return excerpts.excerpt(task.context, question, cfg.parts)


def answer_messages(question: str, documents: str, cfg: AceSearcherConfig, kind: Kind) -> Messages:
    """Ask a sub-question."""
    if cfg.request == "nano":
        return _user(f"{documents}\n{question}")
    # Differs: by default in words before a program too; the paper has a program for each (figure 14), the code none
    name = "program" if _by_program(kind, cfg) else f"answer_{kind if kind in SEARCHING else 'document'}"
    return _filled(name, cfg.templates, {"documents": documents, "question": question})


def final_messages(question: str, documents: str, steps: str, cfg: AceSearcherConfig, kind: Kind) -> Messages:
    """Ask the question itself, with the answers of its sub-questions."""
    if cfg.request == "nano":
        return _user(f"{steps}\n{question}")
    values = {"question": question, "steps": steps} | ({} if kind == "claim" else {"documents": documents})
    return _filled(f"final_{kind}", cfg.templates, values)


def direct_messages(question: str, documents: str, cfg: AceSearcherConfig, kind: Kind) -> Messages:
    """Ask the question without a plan."""
    if cfg.request == "nano":
        return _user(f"{documents}\nanswer: {question}")
    name = {"qa": "direct", "claim": "direct_claim", "document": "reason", "program": "program"}[kind]
    return _filled(name, cfg.templates, {"documents": documents, "question": question})


def direct_ask(task: Task, cfg: AceSearcherConfig) -> Messages:
    """Ask a question without a plan and before anything is looked up."""
    return direct_messages(task.question, own_text(task, task.question, cfg), cfg, kind_of(task, cfg))


def _user(text: str) -> Messages:
    return [{"role": "user", "content": text}]


def _filled(name: str, templates: Templates, values: dict[str, str]) -> Messages:
    return prompts.turns(prompts.read(PACKAGE, name, templates), "[]", values)


def shown(passages: Sequence[Passage], request: str) -> str:
    """Passages as text."""
    if request == "nano":
        return "\n".join(p.text for p in passages)
    return "\n\n".join(f"[{n}] {p.title}\n{p.text}" for n, p in enumerate(passages, 1))


def read_plan(rollout: Rollout, cfg: AceSearcherConfig) -> Plan | Rejection:
    """Read the plan of a reply; one that was cut off has none."""
    if rollout.finish_reason == "length":
        return Rejection("cut_off")
    return plans.parse(rollout.text, cfg.most_questions, as_written=cfg.bad_references == "as_written")


def final_answer(rollout: Rollout) -> str | None:
    """The text in the last pair of answer tags; None without one, or if the reply was cut off."""
    pairs = _PAIR.findall(rollout.text) if rollout.finish_reason != "length" else []
    return pairs[-1].strip() or None if pairs else None


def sub_answer(rollout: Rollout) -> str:
    """The answer to a sub-question: the whole reply, or the text in its answer tags."""
    return rollout.text.rpartition(ANSWER[0])[2].partition(ANSWER[1])[0].strip()


class _Group(NamedTuple):
    """A sub-question that several paths share: one prompt, a sample for each path."""

    prompt: Messages
    index: int  # of the sub-question
    paths: list[Path]


def solve(world: World, paths: Sequence[Path], cfg: AceSearcherConfig, *, copies: int, stream: int) -> None:
    """Advance all paths to their final answers.

    Args:
      paths: in groups of `copies`, each group one plan of one question, with consecutive rows.
      stream: of the sub-questions; the final answers have the next one.
    """
    while ready := _ready(paths):
        _look_up(world, ready, cfg)
        _answer(world, ready, cfg, copies, stream)
    _finish(world, [path for path in paths if not path.fault], cfg, stream + 1)


def _ready(paths: Sequence[Path]) -> list[tuple[Path, int]]:
    """Sub-questions that can be asked now, as path and index."""
    return [(path, k) for path in paths if not path.fault for k in path.plan.ready(path.answers)]


def _look_up(world: World, ready: Sequence[tuple[Path, int]], cfg: AceSearcherConfig) -> None:
    searching = [(path, k) for path, k in ready if kind_of(path.task, cfg) in SEARCHING]
    if not searching:
        return
    queries = [path.plan.filled(k, path.answers) for path, k in searching]
    for (path, k), passages in zip(searching, world.look_up(queries, cfg.found), strict=True):
        path.passages[k] = passages


def _answer(world: World, ready: Sequence[tuple[Path, int]], cfg: AceSearcherConfig, copies: int, stream: int) -> None:
    """Answer sub-questions: first those that all copies of a plan share, then the others, each path by itself."""
    groups = _grouped(world, ready, cfg, copies)
    shared = [group for group in groups if len(group.paths) == copies]
    single = [group._replace(paths=[path]) for group in groups if len(group.paths) < copies for path in group.paths]
    for batch in (shared, single):
        for programmed in (False, True):
            chosen = [group for group in batch if _by_program(kind_of(group.paths[0].task, cfg), cfg) == programmed]
            if chosen:
                _ask(world, chosen, cfg, programmed, stream)


def _grouped(world: World, ready: Sequence[tuple[Path, int]], cfg: AceSearcherConfig, copies: int) -> list[_Group]:
    """Prompts of sub-questions; copies of a plan with the same prompt are a group. One that does not fit is a fault."""
    groups: list[_Group] = []
    for path, k in sorted(ready, key=lambda each: (each[1], each[0].row)):
        question = path.plan.filled(k, path.answers)
        build = functools.partial(answer_messages, question, cfg=cfg, kind=kind_of(path.task, cfg))
        prompt, path.shown[k] = _fitting(world, path.passages.get(k, []), cfg, build, path.task, question)
        last = groups[-1] if groups else None
        if prompt is None:
            path.fault = "too_long"
        elif last and last[:2] == (prompt, k) and last.paths[0].row // copies == path.row // copies:
            last.paths.append(path)
        else:
            groups.append(_Group(prompt, k, [path]))
    return groups


def _ask(world: World, groups: Sequence[_Group], cfg: AceSearcherConfig, programmed: bool, stream: int) -> None:
    """Ask groups of equal size; the answers are the replies' words or the values of their programs."""
    replies = world.ask(
        "solver", [group.prompt for group in groups], samples=len(groups[0].paths), stream=stream,
        first_row=[group.paths[0].row + group.index * _APART for group in groups],
        max_new=cfg.final_max_new if programmed else cfg.answer_max_new,
    )  # fmt: skip
    flat = sum(replies, [])
    values = _values(world, flat) if programmed else map(_in_words, flat)
    steps = [(path, group.index) for group in groups for path in group.paths]
    for (path, k), reply, (value, fault) in zip(steps, flat, values, strict=True):
        path.replies[k], path.answers[k], path.fault = reply, value or "", path.fault or fault


def _by_program(kind: Kind, cfg: AceSearcherConfig) -> bool:
    return kind == "program" and cfg.steps == "programs"


def _in_words(reply: Rollout) -> tuple[str, str]:
    """The answer of a reply to a sub-question, and its fault."""
    answer = sub_answer(reply)
    return answer, "" if answer and reply.finish_reason != "length" else "sub_answer"


def _finish(world: World, paths: Sequence[Path], cfg: AceSearcherConfig, stream: int) -> None:
    """Ask the final question of each path and read the answers."""
    prompted = [(path, prompt) for path in paths if (prompt := _final_prompt(world, path, cfg)) is not None]
    rows, messages = [path.row for path, _ in prompted], [prompt for _, prompt in prompted]
    replies = world.ask("solver", messages, samples=1, first_row=rows, max_new=cfg.final_max_new, stream=stream)
    programmed: list[Path] = []
    for (path, _), (reply,) in zip(prompted, replies, strict=True):
        path.final = reply
        if kind_of(path.task, cfg) == "program":
            programmed.append(path)
        else:
            path.answer = final_answer(reply)
    values = _values(world, [path.final for path in programmed if path.final])
    for path, (value, fault) in zip(programmed, values, strict=True):
        path.answer, path.fault = value, fault
    for path, _ in prompted:
        if path.answer is None:
            path.fault = path.fault or "final_answer"


def _final_prompt(world: World, path: Path, cfg: AceSearcherConfig) -> Messages | None:
    """The final prompt, with the best passages of every sub-question; None, and a fault, where it does not fit."""
    answers, kind = [path.answers[k] for k in range(len(path.plan.questions))], kind_of(path.task, cfg)
    build = functools.partial(
        final_messages, path.task.question, steps=plans.listed(path.plan, answers), cfg=cfg, kind=kind
    )
    shows = cfg.request != "nano" and kind != "claim"  # whether the prompt has a place for passages
    share = plans.shares(cfg.total, len(answers)) if shows else 0
    by_question = [path.passages[k] for k in sorted(path.passages)]
    ranked = [passages[rank] for rank in range(share) for passages in by_question if rank < len(passages)]
    # Differs: in the order of their ranks; the code takes 5 or 3 of each through a set, and the best ones outermost
    best = list(dict.fromkeys(ranked))  # each once, the first of every sub-question before the second
    prompt, path.shown[_FINAL] = _fitting(world, best, cfg, build, path.task, path.task.question)
    path.passages[_FINAL] = best
    if prompt is None:
        path.fault = "too_long"
    return prompt


def _values(world: World, replies: Sequence[Rollout]) -> list[tuple[str | None, str]]:
    """Run the programs of replies: the answer of each, and its fault."""
    written = [(k, text) for k, reply in enumerate(replies) if (text := programs.program_of(reply))]
    values: list[tuple[str | None, str]] = [(None, "program_missing")] * len(replies)
    for (k, _), ran in zip(written, world.execute([text for _, text in written]), strict=True):
        values[k] = programs.answer(ran)
    return values


def _fitting(
    world: World,
    passages: Sequence[Passage],
    cfg: AceSearcherConfig,
    build: Callable[..., Messages],
    task: Task,
    question: str,
) -> tuple[Messages | None, int]:
    """The prompt with as many of the best passages as fit, and their number; None if it fits with none of them."""
    searching = kind_of(task, cfg) in SEARCHING
    for count in range(len(passages), -1, -1):
        prompt = build(documents=shown(passages[:count], cfg.request) if searching else own_text(task, question, cfg))
        if world.fits("solver", prompt):
            return prompt, count
    return None, 0


def direct(
    world: World, tasks: Sequence[Task], cfg: AceSearcherConfig, *, samples: int, first_row: Sequence[int], stream: int
) -> list[list[tuple[Rollout, str | None]]]:
    """Replies without a plan, each with its answer: the baseline of decomposition.

    Passages are looked up for the question itself; the value of a program is its answer.
    """
    kinds: list[Kind] = [kind_of(task, cfg) for task in tasks]
    searching = [task for task, kind in zip(tasks, kinds, strict=True) if kind in SEARCHING]
    passages = iter(world.look_up([task.question for task in searching], cfg.found) if searching else [])
    messages = []
    for task, kind in zip(tasks, kinds, strict=True):
        build = functools.partial(direct_messages, task.question, cfg=cfg, kind=kind)
        prompt, _ = _fitting(world, next(passages) if kind in SEARCHING else [], cfg, build, task, task.question)
        messages.append(prompt or build(documents=""))
    replies = world.ask(
        "solver", messages, samples=samples, first_row=first_row, max_new=cfg.final_max_new, stream=stream
    )
    programmed = [of_task for of_task, kind in zip(replies, kinds, strict=True) if kind == "program"]
    values = iter(_values(world, sum(programmed, [])))
    return [
        [(reply, next(values)[0] if kind == "program" else final_answer(reply)) for reply in of_task]
        for of_task, kind in zip(replies, kinds, strict=True)
    ]

"""What SPICE shows of an iteration: metrics, a record of every attempt, the report's panels."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from spicejax.games import reasoner
from spicejax.games.game import About, Panel, Record
from spicejax.types import AnswerType, Document, Metrics, Rejection, Rollout, Task


@dataclasses.dataclass
class Attempt:
    """One attempt of the Challenger at one document, and what became of it."""

    document: int
    kind: AnswerType
    rollout: Rollout
    outcome: Task | Rejection
    kept: bool = False
    answers: list[Rollout] = dataclasses.field(default_factory=list)
    correct: np.ndarray | None = None  # bool [K]
    said: list[str | None] = dataclasses.field(default_factory=list)  # the answers taken from `answers`
    reward: float | None = None
    trains_reasoner: bool = False
    is_copy: bool = False  # its answers are those of an equal task before it

    @property
    def pass_rate(self) -> float | None:
        return None if self.correct is None else float(self.correct.mean())


def metrics_of(attempts: Sequence[Attempt], verdicts: collections.Counter[str]) -> Metrics:
    """Counts and means of the iteration; a mean over nothing is left out."""
    kept = [a for a in attempts if a.kept]
    judged = [a for a in kept if a.correct is not None]
    valid = [isinstance(a.outcome, Task) for a in attempts]
    rejected = collections.Counter(a.outcome.reason for a in attempts if isinstance(a.outcome, Rejection))
    metrics: Metrics = {
        "challenger/attempts": float(len(attempts)),
        "challenger/tasks_valid": float(sum(valid)),
        "challenger/valid_fraction": float(np.mean(valid)),
        "challenger/documents_without_task": float(
            len({a.document for a in attempts}) - len({a.document for a in judged})
        ),
        "challenger/reward": float(np.mean([a.reward for a in kept if a.reward is not None])),
        "challenger/response_length": float(np.mean([len(a.rollout.token_ids) for a in attempts])),
    }
    metrics |= {f"rejected/{reason}": float(count) for reason, count in rejected.items()}
    metrics |= {f"verdict/{how}": float(count) for how, count in verdicts.items()}
    if judged:
        rates = np.array([a.pass_rate for a in judged])
        answers = [r for a in judged for r in a.answers]
        metrics |= {
            "reasoner/pass_rate": float(rates.mean()),
            "challenger/frontier_distance": float(np.abs(rates - 0.5).mean()),
            "challenger/never_solved": float((rates == 0).mean()),
            "challenger/always_solved": float((rates == 1).mean()),
            "challenger/mcq_fraction": float(np.mean([a.kind == "MCQ" for a in judged])),
            "reasoner/response_length": float(np.mean([len(r.token_ids) for r in answers])),
            "reasoner/truncated": float(np.mean([r.finish_reason == "length" for r in answers])),
        }
    return metrics


def record(document: Document, a: Attempt) -> Record:
    """The record of an attempt: a task with its answers, or why there is none."""
    extra: dict[str, Any] = {"document_id": document.id, "format": a.kind, "kept": a.kept}
    if isinstance(a.outcome, Rejection):
        why = {"rejected": a.outcome.reason, "detail": a.outcome.detail, "text": a.rollout.text[:300]}
        return Record(reward=a.reward, extra=extra | why)
    correct = [] if a.correct is None else a.correct.tolist()
    wrote, extra = [{"wrote": r.text[-300:]} for r in a.answers[:1]], extra | {"trains_reasoner": a.trains_reasoner}
    return Record(a.outcome.question, a.outcome.answer, a.said, correct, a.reward, wrote, extra)


PANELS = (
    Panel(
        "Difficulty of the Challenger's questions",
        (
            ("reasoner/pass_rate", "pass rate of its questions"),
            ("challenger/frontier_distance", "mean |pass rate - 1/2|"),
        ),
        limits=(0, 1),
        line=0.5,
        meaning="How often the Reasoner solves the Challenger's questions. The Challenger is paid most at one half: a "
        "distance that falls says that it finds the edge of what the Reasoner can; one that rises, that its questions "
        "become too easy (the pass rate goes to 1), too hard or wrongly answered (to 0).",
        unit="pass rate, distance",
    ),
    Panel(
        "Probes: one role played by the first policy",
        (
            ("probe/fixed_reasoner/pass_rate", "later Challenger, first Reasoner"),
            ("probe/fixed_challenger/pass_rate", "first Challenger, later Reasoner"),
            ("probe/current/pass_rate", "later Challenger, later Reasoner"),
        ),
        rows="evaluations",
        limits=(0, 1),
        meaning="Which side moved: questions of later Challengers should be harder for the first Reasoner, and those "
        "of the first Challenger easier for later Reasoners.",
        unit="pass rate",
    ),
    Panel(
        "Rewards and validity",
        (
            ("challenger/reward", "Challenger reward"),
            ("reasoner/mean_reward", "Reasoner reward"),
            ("challenger/valid_fraction", "valid tasks"),
            ("challenger/distinct_questions", "distinct among them"),
        ),
        meaning="Mean reward of each role, and the share of the Challenger's replies that are tasks at all; a share of "
        "distinct questions that falls warns of one question asked again and again.",
        unit="reward, share",
    ),
)

_EXAMPLE = "spice.style=simple shows a small model an example; a base model needs some iterations, or a larger one"
FIXES = {
    "rejected/abstained": "other texts, or spice.style=simple, which does not offer to leave out a task",
    "rejected/answer_leaked": "spice.validity.no_leaks=false takes such questions",
    "rejected/answer_too_long": "raise spice.max_string_words, or choose other spice.answer_types",
    "rejected/bad_letter": "spice.task_type=free_form_only asks for no options",
    "rejected/bad_options": "spice.task_type=free_form_only asks for no options",
    "rejected/missing_field": _EXAMPLE,
    "rejected/not_quoted": "spice.grounding=answer takes questions in other words than the text's",
    "rejected/not_self_contained": "spice.validity.self_contained=false takes such questions",
    "rejected/question_too_long": "raise the last of buckets.prompt, or spice.validity.max_question_chars",
    "rejected/question_too_short": "lower spice.validity.min_question_chars",
    "rejected/repeated": "lower spice.novelty, or take a larger corpus",
    "rejected/several_questions": "spice.validity.one_question=false takes the last of them",
    "rejected/truncated": "raise spice.challenger_max_new",
    "rejected/ungrounded": "spice.grounding=none takes answers that do not stand in the text; shorter texts "
    "(corpus.max_tokens) make them rarer",
    "rejected/unparsable": _EXAMPLE,
    "rejected/wrong_answer_type": "choose spice.answer_types that the texts have answers of",
    "reasoner/truncated": "raise spice.reasoner_max_new",
}
GLOSSARY = {
    "challenger/attempts": "replies that should have been a task",
    "challenger/tasks_valid": "attempts that are valid tasks",
    "challenger/valid_fraction": "share of attempts that are valid tasks",
    "challenger/documents_without_task": "documents none of whose attempts was valid",
    "challenger/task_type_unparsed": "choices of the kind of task not readable; cut off: raise spice.task_type_max_new",
    "challenger/reward": "mean reward of the attempts that are kept, a group a document, invalid ones included",
    "challenger/frontier_distance": "mean distance of a task's pass rate from one half; 0 is the aim, 0.5 the worst",
    "challenger/never_solved": "share of tasks with pass rate 0",
    "challenger/always_solved": "share of tasks with pass rate 1",
    "challenger/mcq_fraction": "share of multiple-choice questions among the tasks that were answered",
    "challenger/distinct_questions": "share of different questions among the valid tasks",
    "challenger/repeated_questions": "share of valid tasks whose question was asked in the ten iterations before",
    "challenger/held_out_questions": "share of valid tasks that the evaluation asks too (`validity.no_held_out`)",
}
ABOUT = About(
    panels=PANELS,
    glossary=GLOSSARY | reasoner.GLOSSARY,
    counts=("rejected/", "verdict/"),
    valid="challenger/valid_fraction",
    fixes=FIXES,
    written=True,
    paper="SPICE: Self-Play In Corpus Environments, arXiv:2510.24684",
)

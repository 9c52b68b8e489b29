"""How a Reasoner is asked a question, and how its answer is read from a box; games and the evaluation do it alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from spicejax.games.game import Exam, Panel, Reply
from spicejax.games.world import World
from spicejax.score.answers import extract_answer
from spicejax.text import prompts
from spicejax.text.prompts import NO_TEMPLATES, Templates
from spicejax.types import Messages, Metrics, Rollout, Task

# `full` is a request, behind worked examples where the templates bring `reasoner_examples`; `simple` adds ours, for
# small models; `nano` is the bare question, for models of a few million parameters.
Style = Literal["full", "simple", "nano"]
STYLES: tuple[str, ...] = get_args(Style)

PACKAGE = "spicejax.games"  # that holds the templates
GLOSSARY = {
    "reasoner/pass_rate": "share of right answers, mean over tasks",
    "reasoner/never_solved": "share of questions with pass rate 0",
    "reasoner/always_solved": "share of questions with pass rate 1",
}
PANEL = Panel(
    "Training questions",
    tuple((f"reasoner/{name}", name.replace("_", " ")) for name in ("pass_rate", "never_solved", "always_solved")),
    limits=(0, 1),
    meaning="Share of right answers. Questions that are never or always solved teach nothing: all their answers earn "
    "the same.",
    unit="share",
)
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def messages(question: str, style: Style = "full", templates: Templates = NO_TEMPLATES) -> Messages:
    """Ask one question; `templates` replace ours. Raises ValueError for an unknown style."""
    check_style(style)
    if style == "nano":
        return [{"role": "user", "content": question}]
    template = prompts.read(PACKAGE, "reasoner", templates)
    shown = style == "simple" or "reasoner_examples" in templates
    examples = prompts.read(PACKAGE, "reasoner_examples", templates) if shown else "[]"
    return [SYSTEM, *prompts.turns(template, examples, {"question": question})]


def answer(rollout: Rollout, judge_truncated: bool = False) -> str | None:
    """What stands in a response's last box; None without one, and where the length limit cut the response off.

    judge_truncated: read the boxes that stand before the cut, too.
    """
    # Differs: a response that was cut off is wrong (as in Oat, which SPICE is built on); the paper does not say
    return extract_answer(rollout.text) if judge_truncated or rollout.finish_reason != "length" else None


def metrics_of(correct: np.ndarray, rollouts: Sequence[Rollout]) -> Metrics:
    """How questions were answered; nothing where none was asked.

    Args:
      correct: bool [questions, answers].
    """
    if not correct.size:
        return {}
    rates = correct.mean(1)
    return {
        "reasoner/pass_rate": float(rates.mean()),
        "reasoner/never_solved": float((rates == 0).mean()),
        "reasoner/always_solved": float((rates == 1).mean()),
        "reasoner/response_length": float(np.mean([len(r.token_ids) for r in rollouts])),
        "reasoner/truncated": float(np.mean([r.finish_reason == "length" for r in rollouts])),
    }


def exam(style: Style, max_new: int, judge_truncated: bool = False, templates: Templates = NO_TEMPLATES) -> Exam:
    """The Reasoner answers as in training, with at most `max_new` tokens."""
    return asked(lambda task: messages(task.question, style, templates), max_new, judge_truncated)


def asked(ask: Callable[[Task], Messages], max_new: int, judge_truncated: bool = False, role: str = "reasoner") -> Exam:
    """An exam whose questions `ask` puts to `role`, which answers in one turn, in a box."""

    def respond(world: World, tasks: Sequence[Task], **sampling: Any) -> list[list[Reply]]:
        rollouts_of = world.ask(role, [ask(task) for task in tasks], **sampling)
        return [[Reply(answer(r, judge_truncated), r) for r in rollouts] for rollouts in rollouts_of]

    return Exam(role, ask, respond, max_new)


def check_style(style: str) -> None:
    """Raise ValueError for an unknown style."""
    if style not in STYLES:
        raise ValueError(f"unknown prompt style {style!r}: choose one of {', '.join(STYLES)}")

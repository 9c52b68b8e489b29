"""How a Solver, who may search, is asked a question, and how its answer is read from the tags in its own words."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from spicejax.games.game import Exam, Reply
from spicejax.games.world import World
from spicejax.generate.search import Limits, Searched
from spicejax.tags import NANO_TAGS, OBSERVATION_TAGS, QUERY_TAGS, SEARCH_TAGS, Tags
from spicejax.text import prompts
from spicejax.text.prompts import NO_TEMPLATES, Templates
from spicejax.types import Messages, Metrics, Task

# base, instruct: R1-Searcher's two; tags: Search-R1's, which Search Self-Play takes too; evidence: R-Search's, which
# quotes what it found before it answers; simple: two worked examples with Search-R1's tags and hardly a request, for
# small models; nano: the bare question.
Request = Literal["base", "instruct", "tags", "evidence", "simple", "nano"]

PACKAGE = "spicejax.games"  # that holds the templates
GLOSSARY = {
    "solver/pass_rate": "reward of an answer, mean over questions",
    "solver/well_formed": "share of replies that keep the form that is rewarded",
    "solver/answered": "share of replies with an answer",
}
ANSWER = ("<answer>", "</answer>")
_ANSWER_LINE = re.compile(r"^[^\w\n]*Answer:[ \t*]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def tags_of(request: Request) -> Tags:
    """The tags that a request names."""
    named = {"base": QUERY_TAGS, "instruct": QUERY_TAGS, "evidence": OBSERVATION_TAGS, "nano": NANO_TAGS}
    return named.get(request, SEARCH_TAGS)


def messages(question: str, request: Request, templates: Templates = NO_TEMPLATES) -> Messages:
    """Ask one question; `templates` replace ours."""
    if request == "nano":
        return [{"role": "user", "content": question}]
    template = prompts.read(PACKAGE, f"search_{request}", templates)
    examples = prompts.read(PACKAGE, "search_simple_examples", templates) if request == "simple" else "[]"
    return prompts.turns(template, examples, {"question": question})


def exam(request: Request, limits: Limits, templates: Templates = NO_TEMPLATES) -> Exam:
    """The Solver answers as in training."""
    tags = tags_of(request)

    def ask(task: Task) -> Messages:
        return messages(task.question, request, templates)

    def respond(world: World, tasks: Sequence[Task], *, max_new: int, **sampling: Any) -> list[list[Reply]]:
        rows_of = world.search("solver", [ask(task) for task in tasks], tags=tags, limits=limits, **sampling)
        return [[_reply(row) for row in rows] for rows in rows_of]

    return Exam("solver", ask, respond, limits.total, behind=limits.total - 1, searches=True)


def _reply(row: Searched) -> Reply:
    rollout = dataclasses.replace(row.rollout, text=written(row))
    return Reply(answer(row), rollout, transcript(row), searches(row))


def written(row: Searched) -> str:
    """The text of a row that the model wrote itself."""
    return "".join(turn.text for turn in row.turns)


def last_pair(text: str, tags: tuple[str, str]) -> str | None:
    """The text between the last opening tag that is closed and its closing tag; None without such a pair."""
    inside = None
    for part in text.split(tags[0])[1:]:
        content, closing, _ = part.partition(tags[1])
        inside = content.strip() if closing else inside
    return inside


def answer_in(reply: str) -> str | None:
    """The answer of a reply without search: between its tags, else what follows "Answer:" on its line, or None."""
    tagged, line = last_pair(reply, ANSWER), _ANSWER_LINE.search(reply)
    return tagged if tagged is not None or line is None else line[1].strip()


def between(row: Searched, tags: tuple[str, str]) -> str | None:
    """The text between the last pair of tags that the model wrote within one turn; None without such a pair."""
    pairs = (last_pair(turn.text, tags) for turn in reversed(row.turns))
    return next((inside for inside in pairs if inside is not None), None)


def answer(row: Searched) -> str | None:
    """The Solver's answer; None where it gave none."""
    # Differs: the model's own words alone count; the public code of SSP and Search-R1 reads retrieved text as well
    return between(row, ANSWER)


def searches(row: Searched) -> int:
    """Number of searches whose results the model was shown."""
    return sum(bool(turn.query) for turn in row.turns[:-1])


def transcript(row: Searched) -> list[dict[str, Any]]:
    """The row for tasks.jsonl, turn by turn: what the model wrote, its query, the passages that it was shown."""
    return [
        {"wrote": turn.text} | ({"query": turn.query, "shown": [p.id for p in turn.passages]} if turn.query else {})
        for turn in row.turns
    ]


def metrics_of(role: str, rows: Sequence[Searched]) -> Metrics:
    """Means over a role's rows: searches, lengths, how many were cut off; {} without rows."""
    if not rows:
        return {}
    counts = np.array([searches(row) for row in rows])
    return {
        f"{role}/searches": float(counts.mean()),
        f"{role}/searched": float((counts > 0).mean()),
        f"{role}/response_length": float(np.mean([row.rollout.loss_mask.sum() for row in rows])),
        f"{role}/observation_length": float(np.mean([(row.rollout.loss_mask == 0).sum() for row in rows])),
        f"{role}/truncated": float(np.mean([row.rollout.finish_reason == "length" for row in rows])),
    }

"""Owns what a Proposer is asked and when its question is valid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spicejax.games import solver
from spicejax.games.solver import Request
from spicejax.generate.search import Searched
from spicejax.tags import SEARCH_TAGS, Tags
from spicejax.text import prompts
from spicejax.text.prompts import NO_TEMPLATES, Templates
from spicejax.types import Answer, Messages, Passage

PACKAGE = "spicejax.games.ssp"
QUESTION = ("<question>", "</question>")


@dataclasses.dataclass(frozen=True)
class Rules:
    """What makes a question valid before it is verified; the numbers are the public code's."""

    # of the question
    min_chars: int = 10
    max_chars: int = 1000
    min_words: int = 10
    # its closing tag is written; false = the end of the reply closes it too
    closed: bool = True
    # searches that were answered
    min_searches: int = 2
    # no query twice
    distinct_queries: bool = True
    # not a question that the evaluation asks too (eval.tasks), word for word
    no_held_out: bool = True

    def broken(self, question: str | None, row: Searched, answer: Answer, *, held_out: bool = False) -> str:
        """Name the first rule that a question breaks; "" where it breaks none. `held_out`: the evaluation asks it."""
        queries = [turn.query for turn in row.turns[:-1]]
        rules = {
            "few_searches": solver.searches(row) < self.min_searches,
            "repeated_query": self.distinct_queries and len(set(queries)) < len(queries),
            "held_out": self.no_held_out and held_out,
        }
        return self.broken_by(question or "", answer) or next((name for name, broken in rules.items() if broken), "")

    def broken_by(self, text: str, answer: Answer) -> str:
        """Name the first rule that a question breaks however it was found."""
        rules = {
            "no_question": not text,
            "short": len(text) < self.min_chars or len(text.split()) < self.min_words,
            "long": len(text) > self.max_chars,
            "names_answer": any(known.lower() in text.lower() for known in answer.texts),
        }
        return next((name for name, is_broken in rules.items() if is_broken), "")


@dataclasses.dataclass(frozen=True)
class Proposal:
    """One row of the Proposer, and its question where it has one."""

    answer: Answer
    row: Searched
    question: str = ""
    rejected: str = ""  # why it is not valid; "" = it is

    @property
    def evidence(self) -> list[Passage]:
        """What the Proposer was shown, each passage once."""
        return list(dict.fromkeys(p for turn in self.row.turns for p in turn.passages))


def tags_of(request: Request) -> Tags:
    """The Solver's tags; a row ends behind its question."""
    return dataclasses.replace(solver.tags_of(request), ends=(QUESTION[1],))


def messages(answer: Answer, searches: int, request: Request, templates: Templates = NO_TEMPLATES) -> Messages:
    """Ask for a question with this answer."""
    if request == "nano":
        return [{"role": "user", "content": f"{searches} {answer.text}"}]
    return _turns("propose", request, templates, {"answer": answer.text, "searches": str(searches)})


def read(row: Searched, answer: Answer, rules: Rules, examines: Callable[[str], bool]) -> Proposal:
    """What a row proposes; `examines` says of a question whether the evaluation asks it."""
    question = solver.between(row, QUESTION) or ("" if rules.closed else _unclosed(row))
    return Proposal(answer, row, question, rules.broken(question, row, answer, held_out=examines(question)))


def _unclosed(row: Searched) -> str:
    """What follows the last opening tag of a row that the model ended; "" without one."""
    _, opened, question = row.turns[-1].text.rpartition(QUESTION[0])
    return question.strip() if opened and row.rollout.finish_reason == "stop" else ""


def verification(
    question: str, documents: Sequence[Passage], request: Request, templates: Templates = NO_TEMPLATES
) -> Messages:
    """Ask for the answer that documents give."""
    tags = solver.tags_of(request)
    listed = "\n".join(tags.passage.format(n=n, title=p.title, text=p.text) for n, p in enumerate(documents, 1))
    if request == "nano":
        return [{"role": "user", "content": f"{listed}\n{question}"}]
    return _turns("verify", request, templates, {"documents": listed, "question": question})


def _turns(name: str, request: Request, templates: Templates, values: Mapping[str, str]) -> Messages:
    """The request of that name, with its tags; `simple` is another one, behind worked examples."""
    if request != "simple":
        template = prompts.read(PACKAGE, name, templates)
        for tag, other in zip(SEARCH_TAGS.observation, tags_of(request).observation, strict=True):
            template = template.replace(tag, other)
        return prompts.turns(template, "[]", values)
    template, examples = (prompts.read(PACKAGE, f"{name}_{part}", templates) for part in ("simple", "simple_examples"))
    return prompts.turns(template, examples, values)


def noise(proposal: Proposal, others: Sequence[Proposal], limit: int, rng: np.random.Generator) -> list[Passage]:
    """At most `limit` passages that other rows were shown and this one was not.

    Args:
      others: all rows of the batch; `proposal` may be among them.
    """
    # Differs: single passages, as in the paper; the code takes all that another row was shown for one of them
    own_evidence = set(proposal.evidence)
    unknown = list(dict.fromkeys(p for other in others for p in other.evidence if p not in own_evidence))
    return [unknown[i] for i in rng.permutation(len(unknown))[:limit]]

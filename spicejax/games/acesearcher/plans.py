"""Plans: a question broken into sub-questions, some of which refer to the answers of earlier ones."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from spicejax.types import Rejection

MARK = "###"
# `Question 2:`, `Q2.`, `2)`; a number alone only before a space, so that "3.5 percent" and "1984: ..." stay whole
_LABEL = re.compile(
    r"^(?:(?:sub-?question|sub-?claim|question|claim|step|q)\s*#?\d+\s*[:.)]|\d{1,2}[:.)](?=\s|$))\s*", re.IGNORECASE
)
_MARKS = re.compile(r"^#+(?!#|\d)\s*")  # more than the three; what stands before a number is a reference
_REFERENCE = re.compile(r"#(\d+)")


@dataclasses.dataclass(frozen=True)
class Plan:
    """Sub-questions in order; `#k` in one stands for the answer of the k-th, from 1."""

    questions: tuple[str, ...]

    def ready(self, answers: Mapping[int, str]) -> list[int]:
        """Indices, from 0, of the unanswered sub-questions that refer to answered ones alone."""
        open_ones = (k for k in range(len(self.questions)) if k not in answers)
        return [k for k in open_ones if self.needs(k) <= answers.keys()]

    def needs(self, index: int) -> set[int]:
        """Indices of the earlier sub-questions that this one refers to."""
        return {n - 1 for n in references(self.questions[index]) if 0 < n <= index}

    @property
    def refers(self) -> bool:
        """Whether any sub-question refers to an earlier one."""
        return any(map(self.needs, range(len(self.questions))))

    def filled(self, index: int, answers: Mapping[int, str]) -> str:
        """A sub-question with the answers it refers to in their places; a reference that is bad stays as it is."""
        # In one pass: what an answer says is never read as a reference, and #1 is no part of #10.
        needed = self.needs(index)
        return _REFERENCE.sub(
            lambda match: answers[n] if (n := int(match[1]) - 1) in needed else match[0], self.questions[index]
        )


def references(question: str) -> set[int]:
    """Numbers of the sub-questions, from 1, that a sub-question names."""
    return {int(number) for number in _REFERENCE.findall(question)}


def parse(text: str, limit: int, *, as_written: bool = False) -> Plan | Rejection:
    """Read a plan: a sub-question on each line that begins with ###, a label such as `Q2:` before it or not.

    Rejections: no_subquestion; empty_subquestion; too_many, more than `limit`; bad_reference, to itself, to a later one
    or to none, unless such references stay `as_written`.
    """
    lines = [line.strip().removeprefix(MARK) for line in text.splitlines() if line.strip().startswith(MARK)]
    questions = tuple(_unlabelled(line.strip(), number) for number, line in enumerate(lines, 1))
    if not questions:
        return Rejection("no_subquestion", text[:200])
    if not all(questions):
        return Rejection("empty_subquestion", text[:200])
    if len(questions) > limit:
        return Rejection("too_many", str(len(questions)))
    plan = Plan(questions)
    # Differs: by default what refers to itself, to a later sub-question or to none is no plan; neither paper nor code
    # checks it
    for index, question in enumerate(questions):
        if not as_written and len(references(question)) > len(plan.needs(index)):
            return Rejection("bad_reference", question[:200])
    return plan


def _unlabelled(line: str, number: int) -> str:
    """A line's sub-question alone; `#2:` is the label of the second one, and a reference elsewhere."""
    line = _MARKS.sub("", line)
    return _LABEL.sub("", re.sub(rf"^#{number}\s*[:.)]", "", line).strip()).strip()


def shares(passages: int, questions: int) -> int:
    """Passages of each sub-question in the final prompt: floor(N / n), at least one (section 4.2)."""
    return max(1, passages // max(questions, 1))


def listed(plan: Plan, answers: Sequence[str]) -> str:
    """Sub-questions with their answers, for the final prompt; references as they were written."""
    pairs = zip(plan.questions, answers, strict=True)
    return "\n".join(f"#{n}: {question}\nAnswer: {answer}" for n, (question, answer) in enumerate(pairs, start=1))

"""Whether an answer occurs anywhere in a text: knowledge without the form that the verifier asks for."""

from __future__ import annotations

import re

from spicejax.score import answers
from spicejax.types import Task

_TRUTH = re.compile(r"\b(?:true|yes|false|no|not)\b", re.IGNORECASE)
_LETTER = re.compile(r"(?<![A-Za-z])([A-J])(?=[).:]|\s*$)")


def said(text: str, task: Task) -> bool:
    """Say whether a text holds the task's answer as whole words, or as a number of its own.

    Multiple choice: of all options only the right one is written out, or else the first letter named is the right one.
    Boolean: the first word of truth has its value. Names and numbers: anywhere, beside whatever else stands there; so a
    text that lists everything says everything. Case counts where the question holds the answer (`write x in capitals`).
    """
    words = answers.tokens(answers.plain(text))
    if task.answer_type == "MCQ":
        letters = [letter for letter, option in zip("ABCDEFGHIJ", task.options, strict=False) if _holds(words, option)]
        letters = letters if len(letters) == 1 else _LETTER.findall(text)[:1]
        return letters == [task.answer]
    if task.answer_type == "Boolean":
        first = _TRUTH.search(text)
        return first is not None and (first[0].casefold() in ("true", "yes")) == answers.parse_boolean(task.answer)
    if (number := answers.canonical_number(task.answer)) is not None:
        return number in answers.number_tokens(text)
    spellings = [answer for answer in (task.answer, *task.aliases) if _holds(words, answer)]
    return any(answer in text or not _holds(answers.tokens(task.question), answer) for answer in spellings)


def _holds(words: str, phrase: str) -> bool:
    return answers.phrase(phrase) in words

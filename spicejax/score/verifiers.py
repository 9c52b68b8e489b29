"""The verifier: `Verifier.check` judges answers against tasks, first by text, then by Math-Verify.

Text rules (letters, numbers, truth values, names, lists, forms) decide most pairs in this process without sympy. Bare
mathematics is left to worker processes (`pool.py`, `worker.py`) with limited CPU time and memory; a hostile answer
costs its own verdict alone.

Math-Verify alone strips units and letters, folds case, drops primes and rounds small numbers to zero. Of the pairs in
tests/score, version 0.9 alone takes 42 of 97 wrong answers for right and 27 of 88 right ones for wrong, and a policy
finds the former. Where a rule is in doubt, it says wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from spicejax import outside
from spicejax.score import answers, forms
from spicejax.score.forms import FLOAT_TOLERANCE, Claim
from spicejax.score.pool import Pool
from spicejax.score.pool import Verdict as Verdict
from spicejax.types import Task

_HEDGE = re.compile(r"\b(?:either|maybe|perhaps|not|vs|versus)\b|\?")
# Of a letter, with primes or not, of CO and kW, and of mg and mgh, abbreviations without a vowel, the case counts.
_SYMBOL = re.compile(r"[A-Za-z]|[A-Za-z][a-z]?['′’]+[a-z]?|[A-Za-z][A-Z]|[B-DF-HJ-NP-TV-XZb-df-hj-np-tv-xz]{2,3}")
_SYMBOL_CHARS = 24  # with what may stand around it
_LETTER = re.compile(
    r"(?:(?:option|choice|answer)\s*:?\s*)?\(?\s*([A-Za-z])\s*\)?(?:[).:]+\s*(.*))?", re.DOTALL | re.IGNORECASE
)
_BRACKETS = re.compile(r"[\[\](){}<>\s]+")  # what closes a Dyck word (BBH)
_AND = r"(?<![A-Za-z])and(?![A-Za-z])"
_LIST_SEPARATORS = (r"[,;]\s*", r"[,;]\s+", rf"[,;]\s*(?:{_AND}\s+)?|{_AND}|\\q?quad(?![A-Za-z])")
BUILT_IN = "math_verify"
_FIRST_PASS_CPU = 30.0  # CPU seconds per worker that the first pass over a large batch may take
_MIN_SLICE = 0.05  # CPU seconds; most pairs need less


def _check_letter(answer: str, task: Task) -> Verdict:
    """Accept the right letter, alone or with its own option's text, and that text where only one option has it."""
    right, match = task.answer.strip().upper(), _LETTER.fullmatch(answers.plain(answer))
    index = ord(match[1].upper()) - ord("A") if match else -1
    if match and (not task.options or index < len(task.options)):  # else "I" may be the symbol of iodine
        rest = match[2] or ""
        agrees = not rest or (bool(task.options) and _same_text(rest, task.options[index]))
        return Verdict(match[1].upper() == right and agrees, "letter")
    labelled = [(chr(ord("A") + i), option) for i, option in enumerate(task.options)]
    hits = [letter for letter, option in labelled if answers.normal(answer) == answers.normal(option)]
    hits = hits or [letter for letter, option in labelled if _same_text(answer, option)]
    return Verdict(hits == [right], "letter")


def _same_text(answer: str, gold: str) -> bool:
    if (number := answers.parse_number(answer)) and (gold_number := answers.parse_number(gold)):
        return answers.same_number(number, gold_number)
    if len(gold) <= _SYMBOL_CHARS or len(answer) <= _SYMBOL_CHARS:
        symbols = [re.sub(r"\(([A-Za-z])\)", r"\1", answers.plain(text)) for text in (answer, gold)]
        if any(map(_SYMBOL.fullmatch, symbols)):
            return symbols[0] == symbols[1]
    return bool(answers.normal(gold)) and answers.normal(answer) == answers.normal(gold)


def _check_list(answer: str, gold: str) -> Verdict:
    """Compare element by element in order, since a List may ask for one; "1,000, 2,000" may be two numbers or four."""
    gold_lists = _readings(gold)
    for parts in _readings(answer):
        for gold_parts in gold_lists:
            if gold_parts and len(parts) == len(gold_parts) and all(map(_same_text, parts, gold_parts)):
                return Verdict(True, "list")
    return Verdict(False, "list")


def _readings(text: str) -> list[list[str]]:
    """Split a list at commas, at commas with a space, and at "and", "or" and wide spaces too; each reading once."""
    readings = [answers.split_list(text, separator) for separator in _LIST_SEPARATORS]
    return [reading for i, reading in enumerate(readings) if reading not in readings[:i]]


def _check_mathematics(answer: str, task: Task) -> Verdict | Claim:
    """Compare numbers, then forms: Integers exactly, others within FLOAT_TOLERANCE."""
    symbolic, tolerance = task.answer_type == "Expression", 0.0 if task.answer_type == "Integer" else FLOAT_TOLERANCE
    gold, form = forms.read(task.answer, symbolic=symbolic), forms.read(answer, symbolic=symbolic)
    if not symbolic and "\\" not in answer and not any(c.isnumeric() for c in answer):
        return Verdict(False, "text")  # words: nothing for mathematics to find
    if any(c.isnumeric() and not c.isascii() for c in form.text):
        return Verdict(False, "text")  # digits of another script
    doubts = _HEDGE.search(answer.casefold()) and not _HEDGE.search(task.answer.casefold())
    if doubts or "\n" in answer.strip() or form.kind == "list" and not gold.parts:
        return Verdict(False, "hedged")
    result = forms.equal(gold, form, tolerance=tolerance)
    how = "number" if gold.number and form.number else "form"
    return Verdict(result, how) if isinstance(result, bool) else result


# Differs: text decides names, units, lists and forms; SPICE (section 2.5) has Math-Verify, and else "exact matching"
def check_text(answer: str | None, task: Task) -> Verdict | Claim:
    """Judge one answer by text alone, or say what Math-Verify has to find true (some Integers, Floats, Expressions)."""
    if answer is None or not answer.strip():
        return Verdict(False, "none")
    for text in (answer, task.answer):
        if len(text) > answers.MAX_ANSWER_CHARS or sum(c.isdigit() for c in text) > answers.MAX_DIGITS:
            return Verdict(False, "too_long")
    if task.answer_type == "MCQ":
        return _check_letter(answer, task)
    if answer.strip() == task.answer.strip():
        return Verdict(True, "exact")
    if _BRACKETS.fullmatch(task.answer):
        said = answers.clean(answer).replace("\\{", "{").replace("\\}", "}")  # as a box has them
        if said == " ".join(task.answer.split()):
            return Verdict(True, "exact")
    if task.answer_type == "Boolean":
        value, gold_value = answers.parse_boolean(answer), answers.parse_boolean(task.answer)
        return Verdict(value is not None and value == gold_value, "boolean")
    if task.answer_type == "String":
        return Verdict(any(_same_text(answer, gold) for gold in (task.answer, *task.aliases)), "text")
    if task.answer_type == "List":
        return _check_list(answer, task.answer)
    return _check_mathematics(answer, task)


def matches_itself(task: Task) -> bool:
    """Whether one of the task's own answers, in a box and with or without a stop behind it, would be right.

    By text alone: what Math-Verify would have to find counts. An answer of several lines is none that anybody gives.
    """

    def correct(right: str, stop: str) -> bool:
        verdict = check_text(answers.extract_answer(f"\\boxed{{{right}{stop}}}"), task)
        return verdict.correct if isinstance(verdict, Verdict) else True

    texts = (text for text in (task.answer, *task.aliases) if "\n" not in text.strip())
    return any(correct(text, "") and correct(text, ".") for text in texts)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Verifier:
    """Judge batches of answers; workers start with the first pair that needs one. Use as a context manager.

    Args:
        workers: processes that run Math-Verify; 0 = as many as the cores this process may use.
        cpu_seconds: CPU time one pair may use.
        max_timeouts: pairs of one batch that may use up their full CPU time before the batch's other unfinished
            pairs are given up ("breaker"); bounds the cost of a batch of hostile answers.
        function: (text, task) -> bool, or its name (outside.py), which the workers ask in place of all rules here about
            every answer that is not empty; math_verify = the rules here.
    """

    def __init__(
        self,
        *,
        workers: int = 0,
        cpu_seconds: float = 2.0,
        max_timeouts: int = 16,
        function: str | outside.OUTSIDE = BUILT_IN,
    ) -> None:
        self.cpu_seconds, self.max_timeouts = cpu_seconds, max_timeouts
        self.function = "" if function == BUILT_IN else outside.name_of(function, "verifier")
        self.pool = Pool(workers or _cores(), self.function)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.close()

    def check(self, pairs: Sequence[tuple[str | None, Task]]) -> list[Verdict]:
        """Judge every (extracted answer, task) pair; equal pairs are judged once.

        A pair's verdict does not depend on the others of its batch, unless more than `max_timeouts` of them time out.

        Raises:
            RuntimeError: Math-Verify is needed and not installed, or workers cannot start.
            ValueError: there is no such `function`.
        """
        verdicts = [self._check_text(answer, task) for answer, task in pairs]
        waiting = list(dict.fromkeys(verdict for verdict in verdicts if not isinstance(verdict, Verdict)))
        judged = dict(zip(waiting, self._check_claims(waiting), strict=True))
        return [verdict if isinstance(verdict, Verdict) else judged[verdict] for verdict in verdicts]

    def matches(self, tasks: Sequence[Task]) -> list[bool]:
        """Whether one of each task's own answers would be right.

        Raises: ValueError where a `function` of the user's own cannot say so: it is not there, raises or is too slow.
        """
        if not self.function:
            return [matches_itself(task) for task in tasks]
        pairs = [(text, task) for task in tasks for text in (task.answer, *task.aliases)]
        matched: dict[Task, bool] = dict.fromkeys(tasks, False)
        faults = {
            "crashed": "it needs more than 1 GiB of memory, or ends its process",
            "timeout": f"it needs more than {self.cpu_seconds:g} s of CPU time; load what is large at its module's top",
        }
        for (text, task), verdict in zip(pairs, self.check(pairs[:1]) + self.check(pairs[1:]), strict=True):
            if fault := verdict.why or faults.get(verdict.how):
                raise ValueError(f"verifier={self.function}, asked about the right answer {text!r:.100}: {fault}")
            matched[task] |= verdict.correct
        return [matched[task] for task in tasks]

    def _check_text(self, answer: str | None, task: Task) -> Verdict | Any:
        """Judge a pair here, or return what the workers are asked."""
        if not self.function:
            return check_text(answer, task)
        return (answer, task) if answer and answer.strip() else Verdict(False, "none")

    def _check_claims(self, items: list[Any]) -> list[Verdict]:
        """Judge claims in the workers.

        A large batch first gets a small CPU slice per pair, so that honest pairs are done before hostile ones have used
        up the batch's `max_timeouts`; only what the slice left undone gets the full time.
        """
        if not items:
            return []
        cpu = min(self.cpu_seconds, max(_MIN_SLICE, _FIRST_PASS_CPU * self.pool.size / len(items)))
        verdicts = self.pool.judge(items, cpu=cpu, max_timeouts=len(items))
        late = [i for i, verdict in enumerate(verdicts) if verdict.how == "timeout"]
        if late and cpu < self.cpu_seconds:
            again = self.pool.judge([items[i] for i in late], cpu=self.cpu_seconds, max_timeouts=self.max_timeouts)
            for i, verdict in zip(late, again, strict=True):
                verdicts[i] = verdict
        return verdicts

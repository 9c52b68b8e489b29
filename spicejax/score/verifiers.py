"""Owns the Reasoner's correctness: `Verifier.check` judges answers against tasks, by text first, by Math-Verify second.

Text rules (letters, numbers, truth values, names, lists) decide most pairs in this process without sympy. The rest goes
to worker processes (`pool.py`, `worker.py`) with limited CPU time and memory; a hostile answer costs its own verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from spicejax.score import answers
from spicejax.score.pool import Pool
from spicejax.score.pool import Verdict as Verdict
from spicejax.types import Task

FLOAT_TOLERANCE = 1e-6  # relative; Math-Verify's own six decimals
_HEDGE = re.compile(
    r"\b(?:or|and|either|maybe|not|vs|versus)\b|\\(?:lor|vee|pm|mp|quad|qquad|approx)(?![A-Za-z])|±|≈|\?"
)
_LETTER = re.compile(
    r"(?:(?:option|choice|answer)\s*:?\s*)?\(?\s*([A-Za-z])\s*\)?(?:[).:]+\s*(.*))?", re.DOTALL | re.IGNORECASE
)
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
    if (said := answers.parse_number(answer)) and (wanted := answers.parse_number(gold)):
        return answers.same_number(said, wanted)
    return bool(answers.normal(gold)) and answers.normal(answer) == answers.normal(gold)


def _check_list(answer: str, gold: str) -> Verdict:
    """Compare element by element in order; "1,000, 2,000" may be read with or without its group commas."""
    for separator in (r"[,;]\s*", r"[,;]\s+"):
        said, wanted = answers.split_list(answer, separator), answers.split_list(gold, separator)
        if wanted and len(said) == len(wanted) and all(map(_same_text, said, wanted)):
            return Verdict(True, "list")
    return Verdict(False, "list")


def _check_number(answer: str, task: Task) -> Verdict | None:
    """Compare two plain numbers: Integers exactly, others within FLOAT_TOLERANCE; None where either is not one."""
    said, wanted = answers.parse_number(answer), answers.parse_number(task.answer)
    if said is None or wanted is None:
        return None
    if task.answer_type == "Expression" and (said.unit or wanted.unit):  # 5m may be five times m there
        return None
    tolerance = 0.0 if task.answer_type == "Integer" else FLOAT_TOLERANCE
    return Verdict(answers.same_number(said, wanted, tolerance=tolerance), "number")


def _hedges(answer: str, task: Task) -> bool:
    """Say whether an answer offers several where the gold one does not ("x = 1 or x = 2" may be one answer)."""
    said, wanted = answers.plain(answer), answers.plain(task.answer)
    if task.answer_type in ("Integer", "Float") and re.search("[,;]", said):
        return True
    return "\n" in answer.strip() or bool(_HEDGE.search(said.casefold()) and not _HEDGE.search(wanted.casefold()))


def check_text(answer: str | None, task: Task) -> Verdict | None:
    """Judge one answer by text alone; None where only Math-Verify can tell (some Integers, Floats, Expressions)."""
    if answer is None or not answer.strip():
        return Verdict(False, "none")
    for text in (answer, task.answer):
        if len(text) > answers.MAX_ANSWER_CHARS or sum(c.isdigit() for c in text) > answers.MAX_DIGITS:
            return Verdict(False, "too_long")
    if task.answer_type == "MCQ":
        return _check_letter(answer, task)
    if answer.strip() == task.answer.strip():
        return Verdict(True, "exact")
    if task.answer_type == "Boolean":
        said, wanted = answers.parse_boolean(answer), answers.parse_boolean(task.answer)
        return Verdict(said is not None and said == wanted, "boolean")
    if task.answer_type == "String":
        return Verdict(_same_text(answer, task.answer), "text")
    if task.answer_type == "List":
        return _check_list(answer, task.answer)
    if verdict := _check_number(answer, task):
        return verdict
    if task.answer_type in ("Integer", "Float") and "\\" not in answer and not any(c.isdigit() for c in answer):
        return Verdict(False, "text")  # words: nothing for mathematics to find
    if any(c.isdigit() and not c.isascii() for c in answer):
        return Verdict(False, "text")  # digits of another script
    return Verdict(False, "hedged") if _hedges(answer, task) else None


class Verifier:
    """Judge batches of answers; workers start with the first pair that needs one. Use as a context manager.

    Args:
        workers: processes that run Math-Verify.
        cpu_seconds: CPU time one pair may use.
        max_timeouts: pairs of one batch that may use up their full CPU time before the batch's other unfinished
            pairs are given up ("breaker"); bounds the cost of a batch of hostile answers.
    """

    def __init__(self, *, workers: int = 2, cpu_seconds: float = 2.0, max_timeouts: int = 16) -> None:
        self.cpu_seconds, self.max_timeouts = cpu_seconds, max_timeouts
        self.pool = Pool(workers)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.close()

    def check(self, pairs: Sequence[tuple[str | None, Task]]) -> list[Verdict]:
        """Judge every (extracted answer, task) pair; equal pairs are judged once.

        A pair's verdict does not depend on the others of its batch, unless more than `max_timeouts` of them time out.

        Raises:
            RuntimeError: Math-Verify is needed and not installed, or workers cannot start.
        """
        verdicts = [check_text(answer, task) for answer, task in pairs]
        keys = [(task.answer, answer or "") for answer, task in pairs]
        waiting = list(dict.fromkeys(key for key, verdict in zip(keys, verdicts, strict=True) if verdict is None))
        judged = dict(zip(waiting, self._check_mathematics(waiting), strict=True))
        return [verdict or judged[key] for key, verdict in zip(keys, verdicts, strict=True)]

    def _check_mathematics(self, items: list[tuple[str, str]]) -> list[Verdict]:
        """Judge (gold, answer) pairs in the workers.

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

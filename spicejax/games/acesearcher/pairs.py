"""What is learnt from a question's paths: pairs of a better and a worse reply, or the good ones alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from spicejax.games.acesearcher.paths import Path
from spicejax.types import Rollout

Pair = tuple[Rollout, Rollout]  # the better, the worse; the worse has the better one's prompt


def of_plans(replies: Sequence[Rollout], worths: Sequence[Sequence[Fraction]]) -> list[Pair]:
    """The best plan and the worst by the mean worth of their paths; [] where none is better (D_decompose).

    Args:
      replies: the decomposer's, to one prompt.
      worths: of each plan's paths; a rejected plan has none and is worth 0.
    """
    # Differs: the code pairs all that tie above a gap of 1.33, and paths that share two thirds of their sub-answers
    # Differs: with programs the code pairs plans above a gap of 0.3, and each program with its plan and without
    # Differs: the code samples until three plans differ, eight times at most, and drops the question otherwise
    means = [sum(worths_of, Fraction(0)) / max(len(worths_of), 1) for worths_of in worths]
    best, worst = replies[means.index(max(means))], replies[means.index(min(means))]
    return [(best, worst)] if best.text != worst.text else []  # one text is worth more or less by luck alone


def of_paths(paths: Sequence[Path], rewards: Sequence[Fraction]) -> list[tuple[Path, Path]]:
    """The best path along one plan and the worst; [] where none is better."""
    if not paths or max(rewards) == min(rewards):
        return []
    return [(paths[rewards.index(max(rewards))], paths[rewards.index(min(rewards))])]


def finals(good: Path, bad: Path) -> list[Pair]:
    """Their final replies, if they differ (D_final)."""
    if good.final is None or bad.final is None or good.final.text == bad.final.text:
        return []
    return [(good.final, _under(good.final, bad.final))]


def sub_answers(good: Path, bad: Path) -> list[Pair]:
    """Their sub-answers where these differ (D_subq)."""
    # Differs: the code makes such a pair of the first that share no word, and leaves it out of its mixture
    differ = [k for k in sorted(good.replies) if k in bad.replies and good.answers[k] != bad.answers[k]]
    return [(good.replies[k], _under(good.replies[k], bad.replies[k])) for k in differ]


def _under(better: Rollout, worse: Rollout) -> Rollout:
    """The worse reply under the better one's prompt, as the paper pairs them: what led to it may differ."""
    return dataclasses.replace(worse, prompt_ids=better.prompt_ids)

"""What is learnt from a question's paths: pairs of a better and a worse reply, or the good ones alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from spicejax.games.acesearcher import plans
from spicejax.games.acesearcher.config import Rule
from spicejax.games.acesearcher.paths import Path
from spicejax.games.acesearcher.plans import Plan
from spicejax.types import Rejection, Rollout

MEAN_GAP, MEAN_WORST = Fraction("1.33"), 1  # code: of the mean worths of a question's plans
GAP, WORST, COMPARED, ALIKE = Fraction("1.33"), Fraction("1.2"), 2, Fraction("0.666")  # code: of a plan's paths
MOST_QUESTIONS = 7  # code: a plan of as many sub-questions loses

Pair = tuple[Rollout, Rollout]  # the better, the worse; the worse has the better one's prompt


def of_plans(
    replies: Sequence[Rollout], read: Sequence[Plan | Rejection], worths: Sequence[Sequence[Fraction]], rule: Rule
) -> list[Pair]:
    """Pairs of plans by the mean worth of their paths; [] where none is better (D_decompose).

    Args:
      replies: the decomposer's, to one prompt.
      worths: of each plan's paths; a rejected plan has none and is worth 0.
    """
    # Differs: with programs the code pairs plans above a gap of 0.3, and each program with its plan and without
    means = [sum(worths_of, Fraction(0)) / max(len(worths_of), 1) for worths_of in worths]
    best, worst = max(means), min(means)
    if rule == "paper":
        pairs = [(replies[means.index(best)], replies[means.index(worst)])] if best > worst else []
        return _told_apart(pairs)
    if best - worst < MEAN_GAP or worst > MEAN_WORST:
        return []
    winners = [k for k, mean in enumerate(means) if mean == best]
    losers = [k for k, mean in enumerate(means) if mean == worst]
    broken = [k for k in winners if _loses(read[k])]
    # Differs: the code samples until three plans differ, eight times at most, and drops the question otherwise
    return _told_apart([(replies[a], replies[b]) for a in winners if a not in broken for b in (*losers, *broken)])


def _told_apart(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs whose texts differ: two plans of one text are worth more or less by luck alone."""
    return [pair for pair in pairs if pair[0].text != pair[1].text]


def _loses(plan: Plan | Rejection) -> bool:
    return isinstance(plan, Rejection) or len(plan.questions) >= MOST_QUESTIONS or plans.talks_of_itself(plan)


def of_paths(paths: Sequence[Path], rewards: Sequence[Fraction], rule: Rule) -> list[tuple[Path, Path]]:
    """Pairs of paths along one plan by their rewards."""
    if not paths or max(rewards) == min(rewards):
        return []
    order = sorted(range(len(paths)), key=lambda k: -rewards[k])  # stable: the first of equal ones
    if rule == "paper":
        last = min(range(len(paths)), key=lambda k: rewards[k])
        return [(paths[order[0]], paths[last])]
    if max(rewards) - min(rewards) <= GAP or min(rewards) > WORST:
        return []
    pairs = []
    for k in order[:COMPARED]:
        against = [n for n in order[-COMPARED:] if rewards[n] < rewards[k]]
        if against:
            nearest = max(against, key=lambda n: _alike(paths[k], paths[n]))
            if _alike(paths[k], paths[nearest]) >= ALIKE:
                pairs.append((paths[k], paths[nearest]))
    return pairs


def _alike(a: Path, b: Path) -> Fraction:
    """Share of a plan's sub-answers that are the same."""
    count = len(a.plan.questions)
    return Fraction(sum(a.answers.get(k) == b.answers.get(k) is not None for k in range(count)), count)


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

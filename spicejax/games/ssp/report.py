"""What Search Self-Play shows of an iteration: metrics, a record of every slot, the report's panels."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from spicejax.games import solver
from spicejax.games.game import About, Panel, Record
from spicejax.games.ssp.proposals import Proposal
from spicejax.generate.search import Searched
from spicejax.types import Answer, Metrics


@dataclasses.dataclass
class Slot:
    """A place of the batch: what was proposed there, the question that was asked there, and the Solver's rows."""

    proposal: Proposal
    asked: tuple[str, Answer] | None = None  # question and answer
    place: int | None = None  # in the pool, of a question that was asked before
    rows: Sequence[Searched] = ()
    right: Sequence[float] = ()  # how right the answer of each row is
    earned: Sequence[float] = ()  # reward of each row
    reward: float = 0.0  # of the proposal

    @property
    def success(self) -> float:
        """How often the question was solved."""
        return float(np.mean(self.right))


def record(slot: Slot) -> Record:
    """The proposal, with the Solver's answers to it; those to a question replayed in its place stand beside."""
    extra: dict[str, Any] = {"rejected": slot.proposal.rejected}
    answers, right = [solver.answer(row) for row in slot.rows], [share == 1 for share in slot.right]
    if slot.asked:
        asked, its_answer = slot.asked
        extra |= {"asked": asked, "replayed": slot.place is not None, "rewards": slot.earned}
        extra |= {"answered": solver.transcript(slot.rows[0])}
        if slot.place is not None:
            extra |= {"replay": {"answer": its_answer.text, "said": answers, "correct": right}}
            answers, right = [], []
    question, gold, transcript = slot.proposal.question, slot.proposal.answer.text, solver.transcript(slot.proposal.row)
    return Record(question, gold, answers, right, slot.reward, transcript, extra)


def metrics_of(slots: Sequence[Slot], tried: int) -> Metrics:
    """Counts and means of the iteration; a mean over nothing is left out. `tried` proposals were made."""
    new = [slot.success for slot in slots if slot.asked and slot.place is None]
    replayed = [slot.success for slot in slots if slot.place is not None]
    reasons = collections.Counter(slot.proposal.rejected for slot in slots if slot.proposal.rejected)
    metrics: Metrics = {f"rejected/{reason}": float(count) for reason, count in reasons.items()}
    if slots:
        metrics |= solver.metrics_of("proposer", [slot.proposal.row for slot in slots]) | {
            "proposer/valid": len(new) / len(slots),
            "proposer/tries": tried / len(slots),
            "proposer/reward": float(np.mean([slot.reward for slot in slots])),
            "solver/slots_filled": (len(new) + len(replayed)) / len(slots),
            "solver/replayed": float(len(replayed)),
        }
    if new:
        metrics["solver/pass_rate"] = float(np.mean(new))
        metrics["proposer/difficulty"] = 1.0 - metrics["solver/pass_rate"]
    if replayed:
        metrics["solver/pass_rate_replayed"] = float(np.mean(replayed))
    return metrics | solver.metrics_of("solver", [row for slot in slots for row in slot.rows])


PANELS = (
    Panel(
        "Questions",
        (("proposer/valid", "valid"), ("solver/pass_rate", "pass rate"), ("proposer/reward", "reward")),
        limits=(0, 1),
        meaning="Share of the Proposer's questions that pass every check, how often the Solver finds their answer, and "
        "what the Proposer earns: more the less is solved.",
        unit="share, reward",
    ),
    Panel(
        "Searches in a response",
        (("proposer/searches", "proposer"), ("solver/searches", "solver")),
        meaning="How often each role searches before it is done.",
        unit="searches",
    ),
)
_EXAMPLES = (
    "a small model needs worked examples (ssp.request=simple), if it has them some that are nearer to its corpus "
    "(ssp.templates); or raise turn and total of ssp.proposer_limits"
)
FIXES = {
    "rejected/few_searches": "lower ssp.rules.min_searches",
    "rejected/long": "raise ssp.rules.max_chars",
    "rejected/names_answer": "worked examples whose questions do not (ssp.request=simple has some)",
    "rejected/no_question": _EXAMPLES,
    "rejected/not_verified": "lower ssp.noise, raise ssp.verify_max_new, or ssp.verify=false",
    "rejected/repeated_query": "ssp.rules.distinct_queries=false takes such questions",
    "rejected/short": "lower ssp.rules.min_words",
    "rejected/too_long": "raise the last of buckets.prompt",
    "rejected/too_much_evidence": "raise the last of buckets.prompt, or lower ssp.noise",
    "proposer/truncated": "raise ssp.proposer_limits.total",
    "solver/truncated": "raise ssp.solver_limits.total",
}
GLOSSARY = {
    "proposer/valid": "share of proposals that are a question whose answer its own documents give",
    "proposer/tries": "proposals made for each one that was wanted",
    "proposer/difficulty": "1 - pass rate of the new questions",
    "pool/questions": "questions kept to be asked again",
    "solver/pass_rate_replayed": "reward of an answer, mean over questions that were asked again",
    "solver/slots_filled": "share of the iteration's places for which there was a question",
    "solver/replayed": "questions taken from the pool",
}
ABOUT = About(
    panels=PANELS,
    glossary=GLOSSARY | solver.GLOSSARY,
    counts=("rejected/",),
    valid="proposer/valid",
    fixes=FIXES,
    written=True,
    paper="Search Self-Play, arXiv:2510.18821",
)

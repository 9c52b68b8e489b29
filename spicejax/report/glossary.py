"""What the quantities of metrics.jsonl and evaluations.jsonl are, those of a game apart, which brings its own.

`*` stands for a role, a reason or a set.
"""

from __future__ import annotations

import fnmatch

from spicejax.games.game import About

# The first pattern that a name matches is its own.
GLOSSARY = {
    "iteration": "number of the iteration, from 0; of an evaluation, the iterations done before it",
    "rejected/*": "attempts that are no task for this reason",
    "verdict/*": "answers judged by this rule",
    "fault/*": "replies with this fault of form",
    "skipped/*": "items left out for this reason",
    "*/too_long": "questions left out because their prompt fits no bucket",
    "*/response_length": "tokens of a response, mean",
    "*/observation_length": "tokens of search results in a response, mean",
    "*/truncated": "share of responses that the length limit cut off",
    "*/searches": "searches in a response, mean",
    "*/searched": "share of responses with a search",
    "*/episodes": "trajectories of this role, those with advantage 0 included",
    "*/lessons": "examples or pairs made for this role so far",
    "*/pairs": "pairs of a better and a worse response",
    "*/equal_groups": "share of groups whose rewards are all equal: estimators of groups give them advantage 0",
    "*/baseline": "moving average of the rewards of this role (estimator `rae`)",
    "*/mean_reward": "mean over the trajectories of this role",
    "*/reward": "mean reward of this role",
    "search/queries": "queries to the search engine",
    "search/queries_empty": "queries for which it found nothing",
    "sampler/accepted/*": "share of the drafted tokens of this role that were right (`buckets.drafts`)",
    "sampler/padding/*": "share of padding in what was computed of this role's prompts and search results",
    "learner/loss": "mean of the optimizer steps",
    "learner/grad_norm": "norm of the gradient before clipping, mean of the steps",
    "learner/clip_fraction": "share of tokens whose ratio is clipped",
    "learner/kl": "KL divergence from the reference per token, in nats (k3), over the steps with that term; 0 without",
    "learner/sampler_gap": "mean distance between sampler's and learner's log-probability of a token, in nats: near 0",
    "learner/sampler_gap_max": "the largest such distance, in nats",
    "learner/sampler_kl": "KL divergence of the sampler from the learner per token, in nats (estimator k3): near 0",
    "learner/tis_fraction": "share of tokens whose importance weight is capped",
    "learner/preference_accuracy": "share of pairs whose better response is the likelier one against the reference",
    "learner/steps": "optimizer steps",
    "learner/steps_at_rate_0": "those behind the end of `learner.decay_steps`, at a rate of 0: they change nothing",
    "learner/skipped": "share of steps not applied because loss or gradient were not finite",
    "learner/tokens": "response tokens trained on in a step, mean",
    "learner/padding": "share of padding in the training rows",
    "learner/slot_padding": "share of padding in the slots of responses",
    "learner/*": "mean over the optimizer steps",
    "time/play": "seconds of the game: sampling, searching, judging",
    "time/update": "seconds of learning",
    "time/tokens_per_second": "response tokens of lessons / seconds of the iteration; other replies do not count",
    "time/evaluate": "seconds of the evaluation",
    "time/searching": "seconds until searches were answered, in which the decoding of other rows goes on",
    "time/*": "seconds of this part of play",
    "eval/accuracy": "share of the held-out questions answered rightly, greedy",
    "eval/accuracy/*": "accuracy among the held-out questions of this category",
    "eval/said": "share of the held-out questions answered rightly inside or outside a box, greedy",
    "eval/said/*": "share inside or outside a box among the questions of this category",
    "eval/truncated": "share of replies that the length limit cut off",
    "eval/*": "of another set of questions (`eval.tasks`), or another score: its name / quantity / category",
    "loss/*": "mean loss of a target token of held-out examples from this source",
    "probe/*": "today's policy against the first one on fixed documents: the role that the first one plays / quantity",
}


def meaning(name: str, about: About | None = None) -> str:
    """What a quantity of this game is, or of any; empty for one that is not known here."""
    known = {**(about.glossary if about else {}), **GLOSSARY}
    return next((text for pattern, text in known.items() if fnmatch.fnmatchcase(name, pattern)), "")

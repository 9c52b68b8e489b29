"""Every question of a set with its answer, its scores and how it was answered; means, some with bootstrap intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from spicejax.data.questions import Item, row_of
from spicejax.evaluation.held_out import answers
from spicejax.evaluation.said import said
from spicejax.games.game import Exam
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.score import judge, qa
from spicejax.score.answers import plain
from spicejax.types import Metrics

RESAMPLES = 10_000
ROUND = 5  # answers of each question at a time
_LOGGED = ("exact", "f1", "said", "verifier")  # scores of a question that a run keeps


def held_out(world: World, items: Sequence[Item], exam: Exam) -> tuple[Metrics, list[dict[str, Any]]]:
    """What a run measures: scores on `items`, greedy, and for each item what `examine` says, less the texts.

    Returns: of the first suite eval/accuracy (the verifier's word on the box), eval/said (the answer stands anywhere in
      the text: what is known without the form), both also by /CATEGORY, and eval/truncated, each in [0, 1]; of other
      suites eval/SUITE/accuracy and so on. The items of each suite, in order.
    """
    # Differs: the training's verifier judges; SPICE's evaluation (section 3.1) asks GPT-4o whether answers are equal
    records = examine(world, items, exam)
    values = {
        "accuracy": np.array([record["scores"]["verifier"] for record in records]),
        "said": np.array([record["scores"]["said"] for record in records]),
        "truncated": np.array([float(record["finish_reason"] == "length") for record in records]),
    }
    metrics: Metrics = {}
    for suite in sorted({item.suite for item in items}):
        in_suite = [k for k, item in enumerate(items) if item.suite == suite]
        prefix = f"eval/{suite}" if suite else "eval"
        reported = values if items[in_suite[0]].boxed else {name: v for name, v in values.items() if name != "accuracy"}
        metrics |= {f"{prefix}/{name}": float(value[in_suite].mean()) for name, value in reported.items()}
        categories = sorted({items[k].category for k in in_suite})
        for category in categories if len(categories) > 1 else ():
            members = [k for k in in_suite if items[k].category == category]
            for name in set(reported) - {"truncated"}:
                metrics[f"{prefix}/{name}/{category}"] = float(reported[name][members].mean())
    logged = [
        {name: value for name, value in record.items() if name not in ("text", "transcript")}
        | {"scores": {name: record["scores"][name] for name in _LOGGED}}
        for record in records
    ]
    return metrics, logged


def examine(
    world: World, items: Sequence[Item], exam: Exam, *, judged: int = 0, samples: int = 1, temperature: float = 0.0
) -> list[dict[str, Any]]:
    """Ask every item, once and greedy, as in training.

    Args:
      judged: a judge is asked too, see World.judge; longest verdict, in tokens. 0 = none.
      samples: answers to each item. Of several, a score is their mean (avg@k); what else is kept, and what the judge
        sees, is the first.
      temperature: at which they are drawn, from the whole distribution.
    Returns: for each item id, category, question, answers, prediction (None where none was given), text,
      finish_reason, searches and the transcript where the game searches, and scores, each in [0, 1]: exact, near (the
      same, but numbers within 0.15 %, as shares or percent), f1
      (punctuation deleted, as SSP and Search-R1 do), f1_space (R1-Searcher's), cover_substring (Search-R1),
      cover_words (R1-Searcher), cover_either (AceSearcher), verifier (the training's), said (the answer stands
      anywhere in the text), judge. Of several suites the suite too, of several samples all predictions. `tokens` is how
      many were written, mean over samples.
    """
    world = dataclasses.replace(world, sampler=SamplerConfig(temperature=temperature))
    replies_of = answers(world, items, exam, samples)
    asked = [(reply.answer, item.task) for item, replies in zip(items, replies_of, strict=True) for reply in replies]
    verdicts = iter(world.check(asked))
    records = []
    for item, replies in zip(items, replies_of, strict=True):
        right, (answer, rollout, transcript, searches) = (item.task.answer, *item.task.aliases), replies[0]
        scored = [
            _scores(reply.answer, right)
            | {"verifier": float(next(verdicts).correct), "said": float(said(reply.rollout.text, item.task))}
            for reply in replies
        ]
        records.append(
            ({"suite": item.suite} if item.suite else {})
            | {"id": item.task.id, "category": item.category, "question": item.task.question}
            | {"answers": right, "prediction": answer, "finish_reason": rollout.finish_reason}
            | ({"predictions": [reply.answer for reply in replies]} if samples > 1 else {})
            | {"scores": {name: float(np.mean([each[name] for each in scored])) for name in scored[0]}}
            | {"tokens": float(np.mean([reply.rollout.loss_mask.sum() for reply in replies]))}
            | ({"searches": searches} if exam.searches else {})
            | ({"text": rollout.text} if transcript is None else {"transcript": transcript})
        )
    if judged:
        claims = [judge.Claim(r["question"], r["answers"], r["prediction"]) for r in records]
        for record, agrees in zip(records, world.judge(claims, max_new=judged), strict=True):
            record["scores"]["judge"] = float(agrees)
    return records


def grade(world: World, items: Sequence[Item], exam: Exam, limit: int) -> list[dict[str, Any]]:
    """How many answers each question needs until one is right, as R1-Searcher grades its data (arXiv:2503.05592).

    Sampled by the world's sampler, ROUND at a time, until an answer covers the right one or `limit` were given.

    Returns: for each item its row (questions.row_of), so that they are a file of questions again, with rollouts
      (limit + 1 if none was right) and difficulty: easy below 10, medium to 20, hard above.
    """
    needed = [limit + 1] * len(items)
    for done in range(0, limit, ROUND):
        left = [k for k, n in enumerate(needed) if n > limit]
        samples = min(ROUND, limit - done)
        if not left:
            break
        rows = [k * limit + done for k in left]
        replies = answers(world, [items[k] for k in left], exam, samples, rows)
        for k, sampled in zip(left, replies, strict=True):
            right = (items[k].task.answer, *items[k].task.aliases)
            hits = [n for n, reply in enumerate(sampled) if qa.covers(reply.answer, right, "words")]
            needed[k] = done + hits[0] + 1 if hits else needed[k]
    return [
        row_of(item) | {"rollouts": n, "difficulty": "easy" if n < 10 else "medium" if n <= 20 else "hard"}
        for item, n in zip(items, needed, strict=True)
    ]


def _scores(answer: str | None, right: Sequence[str]) -> dict[str, float]:
    answer = plain(answer) if answer and "\\" in answer else answer  # a box holds LaTeX: \text{Paris}, 5\%
    covers = {f"cover_{kind}": float(qa.covers(answer, right, kind)) for kind in ("substring", "words", "either")}
    same = {"exact": float(qa.exact(answer, right)), "near": float(qa.near(answer, right))}
    return {**same, "f1": qa.f1(answer, right), "f1_space": qa.f1(answer, right, "space"), **covers}


def means(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each score, answered, truncated and searches: mean, and low and high of the 95 % bootstrap interval."""
    columns: dict[str, list[float]] = {name: [r["scores"][name] for r in records] for name in records[0]["scores"]}
    columns["answered"] = [float(r["prediction"] is not None) for r in records]
    columns["truncated"] = [float(r["finish_reason"] == "length") for r in records]
    if all("tokens" in r for r in records):  # results of old have none
        columns["tokens"] = [r["tokens"] for r in records]
    if "searches" in records[0]:
        columns["searches"] = [float(r["searches"]) for r in records]
    return {name: interval(np.array(values)) for name, values in columns.items()}


def interval(values: np.ndarray) -> dict[str, float]:
    """Mean of one value a question [N], and low and high of its 95 % bootstrap interval, the same draws each time."""
    rng, block = np.random.default_rng(0), max(1, 10_000_000 // len(values))  # as many draws at a time, row by row
    sizes = [min(block, RESAMPLES - done) for done in range(0, RESAMPLES, block)]
    means = [values[rng.integers(len(values), size=(rows, len(values)))].mean(1) for rows in sizes]
    low, high = np.quantile(np.concatenate(means), (0.025, 0.975))
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


def table(summary: dict[str, dict[str, float]], count: int) -> str:
    """The means as Markdown."""
    lines = [f"| {count} questions | mean | 95 % interval |", "|---|--:|---|"]
    return "\n".join(
        lines + [f"| {k} | {v['mean']:.3f} | {v['low']:.3f} to {v['high']:.3f} |" for k, v in summary.items()]
    )

"""Owns what a searched row is worth: its form, whether it searched, whether its answer is right."""

from __future__ import annotations

import re
from typing import Literal

from spicejax.games import solver
from spicejax.games.solver import ANSWER, Request
from spicejax.generate.search import Searched
from spicejax.score import qa
from spicejax.tags import THINK
from spicejax.types import Task

RewardKind = Literal["retrieve", "answer", "answer_exact", "answer_cover", "exact"]

_HAN = re.compile(r"[\u4e00-\u9fff]")
LONGEST_ANSWER = 10  # words, where the rules are strict


def fault(row: Searched, request: Request, *, strict: bool) -> str:
    """Name the first rule of form that a row breaks; "" where it breaks none (arXiv:2503.05592 and its public code).

    queries:   each query was written whole, between its two tags, and was answered
    documents: the model wrote no tag of the system's
    thoughts:  one pair of think tags, where the request asks for thoughts
    answer:    one pair of answer tags, and no search between them
    script:    no Chinese character, which is all that the paper's "garbled" means in its code
    strict adds what the code asks of Qwen: assistant (the word does not occur), long (at most ten words of answer).
    """
    # Differs: what the model wrote is known from its turns; the code counts tags in the whole text, retrieved documents
    # included, so that one that names an assistant costs the model the penalty. Thoughts that the prompt opens count
    # Differs: the code forgives Llama a search within its answer, which is no "short final answer" (paper)
    text, tags, answer = solver.written(row), solver.tags_of(request), solver.answer(row)
    counts = tuple(map(text.count, tags.query))
    broken = {
        "queries": counts != (solver.searches(row),) * 2,
        "documents": any(tag in text for tag in tags.observation),
        "thoughts": request in ("base", "instruct") and not _one_pair(text, THINK),
        "answer": answer is None or not _one_pair(text, ANSWER),
        "script": bool(_HAN.search(text)),
        "assistant": strict and "assistant" in text.lower(),
        "long": strict and len((answer or "").split()) > LONGEST_ANSWER,
    }
    return next((name for name, is_broken in broken.items() if is_broken), "")


def reward(
    row: Searched, task: Task, malformed: str, *, kind: RewardKind, penalty: float = 2.0, correctness: bool = False,
    structure: float = 0.0, tagged: float = 0.0,
) -> float:  # fmt: skip
    """Reward a rollout; `malformed` is the fault of its form, "" for none.

    retrieve: 1/2 where it searched, and 1/2 where its form is right (R1-Searcher, stage 1); with `correctness` also
              +1 where the answer's words cover the right one's, else -1, as the public code trains Llama
    answer:   token F1 of the answer, less `penalty` where its form is at fault (stage 2: 2 in the paper and for Qwen,
              1 in the code for Llama)
    answer_exact, answer_cover: the same with 1 where the answer is the right one, or contains its words (the paper's
              other rewards of stage 2)
    exact:    1 where the answer is the right one but for case, punctuation and articles, less `structure` where the
              form is at fault; else `structure` where it is not, `tagged` for a wrong answer where it is (Search-R1)
    """
    answer, right = solver.answer(row), (task.answer, *task.aliases)
    if kind == "retrieve":
        covered = 2.0 * qa.covers(answer, right, "words") - 1 if correctness else 0.0
        return 0.5 * (solver.searches(row) > 0) + 0.5 * (not malformed) + covered
    if kind == "exact" and qa.exact(answer, right):
        return 1 - structure * bool(malformed)
    if kind == "exact":
        return tagged * (answer is not None) if malformed else structure
    if kind == "answer":
        worth = qa.f1(answer, right, "space")
    else:
        worth = float(qa.exact(answer, right, "space") if kind == "answer_exact" else qa.covers(answer, right, "words"))
    return worth - penalty * bool(malformed)


def disorder(row: Searched, request: Request) -> str:
    """Return order where a turn is anything but thoughts, then a search that was answered or, in the last one, the
    answer (Search-R1's form in its version 0.3); else ""."""
    tags = solver.tags_of(request)
    known = "|".join(re.escape(tag) for pair in (THINK, tags.query, tags.observation, ANSWER) for tag in pair)

    def block(pair: tuple[str, str]) -> str:
        return rf"{re.escape(pair[0])}(?:(?!{known}).)*{re.escape(pair[1])}\s*"

    ends = [tags.query] * (len(row.turns) - 1) + [ANSWER]
    turns = zip(row.turns, ends, strict=True)
    ordered = all(re.fullmatch(rf"\s*{block(THINK)}{block(end)}", turn.text, re.DOTALL) for turn, end in turns)
    return "" if ordered else "order"


def _one_pair(text: str, tags: tuple[str, str]) -> bool:
    return (text.count(tags[0]), text.count(tags[1])) == (1, 1) and text.index(tags[0]) < text.index(tags[1])

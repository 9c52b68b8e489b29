"""Transcripts of a Solver, a Proposer and a verifier, made by rule from questions whose way is known.

A supervised run learns them before Search Self-Play or R1-Searcher: how one searches here, and in which form. Nobody
reasons in them: each search asks for a step, and what it finds names the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spicejax.games import solver
from spicejax.games.hops import Hop, Question, drawn, part, told
from spicejax.games.ssp import proposals
from spicejax.games.ssp.game import SspConfig
from spicejax.score import answers as spelling
from spicejax.types import Answer, Passage

Row = dict[str, Any]  # of a jsonl of examples, see data/examples.py


def solved(of: Question, cfg: SspConfig, words: int, rng: np.random.Generator) -> Row:
    """The Solver's: a search for each hop, then the answer."""
    tags = solver.tags_of(cfg.request)
    turns = [_search(hop.query, _shown(hop, of, cfg.solver_limits.passages, words, rng), tags.query) for hop in of.hops]
    answer = f"{solver.ANSWER[0]}{of.answers[0]}{solver.ANSWER[1]}"
    messages = solver.messages(of.question, cfg.request, cfg.templates)
    return {"source": "solver", "messages": messages, "turns": [*turns, {"wrote": answer}]}


def proposed(of: Question, cfg: SspConfig, words: int, rng: np.random.Generator) -> Row | None:
    """The Proposer's: from the answer back over the hops to the question; None where the way has a gap."""
    answer, queries = of.answers[0], [hop.answer for hop in of.hops]
    named = spelling.phrase(answer) in spelling.tokens(of.question)
    if named or not all(queries) or len(set(queries)) < len(queries) or queries[-1] != answer or _verdict(answer):
        return None
    tags, limit = proposals.tags_of(cfg.request), cfg.proposer_limits.passages
    turns = [_search(hop.answer, _shown(hop, of, limit, words, rng), tags.query) for hop in reversed(of.hops)]
    question = f"{proposals.QUESTION[0]}{of.question}{proposals.QUESTION[1]}"
    messages = proposals.messages(Answer(answer), len(of.hops), cfg.request, cfg.templates)
    return {"source": "proposer", "messages": messages, "turns": [*turns, {"wrote": question}]}


def verified(of: Question, cfg: SspConfig, words: int, rng: np.random.Generator) -> Row:
    """The verifier's: the answer, from what the hops tell and as many other passages as a verification has."""
    shown = [part(hop.passage, hop.answer, words) for hop in of.hops]
    shown += [part(p, "", words) for p in drawn(of.others, cfg.noise, rng)]
    messages = proposals.verification(
        of.question, [shown[i] for i in rng.permutation(len(shown))], cfg.request, cfg.templates
    )
    completion = f"{solver.ANSWER[0]}{of.answers[0]}{solver.ANSWER[1]}"
    return {"source": "verifier", "messages": [*messages, {"role": "assistant", "content": completion}]}


def _search(query: str, shown: Sequence[Passage], tags: tuple[str, str]) -> Row:
    return {
        "wrote": f"{tags[0]}{query}{tags[1]}",
        "shown": [{"title": p.title, "text": p.text} for p in shown],
    }


def _shown(hop: Hop, of: Question, limit: int, words: int, rng: np.random.Generator) -> list[Passage]:
    """What a search could find: the passage that tells, and others of the question in no order."""
    others = drawn([*of.others, *(other.passage for other in of.hops if other is not hop)], limit - 1, rng)
    shown = [part(hop.passage, hop.answer, words), *(part(p, "", words) for p in others)]
    return [shown[i] for i in rng.permutation(len(shown))]


def _verdict(answer: str) -> bool:
    return answer.lower() in ("yes", "no")


def examples(of: Sequence[Question], cfg: SspConfig, words: int, rng: np.random.Generator) -> Iterator[Row]:
    """All that these questions teach; `words` is the longest passage of the index.

    Left out are questions with a hop whose answer no part of its passage tells, a verdict apart.
    """
    for question in of:
        if not all(told(hop, words) for hop in question.hops if hop.answer and not _verdict(hop.answer)):
            continue
        yield solved(question, cfg, words, rng)
        if example := proposed(question, cfg, words, rng):
            yield example
        if cfg.verify:
            yield verified(question, cfg, words, rng)

"""Transcripts of a Solver, a Proposer and a verifier, made by rule from questions with their hops.

A supervised run learns them before Search Self-Play or R1-Searcher: how one searches here, and in which form. Nobody
reasons in them: each search asks for a step, and what it finds names the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spicejax.games import hops, solver
from spicejax.games.hops import Example, Hop, Question
from spicejax.games.ssp import proposals
from spicejax.games.ssp.game import SspConfig
from spicejax.types import Answer, Passage


def examples(of: Sequence[Question], cfg: SspConfig, words: int, rng: np.random.Generator) -> Iterator[Example]:
    """All that these questions teach; `words` is the longest passage of the index.

    Left out are questions with an answer that stands in no segment of its passage.
    """
    for question in of:
        if question.hops and hops.is_supported(question, words):
            yield solved(question, cfg, words, rng)
            if proposal := proposed(question, cfg, words, rng):
                yield proposal
            if cfg.verify:
                yield verified(question, cfg, words, rng)


def solved(of: Question, cfg: SspConfig, words: int, rng: np.random.Generator) -> Example:
    """The Solver's: a search for each hop, then the answer."""
    tags = solver.tags_of(cfg.request)
    turns = [_search(hop.query, _found(hop, of, cfg.solver_limits.passages, words, rng), tags.query) for hop in of.hops]
    messages = solver.messages(of.question, cfg.request, cfg.templates)
    return {"source": "solver", "messages": messages, "turns": [*turns, {"wrote": _tagged(of.answers[0])}]}


def proposed(of: Question, cfg: SspConfig, words: int, rng: np.random.Generator) -> Example | None:
    """The Proposer's: from the answer back over the hops to the question.

    None where a hop has no answer to search for, and where the game's rules refuse the question.
    """
    answer, queries = Answer(of.answers[0], of.answers[1:]), [hop.answer for hop in of.hops]
    if (
        not all(queries)
        or len(set(queries)) < len(queries)
        or queries[-1] != answer.text
        or hops.is_verdict(answer.text)
    ):
        return None
    if cfg.rules.broken_by(of.question, answer) or len(queries) < cfg.rules.min_searches:
        return None
    tags, limit = proposals.tags_of(cfg.request), cfg.proposer_limits.passages
    turns = [_search(hop.answer, _found(hop, of, limit, words, rng), tags.query) for hop in reversed(of.hops)]
    question = f"{proposals.QUESTION[0]}{of.question}{proposals.QUESTION[1]}"
    messages = proposals.messages(answer, len(of.hops), cfg.request, cfg.templates)
    return {"source": "proposer", "messages": messages, "turns": [*turns, {"wrote": question}]}


def verified(of: Question, cfg: SspConfig, words: int, rng: np.random.Generator) -> Example:
    """The verifier's: the answer, from the passages of the hops and as many others as a verification has."""
    shown = [hops.segment(hop.passage, hop.answer, words) for hop in of.hops]
    shown += [hops.segment(p, "", words) for p in hops.sample(of.others, cfg.noise, rng)]
    messages = proposals.verification(of.question, hops.shuffled(shown, rng), cfg.request, cfg.templates)
    return hops.example("verifier", messages, _tagged(of.answers[0]))


def _tagged(answer: str) -> str:
    return f"{solver.ANSWER[0]}{answer}{solver.ANSWER[1]}"


def _search(query: str, found: Sequence[Passage], tags: tuple[str, str]) -> Example:
    shown = [{"title": p.title, "text": p.text} for p in found]
    return {"wrote": f"{tags[0]}{query}{tags[1]}", "shown": shown}


def _found(hop: Hop, of: Question, limit: int, words: int, rng: np.random.Generator) -> list[Passage]:
    """What a search could find: the passage of the hop, and others of the question, in no order."""
    others = [*of.others, *(other.passage for other in of.hops if other is not hop)]
    found = [hops.segment(p, "", words) for p in hops.sample(others, limit - 1, rng)]
    return hops.shuffled([hops.segment(hop.passage, hop.answer, words), *found], rng)

"""What is shown of a long text: the paragraphs nearest to a question (DocMath-Eval's long documents)."""

from __future__ import annotations

import functools
import importlib.util
import re

from spicejax.retrieval import search
from spicejax.retrieval.search import Search
from spicejax.types import Passage


def require_library() -> None:
    """Raise ImportError where the library that ranks paragraphs is not installed."""
    if importlib.util.find_spec("bm25s") is None:
        raise ImportError('acesearcher.parts needs bm25s: pip install "spicejax[bm25]"')


def excerpt(text: str, question: str, count: int) -> str:
    """The `count` paragraphs of a text that share most with the question, in the text's order; 0 = all of it."""
    paragraphs = _paragraphs(text)
    if not 0 < count < len(paragraphs):
        return text
    # Differs: by BM25 and for each sub-question anew; the paper takes the ten nearest of OpenAI's text-embedding-3
    try:
        (passages,) = _ranked(text)([question], count)
    except ValueError:  # no paragraph has a word that counts
        passages = []
    near = [int(passage.id) for passage in passages]
    near += [n for n in range(len(paragraphs)) if n not in near][
        : count - len(near)
    ]  # what shares no word is not found
    return "\n\n".join(paragraphs[n] for n in sorted(near))


def _paragraphs(text: str) -> list[str]:
    """Parts of a text between empty lines, or its lines where it has none."""
    parts = re.split(r"\n[ \t]*\n\s*", text.strip())
    return parts if len(parts) > 1 else text.strip().splitlines()


@functools.lru_cache(maxsize=256)  # documents of an iteration; each is asked about many times
def _ranked(text: str) -> Search:
    return search.in_memory([Passage(str(n), "", part) for n, part in enumerate(_paragraphs(text))])

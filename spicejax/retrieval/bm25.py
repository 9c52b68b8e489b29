"""BM25 by the library bm25s: passages by the words they share with a question."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spicejax.types import Passage

K1, B = 0.9, 0.4  # Anserini's for short passages


def _library() -> Any:
    try:
        import bm25s  # here also because it starts the devices
    except ImportError as error:
        raise ImportError('bm25s is not installed: pip install "spicejax[bm25]"') from error
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # importing it asks for all
    return bm25s


def _words(texts: list[str], **options: Any) -> Any:
    return _library().tokenize(texts, stopwords="en", show_progress=False, **options)


def count(passages: Iterable[Passage]) -> Any:
    """Count the words of all passages, titles among them, in memory."""
    index = _library().BM25(k1=K1, b=B)
    index.index(_words([f"{p.title} {p.text}" for p in passages]), show_progress=False)
    return index


def build(passages: Iterable[Passage], folder: Path) -> None:
    """Write what `count` makes to `folder`."""
    count(passages).save(str(folder))


def load(folder: Path) -> Any:
    """Open what `build` wrote, mapped into memory."""
    return _library().BM25.load(str(folder), mmap=True)


def best(index: Any, queries: Sequence[str], k: int) -> list[list[int]]:
    """Return the row numbers of each query's best passages, without those that share no word with it."""
    stored = index.scores["num_docs"]
    words = _words(list(queries), return_ids=False)
    # Of itself it would send the scores of each query to the devices to pick k.
    ids, scores = index.retrieve(words, k=min(k, stored), show_progress=False, backend_selection="numpy")
    return [row[score > 0].tolist() for row, score in zip(np.asarray(ids), np.asarray(scores), strict=True)]

"""Searching: one signature for every engine, from queries and k to passages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jax.sharding import Mesh

from spicejax import hosts, outside
from spicejax.errors import SpicejaxError
from spicejax.models.config import DType
from spicejax.remote import ServerError
from spicejax.retrieval import bm25, nearest
from spicejax.retrieval.encode import Encoder
from spicejax.retrieval.index import BM25, TREE, Index
from spicejax.retrieval.nearest import Nearest
from spicejax.retrieval.passages import composed, readable
from spicejax.types import Passage

# Queries and k to the k best passages of each, the best first; fewer where there are no more.
Search = Callable[[Sequence[str], int], list[list[Passage]]]


def scann(index: Index, encoder: Encoder) -> Search:
    """Search by ScaNN on the first host: with the tree where the index has one, else among all vectors.

    All hosts encode the queries together. The first one alone holds the vectors and sends the others its results.
    Raises ValueError where the index is of another encoder or style, or damaged.
    """
    index.require(encoder)
    loaded: list[Nearest] = []  # on the first host

    def load() -> None:
        tree = index.has(TREE)
        engine = nearest.load_tree(index.part(TREE), index.tree()) if tree else nearest.brute_force(index.vectors())
        loaded.append(engine)

    hosts.by_first(load)
    return _by_vector(index, encoder, lambda vectors, k: hosts.by_first(lambda: loaded[0](vectors, k)))


def in_graph(
    index: Index, encoder: Encoder, mesh: Mesh, *, approximate: bool = False, dtype: DType = "float32"
) -> Search:
    """Search among all vectors on the devices of the mesh, see nearest.in_graph; ScaNN is not needed.

    Raises: as `scann`.
    """
    index.require(encoder)
    find = nearest.in_graph(index.vectors(), mesh, approximate=approximate, dtype=dtype)
    return _by_vector(index, encoder, find)


def by_words(index: Index) -> Search:
    """Search by BM25, without an encoder; each host by itself. Raises ValueError where the index has no counts."""
    if not index.has(BM25):
        raise ValueError(f"{index.folder} has no word counts; run launch/build_index.py on it again with --bm25")
    counts = bm25.load(index.part(BM25))
    return _passages(index.passages, lambda queries, k: bm25.best(counts, queries, k))


def in_memory(passages: Sequence[Passage]) -> Search:
    """Search by BM25 among passages in memory, whose words are counted now."""
    counts = bm25.count(passages)
    return _passages(passages, lambda queries, k: bm25.best(counts, queries, k))


def opener(name: str) -> Callable[[Any], Search]:
    """Return the user's function that opens a search. Raises ValueError where it is missing or takes something else."""
    function = outside.load(name, "retrieval.engine")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        wanted = f"def {name.rpartition(':')[2]}(cfg: RetrievalConfig) -> Search"
        raise ValueError(f"retrieval.engine={name}: {error}; define it as {wanted}") from error
    return function


def by_function(name: str, cfg: Any) -> Search:
    """Search by a user's function, which the first host opens and calls; it sends the others the results.

    Args:
      cfg: the argument of the opener.
    Raises: ValueError where the opener is missing or raises. The search, which is tried once here, raises ServerError
      where the function raises or returns something else than passages; a run is then saved and stops.
    """
    function, opened = opener(name), list[Search]()

    def ask(queries: Sequence[str], k: int) -> list[list[list[str]]]:
        try:
            rows = opened[0](queries, k)
            if len(rows) == len(queries):
                return [[[readable(text) for text in (p.id, p.title, p.text)] for p in row[:k]] for row in rows]
            what = f"it found {len(rows)} lists for {len(queries)} queries"
        except SpicejaxError:
            raise
        except Exception as error:  # the code may do anything
            what = f"{type(error).__name__}: {error}"
        raise ServerError(f"retrieval.engine={name}: {what}; it takes queries and k, and returns k Passages of each")

    def open_it() -> None:
        try:
            opened.append(function(cfg))
        except SpicejaxError:
            raise
        except Exception as error:
            raise ValueError(f"retrieval.engine={name}: {type(error).__name__}: {error}") from error
        ask(["who"], 1)

    def search(queries: Sequence[str], k: int) -> list[list[Passage]]:
        found = hosts.by_first(lambda: ask(list(map(composed, queries)), k)) if queries else []
        return [[Passage(*fields) for fields in row] for row in found]

    hosts.by_first(open_it)
    return search


def _by_vector(index: Index, encoder: Encoder, find: Nearest) -> Search:
    return _passages(index.passages, lambda queries, k: find(encoder.queries(queries), k))


def _passages(passages: Any, rank: Callable[[Sequence[str], int], list[list[int]]]) -> Search:
    def search(queries: Sequence[str], k: int) -> list[list[Passage]]:
        if k < 1:
            raise ValueError(f"k={k}: ask for at least one passage")
        asked = list(map(composed, queries))
        return [[passages[i] for i in row] for row in rank(asked, k)] if asked else []

    return search

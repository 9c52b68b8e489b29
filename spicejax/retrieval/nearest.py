"""The nearest vectors by dot product: ScaNN on the host, or all of them on the devices.

On the devices vectors lie over all axes of the mesh, and k candidates of each device are gathered, not its scores: 21
million vectors of 768 numbers in bfloat16 take 3.8 GiB of each of eight v5e chips.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from spicejax import sharding
from spicejax.models.config import DType

log = logging.getLogger("spicejax")

# Vectors [Q, D] and k to row numbers, the nearest first; a query may have fewer than k.
Nearest = Callable[[np.ndarray, int], list[list[int]]]

TREE_FROM = 20_000  # vectors; below, comparing with all of them takes a fraction of a millisecond and is exact
RECALL_AT, RECALL = 10, 0.95  # share of the true 10 nearest that a tree must find
SAMPLE = 200  # vectors that measure a tree's recall
QUERIES = 64  # queries at once on the devices, bounding the scores to QUERIES x vectors


def _library() -> Any:
    try:
        from scann import scann_ops_pybind
    except ImportError as error:
        raise ImportError('ScaNN is not installed: pip install "spicejax[retrieval]"') from error
    return scann_ops_pybind


def brute_force(vectors: np.ndarray) -> Nearest:
    """ScaNN over all `vectors` [N, D], exact."""
    searcher = _library().builder(vectors, RECALL_AT, "dot_product").score_brute_force().build()
    return functools.partial(_search, searcher, None)


@dataclasses.dataclass(frozen=True)
class Tree:
    """How a tree was built, and how much of it is searched."""

    leaves: int
    leaves_to_search: int
    recall: float  # at RECALL_AT, on SAMPLE of its own vectors


def build_tree(vectors: np.ndarray, folder: Path) -> Tree:
    """Build ScaNN's tree with asymmetric hashing and exact reordering (arXiv:1908.10396), write it to `folder`.

    sqrt(N) leaves, of which a tenth is searched, twice as many until RECALL of the true nearest are found; codes of two
    dimensions. Two builds over the same vectors differ, so a tree is built once and loaded from there on.
    """
    count = len(vectors)
    tried = vectors[np.linspace(0, count - 1, min(SAMPLE, count), dtype=int)]
    # A vector is its own nearest, which any tree finds: one more is asked for, and it is left out.
    true = brute_force(vectors)(tried, RECALL_AT + 1)
    leaves, sample = max(2, round(math.sqrt(count))), min(count, 250_000)
    searcher = (
        _library()
        .builder(vectors, RECALL_AT, "dot_product")
        .tree(leaves, leaves, training_sample_size=sample, min_partition_size=min(50, count // leaves // 2))
        .score_ah(2, anisotropic_quantization_threshold=0.2, training_sample_size=sample)
        .reorder(4 * RECALL_AT)
        .build()
    )
    searched = max(1, leaves // 10)
    while (recall := _recall(_search(searcher, searched, tried, RECALL_AT + 1), true)) < RECALL and searched < leaves:
        searched = min(leaves, 2 * searched)
    log.info("tree of %d leaves: recall@%d %.3f with %d searched", leaves, RECALL_AT, recall, searched)
    folder.mkdir()
    searcher.serialize(str(folder), relative_path=True)
    return Tree(leaves, searched, round(recall, 4))


def _recall(approximate: list[list[int]], exact: list[list[int]]) -> float:
    shares = [len(set(a) & set(b[1:])) / (len(b) - 1) for a, b in zip(approximate, exact, strict=True) if len(b) > 1]
    return float(np.mean(shares)) if shares else 1.0


def load_tree(folder: Path, tree: Tree) -> Nearest:
    """Load what `build_tree` wrote."""
    return functools.partial(_search, _library().load_searcher(str(folder)), tree.leaves_to_search)


def _search(searcher: Any, leaves_to_search: int | None, queries: np.ndarray, k: int) -> list[list[int]]:
    # Codes are coarse: enough of what they find is compared exactly.
    exact = None if leaves_to_search is None else max(200, 4 * k)
    ids, scores = searcher.search_batched_parallel(queries, k, exact, leaves_to_search)
    # Where there are fewer than k the library fills up with NaN.
    return [row[~np.isnan(score)].tolist() for row, score in zip(ids, scores, strict=True)]


def in_graph(
    vectors: np.ndarray, mesh: Mesh, *, approximate: bool = False, recall: float = 0.95, dtype: DType = "float32"
) -> Nearest:
    """All `vectors` [N, D] on the devices of the mesh, split over all of them; each finds its own nearest.

    Args:
      approximate: `approx_max_k`, which TPUs do at the speed of the product (arXiv:2206.14286); exact on CPU.
      recall: share of the true nearest that it is to find.
      dtype: of the stored vectors; scores are float32.
    """
    count = len(vectors)
    padded = np.zeros((-(-count // mesh.size) * mesh.size, vectors.shape[1]), jnp.dtype(dtype))
    padded[:count] = vectors
    stored = sharding.put_global(padded, sharding.spread(mesh))
    nearest = _top_k(mesh, count, recall if approximate else None)

    def search(queries: np.ndarray, k: int) -> list[list[int]]:
        k, results = min(k, count), []
        for start in range(0, len(queries), QUERIES):
            part = queries[start : start + QUERIES]
            rows = np.zeros((QUERIES if len(queries) > 1 else 1, queries.shape[1]), np.float32)
            rows[: len(part)] = part
            ids = nearest(stored, sharding.put_global(rows, sharding.replicated(mesh)), k)
            results += sharding.fetch(ids)[: len(part)].tolist()
        return results

    return search


def _top_k(mesh: Mesh, count: int, recall: float | None) -> Callable[[jax.Array, jax.Array, int], jax.Array]:
    """Jitted (table [N, D], queries [Q, D], k) to ids of rows [Q, k], all below `count`: the rest of N is padding."""
    pick = functools.partial(jax.lax.approx_max_k, recall_target=recall) if recall is not None else jax.lax.top_k
    split, whole = sharding.spread(mesh).spec, sharding.replicated(mesh).spec

    @functools.partial(jax.jit, static_argnums=2)
    def nearest(table: jax.Array, queries: jax.Array, k: int) -> jax.Array:
        @functools.partial(jax.shard_map, mesh=mesh, in_specs=(split, whole), out_specs=whole, check_vma=False)
        def local(part: jax.Array, queries: jax.Array) -> jax.Array:
            scores = jnp.einsum(
                "nd,qd->qn", part, queries.astype(part.dtype),
                precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32,
            )  # fmt: skip
            ids = jax.lax.axis_index(sharding.AXES) * len(part) + jnp.arange(len(part))
            best, at = pick(jnp.where(ids < count, scores, -jnp.inf), min(k, len(part)))
            both = jax.lax.all_gather((best, ids[at]), sharding.AXES, axis=1, tiled=True)
            _, last = jax.lax.top_k(both[0], k)
            return jnp.take_along_axis(both[1], last, axis=1)

        return local(table, queries)

    return nearest

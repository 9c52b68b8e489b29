"""Search engines against exact numpy: recall@10, queries a second, building, memory; each in a process of its own.

    python benchmarks/retrieval.py [--counts=100000,1000000] [--width=384] [--queries=512]

Vectors are clustered as embeddings are: unit vectors around sqrt(N) centres, of which queries are perturbed ones. All
engines get the same ones, 64 at a time. Memory is what the process holds at most, less what it held before it loaded
the vectors. Numpy is measured before and after each engine, and ratios are to the mean of the two.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np

ENGINES = ("numpy", "scann_tree", "scann_all", "in_graph", "in_graph_approx")
K, BATCH = 10, 64


def main() -> None:
    given = harness.options(
        __doc__, counts="100000,1000000", width=384, queries=512, engines=",".join(ENGINES[1:]), child="", folder=""
    )
    if given.child:
        print(json.dumps(measured(given.child, Path(given.folder))))
        return
    rows = [row for n in given.counts.split(",") for row in compared(int(n), given)]
    head = ("engine", "vectors", "recall@10", "queries/s", "x numpy", "build s", "memory MiB")
    cells = [
        (r["engine"], f"{r['count']:,}", f"{r['recall']:.3f}", f"{r['rate']:,.0f}", f"{r['ratio']:.1f}",
         f"{r['build']:.1f}", f"{r['memory']:,.0f}")
        for r in rows
    ]  # fmt: skip
    print(harness.table(head, cells))


def compared(count: int, given: Any) -> list[dict[str, Any]]:
    """A row for each engine at this number of vectors."""
    with tempfile.TemporaryDirectory() as folder:
        write(count, given.width, given.queries, Path(folder))
        before, rows = child("numpy", folder), []
        for engine in given.engines.split(","):
            found, after = child(engine, folder), child("numpy", folder)
            found["ratio"] = found["rate"] / ((before["rate"] + after["rate"]) / 2)
            rows.append(found | {"count": count})
            before = after
        return [before | {"count": count, "ratio": 1.0}, *rows]


def child(engine: str, folder: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, f"--child={engine}", f"--folder={folder}"], stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def write(count: int, width: int, queries: int, folder: Path) -> None:
    """Vectors, queries and the true nearest of each."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((round(count**0.5), width)).astype(np.float32)
    vectors = centres[rng.integers(len(centres), size=count)]
    for at in range(0, count, 100_000):
        part = vectors[at : at + 100_000]
        part += 0.7 * rng.standard_normal(part.shape, np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    asked = vectors[rng.integers(count, size=queries)] + 0.5 / width**0.5 * rng.standard_normal(
        (queries, width), np.float32
    )
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "queries.npy", asked)
    np.save(folder / "true.npy", np.array(exact(vectors)(asked, K)))


def exact(vectors: np.ndarray) -> Callable[[np.ndarray, int], list[list[int]]]:
    """The true nearest by numpy: one product, then a partition."""

    def search(queries: np.ndarray, k: int) -> list[list[int]]:
        found = []
        for at in range(0, len(queries), BATCH):
            scores = queries[at : at + BATCH] @ vectors.T
            best = np.argpartition(-scores, k, axis=1)[:, :k]
            order = np.take_along_axis(scores, best, 1).argsort(axis=1)[:, ::-1]
            found += np.take_along_axis(best, order, 1).tolist()
        return found

    return search


def measured(engine: str, folder: Path) -> dict[str, Any]:
    """One engine in this process."""
    import jax

    from spicejax import sharding
    from spicejax.retrieval import nearest

    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    np.ones((256, 256)) @ np.ones((256, 256))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    vectors, queries, true = (np.load(folder / f"{name}.npy") for name in ("vectors", "queries", "true"))
    began = time.perf_counter()
    if engine == "numpy":
        search = exact(vectors)
    elif engine == "scann_tree":
        with tempfile.TemporaryDirectory() as made:
            tree = nearest.build_tree(vectors, Path(made) / "tree")
            search = nearest.load_tree(Path(made) / "tree", tree)
    elif engine == "scann_all":
        search = nearest.brute_force(vectors)
    else:
        search = nearest.in_graph(vectors, mesh, approximate=engine.endswith("approx"))
    search(queries[:BATCH], K)  # compiles
    built = time.perf_counter() - began

    def ask() -> list[list[int]]:
        return [found for at in range(0, len(queries), BATCH) for found in search(queries[at : at + BATCH], K)]

    found, seconds = ask(), harness.timed(ask)
    recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(found, true.tolist(), strict=True)])
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024
    rate = len(queries) / seconds
    return {"engine": engine, "recall": float(recall), "rate": rate, "build": built, "memory": memory}


if __name__ == "__main__":
    main()

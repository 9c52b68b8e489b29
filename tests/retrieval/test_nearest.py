"""The nearest vectors: ScaNN and the devices find the same, trees what they promise."""

import jax
import numpy as np
import pytest

from spicejax import sharding
from spicejax.retrieval import nearest
from spicejax.sharding import MeshConfig

MESH = sharding.make_mesh(MeshConfig(), jax.devices()[:1])


def clustered(count: int, dim: int = 16) -> np.ndarray:
    draw = np.random.default_rng(0)
    points = draw.normal(size=(20, dim))[draw.integers(0, 20, count)] + 0.5 * draw.normal(size=(count, dim))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def best(vectors, queries, k):
    return np.argsort(-queries @ vectors.T, axis=1)[:, :k].tolist()


@pytest.mark.parametrize("approximate", [False, True])
def test_all_ways_agree(approximate):
    vectors = clustered(301)
    queries = clustered(70)[:67]  # more than one block
    for find in (nearest.brute_force(vectors), nearest.in_graph(vectors, MESH, approximate=approximate)):
        assert find(queries, 5) == best(vectors, queries, 5)
        assert find(queries[:1], 1) == best(vectors, queries[:1], 1)


def test_fewer_vectors_than_asked_for():
    vectors = clustered(3)
    for find in (nearest.brute_force(vectors), nearest.in_graph(vectors, MESH)):
        assert find(vectors[:1], 10) == best(vectors, vectors[:1], 3)


def test_half_precision_finds_nearly_the_same():
    vectors = clustered(400)
    found, true = nearest.in_graph(vectors, MESH, dtype="bfloat16")(vectors, 10), best(vectors, vectors, 10)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, true, strict=True)]) > 0.9


def test_a_tree_keeps_its_recall_and_survives_a_move(tmp_path):
    vectors = clustered(3000)
    tree = nearest.build_tree(vectors, tmp_path / "tree")
    assert tree.leaves == 55 and tree.leaves_to_search <= tree.leaves and tree.recall >= nearest.RECALL
    (tmp_path / "tree").rename(tmp_path / "moved")
    queries, find = clustered(3100)[3000:], nearest.load_tree(tmp_path / "moved", tree)
    found = find(queries, 10)
    shared = [len(set(a) & set(b)) / 10 for a, b in zip(found, best(vectors, queries, 10), strict=True)]
    assert np.mean(shared) >= 0.9
    assert find(queries, 10) == found

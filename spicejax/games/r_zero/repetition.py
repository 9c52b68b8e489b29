"""How much of a batch asks the same: clusters of questions by BLEU, as R-Zero's code has them."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.cluster import hierarchy
from scipy.spatial import distance

ORDERS = (1, 2, 3, 4)
EPSILON = 0.1  # matches that an order without any counts for (smoothing method 1 of Chen and Cherry, 2014)


def shares(texts: Sequence[str], threshold: float = 0.5) -> np.ndarray:
    """The part of the batch in each text's cluster: average linkage, merged where the distance is below `threshold`.

    Returns: float64 [n], from 1 / n to 1.
    """
    if len(texts) < 2:
        return np.ones(len(texts))
    # of a pair, the earlier is measured against the later: BLEU is not symmetric
    upper = np.triu(distances(texts), 1)
    tree = hierarchy.linkage(distance.squareform(upper + upper.T), "average")
    labels = hierarchy.fcluster(tree, np.nextafter(threshold, -1), "distance")
    return np.bincount(labels)[labels] / len(texts)


def distances(texts: Sequence[str]) -> np.ndarray:
    """1 - BLEU of each text (row) against each other one (column) as its only reference, by words.

    Equal to NLTK's sentence_bleu with smoothing method 1, which takes minutes for the 2,048 questions of a batch.

    Returns: float64 [n, n]; 1 where no word is shared, as of an empty text.
    """
    words = [text.split() for text in texts]
    lengths = np.array([len(w) for w in words], float)
    logs = np.zeros((len(texts), len(texts)))
    for order in ORDERS:
        matches = _matches([collections.Counter(zip(*(w[k:] for k in range(order)), strict=False)) for w in words])
        if order == 1:
            shared = matches > 0
        logs += np.log(np.where(matches > 0, matches, EPSILON) / np.maximum(lengths - order + 1, 1)[:, None])
    brevity = np.minimum(1.0, np.exp(1 - lengths[None, :] / np.maximum(lengths, 1)[:, None]))
    return np.maximum(0.0, 1 - np.where(shared, brevity * np.exp(logs / len(ORDERS)), 0.0))


def _matches(grams: Sequence[collections.Counter]) -> np.ndarray:
    """For each pair the sum over n-grams of the smaller count: float64 [n, n]."""
    ids: dict[tuple[str, ...], int] = {}
    cells = [(row, ids.setdefault(gram, len(ids)), n) for row, counts in enumerate(grams) for gram, n in counts.items()]
    found, least = np.zeros((len(grams), len(grams))), 1
    while cells:  # the smaller count is how many thresholds both reach
        rows, columns, _ = zip(*cells, strict=True)
        reached = sparse.csr_matrix((np.ones(len(cells)), (rows, columns)), (len(grams), len(ids)))
        found += (reached @ reached.T).toarray()
        least += 1
        cells = [cell for cell in cells if cell[2] >= least]
    return found

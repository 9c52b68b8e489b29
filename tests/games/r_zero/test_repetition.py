"""Clusters of questions by BLEU, beside NLTK's BLEU."""

import random

import numpy as np
import pytest

from spicejax.games.r_zero import repetition


def test_distances_are_nltks():
    bleu = pytest.importorskip("nltk.translate.bleu_score")
    rng, smooth = random.Random(0), bleu.SmoothingFunction().method1
    texts = ["", "", "a", "a b", "a a a a a"]
    texts += [" ".join(rng.choices("abcdefghijkl", k=rng.randint(1, 20))) for _ in range(30)]
    texts += [f"{texts[9]} x", texts[9]]
    theirs = [[1 - bleu.sentence_bleu([b.split()], a.split(), smoothing_function=smooth) for b in texts] for a in texts]
    ours = repetition.distances(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert ours[9, -1] < 1e-12 and not np.allclose(ours, ours.T), "it is not symmetric"


def test_shares_of_the_batch():
    same = "how many rolls are left in the shop"
    batch = [same, "what is the area of a circle of radius four", same, f"{same} today", "", ""]
    np.testing.assert_allclose(repetition.shares(batch), [3 / 6, 1 / 6, 3 / 6, 3 / 6, 1 / 6, 1 / 6])
    np.testing.assert_allclose(repetition.shares([*batch, same], threshold=0.0), 1 / 7)  # nothing is nearer than 0
    assert repetition.shares(["alone"]).tolist() == [1.0] and len(repetition.shares([])) == 0


def test_average_linkage_by_hand():
    """Distances 0.4 (a, b), 0.5 (b, c), 0.7 (a, c): a and b are one; c is 0.6 from both on average, so apart."""
    table = np.array([[0, 0.4, 0.7], [9, 0, 0.5], [9, 9, 0]])  # of a pair the upper one counts

    def shares(threshold):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repetition, "distances", lambda texts: table)
            return repetition.shares(["a", "b", "c"], threshold).round(3).tolist()

    assert shares(0.5) == shares(0.6) == [0.667, 0.667, 0.333] and shares(0.61) == [1, 1, 1] and shares(0.4)[0] == 0.333

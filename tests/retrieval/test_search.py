"""Searches: passages in order, as many as there are."""

import pytest

from spicejax.retrieval import bm25, index, search
from spicejax.types import Passage


def test_edges_of_k_and_queries(tmp_path, corpus, encoder):
    built = index.build(tmp_path / "out", corpus, encoder, with_bm25=True)
    for find in (search.scann(built, encoder), search.in_graph(built, encoder, encoder.mesh), search.by_words(built)):
        with pytest.raises(ValueError, match="k=0: ask for at least one"):
            find(["a"], 0)
        assert find([], 3) == []
        first, second = find([built.passages[2].text, built.passages[9].text], 2)
        assert (first[0], second[0]) == (built.passages[2], built.passages[9])
    assert len(search.scann(built, encoder)(["a"], 99)[0]) == len(built.passages) == 23


def test_bm25_finds_only_what_shares_a_word(tmp_path):
    texts = [("Paris", "It lies on the Seine."), ("Rome", "It lies on the Tiber."), ("Oslo", "Fjords are near.")]
    bm25.build([Passage(title, title, text) for title, text in texts], tmp_path / "bm25")
    counts = bm25.load(tmp_path / "bm25")
    assert bm25.best(counts, ["Where is Rome?", "lies Seine", "zebra", "", "the"], 5) == [[1], [0, 1], [], [], []]

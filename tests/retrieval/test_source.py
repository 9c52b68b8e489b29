"""Which search engine a run gets, and what it says before anything slow starts."""

import pytest

from spicejax.retrieval import index
from spicejax.retrieval.source import RetrievalConfig, open_search


def test_every_engine_finds_the_passage_itself(tmp_path, corpus, encoder, folder):
    built = index.build(tmp_path / "out", corpus, encoder, with_bm25=True)
    at, where = {"index": str(tmp_path / "out")}, {"encoder": str(folder)}
    wanted = built.passages[7]
    for cfg in (
        RetrievalConfig(**at, **where),
        RetrievalConfig("in_graph", **at, **where),
        RetrievalConfig("words", **at),
        RetrievalConfig("words", corpus=corpus),
    ):
        assert open_search(cfg, encoder.mesh)([wanted.text], 2)[0][0] == wanted, cfg


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "retrieval.engine=scann: give retrieval.index=FOLDER .* and retrieval.encoder"),
        ({"engine": "words"}, "retrieval.engine=words: give retrieval.index=FOLDER or retrieval.corpus=CORPUS"),
        ({"engine": "words", "index": "nowhere"}, "nowhere is no index"),
        ({"corpus": "a.jsonl"}, "corpus=a.jsonl: only engine=words"),
        ({"engine": "words", "encoder": "e"}, "encoder=e: engine=words has none"),
        ({"words": -1}, "words=-1"),
        ({"engine": "http"}, "engine=http, url=.."),
        ({"url": "http://a/queries"}, "engine=scann, url="),
        ({"engine": "http", "url": "http://a/queries", "index": "i"}, "with engine=http the server has them"),
        ({"tries": 0}, "tries=0"),
    ],
)
def test_what_cannot_be_opened_is_named(given, said, encoder):
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        open_search(RetrievalConfig(**given), encoder.mesh)

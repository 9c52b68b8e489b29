"""Which search engine a run gets, and what it says before anything slow starts."""

import pytest

from spicejax import config, outside
from spicejax.remote import ServerError
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


@pytest.mark.parametrize(("given", "said"), [
    ({}, "retrieval.engine=scann: give retrieval.index=FOLDER .* and retrieval.encoder"),
    ({"engine": "words"}, "engine=words: give retrieval.index=FOLDER .* or retrieval.corpus=CORPUS"),
    ({"engine": "words", "index": "nowhere"}, "nowhere is no index"),
    ({"corpus": "a.jsonl"}, "engine=scann takes index and encoder, not corpus=a.jsonl; leave out the rest"),
    ({"engine": "words", "encoder": "e"}, "engine=words takes index or corpus, not encoder=e"),
    ({"engine": "words", "index": "i", "corpus": "c"}, "takes index or corpus, not index=i, corpus=c"),
    ({"words": -1}, "words=-1"),
    ({"engine": "http"}, "retrieval.engine=http: give retrieval.url=http://HOST:PORT/retrieve or /queries"),
    ({"url": "http://a/queries"}, "engine=scann takes index and encoder, not url="),
    ({"engine": "http", "url": "http://a/queries", "index": "i"}, "engine=http takes url, not index=i, url="),
    ({"engine": "bm25"}, "engine=bm25: give scann, in_graph, words, http, module:name, or FILE.py:name"),
    ({"tries": 0}, "tries=0"),
])  # fmt: skip
def test_what_cannot_be_opened_is_named(given, said, encoder):
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        open_search(RetrievalConfig(**given), encoder.mesh)


_OWN = """
from spicejax.types import Passage
WORDS = {"bako": "Zita lives in Bako.", "timu": "Bako is in Timu."}
def by_letters(cfg):
    rows = {key: Passage(key, cfg.corpus, text) for key, text in WORDS.items()}
    def search(queries, k):
        if "fail" in queries: raise KeyError("fail")
        if "few" in queries: return []
        return [[rows[word] for word in query.split() if word in rows] for query in queries]
    return search
def raises(cfg): raise RuntimeError("no disk")
def nothing(cfg): return None
def words(cfg): return lambda queries, k: [["text"] for _ in queries]
def two(cfg, mesh): return None
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "finders.py"
    path.write_text(_OWN)
    return path


def test_a_function_of_the_users_own_is_an_engine(own, encoder):
    cfg = RetrievalConfig(outside.run_file(str(own)).by_letters, corpus="a title", index="mine")
    assert cfg.engine == f"{own}:by_letters" and config.from_json(RetrievalConfig, config.to_json(cfg)) == cfg
    assert config.parse(cfg, [f"engine={own}:by_letters"]) == cfg
    cfg.require()
    cfg.probe()
    search = open_search(cfg, encoder.mesh)
    ((first,), none) = search(["bako timu", "x"], 1)
    assert (first.id, first.title, first.text) == ("bako", "a title", "Zita lives in Bako.") and none == []
    assert search([], 3) == []
    for query, said in (("fail", "KeyError: 'fail'"), ("few", "it found 0 lists for 1 queries")):
        with pytest.raises(ServerError, match=f"finders.py:by_letters: {said}; it takes queries and k, and returns k"):
            search([query], 1)


@pytest.mark.parametrize(("name", "said"), [
    ("raises", "raises: RuntimeError: no disk"),
    ("nothing", "nothing: TypeError: 'NoneType' object is not callable; it takes queries and k"),
    ("words", "words: AttributeError: 'str' object has no attribute 'id'; it takes queries and k"),
    ("two", r"two: missing a required argument: 'mesh'; define it as def two\(cfg: RetrievalConfig\) -> Search"),
    ("by_leters", "has no by_leters; did you mean by_letters"),
])  # fmt: skip
def test_a_function_that_is_no_engine_is_named(own, encoder, name, said):
    with pytest.raises((ValueError, ServerError), match=f"retrieval.engine={own}:.*{said}") as error:
        open_search(RetrievalConfig(f"{own}:{name}"), encoder.mesh)
    assert "\n" not in str(error.value)

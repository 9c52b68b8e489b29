"""The index folder: what a stopped build keeps, what is refused, what a repair makes anew."""

import dataclasses
import json

import numpy as np
import pytest
from tiny_models import write_encoder

from spicejax.interrupt import Interrupt, Stopped
from spicejax.retrieval import encode, index, search


def test_a_signal_stops_a_build_which_says_what_it_keeps(tmp_path, corpus, encoder, monkeypatch):
    out, encoded = tmp_path / "out", []
    whole = index.build(tmp_path / "whole", corpus, encoder, shard=5).vectors()
    write = index._write_shard

    def asked_for(folder, name, vectors):
        write(folder, name, vectors)
        stop.requested = name == "vectors-00001.npy"

    with monkeypatch.context() as patch, Interrupt() as stop:
        patch.setattr(index, "_write_shard", asked_for)
        with pytest.raises(Stopped, match="stopped: 10 of 23 passages are encoded, and stay; the same command goes on"):
            index.build(out, corpus, encoder, shard=5)
    with pytest.raises(ValueError, match="not finished: 3 of 5 shards to encode; run launch/build_index.py again"):
        index.load(out)
    real = encode.Encoder.passages
    monkeypatch.setattr(encode.Encoder, "passages", lambda self, found: encoded.extend(found) or real(self, found))
    np.testing.assert_array_equal(index.build(out, corpus, encoder, shard=5).vectors(), whole)
    assert [p.id for p in encoded] == [f"d{i}" for i in range(10, 23)]
    encoded.clear()
    index.build(out, corpus, encoder, shard=5)
    assert not encoded and [p.id for p in index.load(out).passages.take(0, 2)] == ["d0", "d1"] and len(whole) == 23


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_no_numbers_are_refused(tmp_path, corpus, encoder, value):
    """Else a query of NaN finds passages by chance, in silence."""

    def embed(ids, lengths):
        return encoder.embed(ids, lengths).at[0, 3].set(value)

    broken = dataclasses.replace(encoder, embed=embed)
    built = index.build(tmp_path / "right", corpus, encoder)
    with pytest.raises(FloatingPointError, match="gave NaN or infinite numbers for 1 of 1 texts, such as 'a whose'"):
        search.in_graph(built, broken, encoder.mesh)(["whose"], 1)
    with pytest.raises(FloatingPointError, match="for . of 23 texts"):
        index.build(tmp_path / "out", corpus, broken)
    assert not (tmp_path / "out" / "vectors-00000.npy").exists()


@pytest.mark.parametrize("name", ["vectors-00001.npy", "tree/dataset.npy", "bm25/vocab.index.json", index.PASSAGES])
def test_damage_is_refused_and_repaired(tmp_path, corpus, encoder, name):
    build = {"shard": 8, "tree_from": 20, "with_bm25": True}
    out = tmp_path / "out"
    index.build(out, corpus, encoder, **build)
    data = bytearray((out / name).read_bytes())
    data[len(data) // 2] ^= 1
    (out / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name} is missing or damaged"):
        opened = index.load(out)
        for find in (lambda: opened.vectors(), lambda: search.scann(opened, encoder), lambda: search.by_words(opened)):
            find()
    repaired = index.build(out, corpus, encoder, **build)
    text = repaired.passages[4].text
    for find in (search.in_graph(repaired, encoder, encoder.mesh), search.by_words(repaired)):
        assert find([text], 1) == [[repaired.passages[4]]]
    assert len(search.scann(repaired, encoder)([text], 3)[0]) == 3


@pytest.mark.parametrize("damage", ["{", '{"format": "spicejax-index-1"}', None])
def test_a_damaged_manifest_is_repaired_from_its_copy(tmp_path, corpus, encoder, damage, monkeypatch, caplog):
    out = tmp_path / "out"
    index.build(out, corpus, encoder, shard=5)
    whole = (out / index.MANIFEST).read_text()
    (out / index.MANIFEST).unlink()
    if damage is not None:
        (out / index.MANIFEST).write_text(damage)
        with pytest.raises(ValueError, match="manifest.json.*; run launch/build_index.py again with the same --out"):
            index.load(out)
    with monkeypatch.context() as patch, caplog.at_level("WARNING", "spicejax"):
        patch.setattr(index, "_write_shard", None)  # nothing is encoded again
        index.build(out, corpus, encoder, shard=5)
    assert (out / index.MANIFEST).read_text() == whole and "its copy takes its place" in caplog.text
    for name in (index.MANIFEST, index.COPY):
        (out / name).write_text("{")
    with pytest.raises(ValueError, match="damaged or of another kind, without a copy; give another --out"):
        index.build(out, corpus, encoder, shard=5)


@pytest.mark.parametrize("old", [False, True])
def test_passages_that_stay_are_told(tmp_path, corpus, encoder, caplog, old):
    """The corpus is not read again; older indexes do not say whether links were followed."""
    out = tmp_path / "out"
    with caplog.at_level("INFO", "spicejax"):
        before = index.build(out, corpus, encoder)
        assert "passages of the earlier build" not in caplog.text
        if old:
            index._write(out, {name: value for name, value in before.manifest.items() if name != "follow_links"})
        again = index.build(out, corpus, encoder)
    assert len(again.passages) == len(before.passages)
    assert "the passages of the earlier build stay; if the corpus has changed, give another --out" in caplog.text
    if old:
        assert len(index.build(out, corpus, encoder, follow_links=True).passages) == len(before.passages)
        return
    with pytest.raises(ValueError, match="begun with follow_links=False, not True; give that, or another --out"):
        index.build(out, corpus, encoder, follow_links=True)


def test_a_name_is_found_however_its_accents_are_written(tmp_path, encoder):
    names = ["Beyonc\u00e9", "Beyonce\u0301"]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": f"{name} sings"}) for name in names))
    built = index.build(tmp_path / "out", str(tmp_path / "a.jsonl"), encoder, with_bm25=True)
    assert len(built.passages) == 1 and built.manifest["counts"]["skipped/duplicate_passage"] == 1
    for name in names:
        assert search.by_words(built)([name], 1) == [[built.passages[0]]]


def test_another_encoder_or_style_is_refused(tmp_path, corpus, encoder, folder):
    out = tmp_path / "out"
    built = index.build(out, corpus, encoder)
    with pytest.raises(ValueError, match="built with query_prefix='a ', .* has 'c '; search with the encoder"):
        search.scann(built, encode.load(folder, dataclasses.replace(encoder.style, query_prefix="c "), encoder.mesh))
    write_encoder(tmp_path / "other", seed=1)
    with pytest.raises(ValueError, match="built with fingerprint="):
        search.in_graph(built, encode.load(tmp_path / "other", encoder.style, encoder.mesh), encoder.mesh)
    with pytest.raises(ValueError, match="no word counts.*--bm25"):
        search.by_words(built)
    with pytest.raises(ValueError, match="begun with words=100, not 50; give that, or another --out"):
        index.build(out, corpus, encoder, words=50)
    with pytest.raises(ValueError, match="begun with passage_prefix='b ', not ''"):
        unlike = dataclasses.replace(encoder.style, passage_prefix="")
        index.build(out, corpus, encode.load(folder, unlike, encoder.mesh))


def test_what_is_no_index_or_no_encoder_is_said(tmp_path, corpus, encoder, folder):
    with pytest.raises(FileNotFoundError, match="is no index"):
        index.load(tmp_path)
    with pytest.raises(FileExistsError, match="is no index; give a new folder"):
        index.build(tmp_path, corpus, encoder)
    (tmp_path / "empty.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(ValueError, match="no usable document .1 read"):
        index.build(tmp_path / "out", str(tmp_path / "empty.jsonl"), encoder)
    with pytest.raises(ValueError, match="max_tokens=21, but the model has 20 positions"):
        encode.load(folder, dataclasses.replace(encoder.style, max_tokens=21), encoder.mesh)

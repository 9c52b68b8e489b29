"""Passages: how documents are cut, named, counted and kept."""

import jsonl
import pytest

from spicejax.data import prepared
from spicejax.data.sources import Reader
from spicejax.retrieval import passages
from spicejax.types import Document, Passage

SENTENCES = [f"Sentence number {i} has exactly seven words." for i in range(40)]


def corpus(tmp_path, *records):
    file = tmp_path / "x.jsonl"
    jsonl.write(file, records)
    return str(file)


def test_documents_are_cut_at_sentences_and_nothing_is_lost(tmp_path):
    spec = corpus(tmp_path, {"id": "a", "title": "A", "text": " ".join(SENTENCES)}, {"id": "b", "text": "Short one."})
    found = list(passages.read(Reader(), spec))
    assert [p.id for p in found] == ["a#0", "a#1", "a#2", "b"] and {p.title for p in found} == {"A", ""}
    assert " ".join(p.text for p in found[:3]) == " ".join(SENTENCES)
    assert all(len(p.text.split()) <= 100 and p.text.endswith("words.") for p in found[:3])
    whole = list(passages.read(Reader(), spec, words=0))
    assert whole == [Passage("a", "A", " ".join(SENTENCES)), Passage("b", "", "Short one.")]


def test_passages_that_are_cut_already_stay_whole(tmp_path):
    text = " ".join(f"word{i}" for i in range(100))
    spec = corpus(tmp_path, {"id": "7", "contents": f'"A title of several words"\n{text}'})
    for words in (0, 100):
        assert list(passages.read(Reader(), spec, words=words)) == [Passage("7", "A title of several words", text)]


def test_a_prepared_folder_is_read_whatever_tokenizer_cut_it(tmp_path):
    manifest = {"tokenizer": "x", "probe": "y", "max_tokens": 9}
    prepared.write_corpus(tmp_path / "folder", [Document("a#0", "One."), Document("a#1", "Two.", "T")], manifest)
    found = list(passages.read(Reader(), str(tmp_path / "folder")))
    assert found == [Passage("a#0", "", "One."), Passage("a#1", "T", "Two.")]


def test_equal_passages_count_once_and_ids_are_unique(tmp_path):
    records = [
        {"id": "a", "text": "One."},
        {"id": "b", "text": "One."},
        {"id": "a", "text": "Two."},
        {"id": None, "text": "Three."},
    ]
    reader = Reader()
    found = list(passages.read(reader, corpus(tmp_path, *records)))
    assert [p.text for p in found] == ["One.", "Two.", "Three."] and len({p.id for p in found}) == 3
    assert found[1].id.startswith("a@") and reader.read == 4 and reader.skipped == {"duplicate_passage": 1}
    with pytest.raises(ValueError, match="words=-1"):
        list(passages.read(reader, "facts", words=-1))


def test_a_file_of_passages_is_the_same_each_time(tmp_path):
    found = [Passage(str(i), "Ü", f"text {i}\n") for i in range(7)]
    assert passages.write(tmp_path / "a", found) == passages.write(tmp_path / "b", iter(found)) == 7
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    opened = passages.load(tmp_path / "a")
    assert len(opened) == 7 and opened[5] == found[5] and opened.take(2, 6) == found[2:6]
    (tmp_path / "a").write_bytes(b"no record")
    with pytest.raises(ValueError, match="broken or cut short"):
        passages.load(tmp_path / "a")

"""Tests of the corpus: one content in many formats, and an iterator that resumes exactly."""

import json
from pathlib import Path

import jsonl
import pytest

from spicejax import commands
from spicejax.data import corpus as corpus_module
from spicejax.data import prepared
from spicejax.data.corpus import Corpus, open_corpus
from spicejax.data.items import check_items
from spicejax.run.config import CorpusConfig
from spicejax.text import tokens
from spicejax.types import Document


def words(text: str) -> list[int]:
    return [len(word) for word in text.split()]


def _documents(count: int) -> list[Document]:
    return [Document(f"d{i}", f"Document number {i} tells of {i * i} things. " * 4, f"title {i}") for i in range(count)]


def _jsonl(path: Path, documents: list[Document]) -> str:
    jsonl.write(path, ({"id": d.id, "title": d.title, "text": d.text} for d in documents))
    return str(path)


def _open(spec: str, **options) -> Corpus:
    return open_corpus(spec, **{"encode": words, "max_tokens": 5992, "min_chars": 32, **options})


def _all(corpus: Corpus) -> list[Document]:
    return [corpus.documents[i] for i in range(len(corpus.documents))]


def test_all_formats_give_the_same_documents_and_digest(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    documents = [Document(f"{i}.txt", d.text, str(i)) for i, d in zip(range(10, 40), _documents(30), strict=True)]
    folder = tmp_path / "folder"
    folder.mkdir()
    for d in documents:
        (folder / d.id).write_text(d.text)
    jsonl = _jsonl(tmp_path / "x.jsonl", documents)
    table = {
        "id": [d.id for d in documents],
        "title": [d.title for d in documents],
        "text": [d.text for d in documents],
    }
    parquet.write_table(pa.table(table), tmp_path / "x.parquet")
    first = _open(jsonl)
    options = {"tokenizer": "words", "probe": prepared.probe(words), "max_tokens": 5992, "counts": dict(first.counts)}
    prepared.write_corpus(tmp_path / "prepared", first.documents, options)
    specs = [jsonl, str(tmp_path / "x.parquet"), str(folder), str(tmp_path / "prepared")]
    specs.append(str(tmp_path / "prepared" / prepared.RECORDS))
    corpora = [_open(s) for s in specs]
    for corpus in corpora:
        assert corpus.digest == first.digest
        assert corpus.counts["segments"] == 30 and corpus.counts["kept"] == 30
        assert _all(corpus) == _all(first)
    texts = [Document(d.id, d.text.strip(), d.title) for d in documents]
    assert [corpora[3].documents[i] for i in range(30)] == texts


def test_counts_by_reason_and_ids(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {i} of a long document with some words in it." for i in range(30))
    records = [
        {"id": "a", "text": long},
        {"id": "b", "text": "short"},
        {"id": "c", "text": long + "\n"},
        {"id": "a", "text": "Another text under an id that was there before. " * 3},
        {"text": "A text without any id, named by its content. " * 3},
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, [*records, 5])) + "\n{")
    corpus = _open(str(path), max_tokens=100)
    assert corpus.counts == {
        "read": 7,
        "kept": 3,
        "segments": 6,
        "skipped/bad_json": 2,
        "skipped/too_short": 1,
        "skipped/duplicate": 1,
    }
    ids = [d.id for d in (corpus.documents[i] for i in range(6))]
    assert ids[:5] == ["a#0", "a#1", "a#2", "a#3", "a"] and len(ids[5]) == 16
    twice = _jsonl(tmp_path / "twice.jsonl", [Document("s", "One text " * 20), Document("s", "Other text " * 20)])
    first, second = (_open(twice).documents[i].id for i in range(2))
    assert first == "s" and second.startswith("s@")


def test_no_usable_document_is_an_error_that_says_why(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "short"}\n{"text": ""}\nnot json\n')
    with pytest.raises(ValueError, match="3 read.*1 bad_json, 1 empty, 1 too_short.*min_chars=32"):
        _open(str(path))


def test_mixture_joins_its_sources_and_drops_duplicates(tmp_path: Path) -> None:
    one = _jsonl(tmp_path / "one.jsonl", _documents(5))
    two = _jsonl(tmp_path / "two.jsonl", _documents(8))
    corpus = _open(f"{one},{two},facts:moons")
    assert [corpus.documents[i].id for i in range(8)] == [f"d{i}" for i in range(8)]
    assert corpus.counts["skipped/duplicate"] >= 5
    assert corpus.documents[8].id.startswith("moon/")


def test_prepare_corpus_writes_a_folder_that_opens_as_it_is(tmp_path: Path, shared_data: Path, capsys) -> None:
    tokenizer_folder = str(shared_data / "tokenizers" / "smollm2")
    long = Document("long", "\n\n".join(f"Paragraph {i} about the number {i * 37}." for i in range(60)))
    source = _jsonl(tmp_path / "x.jsonl", [*_documents(12), long])
    out = tmp_path / "out"
    arguments = [f"--source={source}", f"--tokenizer={tokenizer_folder}", "--max_tokens=128"]
    assert commands.run("prepare", [*arguments, f"--out={out}"]) == 0
    assert "segments: " in capsys.readouterr().out
    tokenizer = tokens.load(tokenizer_folder)
    raw = _open(source, encode=tokenizer.encode, max_tokens=128)
    again = _open(str(out), encode=tokenizer.encode, max_tokens=128)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["min_chars"] == CorpusConfig.min_chars
    assert again.digest == raw.digest and dict(again.counts) == dict(raw.counts)
    assert _all(again) == _all(raw)
    assert prepared.digest(again.documents) == again.digest
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "x.jsonl"]  # no half-written folder left
    assert commands.run("prepare", [*arguments, f"--out={out}"]) == 2
    assert f"error: {out} already exists" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "x.jsonl"]


def test_prepared_folder_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    corpus = _open(_jsonl(tmp_path / "x.jsonl", _documents(6)))
    manifest = {"tokenizer": "words", "probe": prepared.probe(words), "max_tokens": 200}
    out = tmp_path / "out"
    prepared.write_corpus(out, corpus.documents, manifest)
    with pytest.raises(ValueError, match="max_tokens=100"):
        _open(str(out), max_tokens=100)
    with pytest.raises(ValueError, match="tokenizer 'words'"):
        _open(str(out), encode=lambda text: list(map(ord, text)))
    written = json.loads((out / "manifest.json").read_text())
    for other, fix in (("spicejax-index-1", "it is an index"), ("spicejax-examples-1", "it holds examples")):
        (out / "manifest.json").write_text(json.dumps(written | {"format": other}))
        with pytest.raises(ValueError, match=fix):
            check_items("documents", str(out))
    (out / "manifest.json").write_text(json.dumps(written | {"segments": 7}))
    with pytest.raises(ValueError, match="6 records"):
        _open(str(out))
    for text in ("{", "[]", json.dumps({k: v for k, v in written.items() if k != "probe"})):
        (out / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match="manifest.json.*; run launch/prepare_corpus.py again"):
            _open(str(out))
    (out / "manifest.json").write_text(json.dumps(written))
    for kept in (0, 1000, 70_000):
        (out / prepared.RECORDS).write_bytes((out / prepared.RECORDS).read_bytes()[:kept])
        with pytest.raises(ValueError, match="documents.array_record is missing, broken"):
            _open(str(out))


def test_reading_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(corpus_module, "REPORT_EVERY", 0.0)
    source = _jsonl(tmp_path / "x.jsonl", _documents(3))
    with caplog.at_level("INFO", "spicejax"):
        _open(source)
    assert caplog.messages[0] == f"reading {source}"
    assert f"{source}: 3 documents read, 2 segments" in caplog.messages


def test_texts_that_differ_in_how_accents_are_written_count_once(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO", "spicejax")
    texts = [f"caf{accent} " * 40 for accent in ("\u00e9", "e\u0301")]
    corpus = _open(_jsonl(tmp_path / "x.jsonl", [Document("", text) for text in texts]))
    assert corpus.counts["kept"] == corpus.counts["skipped/duplicate"] == 1
    assert "2 documents read, 1 kept, 1 segments; skipped: 1 duplicate" in caplog.text
    assert corpus.documents[0].text == texts[0].strip()

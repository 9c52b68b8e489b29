"""Tests of reading sources: the same content from every format, and nasty files counted by reason."""

import json
import os
import tracemalloc
from pathlib import Path

import jsonl
import numpy as np
import pytest

from spicejax.data import published
from spicejax.data.corpus import open_corpus
from spicejax.data.facts.documents import documents
from spicejax.data.questions import load_items
from spicejax.data.sources import MAX_RUN, Raw, Reader, split_mixture


def _read(spec: str | Path, max_bytes: int = 1 << 20) -> tuple[list[Raw], dict[str, int], int]:
    reader = Reader(max_bytes=max_bytes)
    documents = list(reader.documents(str(spec)))
    return documents, dict(reader.skipped), reader.read


def test_jsonl_counts_every_bad_line(tmp_path: Path) -> None:
    good = {"id": "a", "title": "T", "text": "first\u2028second\u2029third\u0085end"}
    lines = [
        json.dumps(good, ensure_ascii=False).encode(),
        json.dumps({"contents": "only contents"}).encode() + b"\r",
        json.dumps({"id": 7, "text": "number as id"}).encode(),
        b"",
        b"{broken",
        b"[1, 2]",
        b'"text"',
        b"null",
        b'{"id": "no text"}',
        b'{"text": 5}',
        b'{"text": null}',
        b'{"text": "lone \\ud800 surrogate"}',
        b'{"text": "a pair \\ud83d\\ude42 is fine", "id": "\\ud800"}',
        b'{"text": "nul \\u0000 inside"}',
        b'{"text": "\xff\xfe"}',
        b'{"text": "   \\n "}',
        b'{"text": ' + b"[" * 80_000 + b"}",
        json.dumps({"text": "x" * 5000}).encode(),
        b'{"text": "' + b"y" * 200_000 + b'"}',
        json.dumps({"text": "old\r\nmac\rnew\n"}).encode(),
        json.dumps({"text": "no newline at the end"}).encode(),
    ]
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    documents, skipped, read = _read(path, max_bytes=4096)
    assert documents == [
        Raw("first\u2028second\u2029third\u0085end", "a", "T"),
        Raw("only contents"),
        Raw("number as id", "7"),
        Raw("a pair 🙂 is fine", "\ufffd"),
        Raw("old\nmac\nnew\n"),
        Raw("no newline at the end"),
    ]
    assert skipped == {
        "bad_json": 5,
        "missing_text": 3,
        "invalid_utf8": 2,
        "binary": 1,
        "empty": 1,
        "too_large": 2,
    }
    assert read == len(documents) + sum(skipped.values())


def test_folder_counts_every_bad_file(tmp_path: Path) -> None:
    root = tmp_path / "texts"
    (root / "b" / "deep").mkdir(parents=True)
    (root / "b" / "deep" / "2.md").write_text("markdown")
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfwith BOM\r\nand\rnewlines")
    (root / "zero.txt").write_bytes(b"")
    (root / "blank.txt").write_text(" \n\t\n")
    (root / "nul.txt").write_bytes(b"text\0with nul")
    (root / "control.txt").write_bytes(bytes(range(1, 9)) * 20)
    (root / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    (root / "large.txt").write_text("x" * 5000)
    (root / "ignored.py").write_text("print()")
    (root / "broken.txt").symlink_to(root / "nowhere.txt")
    (root / "b" / "loop").symlink_to(root)
    (root / "self.txt").symlink_to(root / "self.txt")
    os.mkfifo(root / "pipe.txt")
    documents, skipped, read = _read(root, max_bytes=4096)
    assert documents == [Raw("with BOM\nand\nnewlines", "a.txt", "a"), Raw("markdown", "b/deep/2.md", "2")]
    assert skipped == {"empty": 2, "binary": 2, "invalid_utf8": 1, "too_large": 1, "unreadable": 2}
    assert read == 10


def test_parquet_reads_its_columns_and_refuses_others(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pa.table({"id": [1, 2, 3], "text": ["one", None, ""], "title": ["t", None, "u"], "other": [0.5, 1.0, 2.0]}),
        tmp_path / "x.parquet",
    )
    documents, skipped, _ = _read(tmp_path / "x.parquet")
    assert documents == [Raw("one", "1", "t")] and skipped == {"missing_text": 1, "empty": 1}
    parquet.write_table(pa.table({"body": ["x"]}), tmp_path / "y.parquet")
    with pytest.raises(ValueError, match="body.*text"):
        _read(tmp_path / "y.parquet")


def test_missing_optional_libraries_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    monkeypatch.setitem(__import__("sys").modules, "tensorflow_datasets", None)
    (tmp_path / "x.parquet").write_bytes(b"")
    with pytest.raises(ImportError, match=r"spicejax\[parquet\]"):
        _read(tmp_path / "x.parquet")
    with pytest.raises(ImportError, match=r"spicejax\[tfds\]"):
        _read("tfds:gsm8k")


def test_array_record_reads_json_records(tmp_path: Path) -> None:
    from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

    path = tmp_path / "x.array_record"
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
    for record in ({"id": "a", "title": "t", "text": "one"}, {"contents": "two"}):
        writer.write(json.dumps(record).encode())
    writer.write(b"\xff\xff")
    writer.close()
    expected = [Raw("one", "a", "t"), Raw("two")]
    for spec in (path, tmp_path, tmp_path / "*.array_record"):
        assert _read(spec)[:2] == (expected, {"invalid_utf8": 1})
    (tmp_path / "bad.array_record").write_bytes(b"no records here")
    with pytest.raises(ValueError, match="bad.array_record"):
        _read(tmp_path / "bad.array_record")


def test_facts_are_documents_that_come_with_the_package() -> None:
    found, skipped, read = _read("facts:moons,countries")
    assert found == [Raw(d.text, d.id, d.title) for d in documents(["moons", "countries"])]
    assert not skipped and read == len(found)
    assert _read("sentences:moons")[0] == [Raw(d.text, d.id, d.title) for d in documents(["moons"], single=True)]


def test_tfds_source(tfds_set) -> None:
    rows = [{"text": f"caf\u00e9 {i}", "n": i} for i in range(3)]
    tfds_set("toy", {"text": np.object_, "n": np.int64}, rows, "array_record")
    for spec in ("tfds:toy", "tfds:toy:train", "tfds:toy:train:text"):
        documents, skipped, _ = _read(spec)
        assert [d.text for d in documents] == ["café 0", "café 1", "café 2"] and not skipped
    assert _read("tfds:toy:train:n")[1] == {"missing_text": 3}
    tfds_set("other", {"text": np.object_}, [{"text": "x"}], "tfrecord")
    with pytest.raises(
        ValueError, match="tfds:other: .*array_record.*tfrecord.*; TFDS_DATA_DIR=FOLDER names one for a"
    ):
        _read("tfds:other")


@pytest.mark.parametrize(("spec", "parts"), [
    ("facts:countries,problems", ["facts:countries", "problems"]),
    ("sentences:moons,rivers,sentences", ["sentences:moons,rivers", "sentences"]),
    ("facts:countries,elements,a.jsonl,facts:moons", ["facts:countries,elements", "a.jsonl", "facts:moons"]),
    ("tfds:gsm8k:train:question,./x", ["tfds:gsm8k:train:question", "./x"]),
])  # fmt: skip
def test_mixtures_split_at_commas(spec: str, parts: list[str]) -> None:
    assert split_mixture(spec) == parts


def test_a_path_with_a_comma_is_one_source(tmp_path: Path) -> None:
    path = tmp_path / "a,b.jsonl"
    path.write_text("")
    assert split_mixture(str(path)) == [str(path)]


@pytest.mark.parametrize(("spec", "error", "message"), [
    ("/no/such/file.jsonl", FileNotFoundError, "does not exist"),
    ("/no/such/*.jsonl", FileNotFoundError, "does not exist"),
    ("facts:countries,county", ValueError, "facts:county: there is no such table; choose from countries, "),
    (",", ValueError, "empty"),
])  # fmt: skip
def test_wrong_specs_name_the_fix(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        for part in split_mixture(spec):
            _read(part)


def test_unknown_kinds_and_empty_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no"):
        _read(tmp_path)
    (tmp_path / "x.csv").write_text("a,b")
    with pytest.raises(ValueError, match=r"x\.csv: unknown kind"):
        _read(tmp_path / "x.csv")


@pytest.mark.parametrize("name", ["x.jsonl", "x.txt", "x.parquet", "x.array_record"])
def test_pipes_and_devices_are_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / f"zero-{name}").symlink_to("/dev/zero")
    for path in (tmp_path / name, tmp_path / f"zero-{name}"):
        with pytest.raises(ValueError, match=f"{name} is no regular file"):
            _read(path)


@pytest.mark.parametrize(("name", "before", "after"), [
    ("x.jsonl", b'{"text": "', b'"}\n{"text": "after it"}\n'),
    ("x.tsv", b"id\ttext\n1\t", b"\n\tafter it\n"),
])  # fmt: skip
def test_a_line_without_end_takes_no_memory(tmp_path: Path, name: str, before: bytes, after: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(before + b"y" * 30_000_000 + after)
    tracemalloc.start()
    documents, skipped, _ = _read(path, max_bytes=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert documents == [Raw("after it")] and skipped == {"too_large": 1}
    assert peak < 8_000_000


@pytest.mark.parametrize("run", ["a", "\u3042", "!", " "])
def test_a_run_that_is_no_text_is_skipped(tmp_path: Path, run: str) -> None:
    """One such word of 15 MB took a tokenizer minutes; text of that size in words is kept."""
    edge = "x" if run == " " else " "
    for length in (MAX_RUN, MAX_RUN + 1):
        (tmp_path / f"{length}.txt").write_text(f"it{edge}{run * length}{edge}ends")
    (tmp_path / "words.txt").write_text("it says so " * MAX_RUN)
    (tmp_path / "without_spaces.txt").write_text("\u8a00\u8449\u3001" * MAX_RUN)
    documents, skipped, _ = _read(tmp_path, max_bytes=1 << 24)
    assert len(documents) == 3 and skipped == {"long_word": 1}


@pytest.mark.parametrize("at", [4, -60])
def test_a_damaged_parquet_file_is_named_in_one_line(tmp_path: Path, at: int) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"text": ["a text", "another"]}), tmp_path / "x.parquet")
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    data[at : at + 40] = b"\xff" * 40
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(ValueError, match="x.parquet: .*; write or download it again$") as told:
        _read(tmp_path / "x.parquet")
    assert "\n" not in str(told.value)


def test_a_parquet_file_cut_short_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="x.parquet: .*write or download it again"):
        _read(tmp_path / "x.parquet")


@pytest.mark.parametrize(("head", "name", "what"), [
    (b"\n<!DOCTYPE html><html>", "a.jsonl", "a web page: download the file itself"),
    (b"version https://git-lfs.github.com/spec/v1\n", "a.jsonl", "a pointer of Git LFS"),
    (b"\x1f\x8b\x08rest", "a.jsonl", "packed by gzip: unpack it"),
    (b"PAR1\x15rest", "a.jsonl", "Parquet: name it .parquet"),
    (b"GGUF\x03\0\0\0", "a.gguf", r"a model .GGUF.: model.path takes it"),
    (b'\x40\0\0\0\0\0\0\0{"a":', "a.safetensors", r"a model .safetensors.: model.path takes"),
    (b"\xff\xfe{\0", "a.jsonl", "text in UTF-16: write it as UTF-8"),
    (b"%PDF-1.7", "a.txt", "PDF: give its text"),
])  # fmt: skip
def test_a_file_of_something_else_is_named(tmp_path: Path, head: bytes, name: str, what: str) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(head)
    with pytest.raises(ValueError, match=f"{name} looks like {what}"):
        _read(tmp_path / name)
    if name.endswith(".jsonl"):
        with pytest.raises(ValueError, match=f"{name} looks like {what}.*a jsonl of questions with answers is wanted"):
            load_items(tmp_path / name)
        with pytest.raises(ValueError, match=f"{name} looks like {what}"):
            list(published.read(tmp_path / name, published.plain))


def test_folders_of_something_else_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"holds no .*; '.*/\*\.jsonl' takes its .jsonl files"):
        _read(tmp_path)
    for name in ("README.md", "config.json", "model.safetensors"):
        (tmp_path / name).write_text("text")
    with pytest.raises(ValueError, match="holds a model, which model.path takes"):
        _read(tmp_path)


def test_wiki_18_has_its_title_in_its_contents(tmp_path: Path) -> None:
    rows = [
        {"id": "0", "contents": '"Aaron "the" priest"\nAaron is a prophet.'},
        {"id": "1", "contents": '""\nNo title.'},
        {"id": "2", "contents": '"Quoted" begins the text\nof this one.'},
        {"id": "3", "contents": '"T"\nbody', "title": "Its own"},
        {"id": "4", "text": '"T"\nbody'},
    ]
    path = tmp_path / "wiki-18.jsonl"
    jsonl.write(path, rows)
    assert _read(path)[0] == [
        Raw("Aaron is a prophet.", "0", 'Aaron "the" priest'),
        Raw("No title.", "1"),
        Raw('"Quoted" begins the text\nof this one.', "2"),
        Raw('"T"\nbody', "3", "Its own"),
        Raw('"T"\nbody', "4"),
    ]


def test_tables_of_passages(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('id\ttext\ttitle\n1\t"Aaron ("";"") is a prophet."\tAaron\r\n2\tplain\tB\n')
    assert _read(path)[0] == [Raw('Aaron (";") is a prophet.', "1", "Aaron"), Raw("plain", "2", "B")]
    path.write_text('0\tAaron the   "a prophet" it is\n1\tno title   but   gaps\n2\tnone\n')
    assert _read(path)[0] == [
        Raw('"a prophet" it is', "0", "Aaron the"), Raw("no title   but   gaps", "1"), Raw("none", "2")
    ]  # fmt: skip
    path.write_text('id\ttext\n1\t"He said\n2\tgood\n\n3\n')
    assert _read(path)[:2] == ([Raw('"He said', "1"), Raw("good", "2")], {"missing_text": 2}), "no table's quotes"
    path.write_bytes(b"id\ttext\n1\t\xff\xfe\n2\tgood\n")
    assert _read(path)[:2] == ([Raw("good", "2")], {"invalid_utf8": 1})
    path.write_text("a\tb\tc\n")
    with pytest.raises(ValueError, match="begins with 'a, b, c': give a header with text or contents"):
        _read(path)


def test_links_out_of_a_folder_are_taken_only_when_asked_for(tmp_path: Path) -> None:
    root, outside = tmp_path / "texts", tmp_path / "outside"
    for path in (root / "in", outside):
        path.mkdir(parents=True)
    (outside / "secret.txt").write_text("secret")
    (root / "in" / "a.txt").write_text("inside")
    (root / "secret.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "same.txt").symlink_to("in/a.txt")
    (tmp_path / "link").symlink_to(root)
    for spec in (root, tmp_path / "link"):
        documents, skipped, read = _read(spec)
        assert {d.text for d in documents} == {"inside"} and skipped == {"link_out_of_folder": 2} and read == 4
    reader = Reader(follow_links=True)
    assert [d.text for d in reader.documents(str(root))].count("secret") == 2 and not reader.skipped
    (outside / "a.array_record").write_text("x")
    (root / "a.array_record").symlink_to(outside / "a.array_record")
    assert _read(root)[:2] == ([], {"link_out_of_folder": 3}), "the texts beside shards are not the corpus"
    for name in ("in/a.txt", "same.txt"):
        (root / name).unlink()
    with pytest.raises(ValueError, match="3 link_out_of_folder.*--follow_links. takes what links lead to"):
        open_corpus(str(root), encode=str.split, max_tokens=99, min_chars=1)

"""Prepared corpora and examples: a folder of ArrayRecord with the manifest that says how they were made."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict

from spicejax.data import records
from spicejax.data.records import Records
from spicejax.models.files import checked, read_object
from spicejax.text.vocabulary import PROBE
from spicejax.types import Document, Example

MANIFEST = "manifest.json"
RECORDS, FORMAT = "documents.array_record", "spicejax-corpus-1"
EXAMPLE_RECORDS, EXAMPLE_FORMAT = "examples.array_record", "spicejax-examples-1"
_CORPUS_FIX, _EXAMPLES_FIX = "run launch/prepare_corpus.py again", "run launch/prepare_sft.py again"
# Folders that are no corpus, by the beginning of their format
_OTHERS = {
    "spicejax-index": "it is an index for searches; give the corpus that it was built from",
    "spicejax-examples": "it holds examples of `spicejax mix`, for a recipe that reads examples",
}


class Manifest(TypedDict):
    """How the segments were made, and what they must be."""

    format: str
    tokenizer: str
    probe: str  # of the tokenizer, see `probe`
    max_tokens: int
    segments: int
    digest: str
    counts: NotRequired[dict[str, int]]


class ExamplesManifest(TypedDict):
    """What must be there of that of examples."""

    examples: int
    digest: str


class Documents(Protocol):
    """Documents by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Document: ...


def digest(documents: Documents) -> str:
    """Return the sha256 over ids, titles and texts in order; the same documents give the same digest in any format."""
    total = hashlib.sha256()
    for i in range(len(documents)):
        document = documents[i]
        for field in (document.id, document.title, document.text):
            data = field.encode("utf-8")
            total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def probe(encode: Callable[[str], list[int]]) -> str:
    """Return a hash of a fixed text's ids: tells tokenizers apart without their files."""
    return hashlib.sha256(json.dumps([int(i) for i in encode(PROBE)]).encode()).hexdigest()


def is_prepared(path: str) -> bool:
    return (Path(path).expanduser() / MANIFEST).is_file()


def manifest_of(path: str) -> dict[str, Any]:
    """The manifest of a prepared corpus. Raises ValueError for a broken one, and for a folder of something else."""
    folder = Path(path).expanduser()
    manifest = read_object(folder / MANIFEST, fix=_CORPUS_FIX)
    if manifest.get("format", FORMAT) == FORMAT:
        return checked(manifest, Manifest, str(folder / MANIFEST), _CORPUS_FIX)
    given = str(manifest["format"])
    fix = next((other for start, other in _OTHERS.items() if given.startswith(start)), _CORPUS_FIX)
    raise ValueError(f"{folder}: format {manifest['format']!r:.80}, expected {FORMAT!r}; {fix}")


def open_corpus(
    path: str, encode: Callable[[str], list[int]], max_tokens: int
) -> tuple[Records[Document], dict[str, Any]]:
    """Open a prepared corpus; return its segments and its manifest. The digest is not computed again.

    Raises:
      ValueError: another format, another tokenizer, longer segments than `max_tokens`, or records missing.
    """
    folder, manifest = Path(path).expanduser(), manifest_of(path)
    if manifest["probe"] != probe(encode):
        raise ValueError(
            f"{folder} was prepared with tokenizer {manifest['tokenizer']!r}, not the one in use; {_CORPUS_FIX} with "
            "this one"
        )
    if manifest["max_tokens"] > max_tokens:
        raise ValueError(
            f"{folder} has segments of up to {manifest['max_tokens']} tokens, but max_tokens={max_tokens}; "
            f"{_CORPUS_FIX} with --max_tokens={max_tokens}, or raise max_tokens"
        )
    return _open(folder / RECORDS, Document, manifest["segments"], _CORPUS_FIX), manifest


def open_examples(path: str | Path) -> tuple[Records[Example], str]:
    """Open a folder of examples that launch/prepare_sft.py wrote; return them and their digest, which is not checked.

    Raises: ValueError for another format, or where records are missing or broken.
    """
    folder = Path(path).expanduser()
    manifest = read_object(folder / MANIFEST, fix=_EXAMPLES_FIX)
    if manifest.get("format") != EXAMPLE_FORMAT:
        raise ValueError(
            f"{folder}: format {manifest.get('format')!r:.80}, expected {EXAMPLE_FORMAT!r}; {_EXAMPLES_FIX}"
        )
    checked(manifest, ExamplesManifest, str(folder / MANIFEST), _EXAMPLES_FIX)
    return _open(folder / EXAMPLE_RECORDS, _example, manifest["examples"], _EXAMPLES_FIX), manifest["digest"]


def _example(prompt: str, completion: str, source: str) -> Example:
    return Example((("user", prompt),), completion, source)


def _open(file: Path, make: Callable[..., records.T], count: int, fix: str) -> Records[records.T]:
    opened = records.load(file, make, fix)
    if len(opened) != count:
        raise ValueError(f"{file} has {len(opened)} records, the manifest says {count}; {fix}")
    return opened


def require_new(out: str | Path) -> Path:
    """The folder `out`, which is to be written. Raises FileExistsError where something is there."""
    target = Path(out).expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} already exists; give a new folder or remove it first")
    return target


def write_corpus(out: str | Path, documents: Documents, manifest: Mapping[str, Any]) -> None:
    """Write a prepared corpus. The folder appears complete under its name, or not at all.

    Args:
      manifest: what `corpus.open_corpus` counted, the tokenizer's name and probe, max_tokens.
    Raises:
      FileExistsError: `out` exists and is no empty folder.
    """
    rows = (dataclasses.asdict(documents[i]) for i in range(len(documents)))
    full = {"format": FORMAT, **manifest, "segments": len(documents), "digest": digest(documents)}
    _write(out, RECORDS, rows, full)


def write_examples(out: str | Path, rows: Sequence[Mapping[str, str]], manifest: Mapping[str, Any]) -> None:
    """Write a folder of examples likewise.

    Args:
      rows: {"source", "prompt", "completion"} in the order in which they are to be numbered.
    Raises:
      FileExistsError: `out` exists and is no empty folder.
    """
    total = hashlib.sha256()
    for row in rows:
        total.update(json.dumps(row, ensure_ascii=False, sort_keys=True).encode("utf-8") + b"\n")
    counts = dict(sorted(collections.Counter(row["source"] for row in rows).items()))
    full = {"format": EXAMPLE_FORMAT, **manifest, "examples": len(rows), "sources": counts, "digest": total.hexdigest()}
    _write(out, EXAMPLE_RECORDS, rows, full)


def _write(out: str | Path, name: str, rows: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]) -> None:
    target = require_new(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
        work = Path(beside, "new")
        work.mkdir()
        records.write(work / name, rows)
        (work / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        work.rename(target)

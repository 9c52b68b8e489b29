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

import grain

from spicejax.models.files import checked, read_object
from spicejax.text.vocabulary import PROBE
from spicejax.types import Document, Example

MANIFEST = "manifest.json"
RECORDS = "documents.array_record"
FORMAT = "spicejax-corpus-1"
EXAMPLES = "spicejax-examples-1"
EXAMPLE_RECORDS = "examples.array_record"
_AGAIN = "run launch/prepare_corpus.py again"
# By the beginning of the format, folders that are no corpus
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


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Random access to the segments of a prepared folder; nothing is read before it is asked for."""

    manifest: Mapping[str, Any]
    records: Any  # grain.sources.ArrayRecordDataSource

    def __len__(self) -> int:
        return self.manifest["segments"]

    def __getitem__(self, index: int) -> Document:
        return Document(**json.loads(self.records[index]))


def is_prepared(path: str) -> bool:
    return (Path(path).expanduser() / MANIFEST).is_file()


def manifest_of(path: str) -> dict[str, Any]:
    """The manifest of a prepared corpus. Raises ValueError for a broken one, and for a folder of something else."""
    folder = Path(path).expanduser()
    manifest = read_object(folder / MANIFEST, fix=_AGAIN)
    if manifest.get("format", FORMAT) == FORMAT:
        checked(manifest, Manifest, str(folder / MANIFEST), _AGAIN)
    if manifest["format"] != FORMAT:
        other = next((kind for start, kind in _OTHERS.items() if str(manifest["format"]).startswith(start)), _AGAIN)
        raise ValueError(f"{folder}: format {manifest['format']!r:.80}, expected {FORMAT!r}; {other}")
    return manifest


def open_prepared(path: str, encode: Callable[[str], list[int]], max_tokens: int) -> Prepared:
    """Open a prepared folder; the number of records is checked, the digest is taken from the manifest.

    Raises:
      ValueError: another format, another tokenizer, longer segments than `max_tokens`, or records missing.
    """
    folder, manifest, again = Path(path).expanduser(), manifest_of(path), _AGAIN
    if manifest["probe"] != probe(encode):
        raise ValueError(
            f"{folder} was prepared with tokenizer {manifest['tokenizer']!r}, not the one in use; {again} with this one"
        )
    if manifest["max_tokens"] > max_tokens:
        raise ValueError(
            f"{folder} has segments of up to {manifest['max_tokens']} tokens, but max_tokens={max_tokens}; {again} "
            f"with --max_tokens={max_tokens}, or raise max_tokens"
        )
    return Prepared(manifest, _records(folder / RECORDS, manifest["segments"], again))


def _records(path: Path, count: int, again: str) -> Any:
    if not path.is_file():
        raise ValueError(f"{path} is missing; {again}")
    try:
        source: Any = grain.sources.ArrayRecordDataSource([str(path)])
    except RuntimeError as error:
        raise ValueError(f"{path} is broken or cut short {error}; {again}") from error
    if len(source) != count:
        raise ValueError(f"{path} has {len(source)} records, the manifest says {count}; {again}")
    return source


@dataclasses.dataclass(frozen=True)
class Examples:
    """Random access to the examples of a folder that launch/prepare_sft.py wrote."""

    manifest: Mapping[str, Any]
    records: Any  # grain.sources.ArrayRecordDataSource

    def __len__(self) -> int:
        return self.manifest["examples"]

    def __getitem__(self, index: int) -> Example:
        row = json.loads(self.records[index])
        return Example((("user", row["prompt"]),), row["completion"], row["source"])


def open_examples(path: str | Path) -> Examples:
    """Open a folder of examples; the number of records is checked, the digest is taken from the manifest.

    Raises: ValueError for another format, or where records are missing or broken.
    """
    folder, again = Path(path).expanduser(), "run launch/prepare_sft.py again"
    manifest = read_object(folder / MANIFEST, fix=again)
    if manifest.get("format") != EXAMPLES or not isinstance(manifest.get("examples"), int):
        raise ValueError(f"{folder}: format {manifest.get('format')!r:.80}, expected {EXAMPLES!r}; {again}")
    return Examples(manifest, _records(folder / EXAMPLE_RECORDS, manifest["examples"], again))


def require_new(out: str | Path) -> Path:
    """The folder `out`, which is to be written. Raises FileExistsError where something is there."""
    target = Path(out).expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} already exists; give a new folder or remove it first")
    return target


def write_prepared(out: str | Path, documents: Documents, manifest: Mapping[str, Any]) -> None:
    """Write a prepared folder as a whole: it appears complete under its name, or not at all.

    Args:
      manifest: what `open_corpus` counted, the tokenizer's name and probe, max_tokens.
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
    full = {"format": EXAMPLES, **manifest, "examples": len(rows), "sources": counts, "digest": total.hexdigest()}
    _write(out, EXAMPLE_RECORDS, rows, full)


def _write(out: str | Path, name: str, rows: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]) -> None:
    from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

    target = require_new(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
        work = Path(beside, "new")
        work.mkdir()
        # One record a group: training reads single records in random order.
        writer = array_record_module.ArrayRecordWriter(str(work / name), "group_size:1")
        for row in rows:
            writer.write(json.dumps(row, ensure_ascii=False).encode("utf-8"))
        writer.close()
        (work / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        work.rename(target)

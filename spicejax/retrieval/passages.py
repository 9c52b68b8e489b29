"""Passages: documents of any source cut to the length that an encoder reads, in one file by index."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spicejax.data import prepared, records, segments, sources
from spicejax.data.records import Records
from spicejax.types import Passage


def read(reader: sources.Reader, spec: str, *, words: int = 100) -> Iterator[Passage]:
    """Yield the passages of a corpus (see data/corpus.open_corpus for the kinds) without keeping them.

    Args:
      reader: counts what is read and skipped, equal passages too.
      words: longest passage, in words between whitespace; 0 leaves documents as they are given.
    Raises:
      FileNotFoundError: a source that does not exist.
      ValueError: words below 0, or a kind of file that is not known.
    """
    if words < 0:
        raise ValueError(f"words={words}: give the longest passage in words, or 0 for documents as they are")
    ids: set[str] = set()
    contents: set[bytes] = set()
    if prepared.is_prepared(spec):  # its segments, whatever tokenizer cut them
        prepared.manifest_of(spec)
        spec = str(Path(spec, prepared.RECORDS))
    for source in sources.split_mixture(spec):
        for raw in reader.documents(source):
            # Parts of similar length that end with a sentence where they can, not after so many words as in DPR.
            title, whole = composed(raw.title), composed(raw.text)
            parts = segments.cut(whole, str.split, words) if words else [whole.strip()]
            for k, text in enumerate(parts):
                content = hashlib.sha256(f"{title}\0{text}".encode()).digest()[:16]
                if content in contents:
                    reader.skipped["duplicate_passage"] += 1
                    continue
                contents.add(content)
                name = raw.id or hashlib.sha256(whole.encode()).hexdigest()[:16]
                name = f"{name}#{k}" if len(parts) > 1 else name
                if name in ids:  # another text under the same id: the later one gets its content in its name
                    name += f"@{content.hex()}"
                ids.add(name)
                yield Passage(name, title, text)


def composed(text: str) -> str:
    """Compose accents (NFC), so that passages and queries are written alike in every engine."""
    return unicodedata.normalize("NFC", text)


def readable(value: Any) -> str:
    """Return a text that can be encoded, without lone surrogates, which JSON can spell. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value.encode(errors="replace").decode()


def write(file: Path, passages: Iterable[Passage]) -> int:
    """Write `passages`, whole or not at all; return their number."""
    beside = file.with_name(f".{file.name}.writing")
    count = records.write(beside, map(dataclasses.asdict, passages))
    os.replace(beside, file)
    return count


def load(file: Path) -> Records[Passage]:
    """Open what `write` wrote. Raises ValueError where the file is broken."""
    return records.load(file, Passage, "build the index again")

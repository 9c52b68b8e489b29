"""The corpus: documents from any source, cut into segments, in a fixed order."""

from __future__ import annotations

import hashlib
import logging
import time
import unicodedata
from collections.abc import Callable, Mapping
from typing import NamedTuple

from spicejax import interrupt
from spicejax.data import prepared, segments, sources
from spicejax.types import Document

log = logging.getLogger("spicejax")
REPORT_EVERY = 10.0  # seconds between lines on how far the reading has come


class Corpus(NamedTuple):
    """Segments, and where they come from."""

    documents: prepared.Documents
    counts: Mapping[str, int]  # read, kept, segments, and one "skipped/REASON" for each reason that occurred
    digest: str  # sha256 over ids, titles and texts


def open_corpus(
    spec: str,
    *,
    encode: Callable[[str], list[int]],
    max_tokens: int,
    min_chars: int,
    text_field: str = "",
    follow_links: bool = False,
) -> Corpus:
    """Read a corpus and cut it into segments of at most `max_tokens` tokens.

    Raw sources are read and cut now and kept in memory. Of a prepared folder (launch/prepare_corpus.py) each segment is
    read when it is needed.

    Args:
      spec: one source, or several with commas between:
        a .jsonl file ({"id", "title", "text"}; "contents" also holds text, in wiki-18 a title too), a .parquet or
        .tsv file with such columns,
        a folder of .txt and .md files, an .array_record file of such JSON records, a prepared folder, a glob pattern
        of such files, `tfds:NAME[:SPLIT[:FIELD]]`, or `facts[:TABLE[,TABLE]]`, the short documents about well-known
        facts, `sentences[:TABLE[,TABLE]]`, each of these facts by itself, or `problems`, the worked word problems that
        ship with the package.
      encode: the policy's plain tokenizer, text -> ids.
      max_tokens: longest segment, in tokens.
      min_chars: shorter documents are skipped.
      text_field: key or column of the text; "" = text or contents.
      follow_links: read what links out of a folder lead to; otherwise they are skipped.
    Raises:
      FileNotFoundError: a source that does not exist.
      ValueError: no usable document, or a prepared folder that does not fit.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens={max_tokens}: must be at least 1")
    reader = sources.Reader(text_field, follow_links)
    if prepared.is_prepared(spec):
        documents, manifest = prepared.open_corpus(spec, encode, max_tokens)
        counts, digest = manifest.get("counts", {}), manifest["digest"]
    else:
        documents, counts = _read(spec, reader, encode, max_tokens, min_chars)
        digest = prepared.digest(documents)
        skipped = ", ".join(f"{count} {reason}" for reason, count in sorted(reader.skipped.items())) or "none"
        if documents:
            summary = (spec, reader.read, counts["kept"], len(documents), skipped)
            log.info("%s: %d documents read, %d kept, %d segments; skipped: %s", *summary)
        else:
            fix = f"check the path and min_chars={min_chars}{_fields(reader)}"
            if reader.skipped["link_out_of_folder"]:
                fix += "; corpus.follow_links=true (--follow_links) takes what links lead to"
            raise ValueError(f"corpus {spec!r} has no usable document ({reader.read} read; skipped: {skipped}); {fix}")
    return Corpus(documents, counts, digest)


def _fields(reader: sources.Reader) -> str:
    """The keys of a record without text, where there was one."""
    if not reader.keys:
        return ""
    missing = " or ".join(reader.fields)
    return f". Records have {', '.join(reader.keys)} and no {missing}: text_field=KEY says which holds the text"


def _read(
    spec: str, reader: sources.Reader, encode: Callable[[str], list[int]], max_tokens: int, min_chars: int
) -> tuple[list[Document], dict[str, int]]:
    reported = time.monotonic()

    def count(text: str) -> list[int]:
        """Encode; now and then check for a signal and report progress: one document may take a minute."""
        nonlocal reported
        interrupt.glance(f"stopped after {reader.read} documents of {spec}; the same command reads them again")
        if time.monotonic() - reported >= REPORT_EVERY:
            reported = time.monotonic()
            log.info("%s: %d documents read, %d segments", spec, reader.read, len(documents))
        return encode(text)

    documents: list[Document] = []
    texts: set[bytes] = set()
    ids: set[str] = set()
    kept = 0
    for source in sources.split_mixture(spec):
        for raw in reader.documents(source):
            text = raw.text.strip()
            content = hashlib.sha256(text.encode("utf-8")).digest()
            composed = unicodedata.normalize("NFC", text)  # texts that differ in how accents are written are equal
            key = content if composed == text else hashlib.sha256(composed.encode("utf-8")).digest()
            if len(text) < min_chars:
                reader.skipped["too_short"] += 1
                continue
            # Differs: equal texts count once, short ones not at all, long ones as several; SPICE says "segments" alone
            if key in texts:
                reader.skipped["duplicate"] += 1
                continue
            texts.add(key)
            kept += 1
            name = raw.id or content.hex()[:16]
            parts = segments.cut(text, count, max_tokens)
            for k, part in enumerate(parts):
                if len(parts) > 1 and len(part) < min_chars:
                    reader.skipped["short_segment"] += 1
                    continue
                unique = f"{name}#{k}" if len(parts) > 1 else name
                if unique in ids:  # another text under the same id: the later one gets its content in its name
                    unique += "@" + content.hex()[:16]
                ids.add(unique)
                documents.append(Document(unique, part, raw.title))
    skipped = {f"skipped/{reason}": count for reason, count in sorted(reader.skipped.items())}
    return documents, {"read": reader.read, "kept": kept, "segments": len(documents), **skipped}

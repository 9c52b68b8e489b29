"""The corpus: documents from any source, cut into segments, and the one resumable iterator over them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grain
import numpy as np

from spicejax.data import prepared, segments, sources
from spicejax.types import Document

STATE_VERSION = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """Segments in a fixed order, and how they are dealt out: see `iterator`."""

    documents: prepared.Documents
    counts: Mapping[str, int]  # read, kept, segments, and one "skipped/REASON" for each reason that occurred
    digest: str  # sha256 over ids, titles and texts
    seed: int
    batch_size: int  # documents in one step, the same on every process

    @property
    def num_documents(self) -> int:
        """Segments: what the iterator counts as documents."""
        return len(self.documents)

    def iterator(self) -> DocumentIterator:
        """Start at the first batch of epoch 0.

        Every epoch is a new permutation of the corpus. Within one batch no document comes twice: the num_documents
        mod batch_size documents that end a permutation wait for the next one. Only a corpus smaller than the batch
        repeats itself within a batch.
        """
        return DocumentIterator(self)

    def fixed(self, n: int) -> list[Document]:
        """The same n items whenever it is called: the first of a fixed order."""
        order = np.random.default_rng([self.seed, 77]).permutation(len(self.documents))
        return [self.documents[int(i)] for i in order[:n]]


class DocumentIterator:
    """Endless batches of documents, the same on every process. Its state is one integer: the next batch."""

    def __init__(self, corpus: Corpus):
        self._corpus = corpus
        self._next_batch = 0
        source: Any = corpus.documents
        dataset = grain.MapDataset.source(source).seed(corpus.seed).shuffle()
        whole = len(corpus.documents) // corpus.batch_size * corpus.batch_size
        # No threads: a document is read when it is asked for.
        options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        self._items = iter(dataset[: whole or None].repeat().to_iter_dataset(options))

    def __iter__(self) -> Iterator[list[Document]]:
        return self

    def __next__(self) -> list[Document]:
        batch = [next(self._items) for _ in range(self._corpus.batch_size)]
        self._next_batch += 1
        return batch

    def get_state(self) -> dict[str, int | str]:
        """Return the position as a small JSON-able dict."""
        return {"next_batch": self._next_batch, **self._identity()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `get_state` was called.

        Raises:
          ValueError: the state belongs to another corpus, seed or batch size.
        """
        for key, value in self._identity().items():
            if state.get(key) != value:
                raise ValueError(
                    f"the saved corpus position has {key}={state.get(key)!r}, this corpus has {value!r}; resume with "
                    "the same corpus, seed and batch size, or start a new run"
                )
        position = state.get("next_batch")
        if not isinstance(position, int) or position < 0:
            raise ValueError(f"the saved corpus position has next_batch={position!r}; it must be an integer >= 0")
        self._items.set_state({"next_index": position * self._corpus.batch_size})
        self._next_batch = position

    def _identity(self) -> dict[str, int | str]:
        corpus = self._corpus
        return {
            "version": STATE_VERSION,
            "digest": corpus.digest,
            "seed": corpus.seed,
            "global_batch_size": corpus.batch_size,  # its name in saved positions
        }


def open_corpus(
    spec: str,
    *,
    encode: Callable[[str], list[int]],
    max_tokens: int = 5992,
    seed: int = 0,
    batch_size: int,
    min_chars: int = 100,
    max_bytes_per_document: int = 16 * 1024 * 1024,
) -> Corpus:
    """Read a corpus and cut it into segments of at most `max_tokens` tokens.

    Raw sources are read and cut now and kept in memory; a prepared folder (launch/prepare_corpus.py) is opened as it
    is and read as needed.

    Args:
      spec: one source, or several with commas between:
        a .jsonl file ({"id", "title", "text"}; "contents" also holds text), a .parquet file with such columns,
        a folder of .txt and .md files, an .array_record file of such JSON records, a prepared folder, a glob pattern
        of such files, `tfds:NAME[:SPLIT[:FIELD]]`, or `docstrings:PACKAGE[,PACKAGE]`, the docstrings of all
        public names in installed packages, read from the source files.
      encode: the policy's plain tokenizer, text -> ids.
      max_tokens: longest segment, in tokens.
      seed: of the permutations.
      batch_size: documents in one step.
      min_chars: shorter documents are skipped.
      max_bytes_per_document: longer ones are skipped, in bytes of UTF-8.
    Raises:
      FileNotFoundError: a source that does not exist.
      ValueError: no usable document, a number out of range, or a prepared folder that does not fit.
    """
    if batch_size < 1 or max_tokens < 1:
        raise ValueError(f"batch_size={batch_size} and max_tokens={max_tokens} must be >= 1")
    if prepared.is_prepared(spec):
        documents = prepared.open_prepared(spec, encode, max_tokens)
        counts, digest = documents.manifest.get("counts", {}), documents.manifest["digest"]
    else:
        documents, counts = _read(spec, encode, max_tokens, min_chars, max_bytes_per_document)
        digest = prepared.digest(documents)
    if not documents:
        skipped = ", ".join(f"{v} {k.removeprefix('skipped/')}" for k, v in counts.items() if k.startswith("skipped/"))
        raise ValueError(
            f"corpus {spec!r} has no usable document ({counts.get('read', 0)} read; skipped: {skipped or 'none'}); "
            f"check the path and min_chars={min_chars}"
        )
    return Corpus(documents, counts, digest, seed, batch_size)


def _read(
    spec: str, encode: Callable[[str], list[int]], max_tokens: int, min_chars: int, max_bytes: int
) -> tuple[list[Document], dict[str, int]]:
    reader = sources.Reader(max_bytes)
    documents: list[Document] = []
    texts: set[bytes] = set()
    ids: set[str] = set()
    kept = 0
    for source in sources.split_mixture(spec):
        for raw in reader.documents(source):
            text = raw.text.strip()
            content = hashlib.sha256(text.encode("utf-8")).digest()
            if len(text) < min_chars:
                reader.skipped["too_short"] += 1
                continue
            if content in texts:
                reader.skipped["duplicate"] += 1
                continue
            texts.add(content)
            kept += 1
            name = raw.id or content.hex()[:16]
            parts = segments.cut(text, encode, max_tokens)
            for k, part in enumerate(parts):
                if len(parts) > 1 and len(part) < min_chars:
                    reader.skipped["short_segment"] += 1
                    continue
                unique = f"{name}#{k}" if len(parts) > 1 else name
                if unique in ids:  # another text under the same id: the later one gets its content in its name
                    unique += "@" + content.hex()[:16]
                ids.add(unique)
                documents.append(Document(unique, part, raw.title))
    skipped = {f"skipped/{reason}": reader.skipped[reason] for reason in sources.SKIP_REASONS if reader.skipped[reason]}
    return documents, {"read": reader.read, "kept": kept, "segments": len(documents), **skipped}

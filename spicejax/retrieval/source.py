"""Owns which search engine a run has: its configuration, and opening it."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from jax.sharding import Mesh

from spicejax.data import sources
from spicejax.models.encoder import Style
from spicejax.retrieval import encode, index, passages, remote, search
from spicejax.retrieval.search import Search
from spicejax.types import Passage

Engine = Literal["scann", "in_graph", "words", "http"]

_LONGEST = 16 * 2**20  # bytes of a document; a longer one is skipped


@dataclasses.dataclass(frozen=True)
class RetrievalConfig:
    """Where a game's searches go."""

    # scann = ScaNN on the host; in_graph = all vectors on the devices of the run; words = BM25, without an encoder;
    # http = a server (launch/serve_retriever.py, or that of Search-R1, SSP or R1-Searcher)
    engine: Engine = "scann"
    # folder that launch/build_index.py wrote
    index: str = ""
    # words without an index: the passages of this corpus (as --corpus of launch/build_index.py) are counted when the
    # run starts; for small ones
    corpus: str = ""
    # its longest passage, in words; 0 = documents as they are given
    words: int = 100
    # where it is a folder: take what links out of it lead to; false = they are skipped
    follow_links: bool = False
    # what the index was built with: Hugging Face folder of the encoder, or package:NAME; its style the index knows
    encoder: str = ""
    # precision of the encoder
    dtype: Literal["float32", "bfloat16"] = "float32"
    # in_graph: approximate top-k (approx_max_k), faster on a TPU
    approximate: bool = False
    # http: address with the protocol, http://HOST:PORT/retrieve (Search-R1, SSP) or /queries (R1-Searcher)
    url: str = ""
    # http: seconds from the begin of a request to the end of its answer
    timeout: float = 60.0
    # http: how often a request is tried, waiting 1, 2, 4 ... 60 s in between; then the run is saved and stops
    tries: int = 10

    def __post_init__(self) -> None:
        if self.words < 0:
            raise ValueError(f"words={self.words}: give the longest passage in words, or 0 for documents as they are")
        if self.corpus and (self.index or self.engine != "words"):
            raise ValueError(
                f"corpus={self.corpus}: only engine=words without an index counts a corpus; give one alone"
            )
        if self.engine == "words" and self.encoder:
            raise ValueError(f"encoder={self.encoder}: engine=words has none; leave it out")
        if bool(self.url) != (self.engine == "http"):
            raise ValueError(f"engine={self.engine}, url={self.url!r}: engine=http alone has a url, and needs one")
        if self.engine == "http" and (self.index or self.encoder):
            raise ValueError(f"index={self.index!r}, encoder={self.encoder!r}: with engine=http the server has them")
        if self.timeout <= 0 or self.tries < 1:
            raise ValueError(f"timeout={self.timeout}, tries={self.tries}: give seconds above 0, and 1 or more tries")

    def require(self) -> None:
        """Raise ValueError where it does not say enough to open it."""
        if self.engine == "words":
            if not (self.index or self.corpus):
                raise ValueError("retrieval.engine=words: give retrieval.index=FOLDER or retrieval.corpus=CORPUS")
        elif self.engine != "http" and not (self.index and self.encoder):
            raise ValueError(
                f"retrieval.engine={self.engine}: give retrieval.index=FOLDER (launch/build_index.py) and "
                "retrieval.encoder, with which it was built"
            )

    def look(self) -> None:
        """Raise what `open_search` would of what it names, as far as can be seen without opening: files, packages."""
        for package, extra, wanted in (
            ("scann", "retrieval", self.engine == "scann"),
            ("bm25s", "bm25", self.engine == "words"),
        ):
            if wanted and importlib.util.find_spec(package) is None:
                raise ImportError(f'retrieval.engine={self.engine} needs {package}: pip install "spicejax[{extra}]"')
        if self.index:
            index.read_manifest(Path(self.index).expanduser())
        if self.corpus:
            next(self.passages(), None)

    def passages(self) -> Iterator[Passage]:
        """Those of `corpus`, read as they are asked for."""
        reader = sources.Reader(_LONGEST, follow_links=self.follow_links)
        return passages.read(reader, self.corpus, words=self.words)


def open_search(cfg: RetrievalConfig, mesh: Mesh) -> Search:
    """Open the engine, on all hosts together; what it finds is the same on all of them.

    Args:
      mesh: of the run: the encoder stands on it, and the vectors of in_graph.
    Raises: ValueError and FileNotFoundError, with the fix, for an index that is not there, damaged, or of another
      encoder; ImportError for a library that is not installed; remote.ServerError for a server that does not answer.
    """
    cfg.require()
    if cfg.engine == "http":
        return remote.search(cfg.url, timeout=cfg.timeout, tries=cfg.tries)
    if cfg.engine == "words" and cfg.corpus:
        return search.in_memory(list(cfg.passages()))
    found = index.load(cfg.index)
    if cfg.engine == "words":
        return search.by_words(found)
    names = {field.name for field in dataclasses.fields(Style)}
    style = Style(**{name: value for name, value in found.manifest["encoder"].items() if name in names})
    encoder = encode.load(cfg.encoder, style, mesh, dtype=cfg.dtype)
    if cfg.engine == "scann":
        return search.scann(found, encoder)
    return search.in_graph(found, encoder, mesh, approximate=cfg.approximate, dtype=cfg.dtype)

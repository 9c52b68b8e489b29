"""The search engine of a run: its configuration, and opening it."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from jax.sharding import Mesh

from spicejax import outside
from spicejax.data import sources
from spicejax.models.encoder import Style
from spicejax.retrieval import encode, index, passages, remote, search
from spicejax.retrieval.search import Search
from spicejax.types import Passage

_GIVE = {
    "index": "FOLDER (launch/build_index.py)",
    "corpus": "CORPUS",
    "encoder": "FOLDER, with which it was built",
    "url": "http://HOST:PORT/retrieve or /queries",
}


@dataclasses.dataclass(frozen=True)
class RetrievalConfig:
    """Where a game's searches go."""

    # scann = ScaNN on the host; in_graph = all vectors on the devices of the run; words = BM25, without an encoder;
    # http = a server (launch/serve_retriever.py, or that of Search-R1, SSP or R1-Searcher); or a function of yours,
    # module:function or FILE.py:function, which is given this section and returns the search (docs/own_game.md)
    engine: Literal["scann", "in_graph", "words", "http"] | outside.OUTSIDE = "scann"
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
    # precision of the encoder, and of in_graph's vectors
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
        object.__setattr__(self, "engine", outside.name_of(self.engine, "engine", list(_ENGINES)))
        needs = self._engine.needs
        if needs and not any(self._given.keys() <= set(needed) for needed in needs):
            takes = " or ".join(" and ".join(needed) for needed in needs)
            given = ", ".join(f"{name}={value}" for name, value in self._given.items())
            raise ValueError(f"engine={self.engine} takes {takes}, not {given}; leave out the rest")
        if self.timeout <= 0 or self.tries < 1:
            raise ValueError(f"timeout={self.timeout}, tries={self.tries}: give seconds above 0, and 1 or more tries")

    @property
    def _engine(self) -> _Engine:
        return _ENGINES.get(str(self.engine), _OUTSIDE)

    @property
    def _given(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in _GIVE if getattr(self, name)}

    def require(self) -> None:
        """Raise ValueError where it does not say enough to open it."""
        needs = self._engine.needs
        if needs and self._given.keys() not in [set(needed) for needed in needs]:
            each = (" and ".join(f"retrieval.{name}={_GIVE[name]}" for name in needed) for needed in needs)
            raise ValueError(f"retrieval.engine={self.engine}: give {' or '.join(each)}")

    def probe(self) -> None:
        """Raise what `open_search` would about files, packages and code, without opening them."""
        engine = self._engine
        if engine.package and importlib.util.find_spec(engine.package) is None:
            raise ImportError(
                f'retrieval.engine={self.engine} needs {engine.package}: pip install "spicejax[{engine.extra}]"'
            )
        if not engine.needs:
            search.opener(str(self.engine))
        elif self.index:
            index.read_manifest(Path(self.index).expanduser())
        elif self.corpus:
            next(self.passages(), None)

    def passages(self) -> Iterator[Passage]:
        """Read the passages of `corpus` one by one."""
        reader = sources.Reader(follow_links=self.follow_links)
        return passages.read(reader, self.corpus, words=self.words)


def open_search(cfg: RetrievalConfig, mesh: Mesh) -> Search:
    """Open the engine, on all hosts together; what it finds is the same on all of them.

    Args:
      mesh: of the run: the encoder stands on it, and the vectors of in_graph.
    Raises: ValueError and FileNotFoundError, with the fix, for an index that is not there, damaged, or of another
      encoder; ImportError for a library that is not installed; remote.ServerError for a server that does not answer.
    """
    cfg.require()
    return cfg._engine.open(cfg, mesh)


class _Engine(NamedTuple):
    """How an engine is opened, and what it needs."""

    open: Callable[[RetrievalConfig, Mesh], Search]
    needs: tuple[tuple[str, ...], ...] = ()  # fields, of which it takes one group; () = it takes all of them or none
    package: str = ""
    extra: str = ""  # of pyproject.toml, that installs it


def _encoder(cfg: RetrievalConfig, built: index.Index, mesh: Mesh) -> encode.Encoder:
    names = {field.name for field in dataclasses.fields(Style)}
    style = Style(**{name: value for name, value in built.manifest["encoder"].items() if name in names})
    return encode.load(cfg.encoder, style, mesh, dtype=cfg.dtype)


def _scann(cfg: RetrievalConfig, mesh: Mesh) -> Search:
    built = index.load(cfg.index)
    return search.scann(built, _encoder(cfg, built, mesh))


def _in_graph(cfg: RetrievalConfig, mesh: Mesh) -> Search:
    built = index.load(cfg.index)
    encoder = _encoder(cfg, built, mesh)
    return search.in_graph(built, encoder, mesh, approximate=cfg.approximate, dtype=cfg.dtype)


def _words(cfg: RetrievalConfig, mesh: Mesh) -> Search:
    return search.in_memory(list(cfg.passages())) if cfg.corpus else search.by_words(index.load(cfg.index))


_BY_VECTOR = (("index", "encoder"),)
_ENGINES = {
    "scann": _Engine(_scann, _BY_VECTOR, "scann", "retrieval"),
    "in_graph": _Engine(_in_graph, _BY_VECTOR),
    "words": _Engine(_words, (("index",), ("corpus",)), "bm25s", "bm25"),
    "http": _Engine(lambda cfg, mesh: remote.search(cfg.url, timeout=cfg.timeout, tries=cfg.tries), (("url",),)),
}
_OUTSIDE = _Engine(lambda cfg, mesh: search.by_function(str(cfg.engine), cfg))

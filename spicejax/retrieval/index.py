"""The index of a corpus: a folder of passages, their vectors in shards, search structures, and a manifest with hashes.

The same build, run again, repairs a folder: it makes what is missing or damaged and leaves the rest.

Two ScaNN trees over the same vectors find different neighbours, so a resumed run loads the tree that was written. The
manifest holds the encoder and its style (pooling, prefixes, cut, norm). A search with another one is refused: it would
silently find worse passages.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from spicejax import hosts, interrupt
from spicejax.data import sources
from spicejax.data.records import Records
from spicejax.models.files import checked, read_object
from spicejax.retrieval import bm25, nearest, passages
from spicejax.retrieval.encode import Encoder, sha256
from spicejax.retrieval.nearest import Tree
from spicejax.types import Passage

log = logging.getLogger("spicejax")

FORMAT = "spicejax-index-1"
MANIFEST, PASSAGES, TREE, BM25 = "manifest.json", "passages.array_record", "tree", "bm25"
COPY = "manifest.copy.json"  # a build takes it where the manifest is damaged
AGAIN = "run launch/build_index.py again with the same --out, which makes it anew"


class EncoderSpec(TypedDict):
    """Which vectors stand in an index: the encoder's files and its style."""

    fingerprint: str
    dim: int
    pooling: str
    max_tokens: int
    query_prefix: str
    passage_prefix: str
    normalize: bool


class Manifest(TypedDict):
    """How the index was made, and what its files must be."""

    format: str
    corpus: str
    words: int
    follow_links: NotRequired[bool]  # older ones do not say
    shard: int  # passages a file of vectors
    encoder: EncoderSpec
    files: dict[str, str]  # sha256 of every finished file
    counts: NotRequired[dict[str, int]]  # passages, documents read, and one "skipped/REASON" for each that occurred
    tree: NotRequired[Tree]


def spec_of(encoder: Encoder) -> dict[str, Any]:
    """The EncoderSpec of an encoder."""
    return {"fingerprint": encoder.fingerprint, "dim": encoder.dim, **dataclasses.asdict(encoder.style)}


def build(
    out: str | Path,
    corpus: str,
    encoder: Encoder,
    *,
    words: int = 100,
    shard: int = 2**14,
    tree_from: int | None = nearest.TREE_FROM,
    with_bm25: bool = False,
    follow_links: bool = False,
) -> Index:
    """Build the index of a corpus in folder `out`, or continue a build that the same call began.

    Passages that are whole stay: the corpus is not read again, and whether it has changed is not seen.

    Args:
      corpus: as data/corpus.open_corpus.
      words: longest passage, 0 = documents as they are given.
      shard: passages in a file of vectors, the most that a stopped build encodes again.
      tree_from: number of passages from which a ScaNN tree is built too; None = never.
      with_bm25: count words too.
      follow_links: read what links out of a folder lead to; otherwise they are skipped.
    Raises:
      ValueError: `out` was begun otherwise; or the corpus, where it is read, has no usable passage or another content
        than before.
      FileExistsError: `out` is a folder of something else.
      interrupt.Stopped: a signal came while passages were encoded.
    """
    if shard < 1:
        raise ValueError(f"shard={shard}: give at least one passage a file")
    folder = Path(out).expanduser()
    plan = {"format": FORMAT, "corpus": corpus, "words": words, "follow_links": follow_links, "shard": shard}
    plan |= {"encoder": spec_of(encoder)}
    # Process 0 alone reads and writes the folder, on a disk that all processes see.
    hosts.by_first(lambda: _begin(folder, plan, sources.Reader(follow_links=follow_links)))
    stored = passages.load(folder / PASSAGES)
    for k, name in enumerate(_shards(len(stored), shard)):
        if hosts.by_first(lambda name=name: not _damaged(folder, [name])):
            continue
        began, part = time.monotonic(), stored.take(k * shard, min(len(stored), (k + 1) * shard))
        try:
            vectors = encoder.passages(part)
        except interrupt.Stopped:
            progress = f"{k * shard} of {len(stored)} passages are encoded, and stay"
            raise interrupt.Stopped(f"stopped: {progress}; the same command goes on") from None
        hosts.by_first(lambda name=name, vectors=vectors: _write_shard(folder, name, vectors))
        rate = len(part) / (time.monotonic() - began)
        log.info("%d of %d passages encoded, %.0f a second", k * shard + len(part), len(stored), rate)
    hosts.by_first(lambda: _add_structures(folder, tree_from, with_bm25))
    return load(folder)


def _begin(folder: Path, plan: Mapping[str, Any], reader: sources.Reader) -> None:
    """Make the folder and its passages unless they are there."""
    if begun := _earlier_manifest(folder):
        was = {"follow_links": plan["follow_links"], **_flat(begun)}
        for name, value in _flat(plan).items():
            if was[name] != value:
                raise ValueError(
                    f"{folder} was begun with {name}={was[name]!r:.100}, not {value!r:.100}; give that, or another "
                    "--out"
                )
    else:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FileExistsError(f"{folder} exists and is no index; give a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, {**plan, "files": {}})
    if not _damaged(folder, [PASSAGES]):
        log.info("%s: the passages of the earlier build stay; if the corpus has changed, give another --out", folder)
        return
    count = passages.write(folder / PASSAGES, passages.read(reader, plan["corpus"], words=plan["words"]))
    skipped = {f"skipped/{reason}": n for reason, n in sorted(reader.skipped.items())}
    if not count:
        raise ValueError(f"corpus {plan['corpus']!r} has no usable document ({reader.read} read, {skipped})")
    before = read_manifest(folder)["files"].get(PASSAGES)
    if before is not None and before != sha256(folder / PASSAGES):
        raise ValueError(f"the corpus {plan['corpus']!r} is not what {folder} was built from; give another --out")
    _add(folder, [PASSAGES], counts={"passages": count, "read": reader.read, **skipped})


def _earlier_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of an earlier build, from its copy where it is damaged or missing; None without either.

    Raises: ValueError where neither can be read.
    """
    damaged = False
    for name in (MANIFEST, COPY):
        if (folder / name).is_file():
            try:
                manifest = read_manifest(folder, name)
            except ValueError:
                damaged = True
                continue
            if name == COPY:
                log.warning("warning: %s is damaged or missing; its copy takes its place", folder / MANIFEST)
                _write(folder, manifest)
            return manifest
    if damaged:
        raise ValueError(f"{folder}: {MANIFEST} is damaged or of another kind, without a copy; give another --out")
    return None


def _flat(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {**manifest, **manifest["encoder"], "encoder": None}


def _shards(count: int, shard: int) -> list[str]:
    return [f"vectors-{k:05d}.npy" for k in range(-(-count // shard))]


def _write_shard(folder: Path, name: str, vectors: np.ndarray) -> None:
    beside = folder / f".{name}"
    np.save(beside, vectors)
    os.replace(beside, folder / name)
    _add(folder, [name])


def _add_structures(folder: Path, tree_from: int | None, with_bm25: bool) -> None:
    """Build the wanted search structures that are missing or damaged."""
    index = load(folder)
    if tree_from is not None and len(index.passages) >= tree_from and not index.sound(TREE):
        shutil.rmtree(folder / TREE, ignore_errors=True)
        tree = nearest.build_tree(index.vectors(), folder / TREE)
        _add(folder, _inside(folder, TREE), tree=dataclasses.asdict(tree))
    if with_bm25 and not index.sound(BM25):
        shutil.rmtree(folder / BM25, ignore_errors=True)
        bm25.build((index.passages[i] for i in range(len(index.passages))), folder / BM25)
        _add(folder, _inside(folder, BM25))


def _inside(folder: Path, part: str) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in sorted((folder / part).iterdir())]


def _add(folder: Path, names: Iterable[str], **more: Any) -> None:
    """Enter finished files into the manifest."""
    manifest = read_manifest(folder)
    _write(folder, {**manifest, **more, "files": manifest["files"] | {name: sha256(folder / name) for name in names}})


def _write(folder: Path, manifest: Mapping[str, Any]) -> None:
    beside = folder / f".{MANIFEST}"
    for name in (COPY, MANIFEST):
        beside.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(beside, folder / name)


def read_manifest(folder: Path, name: str = MANIFEST) -> dict[str, Any]:
    """The manifest of an index. Raises: FileNotFoundError where there is none; ValueError for another format."""
    if not (folder / name).is_file():
        raise FileNotFoundError(f"{folder} is no index: it has no {name}; make one with launch/build_index.py")
    manifest = read_object(folder / name, fix=AGAIN)
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{folder}: format {manifest.get('format')!r:.80}, expected {FORMAT!r}; build it anew")
    return checked(manifest, Manifest, str(folder / name), AGAIN)


def _damaged(folder: Path, names: Iterable[str]) -> list[str]:
    """The files that are missing, not in the manifest, or of another content than it says."""
    known = read_manifest(folder)["files"]
    return [n for n in names if n not in known or not (folder / n).is_file() or sha256(folder / n) != known[n]]


@dataclasses.dataclass(frozen=True)
class Index:
    """A finished index. Files are compared with their hashes before they are read."""

    folder: Path
    manifest: Mapping[str, Any]
    passages: Records[Passage]

    def require(self, encoder: Encoder) -> None:
        """Raise ValueError where the vectors are of another encoder or style."""
        for name, value in spec_of(encoder).items():
            if (built := self.manifest["encoder"][name]) != value:
                raise ValueError(
                    f"{self.folder} was built with {name}={built!r:.100}, {encoder.source} has {value!r:.100}; "
                    "search with the encoder and style of the index, or build another"
                )

    def vectors(self) -> np.ndarray:
        """The vectors of all passages, float32 [N, D]. Raises ValueError for a damaged shard."""
        vectors = np.empty((len(self.passages), self.manifest["encoder"]["dim"]), np.float32)
        shard = self.manifest["shard"]
        for k, name in enumerate(_shards(len(vectors), shard)):
            self._require_sound([name])
            vectors[k * shard : (k + 1) * shard] = np.load(self.folder / name)
        return vectors

    def has(self, part: str) -> bool:
        """Whether the folder `part` was built."""
        return any(name.startswith(f"{part}/") for name in self.manifest["files"])

    def sound(self, part: str) -> bool:
        return self.has(part) and not _damaged(self.folder, self._files(part))

    def part(self, part: str) -> Path:
        """The folder of a search structure. Raises ValueError where it is damaged."""
        self._require_sound(self._files(part))
        return self.folder / part

    def tree(self) -> Tree:
        return Tree(**self.manifest["tree"])

    def _files(self, part: str) -> list[str]:
        return [name for name in self.manifest["files"] if name.startswith(f"{part}/")]

    def _require_sound(self, names: Iterable[str]) -> None:
        if bad := _damaged(self.folder, names):
            raise ValueError(f"{self.folder / bad[0]} is missing or damaged; {AGAIN}")


def load(path: str | Path) -> Index:
    """Open an index.

    Raises:
      FileNotFoundError: no index there.
      ValueError: another format, a build that was not finished, or damaged passages.
    """
    folder = Path(path).expanduser()
    manifest = read_manifest(folder)
    if _damaged(folder, [PASSAGES]):
        raise ValueError(f"{folder / PASSAGES} is missing or damaged; {AGAIN}")
    index = Index(folder, manifest, passages.load(folder / PASSAGES))
    shards = _shards(len(index.passages), manifest["shard"])
    if rest := [name for name in shards if name not in manifest["files"]]:
        raise ValueError(f"{folder} is not finished: {len(rest)} of {len(shards)} shards to encode; {AGAIN}")
    return index

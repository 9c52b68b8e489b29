"""Raw documents from files, TFDS and the package. Bad content never raises: what is unusable is skipped and counted."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import difflib
import functools
import glob
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from spicejax import interrupt
from spicejax.data import problems
from spicejax.data.facts.documents import documents as facts
from spicejax.models.files import looks_like
from spicejax.text.vocabulary import well_formed

log = logging.getLogger("spicejax")

TEXT_FIELDS = ("text", "contents")
ID_FIELDS = ("id", "_id", "docid")
PACKAGED = ("facts", "sentences", "problems")  # that ship with the package
_TABLES = ("facts", "sentences")  # of which some tables may be named
KINDS = "a corpus is a .jsonl, .tsv, .parquet or .array_record file, or a folder of text"
TEXT_SUFFIXES = (".txt", ".md")
# Most characters of one kind in a row: letters and digits, spaces, or marks. A tokenizer takes such a run as one word,
# in seconds a megabyte; no text has one that long (Chinese has its marks), data inside a text may.
MAX_RUN = 100_000
_TITLED = re.compile(r'"([^\n]*)"[ \t]*\r?\n')


@dataclasses.dataclass(frozen=True)
class Raw:
    """One document as read. `id` is "" where the source has none."""

    text: str
    id: str = ""
    title: str = ""


@dataclasses.dataclass
class Reader:
    """Reads sources one after the other and counts what it skips: `read` = documents kept + skipped."""

    text_field: str = ""  # where records keep their text, if not in one of TEXT_FIELDS
    follow_links: bool = False  # out of a folder too: a corpus from elsewhere may point at files of yours
    max_bytes: int = 16 * 2**20  # of a document in UTF-8; larger ones are skipped
    read: int = 0
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)
    keys: tuple[str, ...] = ()  # those of the first record without text

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that may hold a record's text."""
        return (self.text_field,) if self.text_field else TEXT_FIELDS

    @property
    def _longest(self) -> int:
        """Of a line: JSON may write a byte as six, and there are other fields."""
        return 8 * self.max_bytes + 2**20

    def skip(self, reason: str) -> None:
        self.read += 1
        self.skipped[reason] += 1

    def documents(self, spec: str) -> Iterator[Raw]:
        """Yield the usable documents of one source (see corpus.open_corpus for the kinds).

        Raises:
          FileNotFoundError: no such path or package.
          ValueError: a kind of file that is not known.
          interrupt.Stopped: a signal came.
        """
        for raw in self._documents(spec):
            interrupt.glance(f"stopped after {self.read} documents of {spec}; the same command reads them again")
            yield raw

    def _documents(self, spec: str) -> Iterator[Raw]:
        name, colon, chosen = spec.partition(":")
        if name in _TABLES:
            single = name == "sentences"
            for document in facts(chosen.split(","), single=single) if colon else facts(single=single):
                yield from self._text(document.text, document.id, document.title)
        elif spec == "problems":
            for document in problems.documents():
                yield from self._text(document.text, document.id, document.title)
        elif spec.startswith("tfds:"):
            yield from self._tfds(spec.removeprefix("tfds:"))
        else:
            paths = _expand(spec)
            log.info("reading %s", spec)
            for path in paths:
                yield from self._path(path)

    def _path(self, path: Path) -> Iterator[Raw]:
        if path.is_dir():
            yield from self._folder(path)
        elif not path.is_file():
            raise ValueError(f"{path} is no regular file (a pipe or device?); copy its content to a file first")
        elif path.suffix != ".parquet" and ".array_record" not in path.name and (other := looks_like(path)):
            raise ValueError(f"{path} looks like {other}; {KINDS}")
        elif path.suffix in (".jsonl", ".ndjson"):
            yield from self._jsonl(path)
        elif path.suffix == ".tsv":
            yield from self._tsv(path)
        elif path.suffix == ".parquet":
            yield from self._parquet(path)
        elif ".array_record" in path.name:
            yield from self._array_record(path)
        elif path.suffix in TEXT_SUFFIXES:
            yield from self._text_file(path, path.parent)
        else:
            raise ValueError(f"{path}: unknown kind of corpus; {KINDS}")

    def _folder(self, path: Path) -> Iterator[Raw]:
        if (path / "config.json").is_file() and any(path.glob("*.safetensors")):
            raise ValueError(f"folder {path} holds a model, which model.path takes; {KINDS}")
        skip = None if self.follow_links else functools.partial(self.skip, "link_out_of_folder")
        skipped = self.read
        records = sorted(_walk(path, (".array_record",), skip, deep=False))
        linked = self.read > skipped  # where shards were left out, the README beside them is not the corpus
        texts = [] if records else list(_walk(path, TEXT_SUFFIXES, skip))
        files = records or ([] if linked else texts)
        if not files and self.read == skipped:
            other = next((suffix for suffix in (".jsonl", ".ndjson", ".parquet") if any(path.glob(f"*{suffix}"))), "")
            raise FileNotFoundError(
                f"folder {path} holds no {', '.join(TEXT_SUFFIXES)} and no .array_record files"
                + (f"; '{path}/*{other}' takes its {other} files" if other else "")
            )
        for file in files:
            yield from self._array_record(file) if records else self._text_file(file, path)

    def _jsonl(self, path: Path) -> Iterator[Raw]:
        # Binary lines end at "\n" alone; str.splitlines would also cut at U+2028 inside a string.
        with path.open("rb") as file:
            while line := file.readline(self._longest):
                if len(line) == self._longest and line[-1:] != b"\n":
                    self.skip("too_large")
                    while line and line[-1:] != b"\n":
                        line = file.readline(2**20)
                elif line.strip():
                    yield from self._json(line)

    def _json(self, data: bytes) -> Iterator[Raw]:
        try:
            record = json.loads(data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            self.skip("invalid_utf8")
        except (ValueError, RecursionError):
            self.skip("bad_json")
        else:
            if isinstance(record, dict):
                yield from self._record(record)
            else:
                self.skip("bad_json")

    def _record(self, record: Mapping[str, Any], fields: tuple[str, ...] = ()) -> Iterator[Raw]:
        text, name, title = (_first(record, names) for names in (fields or self.fields, ID_FIELDS, ("title",)))
        if text is record.get("contents") and isinstance(text, str) and not title:
            title, text = titled(text) or ("", text)
        if isinstance(text, bytes):
            yield from self._bytes(text, _word(name), _word(title))
        elif isinstance(text, str):
            yield from self._text(text, _word(name), _word(title))
        else:
            self.skip("missing_text")
            self.keys = self.keys or tuple(str(key)[:40] for key in record)[:12]

    def _bytes(self, data: bytes, name: str, title: str) -> Iterator[Raw]:
        if len(data) > self.max_bytes:
            self.skip("too_large")
        elif b"\0" in data:
            self.skip("binary")
        else:
            # Invalid UTF-8 becomes lone surrogates, which `_unusable` finds.
            yield from self._text(data.decode("utf-8-sig", "surrogateescape"), name, title)

    def _text(self, text: str, name: str, title: str) -> Iterator[Raw]:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if reason := _unusable(text, self.max_bytes):
            self.skip(reason)
        else:
            self.read += 1
            yield Raw(text, well_formed(name), well_formed(title))

    def _text_file(self, file: Path, root: Path) -> Iterator[Raw]:
        try:
            with file.open("rb") as opened:
                data = opened.read(self.max_bytes + 1)  # one more than `_bytes` takes
        except OSError:
            self.skip("unreadable")
        else:
            yield from self._bytes(data, file.relative_to(root).as_posix(), file.stem)

    def _tsv(self, path: Path) -> Iterator[Raw]:
        """Lines of a table with a header (DPR's psgs_w100.tsv), or of an id and a text (R1-Searcher's)."""
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            names = file.readline(self._longest).rstrip("\r\n").split("\t")
            if set(names) & set(self.fields):
                for line in self._bounded(file):
                    yield from self._record(dict(zip(names, _cells(line.rstrip("\r\n")), strict=False)))
                return
            if len(names) != 2:
                raise ValueError(
                    f"{path} begins with {', '.join(names)[:80]!r}: give a header with {' or '.join(self.fields)}, or "
                    "lines of an id, a tab and a text"
                )
            file.seek(0)
            for line in self._bounded(file):
                name, _, text = line.rstrip("\r\n").partition("\t")
                # R1-Searcher's title ends at three spaces, of which its text has none
                title, between, rest = text.partition("   ")
                several = bool(between) and "  " not in rest.strip()
                yield from self._text(rest if several else text, name, title if several else "")

    def _bounded(self, file: TextIO) -> Iterator[str]:
        """The lines of a table; one that no document has room in is skipped, and never held as a whole."""
        while line := file.readline(self._longest):
            if len(line) < self._longest or line[-1] in "\r\n":
                yield line
                continue
            self.skip("too_large")
            while line and line[-1] not in "\r\n":
                line = file.readline(2**20)

    def _parquet(self, path: Path) -> Iterator[Raw]:
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise ImportError('reading .parquet needs pyarrow: pip install "spicejax[parquet]"') from error
        with _named(path):
            table = parquet.ParquetFile(path)
        columns = [c for c in (*ID_FIELDS, "title", *self.fields) if c in table.schema_arrow.names]
        if not set(columns) & set(self.fields):
            raise ValueError(
                f"{path} has no column {' or '.join(self.fields)}, but {', '.join(table.schema_arrow.names)}; "
                "text_field=NAME says which holds the text"
            )
        batches = table.iter_batches(batch_size=256, columns=columns)
        while True:
            with _named(path):
                batch = next(batches, None)
            if batch is None:
                return
            for row in range(batch.num_rows):
                try:
                    record = {c: batch.column(c)[row].as_py() for c in columns}
                except UnicodeDecodeError:
                    self.skip("invalid_utf8")
                else:
                    yield from self._record(record)

    def _array_record(self, path: Path) -> Iterator[Raw]:
        from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

        reader = array_record_module.ArrayRecordReader(str(path))
        if not reader.ok():
            raise ValueError(f"{path} is no ArrayRecord file, or a truncated one; write it again")
        for i in range(reader.num_records()):
            yield from self._json(reader.read([i])[0])
        reader.close()

    def _tfds(self, spec: str) -> Iterator[Raw]:
        name, split, field = (*spec.split(":"), "", "")[:3]
        try:
            import tensorflow_datasets as tfds  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError('tfds: sources need tensorflow-datasets: pip install "spicejax[tfds]"') from error
        try:
            source: Any = tfds.data_source(name, split=split or "train")
        except tfds.core.DatasetNotFoundError as error:
            known = tfds.list_builders(with_community_datasets=False)
            near = difflib.get_close_matches(name.partition("/")[0], known, 5, 0.0)
            raise ValueError(
                f"tfds:{name}: TensorFlow Datasets has no such data set; the nearest names are {', '.join(near)}"
            ) from error
        except ValueError as error:  # it was prepared as TFRecord, which has no random access
            reason = " ".join(str(error).split())
            raise ValueError(f"tfds:{name}: {reason}; TFDS_DATA_DIR=FOLDER names one for a copy") from error
        for i in range(len(source)):
            yield from self._record(source[i], (field,) if field else ())


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file of Parquet that pyarrow cannot read, whose errors name none and are of all kinds."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        other = looks_like(path, "Parquet")
        why = " ".join(str(error).split())
        message = f"{path} looks like {other}" if other else f"{path}: {why:.300}; write or download it again"
        raise ValueError(message) from error


def titled(contents: str) -> tuple[str, str] | None:
    """Split contents as in Search-R1's wiki-18 (a title in quotation marks, a line end, the text) into (title, text).

    Returns None for contents of another form.
    """
    match = _TITLED.match(contents)
    return (match[1].strip(), contents[match.end() :]) if match else None


def split_mixture(spec: str) -> list[str]:
    """Split "a.jsonl,facts:moons,rivers,b/" into its sources; bare names after facts: and sentences: belong to it."""
    if os.path.exists(spec):
        return [spec]
    parts: list[str] = []
    for part in filter(None, (p.strip() for p in spec.split(","))):
        if (
            parts
            and parts[-1].startswith(tuple(f"{name}:" for name in _TABLES))
            and part.isidentifier()
            and part not in PACKAGED
        ):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    if not parts:
        raise ValueError(
            "the corpus source is empty; name a .jsonl, .parquet, folder, tfds:NAME, facts, sentences or problems"
        )
    return parts


def _expand(spec: str) -> list[Path]:
    path = Path(spec).expanduser()
    if path.exists():
        return [path]
    paths = sorted(glob.glob(str(path))) if glob.has_magic(spec) else []
    if not paths:
        raise FileNotFoundError(f"corpus source {spec!r} does not exist; give an existing file, folder or glob pattern")
    return [Path(p) for p in paths]


def _cells(line: str) -> list[str]:
    """Read the cells of a line; quotation marks that are not those of a table stay as they are."""
    try:
        return next(csv.reader([line], delimiter="\t", strict=True), [])
    except csv.Error:
        return line.split("\t")


def _walk(
    root: Path, suffixes: tuple[str, ...], skip: Callable[[], None] | None = None, *, deep: bool = True
) -> Iterator[Path]:
    """Yield files below `root` in sorted order. Links to folders are followed once each, so loops end.

    Args:
      suffixes: of the files; ".array_record" also within a name, as its shards have it.
      skip: called for each link that leads out of `root`, which is left out; None = such links are followed.
      deep: folders within it too.
    """
    home, visited = os.path.realpath(root), set[str]()
    paths: list[Path] = []

    def stays(path: Path) -> bool:
        if skip is None or not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(home):
            return True
        skip()
        return False

    for folder, folders, names in os.walk(root, followlinks=True):
        if os.path.realpath(folder) in visited:
            folders.clear()
            continue
        visited.add(os.path.realpath(folder))
        folders[:] = sorted(name for name in folders if deep and stays(Path(folder, name)))
        inside = (Path(folder, name) for name in names)
        paths += [path for path in inside if _has_suffix(path, suffixes) and stays(path)]
    yield from sorted(path for path in paths if path.is_file() or not path.exists())  # no pipes, no devices


def _has_suffix(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.suffix.lower() in suffixes or (".array_record" in suffixes and ".array_record" in path.name)


def _unusable(text: str, max_bytes: int) -> str:
    if not text.strip():
        return "empty"
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return "invalid_utf8"
    if size > max_bytes:
        return "too_large"
    if len(text) > MAX_RUN and any(len(run[0]) > MAX_RUN for run in re.finditer(r"\w+|\s+|[^\w\s]+", text)):
        return "long_word"
    control = sum(map(text.count, map(chr, [*range(9), *range(14, 32), 127])))
    return "binary" if "\0" in text or control > 0.1 * len(text) else ""


def _first(record: Mapping[str, Any], fields: tuple[str, ...]) -> Any:
    return next((record[f] for f in fields if record.get(f) is not None), None)


def _word(value: Any) -> str:
    value = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return str(value) if isinstance(value, str | int) else ""

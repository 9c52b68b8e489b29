"""Raw documents from files and packages, read without ever crashing on their content: what is unusable is counted."""

from __future__ import annotations

import ast
import dataclasses
import glob
import importlib.util
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spicejax.text.vocabulary import well_formed

TEXT_FIELDS = ("text", "contents")
ID_FIELDS = ("id", "_id", "docid")
TEXT_SUFFIXES = (".txt", ".md")
MIN_DOCSTRING_CHARS = 300
SKIPPED_FOLDERS = frozenset(["tests", "test", "testing", "benchmarks", "__pycache__"])

SKIP_REASONS = (
    "bad_json",  # a line that is no JSON object
    "missing_text",  # no text field, or one that is no string
    "invalid_utf8",  # bytes that are no UTF-8, or a lone surrogate
    "binary",  # NUL bytes or mostly control characters
    "too_large",  # over max_bytes_per_document
    "unreadable",  # a file that could not be opened
    "empty",  # nothing but whitespace
    "too_short",  # under min_chars
    "duplicate",  # the same text was read before
    "short_segment",  # the rest of a cut document, under min_chars (counted in segments, not documents)
)


@dataclasses.dataclass(frozen=True)
class Raw:
    """One document as read. `id` is "" where the source has none."""

    text: str
    id: str = ""
    title: str = ""


@dataclasses.dataclass
class Reader:
    """Reads sources one after the other and counts what it skips: `read` = documents kept + skipped."""

    max_bytes: int
    read: int = 0
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)

    def skip(self, reason: str) -> None:
        self.read += 1
        self.skipped[reason] += 1

    def documents(self, spec: str) -> Iterator[Raw]:
        """Yield the usable documents of one source (see corpus.open_corpus for the kinds).

        Raises:
          FileNotFoundError: no such path or package.
          ValueError: a kind of file that is not known.
        """
        if spec.startswith("docstrings:"):
            for package in _names(spec.removeprefix("docstrings:")):
                yield from self._docstrings(package)
        elif spec.startswith("tfds:"):
            yield from self._tfds(spec.removeprefix("tfds:"))
        else:
            for path in _expand(spec):
                yield from self._path(path)

    def _path(self, path: Path) -> Iterator[Raw]:
        if path.is_dir():
            records = sorted(path.glob("*.array_record*"))
            files = records or list(_walk(path, TEXT_SUFFIXES))
            if not files:
                raise FileNotFoundError(f"folder {path} holds no {', '.join(TEXT_SUFFIXES)} and no .array_record files")
            for file in files:
                yield from self._array_record(file) if records else self._text_file(file, path)
        elif path.suffix in (".jsonl", ".ndjson"):
            yield from self._jsonl(path)
        elif path.suffix == ".parquet":
            yield from self._parquet(path)
        elif ".array_record" in path.name:
            yield from self._array_record(path)
        elif path.suffix in TEXT_SUFFIXES:
            yield from self._text_file(path, path.parent)
        else:
            raise ValueError(
                f"{path}: unknown kind of corpus; give .jsonl, .parquet, .array_record or a folder of text"
            )

    def _jsonl(self, path: Path) -> Iterator[Raw]:
        # Binary lines end at "\n" alone; str.splitlines would also cut at U+2028 inside a string.
        longest = 6 * self.max_bytes + 65536  # \uXXXX escapes take six bytes a character; the text is measured later
        with path.open("rb") as file:
            while line := file.readline(longest + 1):
                if len(line) > longest:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(1 << 20)
                    self.skip("too_large")
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

    def _record(self, record: Mapping[str, Any], field: str = "") -> Iterator[Raw]:
        text = next((record[f] for f in ((field,) if field else TEXT_FIELDS) if record.get(f) is not None), None)
        if isinstance(text, bytes):
            yield from self._bytes(text, _word(record, ID_FIELDS), _word(record, ("title",)))
        elif isinstance(text, str):
            yield from self._text(text, _word(record, ID_FIELDS), _word(record, ("title",)))
        else:
            self.skip("missing_text")

    def _bytes(self, data: bytes, name: str, title: str) -> Iterator[Raw]:
        if len(data) > self.max_bytes:
            self.skip("too_large")
        elif b"\0" in data:
            self.skip("binary")
        else:
            try:
                text = data.decode("utf-8-sig")
            except UnicodeDecodeError:
                self.skip("invalid_utf8")
            else:
                yield from self._text(text, name, title)

    def _text(self, text: str, name: str, title: str) -> Iterator[Raw]:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        reason = _unusable(text, self.max_bytes)
        if reason:
            self.skip(reason)
            return
        self.read += 1
        yield Raw(text, well_formed(name), well_formed(title))

    def _text_file(self, file: Path, root: Path) -> Iterator[Raw]:
        try:
            size = file.stat().st_size
            data = file.read_bytes() if size <= self.max_bytes else b""
        except OSError:
            self.skip("unreadable")
            return
        if size > self.max_bytes:
            self.skip("too_large")
        else:
            yield from self._bytes(data, file.relative_to(root).as_posix(), file.stem)

    def _parquet(self, path: Path) -> Iterator[Raw]:
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise ImportError('reading .parquet needs pyarrow: pip install "spicejax[parquet]"') from error
        table = parquet.ParquetFile(path)
        columns = [c for c in (*ID_FIELDS, "title", *TEXT_FIELDS) if c in table.schema_arrow.names]
        if not set(columns) & set(TEXT_FIELDS):
            raise ValueError(f"{path} has columns {table.schema_arrow.names}; one of {TEXT_FIELDS} must hold the text")
        for batch in table.iter_batches(batch_size=256, columns=columns):
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
            data = reader.read([i])[0]
            if len(data) > self.max_bytes:
                self.skip("too_large")
            else:
                yield from self._json(data)
        reader.close()

    def _tfds(self, spec: str) -> Iterator[Raw]:
        name, split, field = (*spec.split(":"), "", "")[:3]
        try:
            import tensorflow_datasets as tfds  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError('tfds: sources need tensorflow-datasets: pip install "spicejax[tfds]"') from error
        source = tfds.data_source(name, split=split or "train")
        for i in range(len(source)):
            record = {
                k: v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v for k, v in source[i].items()
            }
            yield from self._record(record, field)

    def _docstrings(self, package: str) -> Iterator[Raw]:
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
        if spec is None:
            raise FileNotFoundError(f"docstrings:{package}: no installed package {package!r}; pip install it first")
        roots = [Path(folder) for folder in spec.submodule_search_locations or ()]
        single = [Path(spec.origin)] if not roots and spec.origin and spec.origin.endswith(".py") else []
        for root, file in [(r, f) for r in roots for f in _walk(r, (".py",))] + [(f.parent, f) for f in single]:
            parts = list(file.relative_to(root).with_suffix("").parts)
            if SKIPPED_FOLDERS & set(parts) or parts[-1].startswith("test_") or parts[-1] == "conftest":
                continue
            inner = [] if single else [p for p in parts if p != "__init__"]
            for name, text in _module_docstrings(file, ".".join([package, *inner])):
                if len(text) >= MIN_DOCSTRING_CHARS:
                    yield from self._text(text, f"docstrings/{name}", name)


def split_mixture(spec: str) -> list[str]:
    """Split "a.jsonl,docstrings:numpy,sympy,b/" into its sources: bare names after docstrings: belong to it."""
    if os.path.exists(spec):
        return [spec]
    parts: list[str] = []
    for part in filter(None, (p.strip() for p in spec.split(","))):
        if parts and parts[-1].startswith("docstrings:") and part.isidentifier():
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    if not parts:
        raise ValueError("the corpus source is empty; name a .jsonl, .parquet, folder, tfds:NAME or docstrings:PACKAGE")
    return parts


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names:
        raise ValueError("docstrings: needs package names, for example docstrings:numpy,sympy")
    return names


def _expand(spec: str) -> list[Path]:
    path = Path(spec).expanduser()
    if path.exists():
        return [path]
    found = sorted(glob.glob(str(path))) if glob.has_magic(spec) else []
    if not found:
        raise FileNotFoundError(f"corpus source {spec!r} does not exist; give an existing file, folder or glob pattern")
    return [Path(p) for p in found]


def _walk(root: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield files below `root` in sorted order. Links to folders are followed once each, so loops end."""
    seen: set[tuple[int, int]] = set()

    def visit(folder: Path) -> Iterator[Path]:
        try:
            status = folder.stat()
            entries = sorted(folder.iterdir(), key=lambda p: p.name)
        except OSError:
            return
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        for entry in entries:
            if entry.is_dir():
                yield from visit(entry)
            elif entry.suffix.lower() in suffixes and (entry.is_file() or not entry.exists()):  # no pipes, no devices
                yield entry

    yield from visit(root)


def _module_docstrings(file: Path, module: str) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, docstring) of the public definitions of a file, in the order they are written."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's invalid escapes
            tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return

    def visit(
        node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str
    ) -> Iterator[tuple[str, str]]:
        text = ast.get_docstring(node)
        if text:
            yield name, text
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for child in node.body:
                if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and child.name[0] != "_":
                    yield from visit(child, f"{name}.{child.name}")

    yield from visit(tree, module)


def _unusable(text: str, max_bytes: int) -> str:
    if not text.strip():
        return "empty"
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return "invalid_utf8"
    if size > max_bytes:
        return "too_large"
    control = sum(map(text.count, map(chr, [*range(9), *range(14, 32), 127])))
    return "binary" if "\0" in text or control > 0.1 * len(text) else ""


def _word(record: Mapping[str, Any], fields: tuple[str, ...]) -> str:
    value = next((record[f] for f in fields if record.get(f) is not None), "")
    return str(value) if isinstance(value, str | int) else ""

"""Items in a file of JSON records (ArrayRecord), by index."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import grain

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Records(Generic[T]):
    """Random access to the items of a file; each is read when it is asked for."""

    source: Any  # grain.sources.ArrayRecordDataSource
    make: Callable[..., T]  # an item of a record's fields

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> T:
        return self.make(**json.loads(self.source[index]))

    def take(self, start: int, stop: int) -> list[T]:
        """Items start..stop-1, read at once."""
        return [self.make(**json.loads(record)) for record in self.source.__getitems__(range(start, stop))]


def load(file: Path, make: Callable[..., T], fix: str) -> Records[T]:
    """Open a file. Raises ValueError, which ends with `fix`, where it is missing or broken."""
    try:
        return Records(grain.sources.ArrayRecordDataSource([str(file)]), make)
    except (RuntimeError, FileNotFoundError) as error:
        raise ValueError(f"{file} is missing, broken or cut short ({error}); {fix}") from error


def write(file: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows in order; return their number."""
    from array_record.python import array_record_module  # pyright: ignore[reportAttributeAccessIssue]

    count = 0
    # One record a group: single records are read in random order.
    writer = array_record_module.ArrayRecordWriter(str(file), "group_size:1")
    for row in rows:
        writer.write(json.dumps(row, ensure_ascii=False).encode("utf-8"))
        count += 1
    writer.close()
    return count

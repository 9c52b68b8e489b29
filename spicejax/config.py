"""Trees of frozen dataclasses as configuration: dotted overrides, --help, strict JSON, differences. No concrete config.

Fields are bool, int, float, str, Literal, tuple[X, ...], tuple[X, Y], dict[str, str], `X | None`, `Literal[...] |
OUTSIDE`, which keeps a function by its name (outside.py), or sections:
`Section`, `Section | None`, and open ones, which take a dataclass of anyone's: the key of a ChessConfig is `chess`, not
the field's name. Of a class from outside the package, JSON says which it was beside it: `"game": "my.py:ChessConfig"`.

Tried for the command line: tyro 1.0. It knows no `model.lora.rank=16` while `lora` is unset, no `16,64` for a tuple, no
`1e3` for an int, not both of `--flag` and `flag=false`, and answers with a box of lines instead of an exception.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_origin, get_type_hints

from spicejax.fields import ConfigError, allowed, comments, sections_of, take, unknown_key

T = TypeVar("T")

ABSENT = "<absent>"  # stands in `diff` for a field that one side does not have
OPEN = "open"  # metadata of an open section's field: an Open


class Open(NamedTuple):
    """What may stand in an open section."""

    find: Callable[[Mapping[str, Any]], type]  # the class of the section that JSON has; raises ConfigError
    keys: tuple[str, ...]  # that are known beforehand


def key_of(cls: type) -> str:
    """The key of an open section of this class."""
    return cls.__name__.removesuffix("Config").lower()


def outside(cls: type) -> str:
    """`module:Class` or `FILE.py:Class` of a class from outside the package; empty for one of ours."""
    module = cls.__module__
    place = Path(module).name if module.endswith(".py") else module
    return "" if module.partition(".")[0] == __package__ else f"{place}:{cls.__qualname__}"


def parse(default: T, argv: Sequence[str]) -> T:
    """Return `default` with the overrides of `argv`: `a.b=c`, `--a.b=c` or `--a.b c`; the last of a key wins.

    Raises ConfigError for a wrong key or value.
    """
    return override(default, _pairs(argv, dict(leaves(default))))


def _pairs(argv: Sequence[str], known: dict[str, Any]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    words = list(argv)
    while words:
        key, equals, text = (word := words.pop(0)).removeprefix("--").partition("=")
        key = key.replace("-", "_")
        if not equals and word.startswith("--") and words and not words[0].startswith("--"):
            text = words.pop(0)
        elif not equals:
            if known.get(key, bool) is not bool:
                raise ConfigError(f"`{word}` has no value: write {word}=value")
            text = "true"
        pairs[key] = text
    return pairs


def override(default: T, values: dict[str, str]) -> T:
    """Return `default` with dotted fields replaced by parsed text. Validation runs once per section, after all of it.

    Raises ConfigError on an unknown key (with the nearest), on a bad value and where a section's own check refuses.
    """
    data, known = to_json(default), dict(leaves(default))
    for key, text in values.items():
        *path, last = key.split(".")
        hint = known.get(key, known.get(".".join([*path, "NAME"])))
        if hint is None:
            head = key.partition(".")[0]
            elsewhere = f"unknown field `{key}`; start from a configuration with a section `{head}`"
            raise ConfigError(elsewhere if head in _closed(default) else unknown_key(key, known))
        node = data
        for depth, name in enumerate(path, 1):
            if node[name] is None:  # an unset section
                node[name] = to_json(sections_of(known[".".join(path[:depth])])[0]())
            node = node[name]
        node[last] = take(hint, text, key, text=True)
    return from_json(default, data)


_hints = functools.cache(get_type_hints)


def _keys(shape: Any, data: Mapping[str, Any] | None = None) -> dict[str, tuple[str, Any]]:
    """Key -> (field, type) of a configuration, or of a class, whose open sections are those of `data`."""
    keys: dict[str, tuple[str, Any]] = {}
    for field in dataclasses.fields(shape):
        name, key, hint = field.name, field.name, _hints(shape if isinstance(shape, type) else type(shape))[field.name]
        if OPEN in field.metadata:
            hint = field.metadata[OPEN].find(data or {}) if isinstance(shape, type) else type(getattr(shape, name))
            key = key_of(hint)
        if key in keys or key in (other.name for other in dataclasses.fields(shape) if other is not field):
            raise ConfigError(f"{hint.__name__}: `{key}` would name two fields; give the class another name")
        keys[key] = name, hint
    return keys


def _closed(config: Any) -> set[str]:
    """Keys of sections that another configuration has in an open one."""
    known = (key for field in dataclasses.fields(config) if OPEN in field.metadata for key in field.metadata[OPEN].keys)
    return set(known) - _keys(config).keys()


def _items(config: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """(key, field, type, value) of each field of a section."""
    for key, (name, hint) in _keys(config).items():
        yield key, name, hint, getattr(config, name)


def to_json(config: Any) -> Any:
    """The tree as plain dicts and lists."""
    if not dataclasses.is_dataclass(config):
        return json.loads(json.dumps(config))
    data = {}
    for key, name, _, value in _items(config):
        if key != name and (where := outside(type(value))):
            data[name] = where
        try:
            data[key] = to_json(value)
        except TypeError as error:
            raise ConfigError(
                f"{type(config).__name__}.{name}={value!r:.80}: {error}; take a tuple or a text"
            ) from error
    return data


def from_json(shape: type[T] | T, data: dict[str, Any], prefix: str = "") -> T:
    """Build a configuration from the dict of `to_json`: every field and no other, else ConfigError names the first
    wrong one.

    Args:
      shape: its class; or a configuration, whose open sections it has.
    """
    cls: type[T] = shape if isinstance(shape, type) else type(shape)
    keys, values = _keys(shape, data), {}
    records = {name for key, (name, _) in keys.items() if key != name}
    for key, value in data.items():
        if key in records:
            continue
        name, hint = keys.get(key, (None, None))
        if name is None or name in values:
            raise ConfigError(unknown_key(prefix + key, [prefix + known for known in keys if known != key]))
        path, inner = prefix + key, sections_of(hint) if isinstance(value, dict) else []
        values[name] = from_json(inner[0], value, f"{path}.") if inner else take(hint, value, path)
    for key, (name, hint) in keys.items():
        if name not in values:
            raise ConfigError(f"missing field `{prefix}{key}` of {cls.__name__}; it takes {allowed(hint)}")
    try:
        return cls(**values)
    except ValueError as error:
        told = str(error).startswith(prefix)  # a game names its fields with their section
        raise ConfigError(str(error) if told else f"{prefix.rstrip('.')}: {error}") from error


def readable(shape: Any, data: dict[str, Any], *, unknown: bool = False) -> dict[str, Any]:
    """What `from_json` can read of JSON that another version wrote: its known fields, the others by default.

    Two entries of a field's `metadata` speak of older versions: `formerly`, a name that the field had; `before`, the
    value that they ran with where they had no such field and its default is another.

    Args:
      unknown: keep the fields that this version does not have.
    """
    found = dict(data) if unknown else {}
    for key, (name, hint) in _keys(shape, data).items():
        field, inner = shape.__dataclass_fields__[name], sections_of(hint)
        written = key if key in data else field.metadata.get("formerly")
        if written in data:
            value = data[written]
            found.pop(written, None)
            nested = inner and isinstance(value, dict)
            found[key] = readable(inner[0], value, unknown=unknown) if nested else value
        elif "before" in field.metadata:
            found[key] = to_json(field.metadata["before"])
        elif field.default is not dataclasses.MISSING:
            found[key] = to_json(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            found[key] = to_json(field.default_factory())
    return found


def diff(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """(path, value in a, value in b) of every field in which two configs, or their JSON dicts, differ."""
    old, new = (flat(x if isinstance(x, dict) else to_json(x)) for x in (a, b))
    pairs = ((path, old.get(path, ABSENT), new.get(path, ABSENT)) for path in {**old, **new})
    return [(path, x, y) for path, x, y in pairs if repr(x) != repr(y)]  # True == 1 == 1.0


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted path -> value of every field of JSON."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def walk(config: Any, prefix: str = "") -> Iterator[tuple[str, type, list[tuple[str, Any, Any, str]]]]:
    """(path, dataclass, (path, type, value, name) of each of its fields) of every section, the outer first."""
    rows, inner = [], []
    for key, name, hint, value in _items(config):
        path, sections = prefix + key, sections_of(hint)
        if get_origin(hint) is dict:
            rows += [(f"{path}.{entry}", str, text, name) for entry, text in {"NAME": "TEXT", **value}.items()]
        elif not dataclasses.is_dataclass(hint):
            rows.append((path, hint, value, name))
        for section in sections:
            with suppress(TypeError):  # an unset one that has no defaults
                inner.append((section() if value is None else value, f"{path}."))
    yield prefix.rstrip("."), type(config), rows
    for section in inner:
        yield from walk(*section)


def leaves(config: Any) -> list[tuple[str, Any]]:
    """(dotted path, type) of every field that can be set on the command line, those of unset sections too."""
    return [(path, hint) for _, _, rows in walk(config) for path, hint, _, _ in rows]


def describe(config: Any, only: Collection[str] = ()) -> str:
    """The text of --help: fields with their comment, their value and what they take; all, or `only` those paths."""
    width = min(shutil.get_terminal_size((110, 24)).columns, 120)
    wrap = textwrap.TextWrapper(width, initial_indent=" " * 6, subsequent_indent=" " * 6).wrap
    lines, left_out = ["fields: [section.field=value ...]"], 0
    for section, cls, rows in walk(config):
        told = [row for row in rows if not only or row[0] in only]
        left_out += len(rows) - len(told)
        if not told and only:
            continue
        title, doc = section or cls.__name__, (cls.__doc__ or "").strip().split("\n")[0]
        lines += ["", title if doc.startswith(f"{cls.__name__}(") else f"{title}: {doc}"]  # dataclass made it up
        for path, hint, value, name in told:
            lines += [f"  {path}={shown(value)}    [{allowed(hint)}]", *wrap(comments(cls).get(name, ""))]
    return "\n".join([*lines, *(["", f"{left_out} more fields: --help=all"] if left_out else [])])


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if dataclasses.is_dataclass(value):
        return "..."  # its fields follow
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)

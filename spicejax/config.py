"""Trees of frozen dataclasses as configuration: dotted overrides, --help, strict JSON, differences. No concrete config.

Fields are bool, int, float, str, Literal, tuple[X, ...], tuple[X, Y], dict[str, str], `X | None`, or sections:
`Section`, `Section | None`, and `SpiceConfig | RlvrConfig`, whose key is `spice` or `rlvr`, not the field's name.

Tried for the command line: tyro 1.0. It knows no `model.lora.rank=16` while `lora` is unset, no `16,64` for a tuple, no
`1e3` for an int, not both of `--flag` and `flag=false`, and answers with a box of lines instead of an exception.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar, get_origin, get_type_hints

from spicejax.fields import ConfigError, allowed, comments, sections_of, take, unknown_key

T = TypeVar("T")

ABSENT = "<absent>"  # stands in `diff` for a field that one side does not have


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
    cls, data, known = type(default), to_json(default), dict(leaves(default))
    for key, text in values.items():
        *path, last = key.split(".")
        hint = known.get(key, known.get(".".join([*path, "NAME"])))
        if hint is None:
            head = key.partition(".")[0]
            elsewhere = f"unknown field `{key}`; start from a configuration with a section `{head}`"
            raise ConfigError(elsewhere if head in _keys(cls).keys() - data.keys() else unknown_key(key, known))
        node = data
        for depth, name in enumerate(path, 1):
            if node[name] is None:  # an unset section
                node[name] = to_json(sections_of(known[".".join(path[:depth])])[0]())
            node = node[name]
        node[last] = take(hint, text, key, text=True)
    return from_json(cls, data)


@functools.cache
def _keys(cls: type) -> dict[str, tuple[str, Any]]:
    """Key -> (field, type). A field that holds one of several dataclasses has a key for each of them."""
    hints, keys = get_type_hints(cls), {}
    for name in (field.name for field in dataclasses.fields(cls)):
        sections = sections_of(hints[name])
        several = {each.__name__.removesuffix("Config").lower(): (name, each) for each in sections}
        own = several if len(sections) > 1 else {name: (name, hints[name])}
        if clash := keys.keys() & own.keys():
            raise TypeError(f"{cls.__name__}: {clash} would name two fields")
        keys |= own
    return keys


def _items(config: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """(key, field, type, value) of each field of a section."""
    for key, (name, hint) in _keys(type(config)).items():
        value = getattr(config, name)
        if not dataclasses.is_dataclass(hint) or type(value) is hint:  # else another of several is there
            yield key, name, hint, value


def to_json(config: Any) -> Any:
    """The tree as plain dicts and lists."""
    if not dataclasses.is_dataclass(config):
        return json.loads(json.dumps(config))
    return {key: to_json(value) for key, _, _, value in _items(config)}


def from_json(cls: type[T], data: dict[str, Any], prefix: str = "") -> T:
    """Build `cls` from the dict of `to_json`: every field and no other, else ConfigError names the first wrong one."""
    keys, values = _keys(cls), {}
    for key, value in data.items():
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
        raise ConfigError(f"{prefix.rstrip('.')}: {error}" if prefix else str(error)) from error


def readable(cls: type, data: dict[str, Any]) -> dict[str, Any]:
    """What `from_json` can read of JSON that another version wrote: its known fields, the others by default."""
    found = {}
    for key, (name, hint) in _keys(cls).items():
        default = cls.__dataclass_fields__[name].default  # pyright: ignore[reportAttributeAccessIssue]
        inner = sections_of(hint)
        if key not in data and default is not dataclasses.MISSING:
            found[key] = to_json(default)
        elif key in data:
            found[key] = readable(inner[0], data[key]) if inner and isinstance(data[key], dict) else data[key]
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

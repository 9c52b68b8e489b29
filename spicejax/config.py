"""Trees of frozen dataclasses as configuration: dotted overrides, --help, strict JSON, differences. No concrete config.

A field is documented by the comment lines directly above it, by its trailing `# comment`, or both. Types understood:
bool, int, float, str, Literal, tuple[X, ...], tuple[X, Y], nested dataclasses, `X | None`, and a union of dataclasses.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from spicejax.fields import (
    ConfigError,
    allowed,
    build,
    comments,
    guarded,
    hints_of,
    optional,
    read,
    sections_of,
    type_name,
    unknown_key,
)

T = TypeVar("T")

ABSENT = "<absent>"  # stands in `diff` for a field that one side does not have


def parse(default: T, argv: Sequence[str], prog: str = "") -> T:
    """Return `default` with the overrides of `argv`: `a.b=c`, `--a.b=c` or `--a.b c`; the last of a key wins.

    `--help` prints every field and exits 0. A wrong key or value prints one message on stderr and exits 2.
    """
    if any(word in ("-h", "--help") for word in argv):
        print(describe(default, prog))
        raise SystemExit(0)
    try:
        return override(default, _pairs(default, argv))
    except ConfigError as error:
        print(f"{prog or 'config'}: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def override(default: T, values: dict[str, str]) -> T:
    """Return `default` with dotted fields replaced by parsed text. Validation runs once per section, after all of it.

    Raises ConfigError on an unknown key (with the nearest), on a bad value and where a section's own check refuses.
    """
    return _override(default, "", values, [path for path, _ in leaves(default)])


def _pairs(default: Any, argv: Sequence[str]) -> dict[str, str]:
    known = dict(leaves(default))
    pairs: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        key, equals, text = word.removeprefix("--").partition("=")
        key = key.replace("-", "_")
        if not equals:
            if not word.startswith("--"):
                raise ConfigError(f"cannot read `{word}`: write section.field=value")
            if key not in known:
                raise ConfigError(unknown_key(key, list(known)))
            if words and not words[0].startswith("--"):
                text = words.pop(0)
            elif known[key] is bool:
                text = "true"
            else:
                raise ConfigError(f"`{word}` has no value: write {word}=value")
        pairs[key] = text
    return pairs


def _override(node: Any, prefix: str, values: dict[str, str], known: list[str]) -> Any:
    changes: dict[str, Any] = {}
    deeper: dict[str, dict[str, str]] = {}
    hints = hints_of(type(node))
    for key, text in values.items():
        name, _, rest = key.partition(".")
        path = prefix + name
        if name not in hints or (rest and not sections_of(hints[name])):
            raise ConfigError(unknown_key(prefix + key, known))
        if rest:
            deeper.setdefault(name, {})[rest] = text
        elif sections_of(hints[name]) and not (optional(hints[name]) and text.lower() in ("none", "null")):
            fields = ", ".join(f"{path}.{f.name}" for f in dataclasses.fields(sections_of(hints[name])[0]))
            raise ConfigError(f"`{path}` is a section, not a field; its fields are {fields}")
        else:
            changes[name] = read(hints[name], text, path)
    for name, inner in deeper.items():
        child = getattr(node, name)
        if child is None:
            child = _default_section(sections_of(hints[name])[0], prefix + name)
        changes[name] = _override(child, f"{prefix}{name}.", inner, known)
    return guarded(lambda: dataclasses.replace(node, **changes), prefix) if changes else node


def _default_section(cls: type, path: str) -> Any:
    try:
        return cls()
    except TypeError as error:
        raise ConfigError(f"`{path}` is None by default and {cls.__name__} has no default to start from") from error


def to_json(config: Any) -> dict[str, Any]:
    """The tree as plain dicts and lists. Where a field is a union of dataclasses, `type` says which one it is."""
    out: dict[str, Any] = {}
    for name, hint in hints_of(type(config)).items():
        value = getattr(config, name)
        out[name] = _plain(value)
        if dataclasses.is_dataclass(value) and len(sections_of(hint)) > 1:
            out[name] = {"type": type_name(type(value)), **out[name]}
    return out


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_json(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def from_json(cls: type[T], data: dict[str, Any]) -> T:
    """Build `cls` from the dict of `to_json`: every field and no other, else ConfigError names the first wrong one."""
    return build(cls, data)


def diff(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """(path, value in a, value in b) of every field in which two configs, or their JSON dicts, differ."""
    old, new = (dict(_flat(x if isinstance(x, dict) else to_json(x))) for x in (a, b))
    paths = list(dict.fromkeys([*old, *new]))
    pairs = ((path, old.get(path, ABSENT), new.get(path, ABSENT)) for path in paths)
    return [(path, x, y) for path, x, y in pairs if x != y or type(x) is not type(y)]


def _flat(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def leaves(config: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """(dotted path, type) of every field that can be set on the command line, in the order written."""
    out: list[tuple[str, Any]] = []
    for name, hint in hints_of(type(config)).items():
        sections = sections_of(hint)
        value = _section(getattr(config, name), sections)
        if sections and optional(hint):
            out.append((prefix + name, hint))
        if sections and value is not None:
            out += leaves(value, f"{prefix}{name}.")
        elif not sections:
            out.append((prefix + name, hint))
    return out


def _section(value: Any, sections: Sequence[type]) -> Any:
    """An unset section as it would be with its first field set, where it has defaults; anything else as it is."""
    if value is not None or not sections:
        return value
    try:
        return sections[0]()
    except TypeError:
        return None


def describe(config: Any, prog: str = "") -> str:
    """The text of --help: every field with its comment, its default and what it takes."""
    width = min(shutil.get_terminal_size((110, 24)).columns, 120)
    lines = [f"usage: {prog} [section.field=value ...]".replace("  ", " ")]
    lines += _describe(config, "", width)
    return "\n".join(lines)


def _describe(node: Any, prefix: str, width: int) -> list[str]:
    cls = type(node)
    texts, hints = comments(cls), hints_of(cls)
    doc = (cls.__doc__ or "").strip().split("\n")[0]
    doc = "" if doc.startswith(f"{cls.__name__}(") else doc  # the docstring that dataclass makes up
    lines = ["", f"{prefix.rstrip('.') or cls.__name__}: {doc}".rstrip(": ")]
    inner: list[str] = []
    for name, hint in hints.items():
        value, path = getattr(node, name), prefix + name
        section = _section(value, sections_of(hint))
        if dataclasses.is_dataclass(section):
            inner += _describe(section, f"{path}.", width)
            if section is value:
                continue
        lines.append(f"  {path}={_shown(value)}    [{allowed(hint)}]")
        lines += textwrap.wrap(texts.get(name, ""), width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return (lines if len(lines) > 2 else []) + inner


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_shown(item) for item in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)

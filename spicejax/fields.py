"""One field of a configuration: its type in words, its value from text or JSON, its comment, the nearest known key."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import math
import re
import textwrap
import tokenize
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class ConfigError(ValueError):
    """A key that does not exist or a value that its field does not take; the text names both and what is allowed."""


def hints_of(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def optional(hint: Any) -> bool:
    return type(None) in _options(hint)


def sections_of(hint: Any) -> tuple[type, ...]:
    return tuple(option for option in _options(hint) if dataclasses.is_dataclass(option))  # pyright: ignore


def allowed(hint: Any) -> str:
    """What a field of this type takes, in words."""
    options = _options(hint)
    if len(options) > 1:
        return " or ".join(allowed(option) for option in options)
    if get_origin(hint) is Literal:
        return " | ".join(str(value) for value in get_args(hint))
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        each = allowed(inner[0]) if inner[1:] == (Ellipsis,) else ", ".join(allowed(x) for x in inner)
        return f"comma-separated list of {each}"
    words = {bool: "true | false", int: "whole number", float: "number", str: "text", type(None): "none"}
    return words.get(hint) or getattr(hint, "__name__", str(hint))


def _refuse(path: str, value: Any, hint: Any) -> NoReturn:
    raise ConfigError(f"bad value for `{path}`: {value!r}; allowed: {allowed(hint)}")


def read(hint: Any, text: str, path: str) -> Any:
    """Read command-line text as `hint`."""
    options = _options(hint)
    if len(options) > 1:
        if type(None) in options and text.lower() in ("none", "null"):
            return None
        for option in options:
            try:
                if option is not type(None):
                    return read(option, text, path)
            except ConfigError:
                continue
        _refuse(path, text, hint)
    if get_origin(hint) is Literal:
        found = [value for value in get_args(hint) if str(value) == text]
        return found[0] if found else _refuse(path, text, hint)
    if get_origin(hint) is tuple:
        return _parse_tuple(hint, text, path)
    if hint is str:
        return text
    if hint is bool:
        return (
            {"true": True, "false": False}[text.lower()]
            if text.lower() in ("true", "false")
            else _refuse(path, text, hint)
        )
    if hint in (int, float):
        try:
            number = float(text) if hint is float or re.search(r"[.eE]", text) else int(text)
        except ValueError:
            _refuse(path, text, hint)
        return check(hint, int(number) if hint is int and number == number // 1 else number, path, shown=text)
    raise TypeError(f"`{path}` has the type {hint}, which spicejax/config.py does not read")


def _parse_tuple(hint: Any, text: str, path: str) -> tuple[Any, ...]:
    if text[:1] in "([" and text:
        try:
            return check(hint, ast.literal_eval(text), path, shown=text)
        except (ValueError, SyntaxError) as error:
            if isinstance(error, ConfigError):
                raise
            text = text.strip("()[]")
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    inner = get_args(hint)
    each = [inner[0]] * len(words) if inner[1:] == (Ellipsis,) else list(inner)
    if len(each) != len(words):
        _refuse(path, text, hint)
    return tuple(read(h, word, path) for h, word in zip(each, words, strict=True))


def check(hint: Any, value: Any, path: str, *, shown: Any = None) -> Any:
    """Return `value` as `hint`: lists become tuples, dicts dataclasses, whole numbers floats; ConfigError otherwise."""
    told = value if shown is None else shown
    options = _options(hint)
    sections = sections_of(hint)
    if sections and isinstance(value, dict):
        return _section_from_json(sections, value, path)
    if len(options) > 1:
        for option in options:
            try:
                return check(option, value, path)
            except ConfigError:
                continue
        _refuse(path, told, hint)
    if get_origin(hint) is Literal:
        # `in` would take True for 1
        if not any(value == option and type(value) is type(option) for option in get_args(hint)):
            _refuse(path, told, hint)
        return value
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if not isinstance(value, (list, tuple)):
            _refuse(path, told, hint)
        each = [inner[0]] * len(value) if inner[1:] == (Ellipsis,) else list(inner)
        if len(each) != len(value):
            _refuse(path, told, hint)
        return tuple(check(h, v, f"{path}[{i}]") for i, (h, v) in enumerate(zip(each, value, strict=True)))
    if hint is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if hint in (bool, int, str, type(None)) and type(value) is hint:
        return value
    if sections and isinstance(value, sections[0]):
        return value
    _refuse(path, told, hint)


def build(cls: type[T], data: dict[str, Any], path: str = "") -> T:
    """Build a dataclass from a dict that has every field and no other; ConfigError names the first that is wrong."""
    hints = hints_of(cls)
    dot = f"{path}." if path else ""
    for name in data:
        if name not in hints:
            raise ConfigError(unknown_key(dot + name, [dot + known for known in hints]))
    for name in hints:
        if name not in data:
            raise ConfigError(f"missing field `{dot}{name}` of {cls.__name__}; it takes {allowed(hints[name])}")
    return guarded(lambda: cls(**{name: check(hints[name], data[name], dot + name) for name in data}), dot)


def _section_from_json(sections: tuple[type, ...], data: dict[str, Any], path: str) -> Any:
    if len(sections) == 1:
        return build(sections[0], data, path)
    names = {type_name(cls): cls for cls in sections}
    if data.get("type") not in names:
        raise ConfigError(f"bad value for `{path}.type`: {data.get('type')!r}; allowed: {' | '.join(names)}")
    return build(names[data["type"]], {k: v for k, v in data.items() if k != "type"}, path)


def type_name(cls: type) -> str:
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


def guarded(make: Callable[[], T], prefix: str) -> T:
    """Run a dataclass constructor; its own refusal (ValueError of __post_init__) gets the section's name."""
    try:
        return make()
    except ConfigError:
        raise
    except ValueError as error:
        section = prefix.rstrip(".")
        raise ConfigError(f"{section}: {error}" if section else str(error)) from error


def unknown_key(key: str, known: list[str]) -> str:
    near = nearest(key, known)
    if not near:
        return f"unknown field `{key}`; --help lists all {len(known)} fields"
    return f"unknown field `{key}`; did you mean {' or '.join(f'`{name}`' for name in near)}?"


def nearest(key: str, known: Sequence[str], limit: int = 3) -> list[str]:
    """The known keys of smallest edit distance to `key`; one without a section is compared with bare names too."""

    def score(path: str) -> int:
        whole = _edits(key, path)
        return whole if "." in key else min(whole, _edits(key, path.rpartition(".")[2]))

    scored = sorted((score(path), path) for path in known)
    best = scored[0][0] if scored else 0
    if not scored or best > max(2, len(key) // 3):
        return []
    return [path for distance, path in scored if distance == best][:limit]


def _edits(a: str, b: str) -> int:
    """Levenshtein distance in which a swap of neighbours counts 1."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def comments(cls: type) -> dict[str, str]:
    """Comment of each field of a dataclass, read from its source; empty where the source is not at hand."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}
    found, alone = {}, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found[token.start[0]] = token.string.lstrip("#").strip()
            if not token.line[: token.start[1]].strip():
                alone.add(token.start[0])
    out: dict[str, str] = {}
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)).body
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            line = node.lineno
            while line - 1 in alone:
                line -= 1
            rows = range(line, (node.end_lineno or node.lineno) + 1)
            out[node.target.id] = " ".join(found[row] for row in rows if row in found)
    return out

"""One field of a configuration: its value from JSON or text, its type in words, its comment, the nearest known key.

msgspec reads the values: strictly from JSON, loosely from text. It reads no trees: it refuses unions of dataclasses and
ignores unknown fields. pydantic ignores those too and takes False for Literal[0]; cattrs takes "8" for a number.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import json
import operator
import re
import textwrap
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

WORDS = {bool: "true | false", int: "whole number", float: "number", str: "text", NoneType: "none", dict: "NAME=TEXT"}
WORDS |= {Callable: "module:function"}


class ConfigError(ValueError):
    """A key that does not exist or a value that its field does not take; the text names both and what is allowed."""


def sections_of(hint: Any) -> list[Any]:
    """The dataclasses among what a field of this type holds."""
    return [option for option in (hint, *get_args(hint)) if dataclasses.is_dataclass(option)]


def allowed(hint: Any) -> str:
    """What a field of this type takes, in words."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return (" or " if NoneType in inner else " | ").join(map(allowed, inner))
    if kind is Literal:
        return " | ".join(map(str, inner))
    if kind is tuple:
        return f"comma-separated list of {', '.join(allowed(each) for each in inner if each is not ...)}"
    return WORDS.get(kind or hint) or getattr(hint, "__name__", str(hint))


def take(hint: Any, value: Any, path: str, *, text: bool = False) -> Any:
    """`value` of JSON, where True is not 1, or of `text` as `hint`; ConfigError if it is not one."""
    options, read = (hint, *get_args(hint)), value
    if NoneType in options and (value is None or (text and value.lower() in ("none", "null"))):
        return None
    if text and any(get_origin(option) is tuple for option in options):
        inside = value.strip("([ ])").removesuffix(",")
        read = [word.strip(" '\"") for word in inside.split(",")] if inside else []
    try:
        read = msgspec.convert(read, _plain(hint, read), strict=not text)
        json.dumps(read, allow_nan=False)
    except (msgspec.ValidationError, ValueError):
        raise ConfigError(f"bad value for `{path}`: {value!r}; allowed: {allowed(hint)}") from None
    return read


def _plain(hint: Any, value: Any) -> Any:
    """The type without sections, which are no value, and functions, of which the name is one (outside.name_of)."""
    inner = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [each for each in inner if not dataclasses.is_dataclass(each) and get_origin(each) is not Callable]
    if isinstance(value, str) and ":" in value and any(get_origin(each) is Callable for each in inner):
        return str
    return functools.reduce(operator.or_, kinds) if kinds else msgspec.UnsetType


def unknown_key(key: str, known: Iterable[str]) -> str:
    """What is said of it: the fields of the section `key`, or the nearest by path or by bare name."""
    known = list(known)
    inside = [path for path in known if path.startswith(f"{key}.")]
    alike = {path: max(_alike(key, path), _alike(key, path.rpartition(".")[2])) for path in known}
    least = max(0.6, max(alike.values(), default=0.0) - 0.05)  # what is farther than the nearest is not meant
    meant = " or ".join(f"`{path}`" for path in inside or [path for path in known if alike[path] >= least])
    return f"unknown field `{key}`; {f'did you mean {meant}?' if meant else '--help=all lists all'}"


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


@functools.cache
def comments(cls: type) -> dict[str, str]:
    """Comment of each field of a dataclass: the lines directly above it and the end of its own; {} without source."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}
    matches = re.findall(r"((?:^    #.*\n)*)^    (\w+):[^#\n]*(#.*)?", source, re.MULTILINE)
    return {name: re.sub(r"\s*\n?\s*# *", " ", above + end).strip() for above, name, end in matches}

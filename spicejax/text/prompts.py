"""Prompt templates: text files with placeholders, filled without ever looking into the values."""

from __future__ import annotations

import functools
import importlib.resources
import re

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@functools.cache
def read(package: str, name: str) -> str:
    """The text of the file `prompts/NAME` of a package, without the newlines at its end."""
    return importlib.resources.files(package).joinpath("prompts", name).read_text(encoding="utf-8").rstrip("\n")


def fill(template: str, **values: str) -> str:
    """Put each value at its one placeholder in a single pass: braces inside a value are never looked at.

    Raises:
        ValueError: a placeholder is absent, repeated, or has no value.
    """
    found = sorted(_PLACEHOLDER.findall(template))
    if found != sorted(values):
        raise ValueError(f"the template holds placeholders {found}, expected each of {sorted(values)} exactly once")
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)

"""Prompt templates: text files with placeholders, the package's or the user's. Values are never searched for braces.

A template is called as its file without the ending: `mcq` stands in mcq.txt, `reasoner_examples` in .json.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spicejax.types import Messages

Templates = Mapping[str, str]  # text by name
NO_TEMPLATES: Templates = {}

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@functools.cache
def texts(*packages: str) -> Templates:
    """Read the files of the packages' folders `prompts`, without trailing newlines."""
    folders = [importlib.resources.files(package).joinpath("prompts") for package in packages]
    files = [file for folder in folders for file in folder.iterdir()]
    return {Path(file.name).stem: file.read_text(encoding="utf-8").rstrip("\n") for file in files}


def file_of(name: str) -> str:
    """The file of a template: examples are JSON."""
    return f"{name}.json" if name.endswith("_examples") else f"{name}.txt"


def read(package: str, name: str, templates: Templates = NO_TEMPLATES) -> str:
    """Return the template `name` of `templates`, else the package's."""
    return templates[name] if name in templates else texts(package)[name]


def read_folder(folder: str) -> Templates:
    """Read the templates of a folder. Files of other kinds keep their full names; hidden files are skipped.

    Raises:
        ValueError: it is no folder, has no file, or one of them is no UTF-8 text.
    """
    templates: dict[str, str] = {}
    for path in sorted(Path(folder).iterdir()) if Path(folder).is_dir() else ():
        if path.is_file() and not path.name.startswith("."):
            name = path.stem if path.name == file_of(path.stem) else path.name
            try:
                templates[name] = path.read_text(encoding="utf-8-sig").rstrip("\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path.name}: is no UTF-8 text ({error.reason} at byte {error.start})") from None
    if not templates:
        raise ValueError(f"{'holds no file' if Path(folder).is_dir() else 'is no folder'}; give one with prompts")
    return templates


def overridden(game: str, templates: Templates, folder: str, *packages: str) -> dict[str, str]:
    """Merge `templates` with those of a folder ("" = none), which win; each must replace one of the packages'.

    Raises:
        ValueError: one that cannot, or no folder; names the game's field, the file and what is expected.
    """
    try:
        merged = {**templates, **(read_folder(folder) if folder else {})}
        check(merged, texts(*packages))
    except ValueError as error:
        raise ValueError(f"{f'{game}.prompts={folder}' if folder else f'{game}.templates'}: {error}") from error
    return merged


def check(templates: Templates, originals: Templates) -> None:
    """Check that each of `templates` can replace the original of its name.

    Raises:
        ValueError: an unknown name, other placeholders, or JSON of another form; names the file and what is expected.
    """
    for name, text in templates.items():
        file = name if "." in name else file_of(name)
        if name not in originals:
            files = sorted(map(file_of, originals))
            near = difflib.get_close_matches(file, files, 1)
            raise ValueError(f"{file}: no template; {f'did you mean {near[0]}?' if near else f'there are {files}'}")
        if file.endswith(".json"):
            try:
                misfit = _misfit(json.loads(text), json.loads(originals[name]))
            except (ValueError, RecursionError) as error:
                misfit = f"is no JSON ({error})"
            if misfit:
                raise ValueError(f"{file}: {misfit}")
        else:
            placeholders, expected = places(text), places(originals[name])
            if placeholders != expected or not text.strip():
                each = " ".join(f"{{{word}}}" for word in expected) or "some text and no placeholder"
                listed = " ".join(f"{{{word}}}" for word in placeholders) or "none" if text.strip() else "no text"
                raise ValueError(f"{file}: expected {each}, each exactly once; found {listed}")


def _misfit(value: Any, like: Any, at: str = "") -> str:
    """Say where a JSON value differs in form from `like`: keys of objects, elements of lists, texts; "" = nowhere."""
    inner: list[tuple[Any, Any, str]] = []
    if isinstance(like, dict) and isinstance(value, dict) and value.keys() == like.keys():
        inner = [(value[key], like[key], f"{at}.{key}") for key in like]
    elif isinstance(like, list) and isinstance(value, list) and value:
        inner = [(each, like[0], f"{at}[{k}]") for k, each in enumerate(value)]
    elif not (isinstance(like, str) and isinstance(value, str) and value):
        other = "a list with elements" if isinstance(like, list) else "a text"
        needed = f"an object with the keys {', '.join(like)}" if isinstance(like, dict) else other
        return f"{at.lstrip('.') or 'the whole'}: expected {needed}"
    return next((problem for each in inner if (problem := _misfit(*each))), "")


def places(template: str) -> list[str]:
    """The names of a template's placeholders, sorted."""
    return sorted(_PLACEHOLDER.findall(template))


def fill(template: str, **values: str) -> str:
    """Put each value at its one placeholder in a single pass: braces inside a value are never looked at.

    Raises:
        ValueError: a placeholder is absent, repeated, or has no value.
    """
    placeholders = places(template)
    if placeholders != sorted(values):
        raise ValueError(
            f"the template holds placeholders {placeholders}, expected each of {sorted(values)} exactly once"
        )
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def turns(template: str, examples: str, values: Mapping[str, str]) -> Messages:
    """Write a request as the last turn of a user, after worked examples as earlier turns.

    Args:
      examples: JSON list of objects, each with a "reply" and values of its own by name; the others are from `values`.
    """
    messages: Messages = []
    for example in json.loads(examples):
        request = fill(template, **{name: example.get(name, value) for name, value in values.items()})
        messages += [{"role": "user", "content": request}, {"role": "assistant", "content": example["reply"]}]
    return [*messages, {"role": "user", "content": fill(template, **values)}]

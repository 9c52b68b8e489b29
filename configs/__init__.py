"""Recipes: one module per run, each holding `CONFIG` and saying what it needs and what to expect."""

from __future__ import annotations

import importlib
import pkgutil

from spicejax.run.config import RunConfig


def names() -> list[str]:
    """All configuration names."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> RunConfig:
    """The configuration `name`; ValueError listing the choices if there is none."""
    if name not in names():
        raise ValueError(f"unknown config {name!r}; choose from {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}").CONFIG

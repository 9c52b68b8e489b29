"""Recipes: modules with `CONFIG`, a run or a chain of them, that say what it needs and what to expect."""

from __future__ import annotations

import importlib
import pkgutil

from spicejax.run.config import RunConfig


def names() -> list[str]:
    """All configuration names."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def stages(name: str) -> tuple[RunConfig, ...]:
    """The runs of the configuration `name`, one after another; ValueError listing the choices if there is none."""
    if name not in names():
        raise ValueError(f"unknown config {name!r}; choose from {', '.join(names())}")
    found = importlib.import_module(f"{__name__}.{name}").CONFIG
    return found if isinstance(found, tuple) else (found,)


def load(name: str) -> RunConfig:
    """The one run of the configuration `name`, or the last of its chain."""
    return stages(name)[-1]

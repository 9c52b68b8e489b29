"""Recipes: modules with `CONFIG`, a run or a chain of them, that say what it needs and what to expect."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import json
import pkgutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spicejax import config as configuration
from spicejax import outside
from spicejax.fields import ConfigError
from spicejax.report import places
from spicejax.run.config import RunConfig


def names() -> list[str]:
    """All configuration names."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def stages(name: str) -> tuple[RunConfig, ...]:
    """The runs of the configuration `name`, of a Python file of your own, or of a run's config.json, one after another.

    Raises: ValueError listing the choices if there is none.
    """
    if name.endswith(".py"):
        return _of_file(Path(name))
    if name.endswith(".json"):
        return (_recorded(Path(name)),)
    if name not in names():
        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]}? All" if near else "choose from"
        raise ValueError(f"unknown config {name!r}; {hint}: {', '.join(names())}, or a .py file of your own")
    return _runs(importlib.import_module(f"{__name__}.{name}").CONFIG)


def _runs(config: Any) -> tuple[Any, ...]:
    return config if isinstance(config, tuple) else (config,)


def _of_file(path: Path) -> tuple[RunConfig, ...]:
    """The runs of a Python file; errors name the file."""
    if not path.is_file():
        raise FileNotFoundError(f"--config={path}: there is no such file; give the name of a recipe, or a .py file")
    try:
        runs = _runs(getattr(outside.run_file(str(path)), "CONFIG", None))
    except Exception as error:  # the file may do anything
        name = f"{error.name}".partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        beside = [each for each in (path.parent / f"{name}.py", path.parent / name / "__init__.py") if each.is_file()]
        hint = f"; {name} lies beside it: add its folder to PYTHONPATH" if name and beside else ""
        raise ValueError(f"--config={path}: {type(error).__name__}: {error}{hint}") from error
    if not all(isinstance(run, RunConfig) for run in runs) or not runs:
        raise ValueError(f"--config={path}: define CONFIG there, a RunConfig or a tuple of them, as configs/ does")
    return runs


def _recorded(path: Path) -> RunConfig:
    """The configuration that a run wrote into its work folder."""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        saved = places.found(configuration.readable(RunConfig, saved), path.parent)
        return configuration.from_json(RunConfig, saved)
    except ConfigError as error:
        raise ValueError(f"--config={path}: {error}") from error
    except (OSError, ValueError, AttributeError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"--config={path}: {why}; give the config.json of a run") from error


def about(name: str) -> str:
    """The docstring of a recipe, or of a Python file of your own, which is not run for it."""
    spec = find_spec(f"{__name__}.{name}") if name in names() else None
    file = spec.origin if spec is not None and spec.origin else name
    return inspect.cleandoc(ast.get_docstring(ast.parse(Path(file).read_text(encoding="utf-8"))) or name)


def load(name: str) -> RunConfig:
    """The one run of the configuration `name`, or the last of its chain."""
    return stages(name)[-1]

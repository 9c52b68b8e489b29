"""Code of a user's own by name: `module:name` from Python's path, `FILE.py:name` from a file wherever it lies.

A configuration keeps the name alone, so that reading one runs nothing; `load` does, where the code is wanted.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

OUTSIDE = Callable[..., Any]  # option of a field's type: a function of anyone's, which is kept by its name


def name_of(value: Any, field: str, ours: Sequence[str] = ()) -> str:
    """The name under which any process finds a function or class; a text is one already.

    Args:
      field: whose value it is, as messages name it.
      ours: other texts that it may be.
    Raises: ValueError for a text of another form, and for what no other process can find by name.
    """
    if isinstance(value, str):
        place, colon, name = value.rpartition(":")
        if value not in ours and not (place and colon and name.isidentifier()):
            raise ValueError(f"{field}={value}: give {', '.join((*ours, 'module:name'))}, or FILE.py:name")
        return value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or getattr(sys.modules.get(module), name, None) is not value or module == "__main__":
        raise ValueError(
            f"{field}: no other process finds {name or repr(value):.80} of {module or 'no module'} by name; define it "
            "with def or class at the top level of a .py file"
        )
    return f"{module}:{name}"


def load(name: str, field: str) -> Any:
    """What `name_of` names, whose module is run for it where it has not been.

    Raises: ValueError where there is no such module, file or name, or where the code raises.
    """
    place, _, last = name_of(name, field).rpartition(":")
    what, path = f"{field}={name}", os.path.abspath(os.path.expanduser(place))
    if place.endswith(".py") and not os.path.isfile(path):
        raise ValueError(f"{what}: there is no file {place}")
    try:
        module = (sys.modules.get(path) or run_file(path)) if place.endswith(".py") else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise ValueError(f"{what}: {error}") from error
        raise ValueError(
            f"{what}: there is no module {error.name}; install it, add its folder to PYTHONPATH, or give FILE.py:{last}"
        ) from error
    except Exception as error:  # the code may do anything
        raise ValueError(f"{what}: {type(error).__name__}: {error}") from error
    if not hasattr(module, last):
        near = difflib.get_close_matches(last, vars(module), 1)
        raise ValueError(f"{what}: {place} has no {last}" + (f"; did you mean {near[0]}?" if near else ""))
    return getattr(module, last)


class _Fresh(SourceFileLoader):
    """Reads the source each time, and leaves no __pycache__ beside it."""

    def path_stats(self, path: Any) -> Any:
        raise OSError


def run_file(path: str) -> ModuleType:
    """Run a file of Python, anew each time; its whole path is its name as a module, for all of this process."""
    path = os.path.abspath(path)
    spec = importlib.util.spec_from_loader(path, _Fresh(path, path))
    assert spec is not None and spec.loader is not None
    before, module = sys.modules.get(path), importlib.util.module_from_spec(spec)
    sys.modules[path] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path]
        if before is not None:
            sys.modules[path] = before
        raise
    return module

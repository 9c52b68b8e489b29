"""Hugging Face folders in and out: one table of tensor names, read both ways, one tensor at a time."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from jax.experimental import multihost_utils
from safetensors.numpy import save_file

from spicejax.models import gguf
from spicejax.models.config import DType, TransformerConfig
from spicejax.models.families import from_hf_config, to_hf_config
from spicejax.models.files import TOKENIZER_FILES, resolve
from spicejax.models.lora import flatten, unflatten
from spicejax.models.transformer import Params, abstract_params

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


class Entry(NamedTuple):
    """Where one parameter stands in HF files, and how its axes are laid out there."""

    name: str  # "{}" is the layer
    inputs: int = 0  # 0: same order of elements; n: HF's [outputs, inputs], our first n axes being the inputs


# Of all families; a model has some of them.
NAMES: dict[str, Entry] = {
    "embed": Entry("model.embed_tokens.weight"),
    "layers/attn_norm/scale": Entry("model.layers.{}.input_layernorm.weight"),
    "layers/attn/q": Entry("model.layers.{}.self_attn.q_proj.weight", 1),
    "layers/attn/k": Entry("model.layers.{}.self_attn.k_proj.weight", 1),
    "layers/attn/v": Entry("model.layers.{}.self_attn.v_proj.weight", 1),
    "layers/attn/o": Entry("model.layers.{}.self_attn.o_proj.weight", 2),
    "layers/mlp_norm/scale": Entry("model.layers.{}.post_attention_layernorm.weight"),
    "layers/mlp/gate": Entry("model.layers.{}.mlp.gate_proj.weight", 1),
    "layers/mlp/up": Entry("model.layers.{}.mlp.up_proj.weight", 1),
    "layers/mlp/down": Entry("model.layers.{}.mlp.down_proj.weight", 1),
    "norm/scale": Entry("model.norm.weight"),
    "unembed": Entry("lm_head.weight"),
    **{f"layers/attn/{x}_bias": Entry(f"model.layers.{{}}.self_attn.{x}_proj.bias") for x in ("q", "k", "v")},
    **{f"layers/attn/{x}_norm/scale": Entry(f"model.layers.{{}}.self_attn.{x}_norm.weight") for x in ("q", "k")},
}
_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
# Buffers that old checkpoints carry and the config already says.
_REDUNDANT = ("rotary_emb.inv_freq",)


class SafeTensors:
    """The tensors of a folder with model.safetensors, or with shards and their index."""

    def __init__(self, folder: Path) -> None:
        single = folder / SINGLE
        if single.is_file():
            files = [single]
        elif (folder / INDEX).is_file():
            wanted = set(json.loads((folder / INDEX).read_text())["weight_map"].values())
            files = [folder / name for name in sorted(wanted)]
        else:
            raise FileNotFoundError(f"{folder}: neither {SINGLE} nor {INDEX}; other formats are not read")
        absent = [f.name for f in files if not f.is_file()]
        if absent:
            raise FileNotFoundError(f"{folder}: the index names {absent}, not there; finish the download")
        self._where: dict[str, Any] = {}
        for file in files:
            handle = safetensors.safe_open(file, framework="np")
            self._where |= dict.fromkeys(handle.keys(), handle)

    def names(self) -> set[str]:
        return set(self._where)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._where[name].get_slice(name).get_shape())

    def read(self, name: str) -> np.ndarray:
        return self._where[name].get_tensor(name)


Tensors = SafeTensors | gguf.GGUFTensors  # named arrays on disk in HF's layout


def read_config(path: str | Path) -> TransformerConfig:
    """The config at `path` (see `load`), without its weights."""
    place = locate(path)
    return gguf.read_config(place) if place.suffix == ".gguf" else _folder_config(place)


def load(path: str | Path, *, dtype: DType | None = None, shardings: Any = None) -> tuple[TransformerConfig, Params]:
    """Read a model: a local HF folder, a .gguf file, or "package:NAME" for an installed package with one .gguf inside.

    One tensor at a time goes to the devices, is cast there to `dtype` (None = as stated in the config, float32 for
    GGUF and float16) and written into its layer's place; host memory never holds more than one. `shardings` is a tree
    like the parameters. The returned config has dtype = param_dtype = what was loaded.

    Raises FileNotFoundError where nothing is there, ValueError naming missing, unexpected or misshaped tensors.
    """
    place = locate(path)
    tensors: Tensors
    if place.suffix == ".gguf":
        tensors = gguf.GGUFTensors(place, tensor_names)
        cfg = tensors.config
    else:
        cfg = _folder_config(place)
        tensors = SafeTensors(place)
    dtype = dtype or cfg.param_dtype
    cfg = dataclasses.replace(cfg, dtype=dtype, param_dtype=dtype)
    _check_names(place, cfg, tensors)
    abstract = flatten(abstract_params(cfg))
    places: dict[str, Any] = dict.fromkeys(abstract) if shardings is None else flatten(shardings)
    return cfg, unflatten({key: _read(tensors, NAMES[key], abstract[key], places[key], key) for key in abstract})


def locate(path: str | Path) -> Path:
    """The folder or .gguf file that `path` names. Raises FileNotFoundError with the fix."""
    text, place = str(path), resolve(path)
    if place.suffix == ".gguf" and place.is_file() or (place / "config.json").is_file():
        return place
    if place.is_dir():
        raise FileNotFoundError(f"{text}: this folder has no config.json; give the folder of a Hugging Face model")
    raise FileNotFoundError(
        f"{text}: no such folder or .gguf file. Nothing is downloaded: get the model first, for example with "
        f"`hf download {text} --local-dir FOLDER`, and give FOLDER"
    )


def hf_shape(shape: tuple[int, ...], entry: Entry) -> tuple[int, ...]:
    """The shape in HF's file of one layer's parameter of our `shape`."""
    if entry.inputs == 0:
        return (math.prod(shape),) if entry.name.endswith(".bias") else shape
    return math.prod(shape[entry.inputs :]), math.prod(shape[: entry.inputs])


def tensor_names(cfg: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model in HF's naming and order, with its shape there; a tied output layer has none."""
    flat = flatten(abstract_params(cfg))
    return {
        name: hf_shape(flat[key].shape if layer is None else flat[key].shape[1:], entry)
        for name, (key, layer, entry) in _entries(cfg)
    }


def _folder_config(folder: Path) -> TransformerConfig:
    try:
        return from_hf_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def _check_names(place: Path, cfg: TransformerConfig, tensors: Tensors) -> None:
    expected, found = tensor_names(cfg), tensors.names()
    extra = {n for n in found - set(expected) if not n.endswith(_REDUNDANT)}
    if cfg.tie_embeddings:
        extra -= {"lm_head.weight"}  # some writers repeat the embedding; the config says that it is the same
    wrong = {n: (tensors.shape(n), s) for n, s in expected.items() if n in found and tensors.shape(n) != s}
    problems = []
    for title, names in (("missing", set(expected) - found), ("unexpected", extra)):
        if names:
            shown = sorted(names)
            more = f" and {len(shown) - 6} more" if len(shown) > 6 else ""
            problems.append(f"{len(shown)} tensors {title}: {', '.join(shown[:6])}{more}")
    for name, (got, want) in sorted(wrong.items())[:6]:
        problems.append(f"{name} has shape {got}, the config says {want}")
    if problems:
        raise ValueError(f"{place}: the tensors do not fit config.json of family {cfg.family}. " + "; ".join(problems))


def _read(tensors: Tensors, entry: Entry, leaf: jax.ShapeDtypeStruct, sharding: Any, key: str) -> jax.Array:
    """One parameter on the devices; a stacked one is filled layer by layer in a donated buffer."""
    if not key.startswith("layers/"):
        value = tensors.read(entry.name).astype(leaf.dtype)
        if sharding is None:
            return jnp.asarray(value)
        return jax.make_array_from_callback(leaf.shape, sharding, lambda index: value[index])
    buffer = jnp.zeros(leaf.shape, leaf.dtype, device=sharding)
    for layer in range(leaf.shape[0]):
        value = tensors.read(entry.name.format(layer))
        # Waiting bounds host memory: otherwise all layers' arrays queue up behind the transfer.
        buffer = jax.block_until_ready(_write_layer(buffer, value, np.int32(layer), entry.inputs, sharding))
    return buffer


@functools.partial(jax.jit, donate_argnums=0, static_argnums=(3, 4))
def _write_layer(buffer: jax.Array, value: Any, layer: Any, inputs: int, sharding: Any) -> jax.Array:
    ours = (value.T if inputs else value).reshape(buffer.shape[1:]).astype(buffer.dtype)
    filled = jax.lax.dynamic_update_index_in_dim(buffer, ours, layer, 0)
    return filled if sharding is None else jax.lax.with_sharding_constraint(filled, sharding)


def save(
    path: str | Path,
    cfg: TransformerConfig,
    params: Params,
    *,
    tokenizer_files_from: str | Path | None = None,
    max_shard_bytes: int = 3 * 2**30,
    dtype: DType | None = None,
) -> None:
    """Write a folder that transformers, vLLM and `load` read: config, safetensors, generation config, tokenizer files.

    `dtype` None keeps cfg.param_dtype. The folder is written beside `path` and renamed, so a reader sees the old model
    or the new one, whole. Where `params` are spread over hosts every process calls this; process 0 writes.

    Raises ValueError where `params` do not fit `cfg`, FileNotFoundError where `tokenizer_files_from` has no tokenizer,
    FileExistsError where `path` is a folder of something else, OSError where what was written does not read back.
    """
    target, dtype = Path(path).expanduser().absolute(), dtype or cfg.param_dtype
    _check_params(cfg, params)
    base = None if tokenizer_files_from is None else _tokenizer_folder(tokenizer_files_from)
    if target.exists() and not (target / "config.json").is_file() and (target.is_file() or any(target.iterdir())):
        raise FileExistsError(f"{target} exists and is no model folder; choose another path, nothing was changed")
    shards = _plan_shards(cfg, max_shard_bytes, dtype)
    entries, flat = dict(_entries(cfg)), flatten(params)
    writer = jax.process_index() == 0
    temporary = target.with_name(f".{target.name}.writing-{os.getpid()}")
    try:
        if writer:
            temporary.mkdir(parents=True)
        for name, tensors in shards.items():
            # Every process takes part in fetching: a parameter may be spread over hosts.
            arrays = {}
            for tensor in tensors:
                key, layer, entry = entries[tensor]
                arrays[tensor] = _fetch(flat[key], layer, entry, dtype)
            if writer:
                save_file(arrays, temporary / name, metadata={"format": "pt"})
                _read_back(temporary / name, arrays)
        if writer:
            _write_json_files(temporary, dataclasses.replace(cfg, param_dtype=dtype), shards, base)
            if base is not None:
                for file in filter(Path.is_file, (base / name for name in TOKENIZER_FILES)):
                    shutil.copyfile(file, temporary / file.name)
            _swap_in(temporary, target)
    finally:
        if writer:
            shutil.rmtree(temporary, ignore_errors=True)
    if any(isinstance(leaf, jax.Array) and not leaf.is_fully_addressable for leaf in flat.values()):
        multihost_utils.sync_global_devices(f"export to {target}")


def _check_params(cfg: TransformerConfig, params: Params) -> None:
    want = {key: leaf.shape for key, leaf in flatten(abstract_params(cfg)).items()}
    got = {key: tuple(leaf.shape) for key, leaf in flatten(params).items()}
    wrong = sorted(key for key in want.keys() | got.keys() if want.get(key) != got.get(key))
    if wrong:
        shown = ", ".join(f"{key}: {got.get(key)} instead of {want.get(key)}" for key in wrong[:6])
        raise ValueError(f"the parameters do not fit the config ({len(wrong)} differ): {shown}")


def _tokenizer_folder(path: str | Path) -> Path:
    folder = Path(path).expanduser()
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise FileNotFoundError(f"{folder}: no tokenizer files there; give the folder of the base model, or None")
    return folder


def _plan_shards(cfg: TransformerConfig, max_bytes: int, dtype: DType) -> dict[str, dict[str, int]]:
    """File name -> {tensor name: bytes}, filled in order; a tensor above the limit gets a file of its own."""
    groups: list[dict[str, int]] = [{}]
    for name, shape in tensor_names(cfg).items():
        size = math.prod(shape) * jnp.dtype(dtype).itemsize
        if groups[-1] and sum(groups[-1].values()) + size > max_bytes:
            groups.append({})
        groups[-1][name] = size
    if len(groups) == 1:
        return {SINGLE: groups[0]}
    return {f"model-{i:05d}-of-{len(groups):05d}.safetensors": group for i, group in enumerate(groups, 1)}


def _entries(cfg: TransformerConfig) -> Iterator[tuple[str, tuple[str, int | None, Entry]]]:
    """Tensor name -> our key, layer and entry, in the order of the files: top first, then layer by layer."""
    present = flatten(abstract_params(cfg))
    table = {key: entry for key, entry in NAMES.items() if key in present}
    layered = {key: entry for key, entry in table.items() if key.startswith("layers/")}
    yield from ((entry.name, (key, None, entry)) for key, entry in table.items() if key not in layered)
    for layer in range(cfg.num_layers):
        yield from ((entry.name.format(layer), (key, layer, entry)) for key, entry in layered.items())


def _fetch(leaf: Any, layer: int | None, entry: Entry, dtype: DType) -> np.ndarray:
    """One tensor in HF's layout on the host."""
    value = leaf if layer is None else _take_layer(leaf, np.int32(layer))
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        value = multihost_utils.process_allgather(value, tiled=True)
    host = np.asarray(value)
    shape = host.shape
    if entry.inputs:
        host = host.reshape(math.prod(shape[: entry.inputs]), math.prod(shape[entry.inputs :])).T
    else:
        host = host.reshape(hf_shape(shape, entry))
    # safetensors writes the memory behind an array: a transposed view would be saved in the wrong order, in silence.
    return np.ascontiguousarray(host, dtype=jnp.dtype(dtype))


@jax.jit
def _take_layer(leaf: jax.Array, layer: jax.Array) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(leaf, layer, keepdims=False)


def _read_back(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Compare the first row of every tensor with what was meant to be written."""
    with safetensors.safe_open(file, framework="np") as handle:
        for name, array in arrays.items():
            if handle.get_slice(name)[:1].tobytes() != array[:1].tobytes():
                raise OSError(f"{file}: {name} does not read back as written; check the disk and save again")


def _write_json_files(
    folder: Path, cfg: TransformerConfig, shards: dict[str, dict[str, int]], base: Path | None
) -> None:
    def write(name: str, content: dict[str, Any]) -> None:
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def read(name: str) -> dict[str, Any]:
        if base is None or not (base / name).is_file():
            return {}
        return json.loads((base / name).read_text(encoding="utf-8"))

    ids = {name: value for name, value in read("config.json").items() if name in _TOKEN_IDS}
    write("config.json", to_hf_config(cfg) | ids)
    write("generation_config.json", read("generation_config.json") or ids)
    if len(shards) > 1:
        total = sum(size for group in shards.values() for size in group.values())
        where = {tensor: file for file, group in shards.items() for tensor in group}
        write(INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))})


def _swap_in(temporary: Path, target: Path) -> None:
    """Rename the new folder to its place; the old one goes only when the new one is there."""
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    if not target.exists():
        temporary.rename(target)
        return
    target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old)

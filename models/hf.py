"""Hugging Face folders in and out: one table of tensor names, read both ways, one tensor at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from jax.experimental import multihost_utils

from spicejax.models import exported, gguf, hub
from spicejax.models.config import DType, TransformerConfig
from spicejax.models.files import TOKENIZER_FILES, Tensor, read_object, require_layers, resolve, sound, why_not
from spicejax.models.hf_config import from_hf_config, to_hf_config
from spicejax.models.layers import rope_frequencies
from spicejax.models.lora import MATRICES, flatten, unflatten
from spicejax.models.transformer import Params, abstract_params

ADAPTER = "adapter_config.json"  # PEFT's
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SHARD, WEIGHTS = "model{suffix}.safetensors", "model*.safetensors"  # the one file, or the shards
FLOATS = ("F64", "F32", "F16", "BF16")  # safetensors' words for what weights may be


# Our parameters and HF's tensors; a model has some of them, and its family may call some otherwise (Family.tensors).
# "{}" is the layer.
NAMES: dict[str, str] = {
    "embed": "model.embed_tokens.weight",
    "layers/attn_norm/scale": "model.layers.{}.input_layernorm.weight",
    **{f"layers/attn/{x}": f"model.layers.{{}}.self_attn.{x}_proj.weight" for x in ("q", "k", "v", "o")},
    "layers/mlp_norm/scale": "model.layers.{}.post_attention_layernorm.weight",
    **{f"layers/mlp/{x}": f"model.layers.{{}}.mlp.{x}_proj.weight" for x in ("gate", "up", "down")},
    "norm/scale": "model.norm.weight",
    "unembed": "lm_head.weight",
    **{f"layers/attn/{x}_bias": f"model.layers.{{}}.self_attn.{x}_proj.bias" for x in ("q", "k", "v")},
    **{f"layers/attn/{x}_norm/scale": f"model.layers.{{}}.self_attn.{x}_norm.weight" for x in ("q", "k")},
}
_FREQUENCIES = "rotary_emb.inv_freq"
_FEW = 1024  # rows of a table that are compared at a time
_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def read_config(path: str | Path) -> TransformerConfig:
    """The config of the model that `load` would read, compared with the names and shapes of weights on this machine.

    No weights are read or fetched. Raises: as `load`.
    """
    place = locate(path)
    lone = not any((place / name).exists() for name in (SINGLE, INDEX))
    if place.suffix != ".gguf" and (lone or hub.is_name(path)):  # of the Hub's there may be a part
        return _folder_config(place)
    return _open(place)[0]


def load(path: str | Path, *, dtype: DType | None = None, shardings: Any = None) -> tuple[TransformerConfig, Params]:
    """Read a model: a local HF folder, a .gguf file, "package:NAME" for an installed package with one .gguf inside, or
    ORG/NAME of the Hub, whose weights are fetched once its config is accepted.

    One tensor at a time goes to the devices, is cast there to `dtype` (None = as stated in the config, float32 for
    GGUF and float16) and written into its layer's place; host memory never holds more than one. `shardings` is a tree
    like the parameters. The returned config has dtype = param_dtype = what was loaded.

    Raises FileNotFoundError where there is no model, ValueError naming tensors that are missing, unexpected, misshaped,
    of integers or zero throughout, a damaged file, and an output layer that should be the embedding and is not.
    """
    if hub.is_name(path):
        read_config(path)
    place = locate(path, weights=True)
    cfg, tensors = _open(place)
    _require_copy(place, cfg, tensors, cfg.vocab_size)
    dtype = dtype or cfg.param_dtype
    cfg = dataclasses.replace(cfg, dtype=dtype, param_dtype=dtype)
    abstract = flatten(abstract_params(cfg))
    places: dict[str, Any] = dict.fromkeys(abstract) if shardings is None else flatten(shardings)
    names = NAMES | cfg.row.tensors
    return cfg, unflatten({key: _read(tensors, key, names[key], abstract[key], places[key]) for key in abstract})


def _open(place: Path) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Config and tensors of a folder or .gguf file, checked against each other."""
    if place.suffix == ".gguf":
        cfg, tensors = gguf.open_file(place, tensor_names)
    else:
        cfg, tensors = _folder_config(place), open_folder(place)
        require_layers(f"{place / 'config.json'}: num_hidden_layers", cfg.num_layers, tensors)
    # Buffers of old checkpoints, and a tied embedding that some writers repeat: the config says both.
    copies = {
        name for name in tensors if name.endswith(_FREQUENCIES) or name == NAMES["unembed"] and cfg.tie_embeddings
    }
    wanted, found = tensor_names(cfg), {name: tensor.shape for name, tensor in tensors.items()}
    require_shapes(str(place), wanted, {name: shape for name, shape in found.items() if name not in copies})
    _require_copy(place, cfg, tensors, _FEW)
    _require_frequencies(place, cfg, {name: tensors[name] for name in copies if name.endswith(_FREQUENCIES)})
    if kinds := {name: tensors[name].dtype for name in wanted if tensors[name].dtype not in FLOATS}:
        name, kind = next(iter(kinds.items()))
        raise ValueError(f"{place}: {name} is of {kind}; quantised weights are not read, give {', '.join(FLOATS)}")
    return cfg, tensors


def _require_copy(place: Path, cfg: TransformerConfig, tensors: dict[str, Tensor], rows: int) -> None:
    """Raise ValueError where the config ties the output layer to the embedding and the file has a different one."""
    if not cfg.tie_embeddings or NAMES["unembed"] not in tensors:
        return
    table, head = tensors[NAMES["embed"]], tensors[NAMES["unembed"]]
    rows = min(rows, cfg.vocab_size)
    parts = (slice(at, min(at + _FEW, rows)) for at in range(0, rows, _FEW))
    if table.shape != head.shape or any(not np.array_equal(table.read(part), head.read(part)) for part in parts):
        raise ValueError(
            f"{place}: {NAMES['unembed']} is not {NAMES['embed']}, though config.json says tie_word_embeddings: true; "
            "write false there to use it (as transformers 5 does), or take it out of the weights"
        )


def _require_frequencies(place: Path, cfg: TransformerConfig, buffers: dict[str, Tensor]) -> None:
    """Raise ValueError where stored rotary frequencies, perhaps rounded to 16 bits, are not those of the config."""
    ours = np.asarray(rope_frequencies(cfg.head_dim, cfg.rope_theta, cfg.rope_scaling)) if buffers else None
    for name, tensor in buffers.items():
        found = tensor.read().astype(np.float32)
        if ours is None or found.shape != ours.shape or not np.allclose(found, ours, rtol=1e-2, atol=1e-6):
            raise ValueError(
                f"{place}: {name} is not what rope_theta={cfg.rope_theta:g} and the rope scaling of config.json give; "
                "correct them, or take it out of the weights"
            )


def locate(path: str | Path, *, weights: bool = False) -> Path:
    """The folder or .gguf file that `path` names. Raises FileNotFoundError with the fix.

    Args:
      weights: whether a model of the Hub is fetched with its weights.
    """
    text, place = str(path), resolve(path, weights=weights)
    if place.suffix == ".gguf" and place.is_file() or (place / "config.json").is_file():
        return place
    if (place / ADAPTER).is_file():
        base = read_object(place / ADAPTER).get("base_model_name_or_path")
        raise FileNotFoundError(
            f"{text}: this folder holds an adapter of {base!r:.200}, no whole model; merge them (in peft: "
            "merge_and_unload, then save_pretrained) and give that folder"
        )
    if place.is_dir():
        raise FileNotFoundError(f"{text}: this folder has no config.json; give the folder of a Hugging Face model")
    raise FileNotFoundError(
        f"{text}: no such folder or .gguf file; give one, package:NAME, or ORG/NAME of the Hugging Face Hub"
    )


class Index(TypedDict):
    """The shard of each tensor."""

    weight_map: dict[str, str]


def tensor_names(cfg: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model in HF's naming and order, with its shape there; a tied output layer has none."""
    return {name: part.shape for name, part in _parts(cfg).items()}


class Part(NamedTuple):
    """The part of one of our parameters that an HF tensor holds."""

    key: str
    layer: int | None
    inputs: int  # 0: same order of elements; n: HF's [outputs, inputs], our first n axes being the inputs
    shape: tuple[int, ...]  # in HF's file


def _parts(cfg: TransformerConfig) -> dict[str, Part]:
    """The part of every tensor, in the order of the files: top first, then layer by layer."""
    present, names = flatten(abstract_params(cfg)), NAMES | cfg.row.tensors
    layered = [key for key in names if key in present and key.startswith("layers/")]

    def part(key: str, layer: int | None) -> Part:
        shape, inputs = present[key].shape[layer is not None :], _inputs(key)
        if inputs:
            shape = math.prod(shape[inputs:]), math.prod(shape[:inputs])
        elif key.endswith("_bias"):
            shape = (math.prod(shape),)
        return Part(key, layer, inputs, shape)

    parts = {name: part(key, None) for key, name in names.items() if key in present and key not in layered}
    for layer in range(cfg.num_layers):
        parts |= {names[key].format(layer): part(key, layer) for key in layered}
    return parts


def _inputs(key: str) -> int:
    return MATRICES.get(key.rpartition("/")[2], ("", 0))[1]


def open_folder(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder with model.safetensors, or with shards and their index."""
    files = [folder / SINGLE]
    if not files[0].is_file():
        if not (folder / INDEX).is_file():
            raise FileNotFoundError(f"{folder}: neither {SINGLE} nor {INDEX}; other formats are not read")
        named = sorted(set(read_object(folder / INDEX, Index)["weight_map"].values()))
        if outside := [name for name in named if Path(name).name != name or len(name.encode()) > 255]:
            raise ValueError(
                f"{folder / INDEX}: weight_map names {outside[0]!r:.100}, no file of this folder; correct it"
            )
        files = [folder / name for name in named]
    if absent := [f.name for f in files if not f.is_file()]:
        raise FileNotFoundError(f"{folder}: the index names {absent[:6]}, not there; finish the download")
    found = {}
    for file in files:
        try:
            handle = safetensors.safe_open(file, framework="np")
        except safetensors.SafetensorError as error:
            raise ValueError(why_not(file, "safetensors", error)) from error
        for name in handle.keys():
            part = handle.get_slice(name)
            found[name] = Tensor(
                tuple(part.get_shape()), functools.partial(_take, file, handle, name), part.get_dtype()
            )
    return found


def _take(file: Path, handle: Any, name: str, rows: slice | None = None) -> np.ndarray:
    if rows is not None:
        return handle.get_slice(name)[rows]
    return sound(f"{file}: {name}", handle.get_tensor(name))


def _folder_config(folder: Path) -> TransformerConfig:
    content = read_object(folder / "config.json")
    try:
        return from_hf_config(content)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def require_shapes(what: str, wanted: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> None:
    """Raise ValueError naming the arrays that are missing, unexpected or of another shape."""
    wrong = [name for name in sorted(wanted.keys() & found) if wanted[name] != found[name]]
    problems = [f"{name} has shape {found[name]}, the config says {wanted[name]}" for name in wrong[:6]]
    for title, names in (("unexpected", sorted(found.keys() - wanted)), ("missing", sorted(wanted.keys() - found))):
        if names:
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            problems.insert(
                0, f"{len(names)} tensors {title}: {', '.join(repr(name[:200])[1:-1] for name in names[:6])}{more}"
            )
    if problems:
        raise ValueError(f"{what}: the tensors do not fit the config. " + "; ".join(problems))


def _read(tensors: dict[str, Tensor], key: str, name: str, leaf: jax.ShapeDtypeStruct, sharding: Any) -> jax.Array:
    """One parameter on the devices; a stacked one is filled layer by layer in a donated buffer."""
    if not key.startswith("layers/"):
        value = tensors[name].read().astype(leaf.dtype)
        if sharding is None:
            return jnp.asarray(value)
        return jax.make_array_from_callback(leaf.shape, sharding, lambda index: value[index])
    buffer = jnp.zeros(leaf.shape, leaf.dtype, device=sharding)
    for layer in range(leaf.shape[0]):
        value = tensors[name.format(layer)].read()
        # Waiting bounds host memory: otherwise all layers' arrays queue up behind the transfer.
        buffer = jax.block_until_ready(_write_layer(buffer, value, np.int32(layer), _inputs(key), sharding))
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
    finish: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a folder that transformers, vLLM and `load` read: config, safetensors, generation config, tokenizer files.

    `dtype` None keeps cfg.param_dtype. The folder is written beside `path` and swapped in, see exported.folder, so a
    reader sees the old model or the new one, whole. Where `params` are spread over hosts every process calls this;
    process 0 writes.

    Args:
      finish: writes what else belongs into the folder, before it takes its place.
    Raises ValueError where `params` do not fit `cfg`, FileExistsError where `path` is a folder that was not written
    here, OSError where the disk is full or what was written does not read back.
    """
    from huggingface_hub import split_state_dict_into_shards_factory  # here: slow to import

    target, dtype = exported.require(path, WEIGHTS), dtype or cfg.param_dtype
    flat, parts = flatten(params), _parts(cfg)
    shapes = {key: leaf.shape for key, leaf in flatten(abstract_params(cfg)).items()}
    require_shapes("the parameters", shapes, {key: tuple(leaf.shape) for key, leaf in flat.items()})
    base = None if tokenizer_files_from is None else Path(tokenizer_files_from).expanduser()
    sizes = {name: math.prod(part.shape) * jnp.dtype(dtype).itemsize for name, part in parts.items()}
    split = split_state_dict_into_shards_factory(
        sizes, get_storage_size=lambda size: size, filename_pattern=SHARD, max_shard_size=max_shard_bytes
    )
    writes = jax.process_index() == 0
    with exported.folder(target, sum(sizes.values())) if writes else contextlib.nullcontext() as folder:
        for name, tensors in split.filename_to_tensors.items():
            # Every process takes part in fetching: a parameter may be spread over hosts.
            arrays = {tensor: _fetch(flat[parts[tensor].key], parts[tensor], dtype) for tensor in tensors}
            if folder is not None:
                exported.save(arrays, folder / name)
                _read_back(folder / name, arrays)
        if folder is not None:
            index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename} if split.is_sharded else None
            _write_json_files(folder, dataclasses.replace(cfg, param_dtype=dtype), index, base)
            if base is not None:
                for file in filter(Path.is_file, (base / name for name in TOKENIZER_FILES)):
                    shutil.copyfile(file, folder / file.name)
            finish(folder)
    if any(isinstance(leaf, jax.Array) and not leaf.is_fully_addressable for leaf in flat.values()):
        multihost_utils.sync_global_devices(f"export to {target}")


def _fetch(leaf: Any, part: Part, dtype: DType) -> np.ndarray:
    """One tensor in HF's layout on the host."""
    host = on_host(leaf if part.layer is None else _take_layer(leaf, np.int32(part.layer)))
    host = host.reshape(part.shape[::-1]).T if part.inputs else host.reshape(part.shape)
    # safetensors writes the memory behind an array: a transposed view would be saved in the wrong order, in silence.
    return np.ascontiguousarray(host, dtype=jnp.dtype(dtype))


def on_host(leaf: Any) -> np.ndarray:
    """The whole array, gathered by all processes where it is spread over hosts."""
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        leaf = multihost_utils.process_allgather(leaf, tiled=True)
    return np.asarray(leaf)


@jax.jit
def _take_layer(leaf: jax.Array, layer: jax.Array) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(leaf, layer, keepdims=False)


def _read_back(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Compare the first row of every tensor with what was meant to be written."""
    with safetensors.safe_open(file, framework="np") as handle:
        for name, array in arrays.items():
            if handle.get_slice(name)[:1].tobytes() != array[:1].tobytes():
                raise OSError(f"{file}: {name} does not read back as written; check the disk and save again")


def _write_json_files(folder: Path, cfg: TransformerConfig, index: dict[str, Any] | None, base: Path | None) -> None:
    def write(name: str, content: dict[str, Any]) -> None:
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def read(name: str) -> dict[str, Any]:
        if base is None or not (base / name).is_file():
            return {}
        return json.loads((base / name).read_text(encoding="utf-8"))

    ids = {name: value for name, value in read("config.json").items() if name in _TOKEN_IDS}
    write("config.json", to_hf_config(cfg) | ids)
    write("generation_config.json", read("generation_config.json") or ids)
    if index is not None:
        write(INDEX, index)

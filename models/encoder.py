"""The text encoder of retrieval: BERT with a pooled output, its Hugging Face folder in, styles of known encoders."""

from __future__ import annotations

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from spicejax.models.config import DType
from spicejax.models.files import Tensor, checked, read_object, require_layers
from spicejax.models.hf import FLOATS, locate, open_folder, require_shapes
from spicejax.models.hf_config import HARMLESS, Epsilon, Size, require_known
from spicejax.models.lora import Params, flatten, unflatten

Pooling = Literal["mean", "cls"]


@dataclasses.dataclass(frozen=True)
class Style:
    """How an encoder was trained to read text: another style than its own finds worse passages without a word."""

    pooling: Pooling  # mean over the tokens, or the first token's hidden state
    max_tokens: int  # longer texts are cut, [CLS] and [SEP] counted
    query_prefix: str = ""
    passage_prefix: str = ""
    normalize: bool = True  # to length 1, so that a dot product is a cosine

    def __post_init__(self) -> None:
        if self.max_tokens < 3:
            raise ValueError(f"max_tokens={self.max_tokens}: give at least 3, [CLS] and [SEP] are two")


STYLES: dict[str, Style] = {
    "minilm": Style("mean", 256),  # sentence-transformers all-MiniLM-L6-v2, -L12-v2
    "e5": Style("mean", 512, "query: ", "passage: "),  # arXiv:2212.03533
    "bge": Style("cls", 512, "Represent this sentence for searching relevant passages: "),  # v1.5, English
    "contriever": Style("mean", 512, normalize=False),  # arXiv:2112.09118, trained on plain dot products
}


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Everything that fixes the maths of one BERT."""

    vocab_size: int  # V
    d_model: int  # D
    num_layers: int  # L
    num_heads: int  # H
    d_ff: int  # width of the MLP's hidden layer
    max_position: int  # learnt positions: the longest text, in tokens
    token_types: int  # rows of the segment table; one text is all segment 0
    norm_eps: float = 1e-12
    dtype: DType = "float32"  # compute; norms, softmax and pooling stay float32

    def __post_init__(self) -> None:
        if self.d_model % self.num_heads:
            raise ValueError(
                f"EncoderConfig: d_model={self.d_model} is not a multiple of num_heads={self.num_heads}; "
                "heads share it in equal parts"
            )


class Block(nn.Module):
    """One post-norm layer as the body of a scan."""

    cfg: EncoderConfig

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"], mask: Array) -> tuple[Float[Array, "B T D"], None]:
        cfg = self.cfg
        attend = nn.MultiHeadDotProductAttention(cfg.num_heads, dtype=cfg.dtype, attention_fn=_attention, name="attn")
        x = _norm(cfg, "attn_norm")(x + attend(x, mask=mask))
        hidden = nn.gelu(nn.Dense(cfg.d_ff, dtype=cfg.dtype, name="up")(x), approximate=False)
        return _norm(cfg, "mlp_norm")(x + nn.Dense(cfg.d_model, dtype=cfg.dtype, name="down")(hidden)), None


def _attention(query: Array, key: Array, value: Array, *, mask: Array, **_: Any) -> Array:
    """XLA's or the device's own; flax's takes a sixth longer for the whole model on CPU. Softmax in float32."""
    return jax.nn.dot_product_attention(query, key, value, mask=mask)


class Bert(nn.Module):
    """Embeddings and scanned layers (arXiv:1810.04805). Use `embed`, not the module."""

    cfg: EncoderConfig

    @nn.compact
    def __call__(self, tokens: Int[Array, "B T"], mask: Array) -> Float[Array, "B T D"]:
        cfg = self.cfg
        sizes = {"word": cfg.vocab_size, "position": cfg.max_position, "token_type": cfg.token_types}
        table = {name: nn.Embed(size, cfg.d_model, dtype=cfg.dtype, name=name) for name, size in sizes.items()}
        places = jnp.arange(tokens.shape[1])
        x = table["word"](tokens) + table["position"](places) + table["token_type"](jnp.zeros_like(places))
        layers = nn.scan(
            Block,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=nn.broadcast,  # pyright: ignore[reportArgumentType]
            length=cfg.num_layers,
        )
        return layers(cfg, name="layers")(_norm(cfg, "norm")(x), mask)[0]


def _norm(cfg: EncoderConfig, name: str) -> nn.LayerNorm:
    return nn.LayerNorm(cfg.norm_eps, dtype=cfg.dtype, use_fast_variance=False, name=name)


def embed(
    cfg: EncoderConfig,
    params: Params,
    tokens: Int[Array, "B T"],
    lengths: Int[Array, " B"],
    *,
    pooling: Pooling,
    normalize: bool,
) -> Float[Array, "B D"]:
    """Encode texts that stand at the left of their rows: attention both ways among `lengths` tokens, pooled. Float32.

    A row of length 0 gives zeros or what its padding says; it stops nothing.
    """
    mask = jnp.arange(tokens.shape[1]) < lengths[:, None]
    hidden: Any = Bert(cfg).apply({"params": params}, tokens, mask[:, None, None])
    hidden = hidden.astype(jnp.float32)
    if pooling == "cls":
        pooled = hidden[:, 0]
    else:
        pooled = jnp.where(mask[..., None], hidden, 0).sum(1) / jnp.maximum(lengths, 1)[:, None]
    if not normalize:
        return pooled
    return pooled / jnp.maximum(jnp.linalg.norm(pooled, axis=-1, keepdims=True), 1e-12)


@functools.lru_cache(maxsize=8)  # it traces the model
def abstract_params(cfg: EncoderConfig) -> Params:
    """The shapes and dtypes of the parameters, without making an array."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    return jax.eval_shape(lambda: Bert(cfg).init(jax.random.key(0), tokens, tokens > 0)["params"])


# Our modules and HF's; "{}" is the layer. Kernels and scales are HF's "weight".
_MODULES = {
    **{name: f"embeddings.{name}_embeddings" for name in ("word", "position", "token_type")},
    "norm": "embeddings.LayerNorm",
    **{f"layers/attn/{x}": f"encoder.layer.{{}}.attention.self.{x}" for x in ("query", "key", "value")},
    "layers/attn/out": "encoder.layer.{}.attention.output.dense",
    "layers/attn_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "layers/up": "encoder.layer.{}.intermediate.dense",
    "layers/down": "encoder.layer.{}.output.dense",
    "layers/mlp_norm": "encoder.layer.{}.output.LayerNorm",
}
# Tensors of heads we do not have.
_UNUSED = ("pooler.", "cls.")
_POSITIONS = "embeddings.position_ids"  # a buffer of old checkpoints: 0, 1, 2 ...


_SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "max_position": "max_position_embeddings",
    "token_types": "type_vocab_size",
}


class HfConfig(TypedDict, total=False):
    """The attributes of config.json that become a field of EncoderConfig."""

    model_type: Required[Literal["bert"]]
    vocab_size: Required[Size]
    hidden_size: Required[Size]
    num_hidden_layers: Required[Size]
    num_attention_heads: Required[Size]
    intermediate_size: Required[Size]
    max_position_embeddings: Required[Size]
    type_vocab_size: Required[Size]
    layer_norm_eps: Epsilon


class PoolingConfig(TypedDict, total=False):
    """What is read of the pooling that sentence-transformers states beside a model."""

    pooling_mode_cls_token: bool
    pooling_mode_mean_tokens: bool


_STATED: dict[Pooling, str] = {"mean": "mean_tokens", "cls": "cls_token"}


# Attributes that change the maths, with the values under which they do not.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("add_cross_attention", "is_decoder"), (False, None)),
    **dict.fromkeys(("auto_map", "quantization_config"), (None,)),
    "chunk_size_feed_forward": (0,),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, None),
}
# Beside those of hf_config.py: what acts in training alone, and the sizes of a head that is not used.
_HARMLESS = HARMLESS | set(
    """architectures attention_probs_dropout_prob classifier_dropout directionality dtype gradient_checkpointing
    hidden_dropout_prob pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    tie_word_embeddings torch_dtype""".split()
)


def from_hf_config(config: dict[str, Any], dtype: DType = "float32") -> EncoderConfig:
    """Read a parsed config.json. Raises ValueError on an attribute that is unknown or asks for other maths."""
    checked(config, HfConfig, "config.json")
    require_known(config, HfConfig.__annotations__.keys() | _HARMLESS, _NEUTRAL)
    sizes = {ours: config[theirs] for ours, theirs in _SIZES.items()}
    return EncoderConfig(**sizes, norm_eps=config.get("layer_norm_eps", 1e-12), dtype=dtype)


def load(path: str | Path, *, dtype: DType = "float32") -> tuple[EncoderConfig, Params]:
    """Read a Hugging Face folder of a BERT, with or without a head on it; parameters become float32 numpy arrays.

    Raises: as `hf.load`.
    """
    folder = locate(path)
    try:
        cfg = from_hf_config(read_object(folder / "config.json"), dtype)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    found = {name.removeprefix("bert."): tensor for name, tensor in open_folder(locate(path, weights=True)).items()}
    found = {name: tensor for name, tensor in found.items() if not name.startswith(_UNUSED)}
    require_layers(f"{folder / 'config.json'}: num_hidden_layers", cfg.num_layers, found)
    positions = found.pop(_POSITIONS, None)
    if positions is not None and positions.read().ravel().tolist() != list(range(cfg.max_position)):
        raise ValueError(f"{folder}: {_POSITIONS} is not 0 to {cfg.max_position - 1}; take it out of the weights")
    abstract = flatten(abstract_params(cfg))
    names = {key: _hf_names(cfg, key) for key in abstract}
    shapes = {name: _hf_shape(key, abstract[key].shape) for key in abstract for name in names[key]}
    require_shapes(str(folder), shapes, {name: tensor.shape for name, tensor in found.items()})
    for name, tensor in found.items():
        if tensor.dtype not in FLOATS:
            raise ValueError(f"{folder}: {name} is of {tensor.dtype}; give weights of {', '.join(FLOATS)}")
    return cfg, unflatten({key: _read(found, key, names[key], abstract[key].shape) for key in abstract})


def _hf_names(cfg: EncoderConfig, key: str) -> list[str]:
    """HF's tensors of one parameter: one a layer where it is stacked."""
    module, _, kind = key.rpartition("/")
    name = f"{_MODULES[module]}.{'bias' if kind == 'bias' else 'weight'}"
    return [name.format(layer) for layer in range(cfg.num_layers)] if key.startswith("layers/") else [name]


def _hf_shape(key: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in HF's file of one layer's part: matrices lie as [outputs, inputs], heads are not apart."""
    shape = shape[key.startswith("layers/") :]
    if key.endswith("kernel"):
        inputs = 2 if key.endswith("out/kernel") else 1
        return math.prod(shape[inputs:]), math.prod(shape[:inputs])
    return shape if key.endswith("embedding") else (math.prod(shape),)


def _read(tensors: dict[str, Tensor], key: str, names: list[str], shape: tuple[int, ...]) -> np.ndarray:
    parts = (tensors[name].read().astype(np.float32) for name in names)
    return np.stack([part.T if key.endswith("kernel") else part for part in parts]).reshape(shape)


def require_pooling(path: str | Path, pooling: Pooling) -> None:
    """Raise ValueError where sentence-transformers' files in the folder state another pooling."""
    file = locate(path) / "1_Pooling" / "config.json"
    if file.is_file() and not read_object(file, PoolingConfig).get(f"pooling_mode_{_STATED[pooling]}", False):
        raise ValueError(f"{file} states another pooling than {pooling!r}; give the style of this encoder")

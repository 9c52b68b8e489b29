"""The families of decoders, a row each. What differs between models of one family is in `config.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal


@dataclasses.dataclass(frozen=True)
class Family:
    """What all models of one family have in common: their maths, and their words in config.json."""

    architecture: str  # HF's class of a causal language model
    # Maths that HF has no attribute for.
    qk_norm: bool = False  # RMSNorm on the heads of q and k
    qkv_bias: bool = False  # bias on q, k and v
    post_norms: bool = False  # RMSNorm also on what attention and MLP add to the residual stream
    scale_offset: float = 0.0  # added to the stored scale of each norm
    activation: Literal["silu", "gelu_tanh"] = "silu"  # of the MLP's gate
    scaled_embedding: bool = False  # embeddings times the root of d_model
    whole_heads: bool = False  # transformers refuses a d_model that num_heads does not divide, head_dim stated or not
    # What holds where config.json is silent: the defaults of HF's class.
    head_dim: int | None = None  # None = d_model / num_heads
    rope_theta: float | None = None  # None = it must be stated
    own_kv_heads: bool = False  # each query head has its own; False = their number must be stated
    tied: bool = False  # the output layer is the embedding
    # Fields of TransformerConfig that only some families have, and HF's words for them, which must be stated.
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Attributes of this family alone, beside those that hf_config.py knows for all: with the values under which they
    # do not change the maths, and those that never do. Any other is refused by name.
    neutral: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # by export, beside what all families have
    # Parameters that HF calls otherwise here than in hf.NAMES; "{}" is the layer.
    tensors: dict[str, str] = dataclasses.field(default_factory=dict)
    # llama.cpp's name of it; "" = its GGUF files are not read
    gguf: str = ""
    gguf_interleaved: bool = False  # there rows of q and k stand in pairs (2i, 2i + 1)


_OFF = (False, None)
_SILU = ("silu", "swish")
# Qwen states a window beside use_sliding_window, which is off where it is absent.
_QWEN: dict[str, Any] = {"hidden_act": "silu", "use_sliding_window": False, "sliding_window": None}

FAMILIES: dict[str, Family] = {
    "qwen3": Family(
        "Qwen3ForCausalLM",
        qk_norm=True,
        head_dim=128,
        neutral={"hidden_act": _SILU, "attention_bias": _OFF, "use_sliding_window": _OFF},
        harmless=("max_window_layers", "sliding_window"),
        written=_QWEN | {"attention_bias": False},
        gguf="qwen3",
    ),
    "qwen2": Family(  # its bias is not optional: no attention_bias
        "Qwen2ForCausalLM",
        qkv_bias=True,
        neutral={"hidden_act": _SILU, "use_mrope": _OFF, "use_sliding_window": _OFF},
        harmless=("max_window_layers", "sliding_window"),
        written=_QWEN,
        gguf="qwen2",
    ),
    "llama": Family(
        "LlamaForCausalLM",
        whole_heads=True,
        rope_theta=10_000.0,  # the first were saved before the attribute existed
        own_kv_heads=True,
        neutral={
            "hidden_act": _SILU,
            **dict.fromkeys(("attention_bias", "mlp_bias", "rope_interleaved"), _OFF),
            "pretraining_tp": (1, None),
            "sliding_window": (None,),
        },
        harmless=("is_llama_config",),
        written={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
        gguf="llama",
        gguf_interleaved=True,
    ),
    "mistral": Family(
        "MistralForCausalLM",
        fields={"sliding_window": "sliding_window"},
        neutral={"hidden_act": _SILU},
        written={"hidden_act": "silu"},
    ),
    "gemma3_text": Family(
        "Gemma3ForCausalLM",
        qk_norm=True,
        post_norms=True,
        scale_offset=1.0,
        activation="gelu_tanh",
        scaled_embedding=True,
        whole_heads=True,
        head_dim=256,
        tied=True,
        fields={
            "sliding_window": "sliding_window",
            "full_every": "sliding_window_pattern",
            "sliding_theta": "rope_local_base_freq",
            "query_scalar": "query_pre_attn_scalar",
        },
        neutral={
            "hidden_activation": ("gelu_pytorch_tanh",),
            **dict.fromkeys(("attention_bias", "use_bidirectional_attention"), _OFF),
            **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), (None,)),
        },
        harmless=(
            "_sliding_window_pattern",
            "cache_implementation",
        ),  # the first stands beside layer_types, which count
        written={"hidden_activation": "gelu_pytorch_tanh", "attention_bias": False},
        tensors={
            "layers/attn_post_norm/scale": "model.layers.{}.post_attention_layernorm.weight",
            "layers/mlp_norm/scale": "model.layers.{}.pre_feedforward_layernorm.weight",
            "layers/mlp_post_norm/scale": "model.layers.{}.post_feedforward_layernorm.weight",
        },
    ),
}

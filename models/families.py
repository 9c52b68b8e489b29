"""The families of decoders, a row each. What differs between models of one family is in `config.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Family:
    """What all models of one family have in common: their maths, and their words in config.json."""

    architecture: str  # HF's class of a causal language model
    # Maths that HF has no attribute for.
    qk_norm: bool = False  # RMSNorm on the heads of q and k
    qkv_bias: bool = False  # bias on q, k and v
    whole_heads: bool = False  # transformers refuses a d_model that num_heads does not divide, head_dim stated or not
    # What holds where config.json is silent: the defaults of HF's class.
    head_dim: int | None = None  # None = d_model / num_heads
    rope_theta: float | None = None  # None = it must be stated
    own_kv_heads: bool = False  # each query head has its own; False = their number must be stated
    # Attributes of this family alone, beside those that hf_config.py knows for all: with the values under which they
    # do not change the maths, and those that never do. Any other is refused by name.
    neutral: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # by export, beside what all families have
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
}

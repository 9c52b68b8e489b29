"""GGUF files in: metadata to a TransformerConfig, tensors dequantised and renamed to Hugging Face names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spicejax.models.layers import RopeScaling, rope_frequencies
from spicejax.models.transformer import FAMILY_FLAGS, TransformerConfig

# The last part of a GGUF tensor name -> of the HF name, both without ".weight" or ".bias".
_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_ROPE_FACTORS = "rope_freqs.weight"  # llama.cpp's form of the llama3 rule: one divisor per frequency

# Keys below "<arch>." that `read_config` reads; any other is refused, since it may change the maths.
_READ = frozenset(
    """block_count context_length embedding_length feed_forward_length attention.head_count attention.head_count_kv
    attention.layer_norm_rms_epsilon attention.key_length attention.value_length rope.freq_base rope.dimension_count
    rope.scaling.type vocab_size""".split()
)


class GGUFTensors:
    """The tensors of one GGUF file under HF names, read one at a time, float32."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader  # here: the library is slow to import and only this door needs it

        self.path = path
        self._reader = GGUFReader(path)
        self.config = _config(self._reader, path)
        self._tensors: dict[str, Any] = {}
        for tensor in self._reader.tensors:
            if tensor.name != _ROPE_FACTORS:
                self._tensors[_hf_name(tensor.name)] = tensor

    def names(self) -> set[str]:
        return set(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(int(n) for n in reversed(self._tensors[name].shape))  # GGUF lists the fastest axis first

    def read(self, name: str) -> np.ndarray:
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        value = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(self.shape(name))
        if self.config.family == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            return _half_split(value, self.config.head_dim)
        return value


def read_config(path: Path) -> TransformerConfig:
    """The config in a GGUF file's metadata.

    Raises ValueError on an architecture or a metadata key that the decoder does not know, naming it.
    """
    from gguf import GGUFReader

    return _config(GGUFReader(path), path)


def _half_split(weight: np.ndarray, head_dim: int) -> np.ndarray:
    """Undo llama.cpp's row order of q and k for arch llama: rotary pairs (2i, 2i + 1) back to (i, i + h/2)."""
    heads = weight.shape[0] // head_dim
    return weight.reshape(heads, head_dim // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def _hf_name(name: str) -> str:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _BLOCK_NAMES:
        return f"model.layers.{parts[1]}.{_BLOCK_NAMES[parts[2]]}.{parts[3]}"
    return name  # unknown: the loader reports it as unexpected under its GGUF name


def _config(reader: Any, path: Path) -> TransformerConfig:
    architecture = reader.fields["general.architecture"].contents()
    if architecture not in FAMILY_FLAGS:
        raise ValueError(f"{path}: GGUF architecture {architecture!r} is not supported; known are {list(FAMILY_FLAGS)}")
    prefix = f"{architecture}."
    data = {k.removeprefix(prefix): f.contents() for k, f in reader.fields.items() if k.startswith(prefix)}
    if data.pop("rope.scaling.type", "none") != "none" or set(data) - _READ:
        unknown = {k: data[k] for k in sorted(set(data) - _READ)} or "rope.scaling.type"
        raise ValueError(
            f"{path}: GGUF metadata {prefix}{unknown} is not supported; convert from the HF folder instead"
        )
    shapes = {t.name: tuple(int(n) for n in reversed(t.shape)) for t in reader.tensors}
    heads = data["attention.head_count"]
    head_dim = data.get("attention.key_length", data["embedding_length"] // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if data.get(key, head_dim) != head_dim:
            raise ValueError(
                f"{path}: GGUF metadata {prefix}{key}={data[key]}, head_dim is {head_dim}; they must agree"
            )
    if "rope.freq_base" not in data:
        raise ValueError(f"{path}: GGUF metadata has no {prefix}rope.freq_base; the rotary base cannot be guessed")
    qk_norm, qkv_bias = FAMILY_FLAGS[architecture]
    theta = _shortest(data["rope.freq_base"])
    return TransformerConfig(
        family=architecture,
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
        rope_scaling=_rope_scaling(reader, path, head_dim, theta),
        rms_norm_eps=_shortest(data["attention.layer_norm_rms_epsilon"]),
        qk_norm=qk_norm,
        qkv_bias=qkv_bias,
    )


def _shortest(value: float) -> float:
    """The decimal meant by a float32: 9.9999997e-06 is 1e-05."""
    return float(str(np.float32(value)))


def _rope_scaling(reader: Any, path: Path, head_dim: int, theta: float) -> RopeScaling | None:
    """Recognise the llama3 rule in its table of divisors: the file keeps the table, not the four numbers behind it."""
    factors = next((np.asarray(t.data, np.float32) for t in reader.tensors if t.name == _ROPE_FACTORS), None)
    if factors is None:
        return None
    guess = RopeScaling(
        factor=_shortest(float(factors.max())), low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=8192
    )
    plain, scaled = (np.asarray(rope_frequencies(head_dim, theta, rule)) for rule in (None, guess))
    if not np.allclose(plain / scaled, factors, rtol=1e-3):
        raise ValueError(f"{path}: {_ROPE_FACTORS} is not the rule of Llama 3.1 or 3.2; load the HF folder instead")
    return guess

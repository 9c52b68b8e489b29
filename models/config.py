"""The shape of one decoder: everything that fixes its maths. Sizes of published models: `presets.py`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from spicejax.models.attention import AttentionKernel
from spicejax.models.families import FAMILIES, Family
from spicejax.models.lora import LoraConfig

Remat = Literal["none", "layer", "dots"]
DType = Literal["float32", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """The "llama3" rule for stretching rotary frequencies (arXiv:2407.21783; HF `rope_type: llama3`, or `linear`)."""

    factor: float  # low frequencies are divided by this
    low_freq_factor: float = 1.0  # wavelengths above original_max_position / this are fully stretched
    high_freq_factor: float = 4.0  # wavelengths below original_max_position / this stay as they are
    original_max_position: int = 0  # context length before stretching, in tokens; 0 = all are stretched: HF's linear


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """Everything that fixes the maths of one decoder."""

    family: str  # a row of families.py
    vocab_size: int  # V, rows of the embedding (HF pads it beyond the tokenizer)
    d_model: int  # D, width of the residual stream
    num_layers: int  # L
    num_heads: int  # H, query heads
    num_kv_heads: int  # K, key/value heads; H must be a multiple
    head_dim: int  # width of one head; H * head_dim need not be D
    d_ff: int  # width of the MLP's hidden layer
    rope_theta: float  # base of the rotary frequencies; no default, since a wrong one is silent
    tie_embeddings: bool  # the output layer is the embedding
    max_position: int  # context the model was made for, in tokens; not enforced by the maths
    rope_scaling: RopeScaling | None = None  # llama3 rule, None = plain
    rms_norm_eps: float = 1e-6
    sliding_window: int | None = None  # newest tokens that a token sees in a sliding layer, itself among them
    full_every: int = 0  # every so many layers one sees all tokens; 0 = none does where there is a window
    sliding_theta: float | None = None  # rope_theta of the sliding layers, never stretched; None = as the others
    query_scalar: int | None = None  # attention scores are divided by its root; None = by that of head_dim
    dtype: DType = "float32"  # compute; norms, softmax, rotation, logits and log-probabilities stay float32
    param_dtype: DType = "float32"  # storage
    remat: Remat = "none"  # "layer" keeps only layer inputs, "dots" also keeps matmul outputs
    attention: AttentionKernel = "auto"  # kernel of the training pass and of prompts
    lora: LoraConfig | None = None  # low-rank adapters in every layer, part of the parameters
    unroll_layers: bool = False  # write the layers of the training pass out; False loops over them
    # rows of the vocabulary that no token has: they take part in no distribution. Borders of ranges: from, to, from ...
    unused: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"TransformerConfig.family={self.family!r}: known are {', '.join(FAMILIES)}")
        for name in ("vocab_size", "d_model", "num_layers", "num_heads", "num_kv_heads", "d_ff", "max_position"):
            if getattr(self, name) < 1:
                raise ValueError(f"TransformerConfig.{name}={getattr(self, name)}: give a positive number")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"TransformerConfig: num_heads={self.num_heads} is not a multiple of num_kv_heads="
                f"{self.num_kv_heads}; query heads share kv heads in equal groups"
            )
        if self.head_dim < 2 or self.head_dim % 2:
            raise ValueError(f"TransformerConfig.head_dim={self.head_dim}: rotary pairs need an even number")
        if self.row.whole_heads and self.d_model % self.num_heads:
            raise ValueError(
                f"TransformerConfig: d_model={self.d_model} is not a multiple of num_heads={self.num_heads}; "
                f"transformers refuses such a {self.family} although head_dim is stated, so it could not be exported"
            )
        has_sliding_layers = self.full_every > 0 or self.sliding_theta is not None
        window = self.sliding_window
        if (window is None and has_sliding_layers) or (window is not None and window < 1):
            raise ValueError(f"TransformerConfig.sliding_window={self.sliding_window}: say how far sliding layers see")
        borders = self.unused
        ascending = list(borders) == sorted(set(borders)) and not len(borders) % 2
        if not ascending or borders and not 0 <= borders[0] < borders[-1] <= self.vocab_size:
            raise ValueError(f"TransformerConfig.unused={borders}: give pairs of ascending ids within the vocabulary")
        if self.rope_theta <= 0 or self.rms_norm_eps <= 0:
            raise ValueError(
                f"TransformerConfig: rope_theta={self.rope_theta} and rms_norm_eps={self.rms_norm_eps} must be positive"
            )

    @property
    def row(self) -> Family:
        """What all models of its family have in common."""
        return FAMILIES[self.family]

    def slides(self, layer: int) -> bool:
        """Whether a layer sees the newest tokens alone."""
        return self.sliding_window is not None and not (self.full_every and (layer + 1) % self.full_every == 0)

    @property
    def kinds(self) -> tuple[bool, ...]:
        """The values of `slides` over the layers: one of them, or (False, True) for a model with both kinds."""
        return tuple(sorted({self.slides(layer) for layer in range(self.num_layers)}))

"""Sizes of published models, and of the nano model, as literal configs."""

from __future__ import annotations

import dataclasses

from spicejax.models.config import RopeScaling, TransformerConfig

# Qwen3 dense, the -Base checkpoints (the chat ones say max_position 40960; nothing else differs).
QWEN3_0_6B = TransformerConfig(
    family="qwen3",
    vocab_size=151_936,
    d_model=1024,
    num_layers=28,
    num_heads=16,
    num_kv_heads=8,
    head_dim=128,
    d_ff=3072,
    rope_theta=1e6,
    tie_embeddings=True,
    max_position=32_768,
)
QWEN3_1_7B = dataclasses.replace(QWEN3_0_6B, d_model=2048, d_ff=6144)
QWEN3_4B = dataclasses.replace(QWEN3_0_6B, d_model=2560, num_layers=36, num_heads=32, d_ff=9728)
QWEN3_8B = dataclasses.replace(QWEN3_4B, d_model=4096, d_ff=12_288, tie_embeddings=False)

# Qwen2.5, base and instruct. The 14B base checkpoint says rms_norm_eps 1e-5, the others 1e-6.
QWEN25_7B = TransformerConfig(
    family="qwen2",
    vocab_size=152_064,
    d_model=3584,
    num_layers=28,
    num_heads=28,
    num_kv_heads=4,
    head_dim=128,
    d_ff=18_944,
    rope_theta=1e6,
    tie_embeddings=False,
    max_position=32_768,
)
QWEN25_14B = dataclasses.replace(QWEN25_7B, d_model=5120, num_layers=48, num_heads=40, num_kv_heads=8, d_ff=13_824)
QWEN25_32B = dataclasses.replace(QWEN25_14B, num_layers=64, d_ff=27_648)
QWEN25_1_5B = dataclasses.replace(
    QWEN25_7B, vocab_size=151_936, d_model=1536, num_heads=12, num_kv_heads=2, d_ff=8960, tie_embeddings=True
)
QWEN25_0_5B = dataclasses.replace(
    QWEN25_1_5B, d_model=896, num_layers=24, num_heads=14, num_kv_heads=2, head_dim=64, d_ff=4864
)

LLAMA31_8B = TransformerConfig(
    family="llama",
    vocab_size=128_256,
    d_model=4096,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    d_ff=14_336,
    rope_theta=5e5,
    tie_embeddings=False,
    max_position=131_072,
    rope_scaling=RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=8192),
    rms_norm_eps=1e-5,
)
LLAMA32_3B = dataclasses.replace(
    LLAMA31_8B,
    d_model=3072,
    num_layers=28,
    num_heads=24,
    d_ff=8192,
    tie_embeddings=True,
    rope_scaling=RopeScaling(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=8192),
)
# OctoThinker continues the pre-training of Llama 3.2 3B and Llama 3.1 8B (arXiv:2506.20512): same shapes.
OCTOTHINKER_3B = dataclasses.replace(LLAMA32_3B)
OCTOTHINKER_8B = dataclasses.replace(LLAMA31_8B)

SMOLLM2_135M = TransformerConfig(
    family="llama",
    vocab_size=49_152,
    d_model=576,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    d_ff=1536,
    rope_theta=1e5,
    tie_embeddings=True,
    max_position=8192,
    rms_norm_eps=1e-5,
)

MISTRAL_7B = TransformerConfig(  # v0.3; v0.1 has another vocabulary, rope_theta and a window of 4096
    family="mistral",
    vocab_size=32_768,
    d_model=4096,
    num_layers=32,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    d_ff=14_336,
    rope_theta=1e6,
    tie_embeddings=False,
    max_position=32_768,
    rms_norm_eps=1e-5,
)
GEMMA3_1B = TransformerConfig(
    family="gemma3_text",
    vocab_size=262_144,
    d_model=1152,
    num_layers=26,
    num_heads=4,
    num_kv_heads=1,
    head_dim=256,
    d_ff=6912,
    rope_theta=1e6,
    tie_embeddings=True,
    max_position=32_768,
    sliding_window=512,
    full_every=6,
    sliding_theta=1e4,
    query_scalar=256,
)

# Made to learn on two CPU cores; no published weights.
NANO = TransformerConfig(
    family="qwen3",
    vocab_size=640,
    d_model=160,
    num_layers=3,
    num_heads=4,
    num_kv_heads=4,
    head_dim=40,
    d_ff=448,
    rope_theta=1_000.0,
    tie_embeddings=True,
    max_position=2048,
)

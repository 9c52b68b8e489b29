"""Small models of every family and the forward pass that the tests of this folder compare."""

import dataclasses
import functools
import json
import string
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from safetensors.numpy import save_file

from spicejax.models import encoder, hf, transformer
from spicejax.models.config import RopeScaling, TransformerConfig
from spicejax.models.layers import rope_frequencies
from spicejax.models.lora import flatten
from spicejax.text.vocabulary import byte_of_char

# Odd on purpose: H != K, H * h != D, nothing equal to anything else.
QWEN3 = TransformerConfig(
    family="qwen3",
    vocab_size=97,
    d_model=40,
    num_layers=3,
    num_heads=6,
    num_kv_heads=2,
    head_dim=12,
    d_ff=56,
    rope_theta=5e6,
    tie_embeddings=True,
    max_position=128,
)
QWEN2 = dataclasses.replace(QWEN3, family="qwen2", d_model=48, head_dim=8, rope_theta=3e4)
LLAMA = dataclasses.replace(QWEN3, family="llama", d_model=42, num_kv_heads=3, head_dim=16, rms_norm_eps=1e-5)
# Original length 16 puts the stretched band inside the test's 21 positions.
LLAMA3 = dataclasses.replace(LLAMA, rope_scaling=RopeScaling(8.0, 1.0, 4.0, 16), rope_theta=5e5, tie_embeddings=False)
# Windows of less than the test's tokens, and not less than a prompt's chunk.
MISTRAL = dataclasses.replace(QWEN3, family="mistral", sliding_window=7, rope_theta=2e4, tie_embeddings=False)
GEMMA3 = dataclasses.replace(
    QWEN3,
    family="gemma3_text",
    d_model=42,
    num_layers=4,
    head_dim=12,
    rope_theta=1e6,
    rope_scaling=RopeScaling(3.0),
    sliding_window=5,
    full_every=3,
    sliding_theta=900.0,
    query_scalar=17,
)
FAMILIES = (QWEN3, QWEN2, LLAMA3, MISTRAL, GEMMA3)  # one of each
CONFIGS = {
    "qwen3-tied": QWEN3,
    "qwen3-untied": dataclasses.replace(QWEN3, tie_embeddings=False),
    "qwen2-tied": QWEN2,
    "qwen2-untied": dataclasses.replace(QWEN2, tie_embeddings=False, num_kv_heads=3),
    "llama-tied": LLAMA,
    "llama-scaled-untied": LLAMA3,
    "mistral": MISTRAL,
    "gemma3": GEMMA3,
}

BERT = encoder.EncoderConfig(
    vocab_size=61, d_model=24, num_layers=3, num_heads=4, d_ff=40, max_position=20, token_types=2, norm_eps=1e-7
)


def random_params(cfg: TransformerConfig, seed: int = 0) -> transformer.Params:
    """Every leaf random, norm scales and biases too: a parameter that is left out or swapped then shows."""
    draw = np.random.default_rng(seed)

    def leaf(path, shape: jax.ShapeDtypeStruct) -> jax.Array:
        centre = 1.0 - cfg.row.scale_offset if path[-1].key == "scale" else 0.0
        return jnp.asarray(draw.normal(centre, 0.2, shape.shape), shape.dtype)

    return jax.tree_util.tree_map_with_path(leaf, transformer.abstract_params(cfg))


@functools.partial(jax.jit, static_argnums=0)
def full_logits(cfg: TransformerConfig, params: transformer.Params, tokens: jax.Array) -> jax.Array:
    """Logits [B, T, V] of rows that each are one sequence from position 0."""
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    return transformer.logits(cfg, params, transformer.hidden_states(cfg, params, tokens, positions))


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer of 260 ids with a chat template, as the files of a model folder."""
    pieces = [*byte_of_char(), "he", "ll"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": len(pieces) + k, "content": text, **flags} for k, text in enumerate(("<|im_start|>", "<|im_end|>"))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": ["h e", "l l"]}
    spec = {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level}
    spec |= {"post_processor": byte_level, "decoder": byte_level, "model": model}
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    decoder = {str(token["id"]): {k: v for k, v in token.items() if k != "id"} for token in added}
    config = {"eos_token": "<|im_end|>", "chat_template": template, "added_tokens_decoder": decoder}
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [259]}))


def write_encoder(folder: Path, seed: int = 0) -> None:
    """A Hugging Face folder of BERT with random weights; its tokenizer pads and cuts, as many published ones do."""
    draw, weights = np.random.default_rng(seed), {}
    for key, leaf in flatten(encoder.abstract_params(BERT)).items():
        for name in encoder._hf_names(BERT, key):
            weights[name] = draw.normal(0, 0.4, encoder._hf_shape(key, leaf.shape)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    sizes = {theirs: getattr(BERT, ours) for ours, theirs in encoder._SIZES.items()}
    config = {"model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": BERT.norm_eps, **sizes}
    (folder / "config.json").write_text(json.dumps(config))
    letters = string.ascii_lowercase
    vocab = {p: i for i, p in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{c}" for c in letters)])}
    words: Any = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab=vocab, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.BertNormalizer()
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    words.add_special_tokens(list(vocab)[:4])
    words.enable_truncation(6)
    words.enable_padding(length=6)
    words.save(str(folder / "tokenizer.json"))


def interleaved(weight: np.ndarray, head_dim: int) -> np.ndarray:
    """llama.cpp's row order: pairs (i, i + h/2) next to each other, written out element by element."""
    out = np.empty_like(weight)
    for row in range(len(weight)):
        head, inside = divmod(row, head_dim)
        pair, half = inside % (head_dim // 2), inside // (head_dim // 2)
        out[head * head_dim + 2 * pair + half] = weight[row]
    return out


def write_gguf(path, cfg, params, **overrides) -> None:
    """A float32 GGUF of `params`, written with the library as llama.cpp's converter would."""
    import gguf  # here: slow to import

    writer = gguf.GGUFWriter(path, overrides.get("arch", cfg.family))
    writer.add_block_count(cfg.num_layers)
    writer.add_context_length(cfg.max_position)
    writer.add_embedding_length(cfg.d_model)
    writer.add_feed_forward_length(cfg.d_ff)
    writer.add_head_count(cfg.num_heads)
    writer.add_head_count_kv(cfg.num_kv_heads)
    writer.add_key_length(cfg.head_dim)
    writer.add_value_length(cfg.head_dim)
    writer.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    writer.add_rope_freq_base(cfg.rope_theta)
    if "sliding_window" in overrides:
        writer.add_sliding_window(overrides["sliding_window"])
    if cfg.rope_scaling is not None:
        plain, scaled = (rope_frequencies(cfg.head_dim, cfg.rope_theta, s) for s in (None, cfg.rope_scaling))
        factors = np.asarray(plain / scaled, np.float32) * overrides.get("spoil", 1.0)
        writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH[cfg.family.upper()], cfg.num_layers)
    folder = path.with_suffix(".hf")
    hf.save(folder, cfg, params)
    for name, tensor in sorted(hf.open_folder(folder).items()):
        value = tensor.read()
        if cfg.row.gguf_interleaved and ("q_proj" in name or "k_proj" in name):
            value = interleaved(value, cfg.head_dim)
        writer.add_tensor(known.get_name(name, (".weight", ".bias")), value)
    if "tokenizer" in overrides:
        add_tokenizer(writer, overrides["tokenizer"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: Any, folder: Path) -> None:
    """The tokenizer of `write_tokenizer` as metadata of a GGUF."""
    spec, options = (json.loads((folder / name).read_text()) for name in ("tokenizer.json", "tokenizer_config.json"))
    added = [token["content"] for token in spec["added_tokens"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*spec["model"]["vocab"], *added])
    writer.add_token_types([1] * len(spec["model"]["vocab"]) + [3] * len(added))
    writer.add_token_merges(spec["model"]["merges"])
    writer.add_eos_token_id(len(spec["model"]["vocab"]) + added.index(options["eos_token"]))
    writer.add_chat_template(options["chat_template"])

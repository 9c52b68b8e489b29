"""Hugging Face's config.json, read by allow-list and written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set
from typing import Annotated, Any, Literal, Required, TypedDict, get_args

import msgspec

from spicejax.models.config import DType, RopeScaling, TransformerConfig
from spicejax.models.families import FAMILIES, Family
from spicejax.models.files import checked

# Our sizes and HF's words for them, the same in every family.
_SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "d_ff": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "max_position": "max_position_embeddings",
    "num_kv_heads": "num_key_value_heads",
}
# HF's words for the fields of RopeScaling, in their order.
_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
Size = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e18)]  # float32 holds it, and its square
Epsilon = Annotated[float, msgspec.Meta(gt=0, le=1)]  # of a norm
# Of weights. An int8 or float8 is another model: its scales lie apart.
Stored = Literal["float16", "bfloat16", "float32", "float64", "auto"]


class Rope(TypedDict, total=False):
    """What either dialect says of the rotation."""

    rope_theta: Positive | None
    rope_type: str
    type: str
    partial_rotary_factor: float | None
    factor: Positive
    low_freq_factor: Positive
    high_freq_factor: Positive
    original_max_position_embeddings: Positive


class HfConfig(TypedDict, total=False):
    """The attributes of config.json that become a field of TransformerConfig."""

    model_type: Required[str]
    vocab_size: Required[Size]
    hidden_size: Required[Size]
    intermediate_size: Required[Size]
    num_hidden_layers: Required[Size]
    num_attention_heads: Required[Size]
    max_position_embeddings: Required[Size]
    num_key_value_heads: Required[Size]
    head_dim: Size | None
    rms_norm_eps: Epsilon
    rope_theta: Positive | None
    rope_parameters: Rope | None
    rope_scaling: Rope | None
    tie_word_embeddings: bool | None
    dtype: Stored | None
    torch_dtype: Stored | None
    layer_types: list[str] | None


class OwnConfig(TypedDict, total=False):
    """Those that only some families have, see Family.fields."""

    sliding_window: Size | None
    sliding_window_pattern: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    rope_local_base_freq: Positive
    query_pre_attn_scalar: Size


_FULL, _SLIDING = "full_attention", "sliding_attention"


# Attributes of any family that change the maths, with the values under which they do not; families.py has those of
# one. Anything else is refused. A dropout acts only in HF's training mode, but a checkpoint that asks for it is one we
# cannot continue as its makers did.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("add_cross_attention", "is_encoder_decoder", "tie_encoder_decoder"), (False, None)),
    **dict.fromkeys(("auto_map", "cross_attention_hidden_size", "quantization_config"), (None,)),
    "attention_dropout": (0.0, None),
    "chunk_size_feed_forward": (0,),
    "partial_rotary_factor": (1.0, None),
    "pruned_heads": ({}, None),
}
# Attributes that do not touch the logits: token ids, bookkeeping, initialisation, generation defaults, output formats.
HARMLESS = frozenset(
    """_attn_implementation_autoset _commit_hash _name_or_path attn_implementation bad_words_ids begin_suppress_tokens
    bos_token_id decoder_start_token_id diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
    eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
    id2label initializer_range is_decoder label2id length_penalty max_length min_length no_repeat_ngram_size
    num_beam_groups num_beams num_return_sequences output_attentions output_hidden_states output_scores
    pad_token_id prefix problem_type remove_invalid_values repetition_penalty return_dict
    return_dict_in_generate sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss
    tokenizer_class top_k top_p torchscript transformers.js_config transformers_version typical_p unsloth_fixed
    unsloth_version use_bfloat16 use_cache""".split()
)


def from_hf_config(config: dict[str, Any]) -> TransformerConfig:
    """Read a parsed config.json of transformers 4 or 5.

    Raises ValueError on an attribute that is unknown or asks for maths the decoder does not have, naming it and its
    value. `dtype` and `param_dtype` become the stated dtype, float32 where it is none of ours (float16).
    """
    family: Any = config.get("model_type")
    if family not in list(FAMILIES):
        raise ValueError(f"config.json: model_type {family!r} is not supported; the decoder knows {list(FAMILIES)}")
    row = FAMILIES[family]
    if row.own_kv_heads and config.get("num_key_value_heads") is None:
        config = config | {"num_key_value_heads": config.get("num_attention_heads")}
    config = _flat(config, row)
    for shape in (HfConfig, OwnConfig):
        checked(config, shape, "config.json")
    if absent := [theirs for theirs in row.fields.values() if theirs not in config]:
        raise ValueError(f"config.json: no {absent[0]}; state what the model was trained with")
    theta, scaling = _rope(config, row)
    sizes: dict[str, Any] = {ours: config[theirs] for ours, theirs in _SIZES.items()}
    # The defaults below (tie_word_embeddings, rms_norm_eps) are those of the HF classes.
    stated = config.get("dtype") or config.get("torch_dtype")
    dtype: Any = stated if stated in get_args(DType) else "float32"
    cfg = TransformerConfig(
        family=family,
        **sizes,
        **{ours: config[theirs] for ours, theirs in row.fields.items()},
        head_dim=config.get("head_dim") or row.head_dim or sizes["d_model"] // sizes["num_heads"],
        rope_theta=theta,
        tie_embeddings=bool(config.get("tie_word_embeddings", row.tied)),
        rope_scaling=scaling,
        rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        dtype=dtype,
        param_dtype=dtype,
    )
    _check_attributes(config, cfg)
    return cfg


def to_hf_config(cfg: TransformerConfig) -> dict[str, Any]:
    """The config.json of `cfg`, in the transformers 4 dialect: transformers 5 and other engines read it too."""
    scaling = None
    if cfg.rope_scaling is not None:
        numbers = dict(zip(_LLAMA3, dataclasses.astuple(cfg.rope_scaling), strict=True))
        linear = {"rope_type": "linear", "factor": cfg.rope_scaling.factor}
        scaling = {"rope_type": "llama3", **numbers} if cfg.rope_scaling.original_max_position else linear
    kinds = {"layer_types": _layer_types(cfg)} if "full_every" in cfg.row.fields else {}
    return {
        "architectures": [cfg.row.architecture],
        "model_type": cfg.family,
        **{theirs: getattr(cfg, ours) for ours, theirs in _SIZES.items()},
        "head_dim": cfg.head_dim,
        "rms_norm_eps": cfg.rms_norm_eps,
        "rope_theta": cfg.rope_theta,
        "rope_scaling": scaling,
        "tie_word_embeddings": cfg.tie_embeddings,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": cfg.param_dtype,
        **{theirs: getattr(cfg, ours) for ours, theirs in cfg.row.fields.items()},
        **kinds,
        **cfg.row.written,
    }


def _layer_types(cfg: TransformerConfig) -> list[str]:
    return [_SLIDING if cfg.slides(layer) else _FULL for layer in range(cfg.num_layers)]


def _flat(config: dict[str, Any], row: Family) -> dict[str, Any]:
    """What transformers 5 says by kind of layer, in the attributes that transformers 4 has for it."""
    flat, rope, kinds = dict(config), config.get("rope_parameters"), config.get("layer_types")
    if "sliding_theta" in row.fields and isinstance(rope, dict) and not rope.keys().isdisjoint((_FULL, _SLIDING)):
        flat["rope_parameters"], local = rope.get(_FULL), rope.get(_SLIDING) or {}
        if not isinstance(local, dict):
            raise ValueError(f"config.json: rope_parameters.{_SLIDING}={local!r:.100}: give an object")
        local = dict(local)
        flat[row.fields["sliding_theta"]] = local.pop("rope_theta", None)
        if rope.keys() - {_FULL, _SLIDING} or local not in ({}, {"rope_type": "default"}):
            raise ValueError(f"config.json: rope_parameters={rope!r:.300}: sliding layers' rotation is never scaled")
    if "full_every" in row.fields and isinstance(kinds, list):
        flat[row.fields["full_every"]] = kinds.index(_FULL) + 1 if _FULL in kinds else 0
    changed = [name for name in row.fields.values() if config.get(name, flat.get(name)) != flat.get(name)]
    if changed:
        raise ValueError(
            f"config.json: {changed[0]}={config[changed[0]]!r:.100}, elsewhere it is {flat[changed[0]]!r:.100}; "
            "state it once"
        )
    return flat


def _check_attributes(config: dict[str, Any], cfg: TransformerConfig) -> None:
    kinds, layers, row = config.get("layer_types"), config["num_hidden_layers"], cfg.row
    if kinds is not None and len(kinds) != layers:
        raise ValueError(f"config.json: layer_types names {len(kinds)} layers, num_hidden_layers is {layers}")
    for layer, (kind, ours) in enumerate(zip(kinds or (), _layer_types(cfg) if kinds else (), strict=True)):
        if kind != ours:
            raise ValueError(
                f"config.json: layer_types[{layer}]={kind!r:.100} changes the maths; supported only as {ours!r}"
            )
    neutral = {**_NEUTRAL, **row.neutral, "architectures": ([row.architecture], [], None)}
    require_known(config, {*HfConfig.__annotations__, *row.fields.values(), *HARMLESS, *row.harmless}, neutral)


def require_known(config: dict[str, Any], known: Set[str], neutral: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise ValueError where an attribute is neither `known` nor has one of its `neutral` values."""
    for name, value in config.items():
        if value not in neutral.get(name, (value,)):
            allowed = " or ".join(repr(v) for v in neutral[name])
            raise ValueError(f"config.json: {name:.100}={value!r:.200} changes the maths; supported only as {allowed}")
        if name not in known | neutral.keys():
            raise ValueError(
                f"config.json: unknown attribute {name:.100}={value!r:.200}. If it cannot change the logits, add it to "
                "its row in models/families.py; if it can, this model needs code first"
            )


def _rope(config: dict[str, Any], row: Family) -> tuple[float, RopeScaling | None]:
    """Base and scaling of the rotation from either dialect; the two may both be there if they agree."""
    new, old = config.get("rope_parameters"), config.get("rope_scaling")
    if new and old and {k: v for k, v in new.items() if k != "rope_theta"} != old:
        raise ValueError(f"config.json: rope_parameters={new!r} and rope_scaling={old!r} disagree; keep one")
    block = dict(new or old or {})
    thetas = {float(t) for t in (block.pop("rope_theta", None), config.get("rope_theta")) if t is not None}
    if not thetas and row.rope_theta is not None:
        thetas = {row.rope_theta}
    if len(thetas) != 1:
        problem = f"two values of rope_theta, {sorted(thetas)}" if thetas else "no rope_theta"
        raise ValueError(f"config.json: {problem}; state the base the model was trained with, once")
    return thetas.pop(), _scaling(block)


def _scaling(block: dict[str, Any]) -> RopeScaling | None:
    rest = dict(block)
    kinds = {rest.pop(name) for name in ("rope_type", "type") if name in rest} or {"default"}
    if rest.get("partial_rotary_factor") in (None, 1.0):
        rest.pop("partial_rotary_factor", None)
    if kinds == {"default"} and not rest:
        return None
    if kinds == {"linear"} and set(rest) == {"factor"}:
        return RopeScaling(float(rest["factor"]))
    if kinds != {"llama3"} or set(rest) != set(_LLAMA3):
        raise ValueError(
            f"config.json: rope scaling {block!r} is not supported; known are the types 'default', with nothing "
            f"else, 'linear' with 'factor', and 'llama3' with {sorted(_LLAMA3)}"
        )
    factor, low, high, length = (rest[name] for name in _LLAMA3)
    return RopeScaling(float(factor), float(low), float(high), int(length))

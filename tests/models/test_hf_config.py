"""config.json in and out: presets, both dialects, and the refusal of what would change the maths."""

import dataclasses
import json

import pytest
from tiny_models import FAMILIES, GEMMA3, LLAMA3, MISTRAL, QWEN2, QWEN3

from spicejax.models import families, presets, transformer
from spicejax.models.hf_config import from_hf_config, to_hf_config

# Parameter counts as their makers state them, in millions.
PUBLISHED = {
    "QWEN3_0_6B": 596,
    "QWEN3_1_7B": 1721,
    "QWEN3_4B": 4022,
    "QWEN3_8B": 8191,
    "QWEN25_7B": 7616,
    "QWEN25_14B": 14_770,
    "QWEN25_32B": 32_764,
    "QWEN25_0_5B": 494,
    "QWEN25_1_5B": 1544,
    "LLAMA31_8B": 8030,
    "LLAMA32_3B": 3213,
    "OCTOTHINKER_3B": 3213,
    "OCTOTHINKER_8B": 8030,
    "SMOLLM2_135M": 135,
    "MISTRAL_7B": 7248,
    "GEMMA3_1B": 1000,
}
PRESETS = {name: cfg for name, cfg in vars(presets).items() if isinstance(cfg, transformer.TransformerConfig)}


def test_presets_have_the_published_size():
    sizes = {name: round(transformer.num_params(cfg) / 1e6) for name, cfg in PRESETS.items()}
    assert sizes.pop("NANO") <= 2
    assert sizes == PUBLISHED


def test_config_round_trip():
    assert {cfg.family for cfg in FAMILIES} == set(families.FAMILIES), "tests with FAMILIES take each row"
    for cfg in (*PRESETS.values(), *FAMILIES):
        assert from_hf_config(json.loads(json.dumps(to_hf_config(cfg)))) == cfg


def test_real_config(shared_data):
    config = json.loads((shared_data / "tokenizers" / "smollm2" / "model_config.json").read_text())
    cfg = from_hf_config(config)
    assert cfg.param_dtype == "bfloat16"
    assert to_hf_config(cfg)["torch_dtype"] == "bfloat16"
    same = dict(param_dtype="float32", dtype="float32")
    assert cfg.__class__(**{**cfg.__dict__, **same}) == presets.SMOLLM2_135M


def new_dialect(cfg) -> dict:
    """The same config as transformers 5 writes it."""
    config = to_hf_config(cfg)
    scaling = config.pop("rope_scaling") or {"rope_type": "default"}
    rope = scaling | {"rope_theta": config.pop("rope_theta")}
    if "layer_types" in config:
        config["_sliding_window_pattern"] = config.pop("sliding_window_pattern")
        local = {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq")}
        rope = {"full_attention": rope, "sliding_attention": local}
    return config | {"rope_parameters": rope, "dtype": "bfloat16"}


@pytest.mark.parametrize("base", FAMILIES, ids=lambda c: c.family)
def test_both_dialects_agree(base):
    new = new_dialect(base)
    del new["torch_dtype"]
    assert from_hf_config(new) == dataclasses.replace(base, dtype="bfloat16", param_dtype="bfloat16")
    old_type = to_hf_config(base)
    if old_type["rope_scaling"]:
        old_type["rope_scaling"]["type"] = old_type["rope_scaling"].pop("rope_type")
    assert from_hf_config(old_type) == base


def test_rope_theta_is_never_guessed():
    for base in (QWEN3, QWEN2):
        config = to_hf_config(base)
        del config["rope_theta"]
        with pytest.raises(ValueError, match="no rope_theta"):
            from_hf_config(config)
    config = to_hf_config(LLAMA3)
    del config["rope_theta"]
    assert from_hf_config(config).rope_theta == 10_000.0, "HF's own rule for the first Llamas"
    with pytest.raises(ValueError, match="two values of rope_theta"):
        from_hf_config(to_hf_config(QWEN3) | {"rope_parameters": {"rope_theta": 1.0, "rope_type": "default"}})


@pytest.mark.parametrize("change", [
    {"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}, {"attention_dropout": 0.1},
    {"pretraining_tp": 2}, {"sliding_window": 4096}, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    {"rope_scaling": {"rope_type": "llama3", "factor": 4.0}},
    {"rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 4.0}},
    {"rope_scaling": {"rope_type": "default", "factor": 4.0}}, {"rope_interleaved": True},
    {"partial_rotary_factor": 0.5}, {"quantization_config": {"bits": 4}},
    {"architectures": ["LlamaForSequenceClassification"]}, {"auto_map": {"AutoModel": "code.py"}},
    {"logit_scale": 0.5}, {"num_experts": 8},
], ids=lambda change: str(change)[:50])  # fmt: skip
def test_changed_maths_is_refused_by_name(change):
    with pytest.raises(ValueError) as caught:
        from_hf_config(to_hf_config(LLAMA3) | change)
    (name, value), text = next(iter(change.items())), str(caught.value)
    assert name.removeprefix("rope_") in text, text
    assert all(str(v) in text for v in (value.values() if name == "rope_scaling" else [value])), text


@pytest.mark.parametrize("base", FAMILIES, ids=lambda c: c.family)
def test_attributes_of_other_families_are_refused_by_name(base):
    """A Qwen's sliding_window is harmless, another's is not: what a row does not name is refused, whatever it says."""
    own = {*base.row.neutral, *base.row.harmless, *to_hf_config(base)}
    others = {name for row in families.FAMILIES.values() for name in (*row.neutral, *row.harmless)}
    for name in (others | {"attn_temperature"}) - own:
        with pytest.raises(ValueError, match=f"unknown attribute {name}=4"):
            from_hf_config(to_hf_config(base) | {name: 4})
    for name in base.row.neutral:
        with pytest.raises(ValueError, match=f"{name}=4 changes the maths"):
            from_hf_config(to_hf_config(base) | {name: 4})


def test_neutral_values_pass():
    assert from_hf_config(to_hf_config(QWEN3) | {"torch_dtype": "float16"}).param_dtype == "float32"
    config = to_hf_config(QWEN2) | {
        "sliding_window": 131072,
        "use_sliding_window": False,
        "max_window_layers": 28,
        "layer_types": ["full_attention"] * 3,
        "bos_token_id": 1,
        "quantization_config": None,
        "transformers_version": "9.9",
    }
    assert from_hf_config(config) == QWEN2
    with pytest.raises(ValueError, match="use_sliding_window=True"):
        from_hf_config(config | {"use_sliding_window": True})


@pytest.mark.parametrize(
    ("base", "change", "said"),
    [
        (
            QWEN3,
            {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
            r"layer_types\[1\]='sliding_att",
        ),
        (QWEN3, {"layer_types": ["full_attention"] * 2}, "layer_types names 2 layers, num_hidden_layers is 3"),
        (QWEN3, {"num_hidden_layers": 2**31 - 1, "layer_types": ["full_attention"]}, "layer_types names 1 layers"),
        (QWEN3, {"torch_dtype": "int8"}, "torch_dtype='int8'"),
        (QWEN3, {"dtype": "float8_e4m3fn"}, "dtype='float8_e4m3fn'"),
        (QWEN3, {"rms_norm_eps": 1e308}, r"rms_norm_eps=1e\+308"),
        (QWEN3, {"rope_theta": 1e308}, r"rope_theta=1e\+308"),
        (MISTRAL, {"sliding_window": 0}, "sliding_window=0"),
        (MISTRAL, {"layer_types": ["full_attention"] * 3}, r"layer_types\[0\]='full_attention'.*'sliding_attention'"),
        (GEMMA3, {"sliding_window": None}, "sliding_window=None: say how far"),
        (GEMMA3, {"layer_types": ["full_attention", *["sliding_attention"] * 3]}, "sliding_window_pattern=3, else"),
        (GEMMA3, {"sliding_window_pattern": 1, "layer_types": ["full_attention"] * 3 + ["sliding_attention"]}, "s.3."),
        (GEMMA3, {"rope_parameters": {"full_attention": {}, "sliding_attention": {"rope_theta": 7.0}}}, "freq=900.0"),
        (GEMMA3, {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}}, "never scaled"),
        (GEMMA3, {"rope_parameters": {"sliding_attention": 5}}, "sliding_attention=5: give an object"),
        (GEMMA3, {"final_logit_softcapping": 30.0}, "final_logit_softcapping=30.0 changes the maths"),
    ],
)
def test_values_out_of_the_question_are_named(base, change, said):
    with pytest.raises(ValueError, match=said):
        from_hf_config(to_hf_config(base) | change)


def test_what_a_family_has_alone_must_be_stated():
    for base in (MISTRAL, GEMMA3):
        for name in base.row.fields.values():
            config = to_hf_config(base)
            del config[name]
            if name == "sliding_window_pattern":
                del config["layer_types"]
            with pytest.raises(ValueError, match=f"no {name}; state"):
                from_hf_config(config)
    assert from_hf_config(to_hf_config(MISTRAL) | {"sliding_window": None}).sliding_window is None


def test_unsupported_family_and_missing_number():
    with pytest.raises(ValueError, match="model_type 'gemma3'"):
        from_hf_config({"model_type": "gemma3"})
    config = to_hf_config(QWEN3)
    del config["num_key_value_heads"]
    with pytest.raises(ValueError, match="num_key_value_heads=None"):
        from_hf_config(config)

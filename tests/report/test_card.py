"""The model card of an export: the Hub's library reads its metadata, and an upload that fails leaves the folder."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

from huggingface_hub import ModelCard
from processes import PATIENCE
from tiny_models import LLAMA, random_params

from spicejax import config as configuration
from spicejax import configs
from spicejax.models import hf
from spicejax.report import card
from spicejax.text import sentencepieces

ROOT = Path(__file__).parents[2]


def _run(folder, **fields):
    folder.mkdir()
    cfg = configuration.to_json(configuration.override(configs.load("spice_nano"), fields))
    (folder / "config.json").write_text(json.dumps(cfg))
    (folder / "metrics.jsonl").write_text('{"iteration": 0}\n')
    rows = [{"iteration": i, "eval/accuracy": 0.25 + i / 4} for i in (0, 2)]
    (folder / "evaluations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "summary.json").write_text('{"iterations": 2}')
    return folder


def test_the_metadata_is_read_by_the_hubs_library(tmp_path):
    run = _run(tmp_path / "run", **{"model.path": "Qwen/Qwen3-4B-Base", "corpus.source": "mine.jsonl"})
    (tmp_path / "out").mkdir()
    card.write(tmp_path / "out", run, name="mine")
    found = ModelCard.load(tmp_path / "out" / "README.md")
    assert found.data.base_model == "Qwen/Qwen3-4B-Base" and found.data.library_name == "transformers"
    assert "arxiv:2510.24684" in found.data.tags and found.data.pipeline_tag == "text-generation"
    for text in ("mine.jsonl", "| eval/accuracy | 0.250 | 0.750 |", "SPICE: Self-Play", '"seed": 0', "# mine"):
        assert text in found.text, text


def test_a_folder_is_no_base_model_of_the_hub(tmp_path):
    run = _run(tmp_path / "run", **{"model.path": "/models/mine"})
    (tmp_path / "out").mkdir()
    card.write(tmp_path / "out", run, name="mine", adapter=True)
    found = ModelCard.load(tmp_path / "out" / "README.md")
    assert found.data.base_model is None and found.data.library_name == "peft"
    assert 'from_pretrained("/models/mine")' in found.text


def test_without_the_hub_the_folder_stays_and_the_way_on_is_said(tmp_path):
    model = dataclasses.replace(LLAMA, vocab_size=300)
    sentencepieces.train_sentencepiece(["a short text to train on, 123"] * 20, 300, tmp_path / "tokenizer")
    hf.save(tmp_path / "in", model, random_params(model), tokenizer_files_from=tmp_path / "tokenizer")
    words = ["-m", "spicejax", "export", f"--model={tmp_path}/in", f"--out={tmp_path}/out", "--push=somebody/model"]
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_TOKEN": "hf_planted", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=PATIENCE, env=os.environ | nowhere, cwd=ROOT
    )
    said = done.stderr + done.stdout
    assert done.returncode == 2, said
    assert "is written, but --push=somebody/model failed" in said and "hf upload somebody/model" in said
    assert "hf_planted" not in said and (tmp_path / "out" / "model.safetensors").is_file()

"""The export command: a model in, a folder that loads out, exit code 2 and the reason on bad input."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np

from spicejax import commands
from spicejax.models import families, hf, transformer
from spicejax.text import sentencepieces, tokens

MAIN = functools.partial(commands.run, "export")
TINY = dataclasses.replace(families.NANO, vocab_size=300, d_model=16, num_layers=2, head_dim=4, d_ff=24)


def test_export_rewrites_in_bfloat16_with_its_tokenizer(tmp_path, capsys):
    params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 1 / 3), transformer.abstract_params(TINY))
    sentencepieces.train_sentencepiece(["a short text to train on, 123"] * 20, TINY.vocab_size, tmp_path / "tokenizer")
    hf.save(tmp_path / "in", TINY, params, tokenizer_files_from=tmp_path / "tokenizer")
    assert MAIN([f"--model={tmp_path / 'in'}", f"--out={tmp_path / 'out'}"]) == 0
    assert "bfloat16" in capsys.readouterr().out
    cfg, written = hf.load(tmp_path / "out")
    assert cfg.param_dtype == json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == "bfloat16"
    assert tokens.load(tmp_path / "out").fingerprint() == tokens.load(tmp_path / "tokenizer").fingerprint()
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.astype(jnp.bfloat16), b), params, written)


def test_bad_source_is_said(tmp_path, capsys):
    assert MAIN([f"--model={tmp_path}", f"--out={tmp_path / 'out'}"]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

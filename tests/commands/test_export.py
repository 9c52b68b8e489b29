"""The export command: a model in, a folder that loads out, exit code 2 and the reason on bad input."""

import dataclasses
import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

from spicejax import commands
from spicejax.models import hf, presets, transformer
from spicejax.text import sentencepieces, tokens

MAIN = functools.partial(commands.run, "export")
TINY = dataclasses.replace(presets.NANO, vocab_size=300, d_model=16, num_layers=2, head_dim=4, d_ff=24)


def test_export_rewrites_in_bfloat16_with_its_tokenizer(tmp_path, capsys):
    params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 1 / 3), transformer.abstract_params(TINY))
    sentencepieces.train_sentencepiece(["a short text to train on, 123"] * 20, TINY.vocab_size, tmp_path / "tokenizer")
    hf.save(tmp_path / "in", TINY, params, tokenizer_files_from=tmp_path / "tokenizer")
    assert MAIN([f"--model={tmp_path / 'in'}", f"--out={tmp_path / 'out'}", "--dtype=bfloat16"]) == 0
    assert "bfloat16" in capsys.readouterr().out
    cfg, written = hf.load(tmp_path / "out")
    assert cfg.param_dtype == json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == "bfloat16"
    assert tokens.load(tmp_path / "out").fingerprint() == tokens.load(tmp_path / "tokenizer").fingerprint()
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.astype(jnp.bfloat16), b), params, written)


def test_import_export_import_changes_nothing(tmp_path):
    params = transformer.init(TINY, jax.random.key(0))
    sentencepieces.train_sentencepiece(["a short text to train on, 123"] * 20, TINY.vocab_size, tmp_path / "tokenizer")
    hf.save(tmp_path / "in", TINY, params, tokenizer_files_from=tmp_path / "tokenizer")
    for source, out in (("in", "once"), ("once", "twice")):
        assert MAIN([f"--model={tmp_path / source}", f"--out={tmp_path / out}"]) == 0
    files = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "twice").iterdir())
    for name in files:
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes(), name
    again = hf.load(tmp_path / "twice")[1]
    jax.tree.map(np.testing.assert_array_equal, params, again)


def test_the_model_itself_and_other_folders_are_refused_before_anything_is_read(tmp_path, capsys):
    mine, base, notes = (tmp_path / name for name in ("mine", "base", "notes"))
    hf.save(mine, TINY, transformer.init(TINY, jax.random.key(0)))
    shutil.copytree(mine, base)
    save_file({"a": np.ones(2)}, base / hf.SINGLE, metadata={"format": "pt"})  # as others write it
    notes.mkdir()
    (notes / "a.txt").write_text("a")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    written = "is there and no such folder that spicejax has written; choose another, or move "
    same = "is the model itself that the export is made of; choose another folder\n"
    for out, why in ((mine, same), (base, written), (notes, written)):
        assert MAIN([f"--model={mine}", f"--out={out}"]) == 2  # mine has no tokenizer: a later error would be another
        said = capsys.readouterr().err
        assert said.startswith(f"error: {out} {why}") and said.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before

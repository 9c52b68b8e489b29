"""Texts to vectors: the same whatever stands beside them, and the published ones of real weights."""

import dataclasses
import json

import numpy as np
import pytest

from spicejax.models.encoder import STYLES
from spicejax.retrieval import encode
from spicejax.types import Passage


def test_vectors_do_not_depend_on_batches_or_baked_in_settings(encoder):
    texts = ["a b c", "abcd " * 4, "", "k", "abc def ghi " * 9]
    whole = encoder.queries(texts)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, whole, strict=True):
        np.testing.assert_allclose(encoder.queries([text])[0], vector, atol=1e-5)
    # Its file cuts at 6 tokens and pads to 6.
    assert np.abs(encoder.queries(["a b c d e f g h"]) - encoder.queries(["a b c d e f g k"])).max() > 1e-3
    assert encoder.queries([]).shape == (0, 24)


def test_text_never_becomes_a_control_token(encoder):
    assert encoder.tokenizer.encode("a [SEP] b").ids.count(3) == 1


def test_prefixes_are_read(encoder, folder):
    plain = encode.load(folder, dataclasses.replace(encoder.style, query_prefix=""), encoder.mesh)
    np.testing.assert_allclose(plain.queries(["a kg"]), encoder.queries(["kg"]), atol=1e-5)
    assert np.abs(plain.queries(["kg"]) - encoder.queries(["kg"])).max() > 1e-3


def test_passages_are_read_title_first(encoder, folder):
    plain = encode.load(folder, dataclasses.replace(encoder.style, query_prefix=""), encoder.mesh)
    np.testing.assert_allclose(encoder.passages([Passage("x", "cd", "ef")]), plain.queries(["b cd ef"]), atol=1e-5)


def test_golden_vectors_from_text(shared_data, minilm, encoder):
    golden = json.loads((shared_data / "minilm_golden" / "golden.json").read_text())
    real = encode.load(minilm, STYLES["minilm"], encoder.mesh)
    assert [real.tokenizer.encode(text).ids for text in golden["sentences"]] == golden["input_ids"]
    assert (real.queries(golden["sentences"]) * np.asarray(golden["embedding"])).sum(1).min() >= 0.9999


def test_a_broken_tokenizer_is_named(tmp_path, folder, encoder):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    spec = json.loads((tmp_path / "tokenizer.json").read_text())
    for content, message in (("{", "is broken"), (json.dumps(spec | {"post_processor": None}), "not .CLS. and .SEP.")):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(ValueError, match=f"tokenizer.json.*{message}"):
            encode.load(tmp_path, encoder.style, encoder.mesh)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="needs its tokenizer beside it"):
        encode.load(tmp_path, encoder.style, encoder.mesh)

"""BERT as encoder: parity with transformers, the golden numbers of real weights, what is refused."""

import contextlib
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import torch
import transformers
from tiny_models import BERT

from spicejax.models import encoder
from spicejax.models.encoder import STYLES, Style


@functools.cache
def torch_bert(head: bool = False):
    """A random transformers model of BERT's shape, every parameter of it random."""
    sizes = {theirs: getattr(BERT, ours) for ours, theirs in encoder._SIZES.items()}
    config = transformers.BertConfig(**sizes, layer_norm_eps=BERT.norm_eps)
    torch.manual_seed(0)
    model = (transformers.BertForMaskedLM if head else transformers.BertModel)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3)
    return model


@pytest.fixture
def folder(tmp_path):
    torch_bert().save_pretrained(tmp_path)
    return tmp_path


def embedded(cfg, params, tokens, lengths, pooling="mean", normalize=True):
    apply = jax.jit(functools.partial(encoder.embed, cfg, pooling=pooling, normalize=normalize))
    return np.asarray(apply(params, jnp.asarray(tokens, jnp.int32), jnp.asarray(lengths, jnp.int32)))


def rows() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(1).integers(0, BERT.vocab_size, (3, 17)), np.array([17, 5, 1])


@pytest.mark.parametrize(("pooling", "head"), [("mean", False), ("cls", True)])
def test_parity_with_transformers(tmp_path, pooling, head):
    model = torch_bert(head)
    model.save_pretrained(tmp_path)
    cfg, params = encoder.load(tmp_path)
    assert cfg == BERT
    tokens, lengths = rows()
    mask = np.arange(17) < lengths[:, None]
    with torch.no_grad():
        body = model.bert if head else model
        hidden = body(torch.tensor(tokens), torch.tensor(mask)).last_hidden_state.numpy()
    means = np.stack([row[:n].mean(0) for row, n in zip(hidden, lengths, strict=True)])
    expected = hidden[:, 0] if pooling == "cls" else means
    np.testing.assert_allclose(embedded(cfg, params, tokens, lengths, pooling, False), expected, atol=2e-5)
    length_one = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(embedded(cfg, params, tokens, lengths, pooling), length_one, atol=1e-5)


def test_padding_and_neighbours_change_nothing(folder):
    cfg, params = encoder.load(folder)
    tokens, lengths = rows()
    whole = embedded(cfg, params, tokens, lengths)
    garbage = np.where(np.arange(17) < lengths[:, None], tokens, 7)
    np.testing.assert_allclose(embedded(cfg, params, garbage, lengths), whole, atol=1e-6)
    np.testing.assert_allclose(embedded(cfg, params, tokens[1:2, :5], lengths[1:2]), whole[1:2], atol=1e-5)
    assert np.isfinite(embedded(cfg, params, tokens, [0, 5, 1])).all()


def test_positions_in_the_file_are_compared(folder):
    file = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    for shift, refused in ((0, False), (1, True)):
        places = np.arange(BERT.max_position)[None] + shift
        safetensors.numpy.save_file(tensors | {"embeddings.position_ids": places}, file, metadata={"format": "pt"})
        with pytest.raises(ValueError, match="position_ids is not 0 to 19") if refused else contextlib.nullcontext():
            encoder.load(folder)


def test_golden_numbers_of_the_real_weights(shared_data, minilm):
    golden = json.loads((shared_data / "minilm_golden" / "golden.json").read_text())
    cfg, params = encoder.load(minilm)
    lengths = [len(ids) for ids in golden["input_ids"]]
    tokens = np.zeros((len(lengths), max(lengths)), int)
    for row, ids in zip(tokens, golden["input_ids"], strict=True):
        row[: len(ids)] = ids
    vectors, expected = embedded(cfg, params, tokens, lengths), np.asarray(golden["embedding"])
    cosines = (vectors * expected).sum(1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() >= 0.9999, cosines
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    half = embedded(encoder.load(minilm, dtype="bfloat16")[0], params, tokens, lengths)
    assert (half * expected).sum(1).min() >= 0.999


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "relu"}, "hidden_act='relu' changes the maths; supported only as 'gelu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ({"is_decoder": True}, "is_decoder=True changes the maths"),
        ({"rotary": 1}, "unknown attribute rotary=1"),
        ({"model_type": "xlm-roberta"}, "xlm-roberta"),
        ({"num_hidden_layers": 4}, "num_hidden_layers=4, but there are tensors of 3 layers"),
        ({"num_hidden_layers": 2}, "unexpected: encoder.layer.2"),
        ({"intermediate_size": 41}, "the config says"),
        ({"num_attention_heads": 5}, "num_heads=5"),
    ],
)
def test_other_maths_is_refused(folder, change, message):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=message):
        encoder.load(folder)


def test_a_style_that_contradicts_the_folder_is_refused(minilm):
    encoder.require_pooling(minilm, STYLES["minilm"].pooling)
    with pytest.raises(ValueError, match="another pooling than 'cls'"):
        encoder.require_pooling(minilm, "cls")
    with pytest.raises(ValueError, match="max_tokens=2"):
        Style("mean", 2)

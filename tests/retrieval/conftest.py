"""A tiny encoder and a corpus of few words."""

import jax
import jsonl
import numpy as np
import pytest
from tiny_models import write_encoder

from spicejax import sharding
from spicejax.models.encoder import Style
from spicejax.retrieval import encode
from spicejax.sharding import MeshConfig


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder")
    write_encoder(path)
    return path


@pytest.fixture(scope="session")
def encoder(folder):
    mesh = sharding.make_mesh(MeshConfig(), jax.devices()[:1])
    return encode.load(folder, Style("mean", 20, "a ", "b "), mesh)


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "corpus.jsonl"
    letters = np.random.default_rng(0).choice(list("abcdefghijkl   "), (23, 30))
    jsonl.write(file, ({"id": f"d{i}", "text": "".join(row)} for i, row in enumerate(letters)))
    return str(file)

"""A configuration settled on its model: the rows of the vocabulary that no token has."""

import dataclasses

import jax
import pytest
from tiny_models import QWEN2, QWEN3, random_params, write_tokenizer

from spicejax import config as configuration
from spicejax import configs
from spicejax.flight import programs
from spicejax.generate.policy import Buckets
from spicejax.models import hf
from spicejax.run import build, lengths
from spicejax.run.settle import settled
from spicejax.text import tokens


def written(folder, shape):
    hf.save(folder, shape, random_params(shape))
    write_tokenizer(folder)  # 260 ids
    return str(folder)


def test_padded_rows_are_known_to_the_policy_to_frozen_seats_and_to_the_flight_check(tmp_path):
    shape = dataclasses.replace(QWEN3, vocab_size=272, max_position=512)
    policy = written(tmp_path / "policy", shape)
    other = written(tmp_path / "other", dataclasses.replace(QWEN2, vocab_size=260))
    changes = {"model.path": policy, "seats.challenger": other, "model.lora.rank": "2"}
    cfg = configuration.override(configs.load("spice_smollm2"), changes)
    here = settled(cfg, jax.devices()[:1])
    assert here.model.unused == (260, 272) and here.model.lora is not None
    assert here.seats["challenger"].unused == ()
    seen = {ask.seat or ask.role: programs.engine_layout(here, ask).model.unused for ask in cfg.asks}
    assert seen == {"challenger": (), "reasoner": (260, 272)}
    voice = lengths.Voice(tokens.load(policy), "chat")
    player = build.seat(shape, random_params(shape), voice, Buckets((16,), 2), here.sampler_mesh)
    assert player.cfg == dataclasses.replace(shape, unused=(260, 272))


def test_a_vocabulary_too_small_for_its_tokenizer_is_refused(tmp_path):
    path = written(tmp_path / "model", dataclasses.replace(QWEN3, vocab_size=250))
    cfg = configuration.override(configs.load("spice_smollm2"), {"model.path": path})
    with pytest.raises(ValueError, match="ids up to 259, but the model has 250"):
        settled(cfg, jax.devices()[:1])

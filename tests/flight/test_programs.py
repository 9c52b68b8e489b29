"""How many tokens the sampler holds: what the chip has left, split as the cache is split."""

import dataclasses
import logging
import math
from pathlib import Path

import jax
import pytest
from jax.sharding import AbstractMesh

from spicejax import configs, sharding
from spicejax.flight import plan, programs
from spicejax.generate import weights
from spicejax.models import cache, transformer
from spicejax.models.lora import LoraConfig
from spicejax.models.presets import SMOLLM2_135M
from spicejax.run.config import with_precision
from spicejax.run.resolve import Resolved, _with_bounded_cache, resolve

GIB = 2**30
CFG = configs.load("spice_qwen4b")
MODEL = CFG.model.architecture
SIZE = transformer.num_params(MODEL)
TOKEN = 36 * 8 * 128 * 2 * 2  # keys and values of 36 layers, 8 heads of 128, bfloat16


def sized(capacity, learner=(1, 1, 1), sampler=(1, 1, 1), **changes):
    buckets = {name: changes.pop(name) for name in ("cache", "kv_tokens") if name in changes}
    changes |= {"learner": changes.pop("learn")} if "learn" in changes else {}
    cfg = dataclasses.replace(CFG, buckets=dataclasses.replace(CFG.buckets, **buckets), **changes)
    meshes = (AbstractMesh(shape, sharding.AXES) for shape in (learner, sampler))
    resolved = Resolved(cfg, with_precision(cfg.model, MODEL), *meshes, {})
    return _with_bounded_cache(resolved, capacity).cfg.buckets.kv_tokens


def test_the_cache_takes_what_remains():
    assert cache.token_bytes(36, 8, 128, "bfloat16") == TOKEN
    assert cache.token_bytes(36, 8, 128, "int8") == TOKEN // 2 + 36 * 8 * 2 * 4
    left = 0.9 * 96 * GIB - (3 * 4 + 2) * SIZE  # float32 weights and two moments, the sampler's bfloat16 copy
    assert sized(96 * GIB) == pytest.approx(left / TOKEN - 2 * CFG.buckets.prompt[-1], abs=2)
    assert sized(96 * GIB, cache="int8") > 1.8 * sized(96 * GIB)
    assert sized(96 * GIB, sampler_weights="int8") - sized(96 * GIB) == pytest.approx(0.9 * SIZE / TOKEN, rel=0.05)


def test_it_is_counted_as_it_is_split():
    def tokens(data, tensor):
        left = 0.9 * 16 * GIB - 12 * SIZE / 16 - 2 * SIZE / tensor
        return (left / (TOKEN / min(tensor, 8)) - 2 * CFG.buckets.prompt[-1]) * data

    assert sized(16 * GIB, (1, 16, 1), (4, 1, 4)) == pytest.approx(tokens(4, 4), rel=0.01)
    assert sized(16 * GIB, (1, 16, 1), (2, 1, 8)) == pytest.approx(tokens(2, 8), rel=0.01)
    whole = (0.9 * 16 * GIB - (12 + 2) * SIZE / 16) / TOKEN - 2 * CFG.buckets.prompt[-1]
    assert sized(16 * GIB, (1, 16, 1), (1, 1, 16)) == pytest.approx(whole, rel=0.05), (
        "8 kv heads on 16 chips: all on each"
    )


def test_other_players_and_adapters_take_their_part():
    plain = sized(96 * GIB)
    fixed = dataclasses.replace(CFG.game, fixed_challenger=True)  # the sampler keeps the first policy too
    assert plain - sized(96 * GIB, game=fixed) == pytest.approx(2 * SIZE / TOKEN, rel=0.01)
    reference = dataclasses.replace(CFG.learner, kl_coef=0.1)
    assert plain - sized(96 * GIB, learn=reference) == pytest.approx(4 * SIZE / TOKEN, rel=0.01)
    adapters = dataclasses.replace(CFG.model, lora=LoraConfig(rank=8))
    assert sized(96 * GIB, model=adapters) - plain == pytest.approx(8 * SIZE / TOKEN, rel=0.05), (
        "no moments of the base"
    )
    shared = dataclasses.replace(CFG.model, dtype="float32")
    more = sized(96 * GIB, model=shared, sampler_mesh=None, cache="bfloat16") - plain
    assert more == pytest.approx(2 * SIZE / TOKEN, rel=0.01), "the learner's own weights are read"


def test_on_a_gpu_the_layers_that_decode_are_held_twice(monkeypatch):
    """They are cut from the stack: of the policy, or of a player with a larger model."""
    large = dataclasses.replace(MODEL, num_layers=2 * MODEL.num_layers)
    seat = weights.sampled(with_precision(CFG.model, large))
    meshes = (AbstractMesh((1, 1, 1), sharding.AXES),) * 2
    layers = 2 * (transformer.num_params(large) - SIZE)  # bytes of the policy's

    def left(seats):
        resolved = Resolved(CFG, with_precision(CFG.model, MODEL), *meshes, seats)
        return _with_bounded_cache(resolved, 128 * GIB).cfg.buckets.kv_tokens

    for seats, twice in (({}, 1), ({"challenger": seat}, 2)):
        plain = left(seats)
        with monkeypatch.context() as patch:
            patch.setattr(sharding, "platform", lambda mesh: "gpu")
            assert plain - left(seats) == pytest.approx(twice * layers / TOKEN, rel=0.01)


def test_probes_cost_training_no_memory():
    """The first policy takes part of the KV cache while it plays, and only then."""
    assert CFG.eval.probe_documents
    plain = sized(96 * GIB)
    assert plain == sized(96 * GIB, eval=dataclasses.replace(CFG.eval, probe_documents=0))
    meshes = AbstractMesh((1, 16, 1), sharding.AXES), AbstractMesh((4, 1, 4), sharding.AXES)
    resolved = _with_bounded_cache(Resolved(CFG, with_precision(CFG.model, MODEL), *meshes, {}), 16 * GIB)
    freed = resolved.cfg.buckets.kv_tokens - resolved.probe_buckets.kv_tokens
    assert freed / 4 * TOKEN / 4 == pytest.approx(2 * SIZE / 4, rel=0.01), "data=4, tensor=4"
    cfg = dataclasses.replace(resolved.cfg, game=dataclasses.replace(CFG.game, fixed_challenger=True))
    assert dataclasses.replace(resolved, cfg=cfg).probe_buckets == resolved.cfg.buckets, "it has its place already"


def test_bounds_that_do_not_apply(caplog):
    assert sized(96 * GIB, kv_tokens=1000) == 1000
    assert sized(math.inf) == 0 and sized(96 * GIB, sampler_memory=0.0, kv_tokens=7) == 7
    assert sharding.device_memory() == math.inf, "a CPU does not say"
    with caplog.at_level(logging.WARNING, "spicejax"):
        assert sized(1 * GIB) == 1
    assert "sampler_memory=0.9 of a device are 0.9 GiB" in caplog.text
    with pytest.raises(ValueError, match=r"sampler_memory=1\.5"):
        dataclasses.replace(CFG, sampler_memory=1.5)


def test_a_copy_is_made_and_counted_only_where_the_sampler_needs_one():
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    alone = dataclasses.replace(CFG, mesh=sharding.MeshConfig(), sampler_mesh=None)
    shared = dataclasses.replace(alone, model=dataclasses.replace(CFG.model, dtype="float32"))
    for cfg, bytes_each in ((alone, 2), (dataclasses.replace(alone, sampler_weights="int8"), 1), (shared, 0)):
        names = [program.name for program in programs.programs(resolve(cfg, mesh.devices.ravel().tolist()))]
        assert ("reshard" in names) == (bytes_each > 0) and "train_step" in names
        assert plan.memory(resolve(cfg, jax.devices()[:1]))["sampler_weights"] == pytest.approx(
            SIZE * bytes_each, rel=0.1
        ), "of int8 the embeddings stay whole"
    split = dataclasses.replace(CFG, mesh=sharding.MeshConfig())
    said = plan.describe(split, Path("runs/x"))
    assert "would stop" in said and "sampler_mesh data=-1 fsdp=1 tensor=4 does not divide 1 devices" in said


def test_roles_that_follow_each_other_take_steps_of_their_own():
    cfg = configs.load("ssp_qwen7b")
    lessons = {ask.role: ask.trained * (ask.group or ask.samples) for ask in cfg.asks if ask.trained}
    for size, epochs, expected in ((0, 1, 2), (0, 2, 4), (max(lessons.values()), 1, 2), (100, 1, None)):
        learner = dataclasses.replace(cfg.learner, trajectories_per_update=size, epochs=epochs)
        expected = expected or sum(math.ceil(n / size) for n in lessons.values())
        assert programs.optimizer_steps(dataclasses.replace(cfg, learner=learner)) == expected
    together = dataclasses.replace(cfg.learner, trajectories_per_update=0, role_order=())
    assert programs.optimizer_steps(dataclasses.replace(cfg, learner=together)) == 1


def test_the_sampler_copy_lies_as_the_matrices_lie():
    mesh = AbstractMesh((1, 1, 4), sharding.AXES)
    layers = weights.copied(dataclasses.replace(MODEL, dtype="bfloat16"), mesh, "int8")["layers"]
    down, gate = layers["mlp"]["down"], layers["mlp"]["gate"]
    assert down.qvalue.sharding.shard_shape(down.qvalue.shape) == (36, 9728 // 4, 2560)
    assert down.scale.shape == (36, 1, 2560) and down.scale.sharding.is_fully_replicated
    assert gate.scale.sharding.shard_shape(gate.scale.shape) == (36, 1, 9728 // 4)
    assert jax.tree.leaves(gate)[0].dtype == "int8"


def test_another_players_cache_takes_the_same_memory():
    """SmolLM2's three kv heads cannot be split four ways: each chip holds all of them, and fewer tokens."""
    meshes = (AbstractMesh(shape, sharding.AXES) for shape in ((1, 16, 1), (4, 1, 4)))
    cfg = dataclasses.replace(CFG, buckets=dataclasses.replace(CFG.buckets, kv_tokens=100_000))
    resolved = Resolved(cfg, with_precision(cfg.model, MODEL), *meshes, {"challenger": SMOLLM2_135M})
    other = cache.token_bytes(30, 3, 64, "bfloat16")
    assert resolved.seat_buckets("challenger").kv_tokens == pytest.approx(100_000 * (TOKEN / 4) / other, abs=1)
    few, free = (dataclasses.replace(cfg.buckets, kv_tokens=tokens).with_share(0.1).kv_tokens for tokens in (1, 0))
    assert (few, free) == (1, 0), "a bound stays a bound"

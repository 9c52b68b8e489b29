"""How many tokens the sampler holds: what the chip has left, split as the cache is split."""

import dataclasses
import math

import jax
import pytest

from spicejax import configs, sharding
from spicejax.models import cache, transformer
from spicejax.run import plan, programs

GIB = 2**30
CFG = configs.load("spice_qwen4b")
MODEL = plan.architecture(CFG)


def sized(capacity, **changes):
    cfg = dataclasses.replace(CFG, **changes)
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    return programs.sized(cfg, MODEL, mesh, mesh, capacity).kv_tokens


def test_the_cache_takes_what_remains():
    # float32 weights and two moments, a bfloat16 copy; a token has keys and values of 36 layers x 8 heads x 128.
    size, token = transformer.num_params(MODEL), 36 * 8 * 128 * 2 * 2
    assert cache.token_bytes(36, 8, 128, "bfloat16") == token
    assert cache.token_bytes(36, 8, 128, "int8") == token // 2 + 36 * 8 * 2 * 4
    left = 0.9 * 96 * GIB - (3 * 4 + 2) * size
    assert sized(96 * GIB) == pytest.approx(left / token - CFG.prompt_buckets[-1], abs=2)
    assert sized(96 * GIB, kv_cache="int8") > 1.8 * sized(96 * GIB)
    assert sized(96 * GIB, sampler_weights="int8") - sized(96 * GIB) == pytest.approx(0.9 * size / token, rel=0.05)


def test_bounds_that_do_not_apply():
    assert sized(96 * GIB, kv_tokens=1000) == 1000 and sized(1 * GIB) == 1
    assert sized(math.inf) == 0 and sized(96 * GIB, sampler_memory=0.0, kv_tokens=7) == 7
    assert sharding.device_memory() == math.inf, "a CPU does not say"
    with pytest.raises(ValueError, match=r"sampler_memory=1\.5"):
        dataclasses.replace(CFG, sampler_memory=1.5)

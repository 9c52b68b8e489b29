"""Fingerprints: equal ones on any layout, another one for any bit, place, name, shape or dtype."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from spicejax.models.fingerprint import fingerprint


def model(dtype=jnp.bfloat16):
    return {"a": {"kernel": jax.random.normal(jax.random.key(0), (8, 6, 4), dtype)}, "scale": jnp.ones(5, jnp.float32)}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8])
def test_every_bit_counts(dtype):
    values = np.asarray(jax.random.normal(jax.random.key(0), (8, 6)) * 50).astype(dtype)
    found = {fingerprint({"w": jnp.asarray(values)})}
    for bit in range(8 * values.itemsize):
        changed = values.copy().reshape(-1)
        changed.view(f"u{values.itemsize}")[7 + bit % 5] ^= np.array(1).astype(f"u{values.itemsize}") << bit
        found.add(fingerprint({"w": jnp.asarray(changed.reshape(values.shape))}))
    assert len(found) == 1 + 8 * values.itemsize


def test_place_name_shape_and_dtype_count():
    ours = model()
    kernel = ours["a"]["kernel"]
    others = [
        ours | {"a": {"kernel": kernel[::-1]}},
        ours | {"a": {"kernel": kernel.transpose(1, 0, 2)}},
        ours | {"a": {"kernel": kernel.reshape(6, 8, 4)}},
        ours | {"a": {"matrix": kernel}},
        ours | {"a": {"kernel": kernel.astype(jnp.float32)}},
    ]
    assert len({fingerprint(params) for params in [ours, *others]}) == 1 + len(others)


def test_the_layout_does_not_count():
    ours = model()
    mesh = Mesh(np.array(jax.devices()).reshape(-1), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    placed = {
        "a": jax.device_put(ours["a"], split),
        "scale": jax.device_put(ours["scale"], NamedSharding(mesh, PartitionSpec())),
    }
    assert fingerprint(placed) == fingerprint(ours)

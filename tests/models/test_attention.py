"""Attention in training: slots without masked work, and the splash kernel, against a masked softmax."""

import functools
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import python, simulated

from spicejax.models import attention, cache, flash, splash
from spicejax.models.attention import Slots, causal_attention, causal_mask

INTERPRET = jax.default_backend() != "gpu"  # a card runs what it runs in training


def drawn(length: int, heads: int, kv_heads: int, head_dim: int, slots: Slots | None):
    """Query, key, value, segment ids (runs without slots, anything with them) and weights of a scalar loss."""
    rng = np.random.default_rng(length)
    arrays = [jnp.asarray(rng.normal(size=(2, length, n, head_dim)), jnp.float32) for n in (heads, kv_heads, kv_heads)]
    segments = rng.integers(0, 3, (2, length))
    weights = jnp.asarray(rng.normal(size=(2, length, heads, head_dim)) / length, jnp.float32)
    return arrays, jnp.asarray(segments if slots else np.sort(segments, axis=1), jnp.int32), weights


def reference(query, key, value, segments, slots, window=None):
    """Every token scored against every other, then masked."""
    mask = causal_mask(query.shape[1], segments, slots, window)
    key, value = (jnp.repeat(x, query.shape[2] // x.shape[2], axis=2) for x in (key, value))
    scores = jnp.einsum("bthd,bshd->bhts", query, key) * query.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(mask[:, None], scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhts,bshd->bthd", weights, value)


def assert_same(function, arrays, segments, weights, slots, window=None, tolerance=2e-5):
    """Output, and gradients of q, k and v."""

    def loss(run, *qkv):
        out = run(*qkv, segments, slots, window)
        return jnp.sum(out * weights), out

    both = [
        jax.jit(jax.value_and_grad(functools.partial(loss, run), argnums=(0, 1, 2), has_aux=True))(*arrays)
        for run in (reference, function)
    ]
    for a, b in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance * float(jnp.abs(a).max()) + 1e-7)


def test_mask_of_slots_by_hand():
    """Prompt area of 2, slots of 2: rows are queries."""
    expected = np.array(
        [
            [1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0],
            [1, 1, 1, 1, 0, 0],
            [1, 1, 0, 0, 1, 0],
            [1, 1, 0, 0, 1, 1],
        ],
        bool,
    )
    np.testing.assert_array_equal(causal_mask(6, None, Slots(2, 2))[0], expected)
    segments = jnp.array([[1, 2, 1, 2, 2, 0]])
    same = np.equal.outer(np.array(segments[0]), np.array(segments[0]))
    np.testing.assert_array_equal(causal_mask(6, segments, Slots(2, 2))[0], expected & same)
    # A window of 2: both slots begin with the third token of the text.
    expected[2, 0] = expected[3, :2] = expected[4, 0] = expected[5, :2] = False
    positions = jnp.array([[0, 1, 2, 3, 2, 3]])
    np.testing.assert_array_equal(causal_mask(6, None, Slots(2, 2), 2, positions)[0], expected)


@pytest.mark.parametrize(
    ("length", "slots", "window"),
    [
        (20, Slots(5, 3), None),
        (20, Slots(2, 9), None),
        (20, Slots(8, 12), None),
        (20, None, 3),
        (300, None, None),
        (300, None, 50),
        (515, Slots(395, 60), None),
        (515, Slots(395, 60), 77),
    ],
)
def test_without_masked_work_equal_to_the_mask(length, slots, window):
    """Slots, and the causal pass in one block, in unequal blocks and as the prompt area of slots; windows of each."""
    arrays, segments, weights = drawn(length, 6, 2, 8, slots)
    assert_same(_xla, arrays, segments, weights, slots, window)


def test_bfloat16_is_as_near_as_its_rounding():
    arrays, segments, weights = drawn(300, 4, 2, 16, None)
    rounded = [x.astype(jnp.bfloat16) for x in arrays]
    assert _xla(*rounded, segments, None).dtype == jnp.bfloat16
    as_float32 = [x.astype(jnp.float32) for x in rounded]

    def loss(run, *qkv):
        return jnp.sum(run(*qkv, segments, None).astype(jnp.float32) * weights)

    ours = jax.grad(functools.partial(loss, _xla), argnums=(0, 1, 2))(*rounded)
    exact = jax.grad(functools.partial(loss, reference), argnums=(0, 1, 2))(*as_float32)
    for a, b in zip(ours, exact, strict=True):
        assert a.dtype == jnp.bfloat16
        assert float(jnp.linalg.norm(a.astype(jnp.float32) - b) / jnp.linalg.norm(b)) < 0.01


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("area", [1, 3 * 8 * 24])
def test_slots_that_take_turns_equal_the_mask(area, window, monkeypatch):
    """One at a time, and three."""
    monkeypatch.setattr(attention, "AREA", area)
    slots = Slots(16, 8)
    arrays, segments, weights = drawn(16 + 6 * 8, 6, 2, 8, slots)
    assert_same(_xla, arrays, segments, weights, slots, window)
    text = str(jax.make_jaxpr(functools.partial(_xla, slots=slots, window=window))(*arrays, segments))
    assert f"length={6 if area == 1 else 2}" in text


def _xla(query, key, value, segments, slots, window=None):
    return causal_attention(query, key, value, segments, slots=slots, kernel="xla", window=window)


def test_no_matrix_of_a_whole_row():
    """Neither pass makes an array of T x T scores, nor of all slots against all slots."""
    slots, length = Slots(16, 8), 16 + 64 * 8
    arrays, segments, weights = drawn(length, 2, 1, 8, slots)

    def loss(qkv, run, slots):
        return jnp.sum(run(*qkv, segments, slots) * weights)

    def largest(run, slots):
        jaxpr = jax.make_jaxpr(jax.grad(functools.partial(loss, run=run, slots=slots)))(arrays)
        return max(v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars)

    assert largest(reference, slots) >= 2 * 2 * length**2
    assert largest(_xla, slots) <= 2 * 2 * length * (slots.prompt + slots.length)
    assert largest(_xla, None) <= 2 * 2 * length**2 / attention.BLOCKS


def test_no_scores_are_kept_for_the_backward_pass():
    """What a differentiated layer keeps grows with T, not with its square."""
    arrays, segments, _ = drawn(512, 4, 2, 8, None)
    _, back = jax.vjp(lambda *qkv: _xla(*qkv, segments, None), *arrays)
    assert max(x.size for x in jax.tree.leaves(back)) <= 2 * 512 * 4 * 8


@pytest.mark.parametrize(
    ("length", "slots", "window", "heads", "kv_heads", "head_dim"),
    [(90, Slots(26, 16), None, 4, 2, 64), (130, None, None, 2, 1, 128), (130, None, 40, 2, 1, 64)],
)
def test_splash_equals_the_mask(length, slots, window, heads, kv_heads, head_dim):
    """Interpreted on CPU: rows padded to the kernel's blocks, grouped heads, segments, forward and backward."""
    arrays, segments, weights = drawn(length, heads, kv_heads, head_dim, slots)
    assert_same(functools.partial(splash.attention, interpret=True), arrays, segments, weights, slots, window)


@pytest.mark.parametrize(
    ("length", "slots", "heads", "kv_heads"),
    [(40, None, 4, 2), (64, None, 2, 1), (150, None, 2, 2), (64 + 3 * 32, Slots(64, 32), 6, 2),
     (64 + 2 * 128, Slots(64, 128), 2, 1), (32 + 32, Slots(32, 32), 1, 1)],
)  # fmt: skip
def test_flash_equals_the_mask(length, slots, heads, kv_heads):
    """Interpreted on CPU: rows padded to whole blocks, slots of one and of several, grouped heads, segments."""
    arrays, segments, weights = drawn(length, heads, kv_heads, 16, slots)

    def run(query, key, value, segments, slots, window):
        return flash.attention(query, key, value, segments, slots, interpret=INTERPRET)

    assert_same(run, arrays, segments, weights, slots)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("batch", "length", "rows", "heads", "kv_heads", "slots"),
    [(6, 1, 2, 4, 2, 40), (4, 1, 4, 8, 2, 700), (3, 1, 1, 2, 2, 128), (2, 20, 2, 8, 1, 65)],
)
def test_flash_over_a_part_of_a_cache_equals_the_products(batch, length, rows, heads, kv_heads, slots, dtype):
    """Lanes that share a prefix, keys cut among programs, blocks not filled, rows that see nothing."""
    rng = np.random.default_rng(0)
    query = jnp.asarray(rng.normal(size=(batch, length, heads, 16)), jnp.float32)
    shape = (rows, kv_heads, slots, 16)
    kv = cache.encode(cache.KVCache(*(jnp.asarray(rng.normal(size=(1, *s)), jnp.float32) for s in (
        (rows, kv_heads, 16, slots), shape))), jnp.dtype(dtype))  # fmt: skip
    kv = jax.tree.map(lambda x: x[0], kv)
    mask = jnp.asarray(rng.random((rows, 1, slots)) < 0.5).at[0].set(False)
    found = flash.partial_attention(query, kv, mask, interpret=INTERPRET)
    expected = attention.partial_attention(query, kv, mask)
    seen = jnp.repeat(jnp.any(mask, axis=(1, 2)), batch // rows)
    assert not seen[0] and np.all(np.asarray(found.top[0]) == np.asarray(expected.top[0]))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a[seen], b[seen], atol=2e-5 * float(jnp.max(jnp.abs(b[seen]), initial=1.0)))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("batch", "length", "rows", "slots"), [(2, 130, 2, 640), (4, 70, 2, 128), (1, 600, 1, 1024)])
def test_splash_over_a_part_of_a_cache_equals_the_products(batch, length, rows, slots, dtype):
    """Queries that do not fill a block, rows that share a part, blocks that no row sees, a row that sees nothing."""
    rng = np.random.default_rng(0)
    query = jnp.asarray(rng.normal(size=(batch, length, 4, 64)), jnp.float32)
    parts = (jnp.asarray(rng.normal(size=(1, rows, 2, *s)), jnp.float32) for s in ((64, slots), (slots, 64)))
    kv = jax.tree.map(lambda x: x[0], cache.encode(cache.KVCache(*parts), jnp.dtype(dtype)))
    unseen = slice(0, slots // 2) if rows == 1 else slice(slots // 2, None)
    mask = jnp.asarray(rng.random((rows, 1, slots)) < 0.5).at[0].set(rows == 1).at[:, :, unseen].set(False)
    assert splash.reads(query, kv)
    found = splash.partial_attention(query, kv, mask, interpret=True)
    expected = attention.partial_attention(query, kv, mask)
    own = attention.Partial(*(jnp.ones_like(x) for x in expected))  # another part, so that a row sees something
    np.testing.assert_allclose(attention.merge((found, own)), attention.merge((expected, own)), atol=2e-5)
    assert jnp.all(jnp.isfinite(found.out))


@pytest.mark.parametrize(
    ("length", "slots"), [(256, None), (128 + 4 * 64, Slots(128, 64)), (64 + 2 * 128, Slots(64, 128))]
)
def test_flash_counts_the_blocks_that_it_goes_through(length, slots):
    mask = np.asarray(causal_mask(length, None, slots)[0])
    side = 64
    blocks = mask.reshape(length // side, side, length // side, side).any(axis=(1, 3))
    made = flash.Layout(length, slots.prompt if slots else length, slots.length if slots else 0, side)
    for row, seen in enumerate(blocks):
        count, number = made.keys(row)
        assert [int(number(j)) for j in range(int(count))] == list(np.flatnonzero(seen))
    for column, seen in enumerate(blocks.T):
        assert list(np.flatnonzero(seen)) == list(range(column, int(made.queries_end(column))))
    for name, products in (("flash_forward", 2), ("flash_dq", 3), ("flash_dkv", 4)):
        found = flash.flops(name, [(2, length, 4, 128)], {length: slots} if slots else {})
        assert found == 2 * products * 2 * 4 * 128 * side**2 * blocks.sum()
    assert flash.flops("other", [(2, length, 4, 128)], {}) is None


@pytest.mark.parametrize(
    ("length", "slots", "window"),
    [(2048, None, None), (2048, None, 600), (1536 + 4 * 640, Slots(1536, 640), None), (256, Slots(64, 64), None)],
)
def test_splash_counts_the_blocks_that_the_mask_leaves(length, slots, window):
    """Against the mask itself, padded to whole blocks; a length that is no layout's is causal."""
    side = min(splash.BLOCK, length)
    padded = length + -length % side
    mask = np.asarray(causal_mask(padded, None, slots, window)[0])
    blocks = mask.reshape(padded // side, side, padded // side, side).any(axis=(1, 3)).sum()
    operands = [(1,), (1,), (2, 4, 3, padded, 64)]
    layouts = {length: slots} if slots else {}
    for name, products in (("splash_mqa_fwd_residuals.3", 2), ("splash_mqa_dq.1", 3), ("splash_mqa_dkv", 4)):
        expected = 2 * products * (2 * 4 * 3) * 64 * side**2 * blocks
        assert splash.flops(name, operands, layouts, window) == expected
    assert splash.flops("megablox.1", operands, layouts) is None
    part = [*operands, (2, 4, 64, 640)]
    assert splash.flops("splash_mqa_fwd_residuals", part, layouts) == 4 * (2 * 4 * 3) * padded * 64 * 640


def test_what_a_kernel_cannot_do_is_named(monkeypatch):
    arrays, segments, _ = drawn(20, 4, 2, 24, None)
    with pytest.raises(ValueError, match="head_dim of 64 or a multiple, got 24"):
        causal_attention(*arrays, segments, kernel="splash")
    with pytest.raises(ValueError, match="works in bfloat16, not float32"):
        causal_attention(*arrays, segments, kernel="cudnn")
    with pytest.raises(ValueError, match="a row of 20 tokens is not 5 prompt tokens and slots of 4"):
        causal_attention(*arrays, segments, slots=Slots(5, 4), kernel="xla")


def test_auto_takes_the_backend_s_kernel_where_it_can(monkeypatch):
    wide, odd = jnp.zeros((1, 2, 4, 64), jnp.bfloat16), jnp.zeros((1, 2, 4, 24), jnp.float32)
    picks = {}
    for backend in ("cpu", "tpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        slots = Slots(1, 1)
        picks[backend] = [attention._native_kernel(*x) for x in ((wide, None), (wide, slots), (odd, None))]
    assert picks == {"cpu": ["xla"] * 3, "tpu": ["splash", "splash", "xla"], "gpu": ["cudnn", "xla", "xla"]}


PROGRAM = """
import functools, os, sys
import jax, jax.numpy as jnp, numpy as np, flax.linen as nn
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from spicejax.models import flash, splash
from spicejax.models.attention import Slots

RULES = (("batch", ("data", "fsdp")), ("act_heads", "tensor"))

def train(q, k, v, segments, slots, interpret, kernel=splash):
    def loss(q, k, v):
        return jnp.sum(kernel.attention(q, k, v, segments, slots, interpret=interpret).astype(jnp.float32) ** 2)
    return jax.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)

def on(devices, batch, length, heads, kv_heads, head_dim, dtype):
    mesh = Mesh(np.asarray(devices).reshape(2, 2, 2), ("data", "fsdp", "tensor"), axis_types=(AxisType.Auto,) * 3)
    by_head = NamedSharding(mesh, P(("data", "fsdp"), None, "tensor", None))
    by_row = NamedSharding(mesh, P(("data", "fsdp"), None))
    shapes = [((batch, length, n, head_dim), dtype, by_head) for n in (heads, kv_heads, kv_heads)]
    return mesh, [*shapes, ((batch, length), jnp.int32, by_row)]
"""


def run(program: str, **env: str) -> str:
    return python(PROGRAM + textwrap.dedent(program), **env)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "slots", "length"), [("splash", (26, 16), 90), ("flash", (32, 32), 96)])
def test_a_kernel_over_a_mesh_equals_one_device(kernel, slots, length):
    """Rows over data x fsdp and heads over tensor, eight simulated devices, interpreted."""
    out = run(
        f"""
        train = functools.partial(train, slots=Slots(*{slots}), interpret=True, kernel={kernel})
        mesh, shapes = on(jax.devices(), 4, {length}, 4, 2, 64, jnp.float32)
        rng = np.random.default_rng(0)
        arrays = [rng.normal(size=s).astype(np.float32) for s, _, _ in shapes[:3]]
        arrays.append(rng.integers(0, 3, shapes[3][0]).astype(np.int32))
        one = jax.device_get(jax.jit(train)(*arrays))
        with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
            step = jax.jit(functools.partial(train))
            many = step(*(jax.device_put(a, s[2]) for a, s in zip(arrays, shapes)))
        assert many[1][0].sharding.spec == shapes[0][2].spec, many[1][0].sharding
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(jax.device_get(many))):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        print("equal")
        """,
        XLA_FLAGS=simulated(8),
        JAX_PLATFORMS="cpu",
    )
    assert out == "equal"


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [64, 128])
def test_splash_compiles_for_tpu(head_dim):
    """Forward and backward for v5e:2x4, packed and with slots, each device on its own rows and heads."""
    pytest.importorskip("libtpu")
    out = run(
        f"""
        from jax.experimental import topologies
        jax.config.update("jax_platforms", "cpu")
        devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
        for slots, length in ((Slots(1024, 256), 3072), (None, 1000)):
            mesh, shapes = on(devices, 4, length, 8, 2, {head_dim}, jnp.bfloat16)
            with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
                abstract = [jax.ShapeDtypeStruct(s, d, sharding=p) for s, d, p in shapes]
                step = jax.jit(functools.partial(train, slots=slots, interpret=False))
                text = step.lower(*abstract).compile().as_text()
            assert text.count("tpu_custom_call") >= 3 and "all-gather" not in text
        print("compiled")
        """,
        XLA_FLAGS="",
        TPU_SKIP_MDS_QUERY="1",
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_ACCELERATOR_TYPE="v5litepod-8",
    )
    assert out == "compiled"

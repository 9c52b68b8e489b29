"""Mesh and placement."""

import dataclasses
from types import SimpleNamespace

import flax.linen as nn
import jax
import pytest
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P
from processes import python, simulated

from spicejax import configs, sharding
from spicejax.run import resolve
from spicejax.sharding import MeshConfig


def test_bad_meshes_are_named_with_the_choices():
    assert dict(sharding.make_mesh(MeshConfig(), jax.devices()[:1]).shape) == {"data": 1, "fsdp": 1, "tensor": 1}
    with pytest.raises(ValueError, match="does not divide 1 devices.*fsdp=1 tensor=1"):
        sharding.make_mesh(MeshConfig(data=1, fsdp=2), jax.devices()[:1])
    with pytest.raises(ValueError, match="sampler_mesh data=-1 fsdp=1 tensor=4 does not divide 1 devices"):
        sharding.make_meshes(MeshConfig(), MeshConfig(data=-1, tensor=4), jax.devices()[:1])
    with pytest.raises(ValueError, match="mesh.data=0"):
        MeshConfig(data=0)
    with pytest.raises(ValueError, match="only one axis can be -1"):
        MeshConfig(fsdp=-1)


def test_a_cache_is_split_where_it_divides():
    mesh = AbstractMesh((2, 2, 4), sharding.AXES)
    assert sharding.kv_cache(mesh, 8, 4).spec == P(None, ("data", "fsdp"), "tensor")
    assert sharding.kv_cache(mesh, 6, 2).spec == P(None, None, None)


def test_activations_are_named_only_inside():
    mesh = sharding.make_mesh(MeshConfig(), jax.devices()[:1])
    with sharding.activations(mesh, {"batch": 3, "act_mlp": 8}):
        assert dict(nn.get_logical_axis_rules()) == {"batch": ("data", "fsdp"), "act_mlp": ("tensor",)}
    assert not nn.get_logical_axis_rules()


@pytest.mark.slow
def test_the_same_texts_on_one_and_on_eight_devices():
    """In one turn and in several, under data x fsdp x tensor = 2 x 2 x 2; tests/run/test_pods.py has whole runs."""
    program = """
        import dataclasses
        import jax
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        from spicejax import sharding
        from spicejax.generate import engine
        from spicejax.generate.lanes import Observation
        from spicejax.generate.layout import Buckets, Layout, TurnLimits
        from spicejax.generate.player import Player
        from spicejax.generate.sampler import SamplerConfig
        from spicejax.generate.stops import stop_machine
        from spicejax.models import transformer

        moves, move, Layout.long = [], engine.move, 2  # the last rows go on in a smaller engine
        engine.move = lambda shape, *a: moves.append(shape.turns) or move(shape, *a)
        cfg = transformer.TransformerConfig(family="qwen3", vocab_size=64, d_model=32, num_layers=2, num_heads=4,
            num_kv_heads=2, head_dim=8, d_ff=48, rope_theta=1e4, tie_embeddings=True, max_position=64)
        whole = transformer.init(cfg, jax.random.key(0))
        whole = jax.tree.map(lambda x: 4 * x if x.ndim > 2 else x, whole)  # so that texts hang on what is read

        class Plain:
            def decode(self, ids):
                return " ".join(map(str, ids))

        def texts(mesh):
            places = sharding.param_shardings(mesh, transformer.param_axes(cfg), transformer.abstract_params(cfg))
            params = jax.device_put(whole, places)
            who = Player(cfg, params, Plain(), stop_machine(64, [3]), Buckets((8,), 8, refill=0.2), mesh)
            large = dataclasses.replace(who, buckets=Buckets((8,), 16, refill=0.2, tails=(0.7,)))

            def ask(prompts, samples, who=who):
                answers = who.respond(prompts, samples=samples, first_row=range(0, 200, 4)[:len(prompts)],
                    key=jax.random.key(1), settings=SamplerConfig(), max_new=8,
                    limits=[8 if i % 3 else 2 for i in range(len(prompts))])
                return [r.text for rs in answers for r in rs]

            said = ask([[5, 6, 7], [9, 8]], 4)  # copies of two prompts, a slot on each of four parts
            said += ask([[5 + i, 6, 7][: 1 + i % 3] for i in range(11)], 2)  # the same slots, refilled
            said += ask([[5, 6], [9, 8, 7]], 7)  # one prompt slot of seven rows: whole on each part
            said += ask([[5 + i, 6, 7][: 1 + i % 3] for i in range(13)], 2, large)
            pieces = dataclasses.replace(who, buckets=Buckets((8,), 8, refill=0.01, prefill_chunk=2))
            alike = [[20 + i] * 6 if i % 5 == 4 else [5, 6, 7, 8, 9, 10 + i] for i in range(25)]
            said += ask(alike, 2, pieces)  # what they begin with is taken over, also where a part had none last
            turns_of = {}

            def observe(turns):  # three tokens, twice
                for i, j, reply in turns:
                    turns_of.setdefault((i, j), []).append(reply.text)
                asking = [n for n, (i, j, _) in enumerate(turns) if len(turns_of[i, j]) < 3]
                return asking, lambda: [Observation([7, 5 + turns[n].prompt, 9], 4) for n in asking]

            large.converse([[5 + i, 6, 7][: 1 + i % 3] for i in range(9)], samples=2, first_row=range(0, 90, 10),
                key=jax.random.key(2), settings=SamplerConfig(), turn_limits=TurnLimits(3, 6, 4, 30), observe=observe)
            assert {1, 3} == set(moves), moves
            moves.clear()
            return said, sorted(turns_of.items())

        one = texts(sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1]))
        assert one == texts(sharding.make_mesh(sharding.MeshConfig(data=2, fsdp=2, tensor=2)))
        print("equal")
    """
    assert python(program, XLA_FLAGS=simulated(8)) == "equal"


def test_the_learner_splits_heads_where_a_slice_has_more_chips_than_rows():
    cfg = configs.load("spice_qwen4b")  # 8 rows, 8 kv heads
    found = [resolve._with_tensor_axis(cfg, 8, chips).mesh.tensor for chips in (1, 8, 16, 32, 64, 128, 256)]
    assert found == [1, 1, 2, 4, 8, 8, 8]
    assert resolve._with_tensor_axis(cfg, 3, 256).mesh.tensor == 1, "three heads cannot be halved"
    said = dataclasses.replace(cfg, mesh=sharding.MeshConfig(data=1, tensor=2))
    assert resolve._with_tensor_axis(said, 8, 256) == said
    for data, fsdp, chips, ways in ((1, 4, 8, 2), (-1, 16, 32, 2), (3, -1, 96, 8)):
        fixed = dataclasses.replace(cfg, mesh=sharding.MeshConfig(data=data, fsdp=fsdp, tensor=0))
        assert resolve._with_tensor_axis(fixed, 8, chips).mesh.tensor == ways, "what data and fsdp fix stays"
    with pytest.raises(ValueError, match=r"mesh\.tensor=0"):
        sharding.make_mesh(cfg.mesh)


def test_rows_are_rounded_up_to_what_the_meshes_divide():
    cfg = configs.load("spice_qwen4b")
    learning, speaking = (
        SimpleNamespace(shape={"data": d, "fsdp": f, "tensor": t}) for d, f, t in ((1, 64, 1), (48, 1, 4))
    )
    found = resolve._with_whole_rows(cfg, learning, speaking)
    assert found.learner.rows == 64 and found.buckets.rows == 3 * 48 * cfg.game.group_size
    same = SimpleNamespace(shape={"data": 1, "fsdp": 8, "tensor": 1})
    assert resolve._with_whole_rows(cfg, same, same) == cfg

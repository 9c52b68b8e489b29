"""The flight check against the real XLA:TPU and XLA:GPU: memory by hand, gathers where the layout has none, the CLI."""

import functools
import json
import sys
import textwrap
from pathlib import Path

import pytest
from processes import python

from spicejax import commands, configs
from spicejax.flight import cards, check, chips

ROOT = Path(__file__).parents[2]
MAIN = functools.partial(commands.run, "train")
needs_libtpu = pytest.mark.skipif(not chips.installed(), reason="libtpu is not installed (extra `dev` or `tpu`)")
CUDA = Path(sys.prefix, "cuda")  # apart: where the plugin is in the environment itself, every start of jax speaks of it
needs_cuda = pytest.mark.skipif(not CUDA.exists(), reason="JAX's CUDA plugin is not in .venv/cuda: make .venv/.cuda")

KEYS = {"topology", "chips", "hbm_per_chip_gib", "programs", "fits", "seconds_per_iteration"}
PROGRAM_KEYS = {"name", "hbm_gib", "flops", "bytes", "collective_bytes", "seconds"}

# Two layers, every axis a multiple of the TPU's tiles, so that sizes by hand need no padding.
SMALL = textwrap.dedent(
    """
    import json, sys
    from spicejax.games.spice.game import SpiceConfig
    from spicejax.generate.layout import Buckets
    from spicejax.learn.learner import LearnerConfig
    from spicejax.models.transformer import TransformerConfig
    from spicejax.flight import check
    from spicejax.run.config import CorpusConfig, ModelConfig, RunConfig
    from spicejax.sharding import MeshConfig

    model = TransformerConfig(family="qwen3", vocab_size=1024, d_model=1024, num_layers=2, num_heads=8, num_kv_heads=8,
        head_dim=128, d_ff=2048, rope_theta=1e4, tie_embeddings=True, max_position=512)
    def config(**layout):
        return RunConfig(name="small", model=ModelConfig(path="", architecture=model, dtype="bfloat16"),
            corpus=CorpusConfig(source="", max_tokens=64), buckets=Buckets((128,), 32),
            game=SpiceConfig(documents=8, group_size=4, challenger_max_new=128, reasoner_max_new=128),
            learner=LearnerConfig(rows=8, row_length=256), **layout)
    """
)
D, L, V, F, HEADS, HEAD = 1024, 2, 1024, 2048, 8, 128
MATRICES = V * D + L * (4 * D * HEADS * HEAD + 3 * D * F)
WEIGHTS = MATRICES + D + L * (2 * D + 2 * HEAD)


def run(program, **environment):
    """What `program` prints, as JSON; in a process of its own, since a flight check sets jax up for its purpose."""
    return json.loads(python(SMALL + program, XLA_FLAGS="", **environment))  # libtpu ends at a flag it does not know


def only(program, topology, **layout):
    """The row of one program of the small model."""
    layout = ", ".join(f"{axis}={size}" for axis, size in layout.items())
    call = f"check.check(config(mesh=MeshConfig(data=1, {layout})), {topology!r}, only=({program!r},))"
    (row,) = run(f"print(json.dumps({call}))")["programs"]
    return row


def rows(report):
    return {row["name"]: row for row in report["programs"]}


def near(found, wanted):
    return found == pytest.approx(wanted / 2**30, rel=0.03, abs=2e-4)


def assert_adds_up(row):
    total = row["arguments_gib"] + row["temporaries_gib"] + row["outputs_gib"] + row["beside_gib"]
    assert total <= row["hbm_gib"] < total + 0.05  # the rest is code


# Every case of the fast tests, compiled in one process: starting jax and libtpu takes longer than compiling.
CASES = """
import dataclasses
layouts = MeshConfig(data=1, tensor=8), MeshConfig(data=1, fsdp=8, tensor=1)
done = {}
layouts += layouts[:1]
decoding = [check.check(config(mesh=each), "v5e:2x4", only=("reasoner_decode",), done=done) for each in layouts]
prefill = check.check(config(mesh=MeshConfig(data=1, tensor=4)), "v5p:2x2x1", only=("reasoner_prefill",))
said = []
for axes, only in ((dict(tensor=3), ()), (dict(tensor=8), ("train",))):
    try:
        check.check(config(mesh=MeshConfig(data=1, **axes)), "v5e:2x4", only=only)
    except ValueError as error:
        said.append(str(error))
model = dataclasses.replace(model, num_heads=16, num_kv_heads=4, max_position=8192)
# a cache that a chip's vector memory cannot hold: of smaller ones XLA may make a copy there at every step
base = dataclasses.replace(config(mesh=MeshConfig(data=4, tensor=2)),
    game=SpiceConfig(documents=8, group_size=4, challenger_max_new=128, reasoner_max_new=4096),
    learner=LearnerConfig(rows=8, row_length=8192))
cached = [dataclasses.replace(base, buckets=Buckets((128,), 256, cache=kind)) for kind in ("compute", "int8")]
cached = [check.check(c, "v5e:2x4", only=("reasoner_decode",))["programs"][0] for c in cached]
prefill = prefill["programs"][0]
made = {"compiled": len(done), "decoding": decoding, "prefill": prefill, "refused": said, "cached": cached}
print(json.dumps(made))
"""


@pytest.fixture(scope="module")
def compiled():
    return run(CASES)


@needs_libtpu
def test_decoding_on_v5e_fits_the_sum_of_its_arrays_and_gathers_no_weights_under_tensor_parallelism(compiled):
    """The same step for two layouts: where weights are split over rows they must be gathered."""
    split, whole, again = compiled["decoding"]
    for report in (split, again):  # a third that is the first is compiled no more
        report["programs"][0].pop("compile_seconds")
    assert compiled["compiled"] == 2 and again == split
    assert set(split) >= KEYS and set(split["programs"][0]) >= PROGRAM_KEYS
    assert (split["topology"], split["chips"], split["fits"]) == ("v5e:2x4", 8, True)
    assert "train_step" in split["left_out"] and "reasoner_decode" not in split["left_out"]
    said = check.table(split)
    assert "what was compiled fits" in said and "NOT compiled" in said
    decode = rows(split)["reasoner_decode"]
    # k and v of 16 prompts, two rows each, and 32 responses of 128 tokens: layers, kv heads, head, bfloat16
    cache = 2 * (16 + 32) * 128 * L * HEADS * HEAD * 2
    assert near(decode["kv_cache_gib"], cache / 8)
    assert near(decode["arguments_gib"], (2 * MATRICES + cache) / 8)
    assert near(decode["beside_gib"], 12 * MATRICES / 8)  # weights and two moments of the learner, float32
    assert_adds_up(decode)
    assert decode["hbm_gib"] == split["hbm_per_chip_gib"]
    # 2 N a row, plus attention of every row over its prompt, its own tokens and the new one; 128 answers in 32 slots.
    assert decode["trips"] == 4 * 128
    row = 2 * MATRICES + 4 * L * HEADS * HEAD * 257
    assert decode["flops"] == pytest.approx(decode["trips"] * row * 32 / 8, rel=0.05)
    assert decode["limit"] in ("hbm", "interconnect") and decode["seconds"] > 0
    matrix = D * HEADS * HEAD  # the smallest
    assert decode["largest_gather"] < matrix, decode["collectives"]
    assert rows(whole)["reasoner_decode"]["largest_gather"] >= matrix  # the check above sees gathers


@needs_libtpu
def test_an_8_bit_cache_is_written_in_place_and_read_once(compiled):
    """What the compiler must not do: copy the cache to write a column, or pad its scales to whole tiles."""
    plain, small = compiled["cached"]
    assert small["kv_cache_gib"] < 0.7 * plain["kv_cache_gib"], "half, and the window's tokens"
    assert small["temporaries_gib"] < 0.1 * small["kv_cache_gib"]
    shapes = small["parts_gib"]["kv_cache"] + small["parts_gib"]["sampler_parameters"]
    assert small["arguments_gib"] < 1.05 * shapes, "no padding"
    assert small["bytes"] < 0.6 * plain["bytes"]


# Every program of a search game whose model has windows, in all layers or in every other.
WINDOWED = """
from spicejax import config as configuration, configs
families = {
    "mistral": {"sliding_window": "64"},
    "gemma3_text": {"sliding_window": "64", "full_every": "2", "sliding_theta": "100"},
}
found = {}
for family, fields in families.items():
    fields |= {"family": family, "num_layers": "2", "head_dim": "64", "d_model": "256"}
    changes = {f"nano.architecture.{name}": value for name, value in fields.items()}
    changes |= {"model.unroll_layers": "False", "learner.kl_coef": "0.1", "mesh.fsdp": "4"}
    found[family] = check.check(configuration.override(configs.load("search_r1_nano"), changes), "v5e:2x2")
print(json.dumps(found))
"""


@needs_libtpu
@pytest.mark.slow
def test_a_search_game_of_a_model_with_windows_compiles_for_a_slice():
    for family, report in run(WINDOWED).items():
        names = ["prefill", "insert", "decode", "append"]
        assert list(rows(report)) == [*(f"solver_{name}" for name in names), "score_192", "train_step"], family
        assert report["fits"] and not report["left_out"]
        assert not any(row["unknown_kernels"] for row in report["programs"]), family


@needs_libtpu
@pytest.mark.slow
def test_remat_saves_memory_where_layers_are_unrolled():
    plain, saved = run(
        textwrap.dedent(
            """
            import dataclasses
            def temporaries(remat):
                found = config(mesh=MeshConfig(data=1, fsdp=8))
                deep = dataclasses.replace(model, num_layers=8)
                model_config = dataclasses.replace(found.model, architecture=deep, unroll_layers=True, remat=remat)
                found = dataclasses.replace(found, model=model_config, learner=LearnerConfig(rows=8, row_length=512))
                return check.check(found, "v5e:2x4", only=("train_step",))["programs"][0]["temporaries_gib"]
            print(json.dumps([temporaries("none"), temporaries("layer")]))
            """
        )
    )
    assert saved < 0.85 * plain  # XLA that finds both computations equal: 1.06


@needs_libtpu
@pytest.mark.slow
def test_training_on_v5p_takes_the_state_and_six_n_flops():
    row = only("train_step", "v5p:2x2x1", fsdp=4)
    batch = 8 * row["trips"] * 8 * 256 * 4
    assert near(row["arguments_gib"], (12 * MATRICES + batch) / 4)
    attention = 9 * 2 * L * 256 * D  # per token: two products forward, seven backward, scores of a whole row
    tokens = row["trips"] * 8 * 256
    assert row["flops"] == pytest.approx((6 * MATRICES + attention) * tokens / 4, rel=0.1)
    assert not row["unknown_kernels"]
    assert row["collectives"].get("all-gather", 0) > 0


@needs_libtpu
def test_prefill_on_v5p_under_tensor_parallelism(compiled):
    row = compiled["prefill"]
    assert near(row["arguments_gib"], 2 * MATRICES / 4)
    lanes = 512 // 128  # prefill_chunk tokens at once
    assert near(row["outputs_gib"], 2 * lanes * 128 * L * HEADS * HEAD * 2 / 4)
    assert row["beside_gib"] > 12 * MATRICES / 4 / 2**30, "the learner's state, and the sampler's cache"
    assert_adds_up(row)
    assert row["largest_gather"] < D * HEADS * HEAD
    products = 2 * (MATRICES - V * D) * lanes * 128 + 4 * L * lanes * 128 * 128 * HEADS * HEAD
    assert row["flops"] == pytest.approx(products / 4, rel=0.05)


@needs_libtpu
def test_a_wrong_mesh_and_a_wrong_program_are_named_with_the_choices(compiled):
    mesh, program = compiled["refused"]
    assert "does not divide 8 devices; with data=1 these do: fsdp=1 tensor=8" in mesh
    assert program.startswith("--programs: small has no ['train']; choose from [") and "'train_step'" in program


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dry_run", "--topology=v5e:3x3"], "choose from v5e:1x1"),
        (["--dry_run", "--topology=h100:3"], "choose from h100:1 h100:2"),
        (["--topology=v5e:2x4"], "--dry_run --topology=SLICE"),
    ],
)
def test_the_command_line_names_what_is_wrong(words, message, capsys):
    assert MAIN(["--config=spice_qwen4b", *words]) == 2
    assert message in capsys.readouterr().err


@needs_cuda
def test_cards_take_the_memory_and_the_flops_of_the_arrays():
    """Decoding and a train step for two H100: products are calls of cuBLAS there, gathers go over NVLink."""
    report = run(
        """
layout = MeshConfig(data=1, fsdp=2, tensor=1)
found = check.check(config(mesh=layout, sampler_mesh=MeshConfig(data=1, tensor=2)), "h100:2",
    only=("reasoner_decode", "train_step"))
print(json.dumps(found))
        """,
        PYTHONPATH=str(CUDA),
    )
    assert set(report) >= KEYS and (report["chips"], report["fits"]) == (2, True)
    assert report["hbm_capacity_gib"] == pytest.approx(79.1, abs=0.1)
    decode, train = rows(report)["reasoner_decode"], rows(report)["train_step"]
    cache = 2 * (16 + 32) * 128 * L * HEADS * HEAD * 2
    assert near(decode["kv_cache_gib"], cache / 2)
    assert near(decode["arguments_gib"], (2 * MATRICES + cache) / 2)
    row = 2 * MATRICES + 4 * L * HEADS * HEAD * 257
    assert decode["flops"] == pytest.approx(decode["trips"] * row * 32 / 2, rel=0.05)
    # what each step reads of weights and cache; not the room that cuBLAS works in, 32 MiB a product
    assert (2 * MATRICES + cache) / 2 < decode["bytes"] / decode["trips"] < 3 * (2 * MATRICES + cache) / 2
    attention = 9 * 2 * L * 256 * D
    tokens = train["trips"] * 8 * 256
    assert train["flops"] == pytest.approx((6 * MATRICES + attention) * tokens / 2, rel=0.1)
    assert train["collectives"].get("all-gather", 0) > 0
    assert train["limits"]["interconnect"] == pytest.approx(train["collective_bytes"] / 450e9)


# A training pass over a prompt that slots share, and one token over 700 keys in bytes with their scales.
FLASH = """
import jax, jax.numpy as jnp
from spicejax.flight import chips
from spicejax.models import cache, flash
from spicejax.models.attention import Slots
card, width = chips.find("%s:1"), %d
place = jax.sharding.SingleDeviceSharding(card.devices()[0])

def shaped(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=place)

def loss(query, key, value, segments):
    return flash.attention(query, key, value, segments, Slots(1024, 256)).astype(jnp.float32).sum()

query, key = (shaped(jnp.bfloat16, 2, 2048, heads, width) for heads in (8, 2))
kv = jax.eval_shape(lambda: cache.init_cache(1, 4, 2, 700, width, jnp.dtype("int8")))
kv = jax.tree.map(lambda x: shaped(x.dtype, *x.shape[1:]), kv)
programs = [
    jax.jit(jax.grad(loss, argnums=(0, 1, 2))).trace(query, key, key, shaped(jnp.int32, 2, 2048)),
    jax.jit(flash.partial_attention).trace(shaped(jnp.bfloat16, 32, 1, 8, width), kv, shaped(jnp.bool, 4, 1, 700)),
]
made = [program.lower(lowering_platforms=("cuda",)).compile(compiler_options=card.options) for program in programs]
print(json.dumps([[x.as_text().count("xla.gpu.triton"), x.memory_analysis().temp_size_in_bytes] for x in made]))
"""


@needs_cuda
@pytest.mark.parametrize(
    ("card", "width"),
    [("h100", 128), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("h100", 64), ("rtx4090", 128)))],
)
def test_flash_compiles_for_a_card_without_the_scores(card, width):
    (kernels, room), (reading, small) = run(FLASH % (card, width), PYTHONPATH=str(CUDA))
    assert (kernels, reading) == (3, 1)
    assert room < 2 * 2048 * (8 + 2 * 2) * width * 4 < 2 * 8 * 2048**2 * 4 / 8  # gradients, not a sum of all scores
    assert small < 32 * 8 * 700 * 4 * 4


# Every game as the recipe of its smallest world has it.
GAMES = """
from spicejax import config as configuration, configs
from spicejax.run import chain
found = {}
for name in %s:
    stages = configs.stages(name)
    found[name] = check.check(stages[-1], "h100:8")
print(json.dumps({name: [r["fits"], [row["name"] for row in r["programs"]]] for name, r in found.items()}))
"""


@needs_cuda
@pytest.mark.slow
@pytest.mark.parametrize("game", ["spice", "ssp", "r1_searcher", "acesearcher", "rlvr", "r_zero", "absolute_zero"])
def test_the_programs_of_every_game_compile_for_eight_cards(game):
    ((fits, names),) = run(GAMES % [f"{game}_nano"], PYTHONPATH=str(CUDA)).values()
    assert fits and "train_step" in names and any(name.endswith("_decode") for name in names)


@pytest.mark.parametrize(("module", "topology", "extra"), [(chips, "v5e:4x4", "tpu"), (cards, "h100:8", "gpu")])
def test_without_the_compiler_the_error_says_how_to_get_it(module, topology, extra, monkeypatch):
    monkeypatch.setattr(module, "installed", lambda: False)
    with pytest.raises(ModuleNotFoundError, match=rf"--topology={topology}.*pip install 'spicejax\[{extra}\]'"):
        check.check(configs.load("spice_qwen4b"), topology)

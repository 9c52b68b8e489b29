"""The plan of a run: what is counted by arithmetic, and what this machine's compiler says of its programs."""

import functools
import re

import jax
import pytest

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.flight import plan, programs
from spicejax.generate.state import init
from spicejax.models import lora
from spicejax.run.resolve import resolve


def changed(name, **changes):
    return configuration.override(configs.load(name), {k.replace("__", "."): v for k, v in changes.items()})


def test_gradients_are_those_of_what_is_trained():
    whole = resolve(changed("rlvr_nano"))
    adapters = resolve(changed("rlvr_nano", model__lora__rank="2"))
    stored = resolve(changed("rlvr_nano", model__param_dtype="bfloat16", learner__learning_rate="1e-3"))
    sizes = [plan.memory(resolved) for resolved in (whole, adapters, stored)]
    assert sizes[0]["gradients"] == sizes[0]["parameters"]
    assert sizes[2]["gradients"] == 2 * sizes[2]["parameters"], "summed in float32"
    trained = sum(x.size for x in jax.tree.leaves(adapters.state[0].params))
    held = sum(x.size for x in jax.tree.leaves(lora.join(adapters.state[1], adapters.state[0].params)))
    assert sizes[1]["gradients"] == 4 * trained < 4 * held / 10


@pytest.mark.parametrize("cache", ["compute", "int8"])
@pytest.mark.parametrize("name", ["rlvr_nano", "r1_searcher_nano"])
def test_the_plans_cache_is_the_engines(name, cache):
    """Of int8 with what stays in full precision."""
    resolved = resolve(changed(name, buckets__cache=cache))
    for ask in (ask for ask in resolved.cfg.asks if ask.samples):
        caches, state = jax.eval_shape(functools.partial(init, programs.engine_layout(resolved, ask)))
        held = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves((caches, state.recent, state.older)))
        assert plan.kv_bytes(resolved, ask) == pytest.approx(held, rel=0.02)


def test_the_compiler_of_this_machine_counts_what_the_arithmetic_leaves_out(capsys):
    words = ["--config=rlvr_nano", "--dry_run", "--topology=here", "learner.rows=16", "buckets.rows=8"]
    found = {}
    for remat in ("none", "layer"):
        assert commands.run("train", [*words, f"model.remat={remat}"]) == 0
        said = capsys.readouterr().out
        rows = re.findall(r"^  (\w+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", said, re.M)
        found[remat] = {name: list(map(float, sizes)) for name, *sizes in rows}
        most = max(found[remat].values(), key=lambda sizes: sizes[-1])
        told = re.search(r"most: \w+, ([\d.]+) GiB, [\d.]+ with the process itself, of \d", said)
        assert told and abs(float(told[1]) - most[-1]) < 0.006 and "FIT" not in said
    assert {"reasoner_prefill", "reasoner_decode", "train_step"} <= found["none"].keys()
    kept, again = (found[remat]["train_step"] for remat in ("none", "layer"))
    assert kept[1] > again[1] and kept[0] == again[0]
    parts = plan.memory(resolve(changed("rlvr_nano", learner__rows="16", model__remat="layer")))
    assert again[1] > (parts["gradients"] + parts["activations"]) / plan.GIB
    assert commands.run("train", [*words, "--json"]) == 2
    assert "--topology=here prints one table" in capsys.readouterr().err


def test_large_temporaries_stand_beside_a_heap_that_only_grows():
    gib, inf = int(plan.GIB), float("inf")
    assert plan._kept([[(gib, 3 * gib), (gib, 4 * gib)]], inf) == 4 * gib, "one heap for both"
    assert plan._kept([[(gib, 3 * gib), (5 * gib, 6 * gib)]], inf) == 8 * gib, "3 of the first stay while 5 stand apart"
    turns = [[(5 * gib, 6 * gib)], [(gib, 3 * gib)]]
    assert plan._kept(turns, 3 * gib) == 8 * gib, "what the second turn left, of the iteration before"
    assert plan._kept(turns, 3 * gib - 1) == 6 * gib, "which goes back where there is too little beside it"


def test_what_does_not_fit_is_said(monkeypatch):
    monkeypatch.setattr(plan, "machine", lambda: (2**20, 2**20))
    said, fits = plan._of(2**21, [[(0, 2**21)]])
    assert said.endswith(" with the process itself, of 0.00: IT DOES NOT FIT") and not fits
    monkeypatch.setattr(plan.sharding, "device_memory", lambda: 8.0 * plan.GIB)
    assert plan._of(4 * plan.GIB, [[(0, 9 * int(plan.GIB))]]) == (" of 8.00", True)
    assert not plan._of(9 * plan.GIB, [])[1]
    monkeypatch.setattr(plan, "compiled", lambda _: ("", False))
    assert commands.run("train", ["--config=rlvr_nano", "--dry_run", "--topology=here"]) == 1


@pytest.mark.parametrize("options", [["--topology=here"], ["--programs=train_step"]])
def test_a_flight_check_is_a_dry_run(options, capsys):
    assert commands.run("train", ["--config=rlvr_nano", *options]) == 2
    assert "--dry_run" in capsys.readouterr().err


def test_of_a_gpu_the_plan_says_what_repeats_to_the_bit():
    (said,) = plan._repeats("gpu", "--xla_gpu_autotune_level=0")
    flag = said.split("XLA_FLAGS=")[1].split()[0]
    assert plan._repeats("gpu", f"--xla_gpu_autotune_level=0 {flag}") == [] == plan._repeats("tpu", "")

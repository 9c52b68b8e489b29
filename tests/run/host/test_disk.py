"""What a run says it needs of its disk is what it writes, and too small a disk is refused before anything is made."""

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from processes import ROOT
from tiny_models import QWEN3

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.flight import plan
from spicejax.learn import learner
from spicejax.models import hf, lora, transformer
from spicejax.models.lora import LoraConfig
from spicejax.run import chain
from spicejax.run.config import CheckpointConfig, with_precision
from spicejax.run.host import disk
from spicejax.run.store.checkpoint import Checkpoints

GB = 1e9


def size_of(folder) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("stored", "adapters"), [("float32", None), ("bfloat16", None), ("bfloat16", LoraConfig(rank=4))]
)
def test_a_checkpoint_takes_what_is_said(tmp_path, stored, adapters):
    shape = dataclasses.replace(QWEN3, d_model=192, d_ff=512, vocab_size=2000)
    cfg = configs.load("spice_nano")
    cfg = dataclasses.replace(cfg, model=dataclasses.replace(cfg.model, param_dtype=stored, lora=adapters))
    params = transformer.abstract_params(with_precision(cfg.model, shape))
    trained = params if adapters is None else lora.split(params)[1]
    state = jax.eval_shape(lambda x: learner.init_state(x, learner.make_optimizer(cfg.learner)), trained)
    draw = np.random.default_rng(0)
    state = jax.tree.map(lambda x: jnp.asarray(draw.normal(size=x.shape), x.dtype), state)
    with Checkpoints(tmp_path / "c", config={}) as checkpoints:
        checkpoints.save(1, state, {})
        found = size_of(checkpoints.path(1))
    needed = disk.need(cfg, shape)
    each = {"float32": 12, "bfloat16": 6}["float32" if adapters else stored]
    assert needed.checkpoint == pytest.approx(each * sum(x.size for x in jax.tree.leaves(trained)), rel=1e-3)
    assert 0.5 * needed.checkpoint < found < 1.1 * needed.checkpoint, "Orbax compresses what repeats"


@pytest.mark.parametrize("fields", [(8, 1, 2, 3), (9, 2, 1, 0), (6, 3, 1, 2), (5, 0, 2, 0)])
def test_there_are_never_more_checkpoints_than_said(tmp_path, monkeypatch, fields):
    iterations, every, keep, period = fields
    kept = disk._kept(CheckpointConfig(every=every, keep=keep, keep_period=period), iterations)
    seen, prune = [], Checkpoints._prune
    monkeypatch.setattr(Checkpoints, "_prune", lambda self: (seen.append(len(self.steps())), prune(self)))
    with Checkpoints(tmp_path / "c", keep=keep, keep_period=period, config={}) as checkpoints:
        for step in range(1, iterations + 1):
            if step == iterations or (every and step % every == 0):
                checkpoints.save(step, {"x": jnp.zeros(3)}, {})
        assert len(checkpoints.steps()) == kept
    assert kept <= max(seen) <= kept + 1


@pytest.mark.parametrize(
    ("name", "checkpoint", "most"),
    [
        ("spice_qwen0p6b_colab", 7.15, 14.3),
        ("spice_qwen1p7b_kaggle", 20.6, 41.3),
        ("spice_qwen4b_lora_kaggle", 0.396, 1.19),
    ],
)
def test_what_the_pages_say_of_small_machines(name, checkpoint, most):
    (stage,) = configs.stages(name)
    (need,) = disk.needs([stage])
    assert (need.checkpoint / GB, need.most / GB) == pytest.approx((checkpoint, most), rel=0.01)
    row = next(line for line in (ROOT / "docs" / "colab.md").read_text().splitlines() if f"`{name}`" in line)
    assert f" {checkpoint:.3g} GB" in row and f" {most:.3g} GB" in row


def test_a_chain_keeps_what_its_stages_wrote():
    first, second = stages = configs.stages("sft_rlvr_nano")
    one, two = disk.needs(stages)
    assert one.policy == hf_size(first) and two.policy == 0
    assert disk.most(stages) == one.kept * one.checkpoint + one.policy + two.most
    adapted = dataclasses.replace(first, model=dataclasses.replace(first.model, lora=LoraConfig(rank=2)))
    assert disk.needs([adapted, second])[0].policy == one.policy, "it is exported merged"
    said = plan.describe(first, Path("runs/x"), last=False)
    assert "0.00422 GB at the end, the model of the next stage" in said
    assert "the model of the next stage" not in plan.describe(second, Path("runs/x"))


def hf_size(cfg) -> int:
    return 4 * sum(_product(shape) for shape in hf.tensor_names(cfg.nano.architecture).values())


def _product(shape) -> int:
    found = 1
    for n in shape:
        found *= n
    return found


def with_room(monkeypatch, free):
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda place: SimpleNamespace(total=100 * GB, free=int(free * GB)))


def test_what_fits_is_named(monkeypatch, tmp_path):
    (colab,) = configs.stages("spice_qwen0p6b_colab")
    two = configuration.override(colab, {"checkpoint.keep": "2", "checkpoint.keep_period": "100"})
    for free, fix in (
        (40, "takes up to 35.8 GB, 7.15 GB a checkpoint"),
        (20, "checkpoint.keep=1 checkpoint.keep_period=0 (14.3 GB), or model.lora.rank=16 (0.606 GB), or choose a"),
        (10, "for it; model.lora.rank=16 (0.606 GB), or choose a larger place (--workdir)"),
        (0.1, "for it; choose a larger place (--workdir)"),
    ):
        with_room(monkeypatch, free)
        said = disk.lacking([two], [tmp_path / "run"], tmp_path / "run")
        assert said == "" if free == 40 else fix in said and f"{tmp_path} has {free:.3g} GB for it" in said, said
    with_room(monkeypatch, 8)
    assert disk.lacking([colab], [tmp_path], tmp_path)
    step = tmp_path / "checkpoints" / "00000005"
    step.mkdir(parents=True)
    with open(step / "x", "wb") as file:
        file.truncate(int(7 * GB))  # a file of holes
    assert disk.lacking([colab], [tmp_path], tmp_path) == "", "what the run has there already is room"
    assert disk.lacking([colab], [tmp_path], tmp_path, restart=True), "set aside, it stays"


def test_a_dry_run_says_it_and_a_run_is_refused(monkeypatch, tmp_path, capsys):
    words = ["--config=spice_nano", f"--workdir={tmp_path}/run", f"nano.cache={tmp_path}/cache"]
    with_room(monkeypatch, 0.001)
    assert commands.run("train", [*words, "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "0.0127 GB a checkpoint, 0.038 GB at most (2 stay, one more is there while it is saved)" in out
    assert f"a run would stop here: {tmp_path}/run takes up to 0.038 GB" in out
    assert commands.run("train", words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {tmp_path}/run takes up to 0.038 GB") and said.count("\n") == 1
    assert os.listdir(tmp_path) == [], "no world, no model, no folder"
    step = tmp_path / "run" / "checkpoints" / "00000001"
    step.mkdir(parents=True)
    with open(step / "x", "wb") as file:
        file.truncate(int(0.04 * GB))
    for more, told in ((["--dry_run"], 0), (["--dry_run", "--restart"], 1), (["--restart"], 2)):
        assert commands.run("train", [*words, *more]) == (2 if told == 2 else 0)
        said = capsys.readouterr()
        assert (said.out + said.err).count("run takes up to 0.038 GB") == bool(told)


def test_a_chains_folders_are_looked_at(tmp_path):
    stages = configs.stages("sft_rlvr_nano")
    (first, _) = chain.folders(stages, tmp_path)
    (first / "policy").mkdir(parents=True)
    (first / "policy" / "model.safetensors").write_bytes(b"1234")
    assert disk._written(first) == 4

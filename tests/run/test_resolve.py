"""A configuration resolved: the rows of the vocabulary that no token has, the nano world that the run has used."""

import dataclasses
import os
from pathlib import Path

import jax
import pytest
from tiny_models import QWEN2, QWEN3, random_params, write_tokenizer

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.flight import programs
from spicejax.generate.layout import Buckets
from spicejax.models import hf
from spicejax.report import places
from spicejax.run import build, lengths
from spicejax.run.resolve import _with_world, resolve
from spicejax.run.store import record
from spicejax.run.store.checkpoint import Checkpoints
from spicejax.text import tokens
from spicejax.worlds.nano import maker


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
    resolved = resolve(cfg, jax.devices()[:1])
    assert resolved.model.unused == (260, 272) and resolved.model.lora is not None
    assert resolved.seats["challenger"].unused == ()
    seen = {ask.seat or ask.role: programs.engine_layout(resolved, ask).model.unused for ask in cfg.asks}
    assert seen == {"challenger": (), "reasoner": (260, 272)}
    chat_format = lengths.ChatFormat(tokens.load(policy), "chat")
    player = build.seat(shape, random_params(shape), chat_format, Buckets((16,), 2), resolved.sampler_mesh)
    assert player.cfg == dataclasses.replace(shape, unused=(260, 272))


def test_a_vocabulary_too_small_for_its_tokenizer_is_refused(tmp_path):
    path = written(tmp_path / "model", dataclasses.replace(QWEN3, vocab_size=250))
    cfg = configuration.override(configs.load("spice_smollm2"), {"model.path": path})
    with pytest.raises(ValueError, match="ids up to 259, but the model has 250"):
        resolve(cfg, jax.devices()[:1])


class Card:
    platform = "gpu"


@pytest.mark.parametrize(
    ("devices", "fields", "message"),
    [
        (jax.devices()[:1], {"model.attention": "flash"}, "attention=flash runs on a GPU, and this is a CPU"),
        (jax.devices()[:1], {"model.attention": "splash"}, "attention=splash runs on a TPU, and this is a CPU"),
        ([Card()], {"model.attention": "flash"}, "head_dim of 16, 32, 64, 128 or 256, .*got 40"),
        ([Card()], {"model.attention": "flash", "nano.architecture.head_dim": "32"}, "whole blocks of 32 tokens"),
    ],
)
def test_a_kernel_that_cannot_run_is_refused_before_anything_starts(devices, fields, message):
    cfg = configs.load("spice_nano")
    shapes = {"learner.layout": "shared_prompt", "learner.prompt_areas": "72", "learner.slot_length": "64"}
    cfg = configuration.override(cfg, shapes | {"learner.slots": "4"} | fields)
    with pytest.raises(ValueError, match=message):
        resolve(cfg, devices)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A recipe whose nano world lies in the folder runs/cache below the current one, which is then another."""
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(there)
    cfg = configs.load("spice_nano")
    assert cfg.nano is not None
    maker.prepare(cfg.nano, cfg.seed, model=False).model.mkdir()

    def make_model(nano, seed, folder):
        raise AssertionError(f"the warm start takes minutes: {folder}")

    monkeypatch.setattr(maker, "make_model", make_model)
    return cfg, there, elsewhere


def test_the_same_command_from_another_folder_makes_no_model_again(world, monkeypatch):
    cfg, there, elsewhere = world
    record.write(there / "runs", cfg)  # the work folder
    monkeypatch.chdir(elsewhere)
    with pytest.raises(AssertionError, match="warm start"):
        _with_world(cfg)
    found = _with_world(record.with_cache(cfg, there / "runs"))
    assert found.model.path.startswith(f"{there}/runs/cache/nano-") and Path(found.corpus.source).is_file()


def test_a_later_stage_takes_the_world_of_the_one_before_and_its_model(world, monkeypatch):
    cfg, there, elsewhere = world
    chain = there / "runs" / "chain"
    (chain / "1").mkdir(parents=True)
    record.write(chain / "1", cfg)
    later = dataclasses.replace(cfg, model=dataclasses.replace(cfg.model, path=str(chain / "1" / "policy")))
    monkeypatch.chdir(elsewhere)
    found = _with_world(record.with_cache(later, chain / "2"))
    assert found.corpus.source.startswith(str(there)) and not any(elsewhere.iterdir())
    assert found.model.path == str(chain / "1" / "policy")
    assert Path(_with_world(later).corpus.source).is_file()  # where nobody knows the world: its items, no warm start


def test_commands_on_a_nano_run_look_before_they_make_its_model(world, monkeypatch, capsys):
    """The run's world is gone; what is wrong with the words is said before it is made again."""
    cfg, there, elsewhere = world
    run, notes = there / "runs" / "a", elsewhere / "notes"
    kept = places.kept(configuration.to_json(cfg), run)
    with Checkpoints(run / "checkpoints", config=kept) as checkpoints:
        checkpoints.save(1, {"params": random_params(QWEN3)}, {})
    record.write(run, cfg)
    notes.mkdir()
    (notes / "a.txt").write_text("a")
    (elsewhere / "q.jsonl").write_text('{"question": "Who?", "answer": "Bo"}\n')
    os.rename(there / "runs" / "cache", there / "gone")
    monkeypatch.chdir(elsewhere)
    asked = ("evaluate", f"--model={run}", "--questions=q.jsonl")
    for words, said in (
        (("export", f"--run={run}", "--out=notes"), "notes is there and no such folder"),
        (("export", f"--run={run}", "--out=new", "--adapter"), "it has no adapter"),
        ((*asked, "--judge=server"), "no server to judge"),
        ((*asked, "--judge=no/such/model"), "no/such/model"),
        ((*asked, "--rollouts=-1", "--out=made"), "--rollouts=-1"),
        ((*asked, "--out=q.jsonl"), "q.jsonl"),
        ((*asked, "seats.challenger=no/such/model"), "no/such/model"),
    ):
        assert commands.run(words[0], words[1:]) == 2, words
        err = capsys.readouterr().err
        assert err.startswith("error: ") and said in err and err.count("\n") == 1, err
    assert sorted(path.name for path in elsewhere.iterdir()) == ["notes", "q.jsonl"]

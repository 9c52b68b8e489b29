"""Chains of runs and frozen seats on small nano runs: killed anywhere, the same command ends with the same bytes."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jsonl
import numpy as np
import orbax.checkpoint as ocp
import pytest
from processes import PATIENCE, ROOT, kill_after
from tiny_models import QWEN2, random_params
from tiny_runs import SPICE, WORLD

from spicejax import config as configuration
from spicejax import configs, sharding
from spicejax.endurance import compare
from spicejax.fields import ConfigError
from spicejax.flight import plan, programs
from spicejax.models import hf
from spicejax.run import chain, train
from spicejax.run.build import build
from spicejax.run.resolve import resolve
from spicejax.run.store import export
from spicejax.run.store.checkpoint import Checkpoints

CHAIN = WORLD | {
    "1.iterations": "3", "2.iterations": "2", "supervised.examples": "8", "rlvr.questions": "4", "rlvr.group_size": "4",
    "1.learner.decay_steps": "3", "1.learner.warmup_steps": "0", "eval.every": "0",
}  # fmt: skip


def stages(cache, *more):
    words = [f"{key}={value}" for key, value in CHAIN.items()]
    return chain.override(configs.stages("sft_rlvr_nano"), [*words, f"nano.cache={cache}", *more])


def arrays(workdir):
    """Bytes of every array of the newest checkpoint, and what stands beside them but for the seconds and the lines of
    logs: a run that ends is evaluated, a part of one too."""
    with Checkpoints(workdir / "checkpoints", config={}) as checkpoints:
        folder = checkpoints.path(checkpoints.latest_good())
    extra = json.loads((folder / "extra.json").read_text())
    del extra["counters"]["seconds"], extra["counters"]["stages"], extra["counters"]["lines"]
    leaves = jax.tree.leaves(ocp.PyTreeCheckpointer().restore(folder / "state"))
    return [np.asarray(x).tobytes() for x in leaves], extra


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("whole")
    summary = chain.run(stages(cache), workdir)
    assert (summary["name"], summary["iterations"]) == ("rlvr_nano", 2)
    return workdir


def test_each_stage_starts_from_the_one_before(whole, cache):
    first, second = (json.loads((whole / k / "summary.json").read_text()) for k in "12")
    assert first["examples_seen"] == 3 * 8 and second["questions_asked"] == 2 * 4
    assert second["accuracy_start"] == first["accuracy_end"]
    (last,) = [c for c in stages(cache) if c.name == "rlvr_nano"]
    start = dataclasses.replace(last, model=dataclasses.replace(last.model, path=str(whole / "1" / "policy")))
    run = build(start, whole / "x")
    _, trained = hf.load(whole / "1" / "policy")
    jax.tree.map(np.testing.assert_array_equal, run.params, trained)
    assert json.loads((whole / "2" / "metrics.jsonl").read_text().splitlines()[-1])["learner/steps"] == 1, (
        "or nothing is compared"
    )
    _, base = hf.load(resolve(last, make_world=True).cfg.model.path)
    assert np.any(np.asarray(base["embed"]) != np.asarray(trained["embed"])), "the first stage learnt"


@pytest.mark.parametrize("stage", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_killed_in_either_stage_the_same_command_goes_on(whole, cache, tmp_path, stage):
    script = [sys.executable, ROOT / "launch" / "tpu_run.py", "--config=sft_rlvr_nano", f"--workdir={tmp_path}"]
    words = [*script, f"nano.cache={cache}", *(f"{key}={value}" for key, value in CHAIN.items())]
    kill_after(words, tmp_path / stage / "metrics.jsonl", 1)
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert ("stage 1 of 2" in done.stdout) == (stage == "1"), "a finished stage is skipped"
    assert arrays(tmp_path / "2") == arrays(whole / "2")


def test_a_policy_that_is_damaged_is_written_again(whole, cache, tmp_path, caplog):
    shutil.copytree(whole, tmp_path / "run")
    weights = tmp_path / "run" / "1" / "policy" / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-9] + bytes([good[-9] ^ 4]) + good[-8:])
    with caplog.at_level("WARNING"):
        chain.run(stages(cache), tmp_path / "run")
    assert "model.safetensors is damaged: its digest differs" in caplog.text
    assert compare.differences(chain.folders(stages(cache), tmp_path / "run"), [whole / "1", whole / "2"]) == []
    weights.unlink()
    shutil.rmtree(tmp_path / "run" / "1" / "checkpoints")
    with pytest.raises(FileNotFoundError, match="no longer holds"):
        chain.run(stages(cache), tmp_path / "run")


@pytest.mark.parametrize(("words", "message"), [
    (["1.learner.learning_rate=0.5"], "1/policy was made by another configuration .learner.learning_rate: .* -> 0.5"),
    (["seed=5"], "1/policy was made by another configuration .seed: 0 -> 5"),
    (["1.iterations=4"], "1.iterations=4: sft_nano in .*1 has handed on its policy after 3; give 1.iterations=3, or "),
    (["1.iterations=2"], "1.iterations=2: sft_nano in .*1 has handed on its policy after 3; give 1.iterations=3, or "),
    (["2.iterations=1"], "2.iterations=1: .*2 goes on from 2 iterations; give 2.iterations=2 or more, or choose an"),
])  # fmt: skip
def test_a_stage_that_is_finished_is_not_another_one_now(whole, cache, words, message):
    with pytest.raises(ValueError, match=message) as error:
        chain.run(stages(cache, *words), whole)
    assert "\n" not in str(error.value)


@pytest.fixture
def trained(monkeypatch):
    """The folders that would be trained."""
    found = []
    monkeypatch.setattr(train, "train", lambda cfg, folder, **_: found.append(folder) or {"complete": True})
    monkeypatch.setattr(chain, "_report", lambda folder: "")
    return found


def test_a_finished_stage_may_have_moved_and_lost_its_checkpoints(whole, cache, tmp_path, trained):
    run = shutil.copytree(whole, tmp_path / "run")
    chain.run(stages(cache, "1.eval.every=2", "1.checkpoint.keep=1"), run)
    shutil.rmtree(run / "1" / "checkpoints")
    chain.run(stages(cache), run)
    (run / "1" / "config.json").unlink()  # nothing is left to compare
    chain.run(stages(cache, "seed=5"), run)
    assert trained == [run / "2"] * 3


def test_a_run_does_not_end_before_it_goes_on(tmp_path, trained):
    for step in (10, 20):
        (tmp_path / "checkpoints" / f"{step:08d}").mkdir(parents=True)

    def start(iterations, resume="auto"):
        chain.run([dataclasses.replace(configs.load("spice_nano"), iterations=iterations)], tmp_path, resume=resume)

    said = f"{tmp_path} goes on from 20 iterations; give iterations=20 or more,"
    with pytest.raises(ValueError, match=f"^iterations=15: {said} or choose another --workdir$"):
        start(15)
    for resume in ("auto", 20):
        with pytest.raises(ValueError, match=f"^iterations=10: {said} --resume=10 to go back, or choose another --w"):
            start(10, resume)
    start(20)
    start(10, resume=10)
    assert trained == [tmp_path] * 2


def test_overrides_of_a_chain(cache):
    first, second = stages(cache, "seed=3", "2.learner.epochs=2")
    assert (first.seed, second.seed, first.learner.epochs, second.learner.epochs) == (3, 3, 1, 2)
    assert (first.game.examples, second.game.questions) == (8, 4)
    for word in ("spice.documents=3", "3.seed=1"):
        with pytest.raises(ConfigError, match=word.partition("=")[0]):
            stages(cache, word)


def test_stages_start_from_and_seat_any_earlier_one(cache, tmp_path):
    """A chain of two lineages, as R-Zero's; what comes later has no model yet."""
    turns = configs.stages("r_zero_nano")
    places = chain.folders(turns, tmp_path)
    policies = [str(place / "policy") for place in places]
    linked = chain.link(turns, places)
    assert [cfg.model.path for cfg in linked] == ["", "", policies[0], policies[1]], "of its own lineage, at first none"
    assert [cfg.seats for cfg in linked] == [
        {}, {"challenger": policies[0]}, {"reasoner": policies[1]}, {"challenger": policies[2]},
    ]  # fmt: skip
    for change, field in (({"from_stage": 2}, "from_stage"), ({"seats": {"reasoner": "stage:3"}}, "seats.reasoner")):
        with pytest.raises(ValueError, match=f"{field}: run [23] of the chain comes no earlier than this one"):
            chain.link([turns[0], dataclasses.replace(turns[0], **change)], places)
    with pytest.raises(ValueError, match="from_stage=-2"):
        dataclasses.replace(turns[0], from_stage=-2)
    resolved = resolve(dataclasses.replace(turns[1], model=dataclasses.replace(turns[1].model, path="")))
    assert resolved.seats["challenger"].d_model == turns[1].nano.architecture.d_model, "planned before it is made"


ROUNDS = WORLD | {
    "iterations": "4", "buckets.rows": "180", "rzero.groups": "4", "rzero.pool": "60", "rzero.keep": "0.0,1.0",
    "eval.tasks": "none",
}  # fmt: skip


@pytest.mark.slow
def test_two_lineages_killed_in_turns_of_the_reasoner_go_on(cache, tmp_path):
    script = [sys.executable, ROOT / "launch" / "tpu_run.py", "--config=r_zero_nano", f"nano.cache={cache}"]
    words = [*script, *(f"{key}={value}" for key, value in ROUNDS.items())]
    killed, whole = [*words, f"--workdir={tmp_path / 'killed'}"], [*words, f"--workdir={tmp_path / 'whole'}"]
    for stage in "24":
        kill_after(killed, tmp_path / "killed" / stage / "metrics.jsonl", 1)
    for command in (killed, whole):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
        assert done.returncode == 0, done.stderr[-3000:]
    for stage in "234":
        assert arrays(tmp_path / "killed" / stage) == arrays(tmp_path / "whole" / stage)
    rows = jsonl.read(tmp_path / "whole" / "4" / "metrics.jsonl")
    assert rows[0]["challenger/valid_fraction"] > 0 and rows[-1]["reasoner/episodes"] > 0, "or nothing is compared"
    kept = json.loads((tmp_path / "whole" / "4" / "config.json").read_text())
    assert kept["model"]["path"] == "../2/policy" and kept["seats"] == {"challenger": "../3/policy"}


def test_a_report_that_fails_stops_no_chain(cache, tmp_path, monkeypatch, caplog):
    trained = []

    def fails(folder):
        raise ValueError("no such glyph\nand more")

    monkeypatch.setattr(train, "train", lambda cfg, folder, **_: trained.append(folder) or {"complete": True})
    monkeypatch.setattr(export, "write_policy", lambda folder, out, finish: out.mkdir(parents=True))
    monkeypatch.setattr(chain.page, "write", fails)
    with caplog.at_level("WARNING"):
        assert chain.run(stages(cache), tmp_path)["complete"]
    assert trained == [tmp_path / "1", tmp_path / "2"]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and "ValueError: no such glyph" in told[0] and "spicejax report" in told[0]
    assert "\n" not in told[0]


@pytest.fixture(scope="module")
def another(cache, tmp_path_factory):
    """Another model's folder: another architecture, with the tokenizer and template of the nano model."""
    cfg = configuration.override(configs.load("spice_nano"), SPICE | {"nano.cache": str(cache)})
    model = Path(resolve(cfg, make_world=True).cfg.model.path)
    folder = tmp_path_factory.mktemp("another") / "model"
    shape = dataclasses.replace(QWEN2, vocab_size=hf.read_config(model).vocab_size)
    hf.save(folder, shape, random_params(shape), tokenizer_files_from=model)
    return cfg, folder, shape


def test_a_frozen_seat_is_played_by_another_model(another, tmp_path):
    cfg, model, shape = another
    folder = shutil.copytree(model, tmp_path / "seat")
    cfg = dataclasses.replace(cfg, seats={"challenger": str(folder)}, iterations=1)
    train.train(cfg, tmp_path / "whole")
    rows = jsonl.read(tmp_path / "whole" / "metrics.jsonl")
    assert all("challenger/episodes" not in row for row in rows), "nothing is learnt from it"
    run = build(cfg, tmp_path / "again")
    seated = run.world(0).players["challenger"]
    assert (
        seated.cfg.family == "qwen2" and seated.cfg.d_model == shape.d_model and seated.stop.transitions.shape[1] == 1
    )
    jax.tree.map(np.testing.assert_array_equal, seated.params, hf.load(folder)[1])
    hf.save(folder, shape, jax.tree.map(lambda x: x * 2, hf.load(model)[1]), tokenizer_files_from=model)
    with pytest.raises(ValueError, match=r"seats.challenger=.*seat holds other weights than .* after 1 iterations"):
        train.train(dataclasses.replace(cfg, iterations=2), tmp_path / "whole")


def test_a_frozen_seat_is_counted_by_plan_and_flight_check(another):
    cfg, folder, _ = another
    seated = dataclasses.replace(resolve(cfg, make_world=True).cfg, seats={"challenger": str(folder)})
    resolved = resolve(seated)
    size = sum(x.size * 4 for x in jax.tree.leaves(hf.load(folder)[1]))
    assert plan.memory(resolved)["seat_challenger"] == size
    by_name = {program.name: program for program in programs.programs(resolved)}
    assert sharding.device_bytes(by_name["challenger_decode"].arguments["sampler_parameters"]) == size
    assert "seat_challenger" in by_name["reasoner_decode"].beside and "seat_challenger" in by_name["train_step"].beside
    assert f"challenger: {folder}" in plan.describe(seated, Path("runs/x"))
    with pytest.raises(ValueError, match=r"seats\.judge.*challenger, reasoner"):
        dataclasses.replace(cfg, seats={"judge": str(folder)})
    with pytest.raises(ValueError, match="nothing is trained"):
        dataclasses.replace(cfg, seats={"challenger": str(folder), "reasoner": str(folder)})


def test_a_run_of_an_older_version_exports(another, tmp_path):
    """Fields that have gone, changed their name or were not there yet keep nobody from the weights."""
    cfg = dataclasses.replace(another[0], iterations=1)
    run = build(cfg, tmp_path)
    old = configuration.to_json(cfg) | {"rows_per_call": 16, "prompt_buckets": [16, 64]}
    old["nano"]["architecture"]["qk_norm"] = True
    del old["buckets"], old["seats"], old["nano"]["prompt_weight"], old["learner"]["warmup_steps"]
    with Checkpoints(tmp_path / "old" / "checkpoints", config=old) as checkpoints:
        checkpoints.save(1, run.state, {})
    step, _, params, _ = export.load_run(tmp_path / "old")
    assert step == 1
    jax.tree.map(np.testing.assert_array_equal, params, run.params)
    with pytest.raises(ValueError, match="rows_per_call: 16 -> '<absent>'"):
        train.train(cfg, tmp_path / "old")


def test_a_games_state_is_handed_on_and_kept_in_checkpoints(cache, tmp_path, monkeypatch):
    """A game that counts: what it returned is what the next iteration gets, in a resumed run too."""
    (cfg,) = [c for c in stages(cache) if c.name == "rlvr_nano"]
    game, seen = cfg.game.game, []

    def counting(world, items, config, state):
        seen.append(state)
        played = game.play(world, items, config, state)
        return dataclasses.replace(played, state={"played": (state or {"played": 0})["played"] + 1})

    monkeypatch.setattr(type(cfg.game), "game", game._replace(play=counting))
    train.train(dataclasses.replace(cfg, iterations=2), tmp_path)
    train.train(dataclasses.replace(cfg, iterations=3), tmp_path)
    assert seen == [None, {"played": 1}, {"played": 2}]


def test_one_run_goes_back_and_no_chain(tmp_path):
    with pytest.raises(ValueError, match="--resume=3: one run goes back, and this is a chain of 2; auto or never"):
        chain.run(configs.stages("sft_rlvr_nano"), tmp_path / "run", resume=3)
    assert not (tmp_path / "run").exists()

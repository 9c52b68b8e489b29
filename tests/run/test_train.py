"""The loop end to end on a small nano run: kills, interruptions, refusals, compilations, what it writes."""

import contextlib
import dataclasses
import functools
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from processes import PATIENCE, ROOT, kill_after
from tiny_runs import SPICE, last_step, rows

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.evaluation import versus
from spicejax.generate import engine
from spicejax.interrupt import Interrupt, Stopped
from spicejax.models import hf
from spicejax.run import preflight, train
from spicejax.run.build import build
from spicejax.run.store import export, manifest

launch = functools.partial(commands.run, "train")
CHANGES = {"iterations": "6", "spice.grounding": "none", "eval.every": "3", "checkpoint.every": "2", "show_every": "3"}
CHANGES["spice.challenger_estimator"] = "rae"  # whose moving baseline checkpoints carry
TINY = [f"{key}={value}" for key, value in (SPICE | CHANGES).items()]


def command(workdir, cache, *more):
    return [sys.executable, ROOT / "launch" / "tpu_run.py", "--config=spice_nano", f"--workdir={workdir}",
            f"nano.cache={cache}", *TINY, *more]  # fmt: skip


def finish(workdir, cache, *more, env=None):
    words = command(workdir, cache, *more)
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """An uninterrupted run."""
    workdir = tmp_path_factory.mktemp("whole")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert launch([f"--workdir={workdir}", f"nano.cache={cache}", "--config=spice_nano", *TINY]) == 0
    return workdir, out.getvalue()


def test_a_run_leaves_what_it_promises(whole):
    workdir, out = whole
    summary = json.loads((workdir / "summary.json").read_text())
    assert summary["iterations"] == 6 and Path(summary["checkpoint"]).is_dir()
    assert (summary["log_failures"], summary["iterations_missing"]) == (0, 0)
    for name in ("accuracy_start", "accuracy_end"):
        assert 0 <= summary[name] <= 1
    assert summary["seconds"] == pytest.approx(sum(v for k, v in summary.items() if k.startswith("seconds/")), abs=0.01)
    assert summary["seconds"] > sum(r["time/play"] + r["time/update"] for r in rows(workdir / "metrics.jsonl"))
    assert summary["valid_share"] > 0.1 and "warning" not in summary and summary["held_out_questions"] == 16
    metrics = rows(workdir / "metrics.jsonl")
    assert [r["iteration"] for r in metrics] == list(range(6))
    assert all(0 < r["sampler/padding/challenger"] < 1 for r in metrics)
    assert (
        summary["tasks_valid"] > 0.2 * summary["tasks_generated"] and sum(r["learner/steps"] for r in metrics) >= 3
    ), "or nothing is compared"
    measured, items = rows(workdir / "evaluations.jsonl"), rows(workdir / "items.jsonl")
    assert [r["iteration"] for r in measured] == [0, 3, 6]
    for row in measured:
        right = [item["scores"]["verifier"] for item in items if item["iteration"] == row["iteration"]]
        assert len(right) == summary["held_out_questions"] and row["eval/accuracy"] == pytest.approx(np.mean(right))
    assert versus.compare(versus.load(workdir), versus.load(workdir))["exact"]["gained"] == 0
    tasks = rows(workdir / "tasks.jsonl")
    assert len(tasks) == summary["tasks_generated"]
    assert all({"document_id", "format", "reward"} <= set(t) and ("question" in t or "rejected" in t) for t in tasks)
    assert (workdir / "report.png").stat().st_size > 10_000
    assert "6 iterations" in (workdir / "report.txt").read_text()
    assert "iteration 6/6" in out and "eta" in out


@pytest.mark.slow  # as tests/run/test_chain.py kills a chain's last stage
@pytest.mark.parametrize("after", [1, 3, 4])
def test_killed_and_rerun_is_bitwise_the_uninterrupted_run(whole, cache, tmp_path, after):
    kill_after(command(tmp_path, cache), tmp_path / "metrics.jsonl", after)
    finish(tmp_path, cache)
    assert last_step(tmp_path) == last_step(whole[0]) and last_step(tmp_path)[2]["baselines"]["challenger"]
    kept = [{k: v for k, v in r.items() if not k.startswith("time/")} for r in rows(tmp_path / "metrics.jsonl")]
    expected = [{k: v for k, v in r.items() if not k.startswith("time/")} for r in rows(whole[0] / "metrics.jsonl")]
    assert kept == expected


def test_a_run_goes_back_and_is_exported_at_its_end(whole, cache, tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "policy"
    shutil.copytree(whole[0], run)
    words = [f"--workdir={run}", f"nano.cache={cache}", "--config=spice_nano", *TINY]
    assert launch([*words, "--resume=never"]) == 2
    assert capsys.readouterr().err == (
        f"error: {run} holds a run already; choose another --workdir, or leave --resume=never out\n"
    )
    assert launch([*words, "--resume=5"]) == 2
    assert f"no checkpoint after 5 iterations to go back to: {run}/checkpoints holds [4, 6]" in capsys.readouterr().err
    assert last_step(run) == last_step(whole[0])
    assert launch([*words, "--resume=4", f"--export={out}"]) == 0
    said = capsys.readouterr().out
    assert (run / "checkpoints" / "superseded.00000006.0" / "MANIFEST.json").is_file()
    assert last_step(run) == last_step(whole[0]) and f"export  {out}" in said
    assert [r["iteration"] for r in rows(run / "metrics.jsonl")] == list(range(6))
    _, written = hf.load(out)
    step, _, trained, _ = export.load_run(run)
    jax.tree.map(np.testing.assert_array_equal, written, trained)
    assert step == 6 and "**Iterations**: 6 of 6\n" in (out / "README.md").read_text()
    checkpoints = run / "checkpoints"
    shutil.copytree(checkpoints / "00000004", checkpoints / "00000002")
    (checkpoints / "00000002.partial").mkdir()
    assert launch(words) == 0
    assert sorted(path.name for path in checkpoints.glob("0*")) == ["00000004", "00000006"], "what a kill left goes"


@pytest.mark.slow
def test_sigterm_saves_and_the_same_command_goes_on(whole, cache, tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command(tmp_path, cache, "checkpoint.every=0"), cwd=ROOT, text=True, **pipes)
    for line in process.stdout:
        if line.startswith("iteration 3/6"):
            os.kill(process.pid, signal.SIGTERM)
            break
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    assert "the same command goes on from here" in out
    saved = [p.name for p in (tmp_path / "checkpoints").glob("0*")]
    assert len(saved) == 1 and 3 <= int(saved[0]) <= 5
    env = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    finish(tmp_path, cache, "checkpoint.every=0", env=env)
    assert last_step(tmp_path)[1] == last_step(whole[0])[1]
    kept = tmp_path / "compilation_cache"
    programs = {path.name for path in kept.iterdir()}
    assert programs, "compiled programs are kept in the work folder"
    shutil.copytree(kept, tmp_path / "moved" / "compilation_cache")
    finish(tmp_path / "moved", cache, "checkpoint.every=0", env=env)
    assert {path.name for path in (tmp_path / "moved" / "compilation_cache").iterdir()} == programs, "and move with it"


@pytest.fixture
def disk(tmp_path):
    """A disk of its own that turns read-only at a fault, as most are set up: its folder, and what makes the fault."""
    image, folder = tmp_path / "disk", tmp_path / "mounted"
    folder.mkdir()
    mount = ["mount", "-o", "loop,errors=remount-ro", image, folder]

    def tried(words):
        return subprocess.run(words, capture_output=True, check=False).returncode

    with open(image, "wb") as file:
        file.truncate(2**30)
    if os.geteuid() or not shutil.which("mkfs.ext4") or tried(["mkfs.ext4", "-q", image]) or tried(mount):
        pytest.skip("only root may mount a disk, and not everywhere")
    device = next(line.split()[0] for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line)
    trigger = Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error")

    def mend():
        assert tried(["umount", folder]) == 0 and tried(["e2fsck", "-y", image]) in (0, 1) and tried(mount) == 0

    yield folder, trigger, mend
    tried(["umount", folder])


@pytest.mark.slow
def test_a_disk_that_turns_read_only_keeps_every_saved_step_and_its_lines(whole, cache, disk):
    folder, trigger, mend = disk
    run = folder / "run"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command(run, cache, "show_every=1"), cwd=ROOT, text=True, **pipes) as process:
        try:
            while not process.stdout.readline().startswith("iteration 3/6"):
                assert process.poll() is None
            process.send_signal(signal.SIGSTOP)
            trigger.write_text("1")
            process.send_signal(signal.SIGCONT)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 2
    assert re.fullmatch(r"error: step [46] was not saved in .*Read-only file system.*; step [24] is untouched",
                        err.splitlines()[-1]), err  # fmt: skip
    assert err.count("error: ") == 1 and "Traceback" not in err
    mend()
    newest = int(max(path.name for path in (run / "checkpoints").glob("0*") if path.suffix != ".partial"))
    assert newest >= 2
    assert {r["iteration"] for r in rows(run / "metrics.jsonl")} >= set(range(newest)), "what a machine had not flushed"
    finish(run, cache, "show_every=1")
    assert last_step(run) == last_step(whole[0])
    for name in ("metrics", "evaluations", "items", "tasks", "documents"):
        kept, expected = (
            [{k: v for k, v in r.items() if not k.startswith("time/")} for r in rows(at / f"{name}.jsonl")]
            for at in (run, whole[0])
        )
        assert kept == expected, name


def test_the_trained_policy_exports_and_speaks(whole, tmp_path, capsys):
    out = tmp_path / "out"
    assert commands.run("export", [f"--run={whole[0]}", f"--out={out}", "--dtype=float32"]) == 0
    assert "after 6 iterations" in capsys.readouterr().out
    cfg, params = hf.load(out)
    trained = last_step(whole[0])[1]
    assert all(np.asarray(x).tobytes() in trained.values() for x in jax.tree.leaves(params))
    answers = []
    for source in (f"--model={out}", f"--run={whole[0]}"):
        assert commands.run("generate", [source, "--prompt=7+5=?", "--json", "--max_new=4"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert 1 <= len(answers[0]["token_ids"]) <= 4 and cfg.d_model == 32
    assert answers[0] == answers[1]


def test_another_configuration_is_refused_with_the_difference(whole, cache, capsys):
    words = [f"--workdir={whole[0]}", f"nano.cache={cache}", "--config=spice_nano", *TINY]
    assert launch([*words, "spice.invalid_penalty=-0.5"]) == 2
    assert "spice.invalid_penalty: -0.1 -> -0.5" in capsys.readouterr().err


def build_tiny(cache, workdir, *more):
    cfg = configuration.parse(configs.load("spice_nano"), [*TINY, f"nano.cache={cache}", *more])
    return build(cfg, workdir)


def test_nothing_compiles_after_the_first_iterations(whole, cache, tmp_path):
    run = build_tiny(cache, tmp_path, "verifier_workers=3")
    assert run.verifier.pool.size == 3
    with run.verifier:
        compiled = []
        for iteration in range(6):
            played = run.game.play(run.world(iteration), next(run.items), run.cfg.game, None)
            train.update(run, played.lessons, iteration)
            sizes = [f._cache_size() for f in (engine.prefill_jit, engine.insert_jit, engine.decode_jit)]
            compiled.append((*sizes, run.updater.learners[""].step._cache_size()))
    assert compiled[2] == compiled[-1], compiled


def _episodes_with_signal(run):
    played = run.game.play(run.world(0), next(run.items), run.cfg.game, None)
    return [dataclasses.replace(e, reward=float(i % 2)) for i, e in enumerate(played.lessons)]


def test_many_steps_move_the_policy_and_a_fixed_challenger_does_not_follow(whole, cache, tmp_path):
    words = ["learner.trajectories_per_update=4", "learner.kl_coef=0.1", "learner.epochs=2"]
    words += ["spice.fixed_challenger=true"]
    run = build_tiny(cache, tmp_path, *words)
    before = jax.tree.map(np.asarray, run.first)
    episodes = _episodes_with_signal(run)
    metrics = train.update(run, episodes, 0)
    trained = sum(episode.role == "reasoner" for episode in episodes)
    assert metrics["learner/steps"] == 2 * -(-trained // 4) > 2
    assert metrics["learner/kl"] > 0
    assert metrics["learner/sampler_gap"] < 1e-4  # float32: sampler and learner agree
    moved = jax.tree.map(lambda a, b: float(np.abs(a - np.asarray(b)).max()), before, run.state.params)
    assert max(jax.tree.leaves(moved)) > 0
    players = run.world(1).players
    jax.tree.map(np.testing.assert_array_equal, players["challenger"].params, before)
    for a, b in zip(jax.tree.leaves(players["reasoner"].params), jax.tree.leaves(run.state.params), strict=True):
        assert a is b


def test_non_finite_updates_stop_the_run(whole, cache, tmp_path, monkeypatch):
    monkeypatch.setattr("spicejax.learn.update.MAX_SKIPPED", 2)
    run = build_tiny(cache, tmp_path)
    episodes = _episodes_with_signal(run)
    broken = [dataclasses.replace(e.rollout, sample_logprobs=e.rollout.sample_logprobs * np.nan) for e in episodes]
    bad = [dataclasses.replace(e, rollout=r) for e, r in zip(episodes, broken, strict=True)]
    before = [np.asarray(x) for x in jax.tree.leaves(run.state.params)]
    train.update(run, bad, 0)
    for a, b in zip(before, jax.tree.leaves(run.state.params), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(FloatingPointError, match="2 updates were not finite"):
        train.update(run, bad, 1)


@pytest.mark.parametrize("part", ["params", "opt_state"])
def test_a_state_that_holds_nan_is_not_saved(cache, tmp_path, part, monkeypatch):
    """A damaged memory, say: the update itself leaves such steps out."""
    iterate = train._iterate

    def damaged(training, iteration):
        made, state = iterate(training, iteration), training.run.state
        if iteration == 1:
            leaves, tree = jax.tree.flatten(getattr(state, part))
            last = max(k for k, leaf in enumerate(leaves) if leaf.ndim)
            leaves[last] = leaves[last].at[-1].set(np.nan)
            training.run.state = state._replace(**{part: jax.tree.unflatten(tree, leaves)})
        return made

    with monkeypatch.context() as patch:
        patch.setattr(train, "_iterate", damaged)
        with pytest.raises(
            FloatingPointError, match="holds NaN or infinite numbers after iteration 2; it is not saved"
        ):
            words = [*TINY, "checkpoint.every=1", "iterations=2", f"nano.cache={cache}"]
            train.train(configuration.parse(configs.load("spice_nano"), words), tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").glob("0*")] == ["00000001"]


def test_a_run_does_not_go_on_with_other_prompts():
    nano = configs.load("spice_nano")
    texts = ("{question} " + "long " * 100, "{question}!")
    before, now = (configuration.override(nano, {"spice.templates.reasoner": text}) for text in texts)
    saved, place = configuration.to_json(before), Path("DIR/checkpoints")
    with pytest.raises(ValueError, match="spice.templates.reasoner: '{question} long .* -> '{question}!'") as error:
        preflight.require_same(saved, now, place)
    assert len(str(error.value)) < 600
    preflight.require_same(saved, before, place)
    saved["learner"]["loss"] = "drgrpo"  # a run from before the loss had its field's name
    preflight.require_same(saved, before, place)
    assert configuration.from_json(type(before), saved) == before
    del saved["corpus"]["text_field"]  # a run from before there was such a field
    preflight.require_same(saved, before, place)
    with pytest.raises(ValueError, match="corpus.text_field: '' -> 'body'"):
        preflight.require_same(saved, configuration.override(before, {"corpus.text_field": "body"}), place)


def test_interrupt_can_be_asked_for_by_a_caller_and_a_run_that_learns_nothing_says_so(whole, cache, tmp_path, capsys):
    refused = ["spice.validity.min_question_chars=0", "spice.validity.max_question_chars=1"]
    refused += ["spice.challenger_estimator=mean"]  # equal rewards below a moving baseline would teach something
    cfg = configuration.parse(configs.load("spice_nano"), [*TINY, *refused, f"nano.cache={cache}"])
    stop = Interrupt()
    stop.requested = True
    summary = train.train(cfg, tmp_path, interrupt=stop)
    assert summary["iterations"] == 1
    assert (summary["steps"], summary["valid_share"], summary["iterations_idle"]) == (0, 0.0, 1)
    out = capsys.readouterr().out
    for line in ("warning: iteration 1: ", "warning: over 1 iterations "):
        assert f"{line}{summary['warning']}\n" in out
    assert re.match("no reply is a valid task; commonest reason: question too long", summary["warning"])


def test_a_learning_rate_that_has_ended_is_said_once(cache, tmp_path, capsys):
    words = [*TINY, "learner.schedule=linear", "learner.decay_steps=1", "eval.every=0", "iterations=4"]
    cfg = configuration.parse(configs.load("spice_nano"), [*words, f"nano.cache={cache}"])
    summary = train.train(cfg, tmp_path)
    said = re.findall(r"warning: iteration \d+: the learning rate has fallen to 0", capsys.readouterr().out)
    assert len(said) == 1 and summary["steps"] > 2 and summary["iterations_idle"] >= 2, (said, summary)


LOADING = -1  # iterations of a run that has not loaded


class Later(Interrupt):
    """Asked to stop from the n-th look on that follows so many finished iterations."""

    def __init__(self, workdir, iterations, looks):
        self.workdir, self.iterations, self.looks = workdir, iterations, looks
        super().__init__()

    @property
    def requested(self):
        metrics = self.workdir / "metrics.jsonl"
        done = len(rows(metrics)) if metrics.exists() else 0 if (self.workdir / "saved.json").exists() else LOADING
        self.looks -= done >= self.iterations
        return self.looks < 0

    @requested.setter
    def requested(self, value): ...


def test_a_run_that_is_asked_to_stop_leaves_what_it_does_and_goes_on_bitwise(whole, cache, tmp_path, capsys):
    """While loading, in the first evaluation, in the midst of playing, in an evaluation."""
    words = [*TINY, "checkpoint.every=0", f"nano.cache={cache}"]
    cfg = configuration.parse(configs.load("spice_nano"), words)
    with pytest.raises(Stopped, match="after 1 documents of .*; the same command"), Later(tmp_path, LOADING, 0) as stop:
        train.train(cfg, tmp_path, interrupt=stop)
    ends = []
    for iterations, looks in ((0, 0), (1, 2), (3, 1)):
        with Later(tmp_path, iterations, looks) as stop:
            summary = train.train(cfg, tmp_path, interrupt=stop)
        assert not summary["complete"] and summary["log_failures"] == 0
        ends.append([p.name for p in (tmp_path / "checkpoints").glob("0*")])
    assert ends == [[], ["00000001"], ["00000001", "00000003"]]
    out = capsys.readouterr().out
    assert "stopped before the first iteration; the same command begins it" in out
    assert "stopped after iteration 1; the same command goes on" in out
    assert train.train(cfg, tmp_path)["complete"]
    assert last_step(tmp_path) == last_step(whole[0]) and last_step(tmp_path)[2]["baselines"]["challenger"]
    assert rows(tmp_path / "tasks.jsonl") == rows(whole[0] / "tasks.jsonl")


def test_checkpoints_are_read_once_a_start_and_pruned_as_configured(whole, cache, tmp_path, monkeypatch):
    words = ["iterations=3", "checkpoint.every=1", "checkpoint.keep=1", "checkpoint.keep_period=2"]
    cfg = configuration.parse(configs.load("spice_nano"), [*TINY, *words, f"nano.cache={cache}"])
    read, fault = [], manifest.fault

    def watched(folder, *, contents=True, only=None):
        read.extend([folder.name] if contents and only is None else [])
        return fault(folder, contents=contents, only=only)

    monkeypatch.setattr(manifest, "fault", watched)
    stop = Interrupt()
    stop.requested = True
    train.train(cfg, tmp_path, interrupt=stop)
    assert read == []
    summary = train.train(cfg, tmp_path)
    assert read == ["00000001"] and Path(summary["checkpoint"]).name == "00000003"
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["00000002", "00000003"]


@pytest.mark.parametrize("name", configs.names())
def test_every_config_has_a_plan(name, capsys):
    assert launch([f"--config={name}", "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert said.count("optimizer") >= len(configs.stages(name)) and "total" in said

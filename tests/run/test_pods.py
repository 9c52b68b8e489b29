"""One run over several processes: the same texts and parameters, checkpoints for any layout, one end for all."""

import json
import shutil
import signal
import sys
import textwrap
import time

import jax
import jsonl
import numpy as np
import orbax.checkpoint as ocp
import processes
import pytest
from tiny_runs import SPICE

# Samples, takes two learner steps and saves. argv: folder, mesh.data, mesh.fsdp, mesh.tensor, where the processes meet.
SMALL = textwrap.dedent(
    """
    import json, sys
    from pathlib import Path
    import jax, jax.numpy as jnp, numpy as np
    from spicejax import hosts, sharding
    folder, *layout = sys.argv[1:5]
    meeting = [word.partition("=")[2] for word in sys.argv[5:]]
    hosts.start(*(meeting and (meeting[0], int(meeting[1]), int(meeting[2]))))
    mesh = sharding.make_mesh(sharding.MeshConfig(*map(int, layout)))
    sharding.connect(mesh)
    from spicejax.generate.layout import Buckets
    from spicejax.generate.player import Player
    from spicejax.generate.sampler import SamplerConfig
    from spicejax.generate.stops import stop_machine
    from spicejax.learn import learner, packing
    from spicejax.models import transformer
    from spicejax.run.store.checkpoint import Checkpoints

    model = transformer.TransformerConfig(family="qwen3", vocab_size=64, d_model=32, num_layers=2, num_heads=4,
        num_kv_heads=2, head_dim=8, d_ff=48, rope_theta=1e4, tie_embeddings=True, max_position=64)
    whole = jax.device_get(transformer.init(model, jax.random.key(0)))
    places = sharding.param_shardings(mesh, transformer.param_axes(model), transformer.abstract_params(model))
    params = jax.tree.map(sharding.put_global, whole, places)

    class Plain:
        def decode(self, ids):
            return " ".join(map(str, ids))

    config = learner.LearnerConfig(learning_rate=1e-2, row_length=32, rows=4, loss_norm_length=8)
    optimizer = learner.make_optimizer(config)
    jitted = learner.make_learner(model, config, optimizer)
    state = sharding.on_mesh(learner.init_state(params, optimizer), mesh)
    checkpoints = Checkpoints(Path(folder) / "checkpoints", config={})
    step, texts = 0, []
    while step < 2:
        player = Player(model, state.params, Plain(), stop_machine(64, [3]), Buckets((8,), 8), mesh)
        rollouts = [r for rs in player.respond([[5, 6, 7], [9, 8]], samples=4, first_row=[0, 4],
                    key=jax.random.key(step), settings=SamplerConfig(), max_new=8) for r in rs]
        texts += [r.text for r in rollouts]
        weights = packing.token_weights(rollouts, aggregation="constant", norm_length=8)
        batch, micro = packing.pack(rollouts, np.linspace(-1, 1, 8), weights, packing.RowShape(32, 4))
        batch = sharding.put_global(batch, sharding.rows(mesh, 4, axis=1))
        state, metrics = jitted.step(state, batch, jnp.int32(micro))
        step += 1
        checkpoints.save(step, state, {"texts": texts, "loss": float(sharding.fetch(metrics["loss"]))})
    checkpoints.close()
    print("done", step)
    """
)


def arrays(workdir, step):
    """Every parameter that a step saved."""
    folder, orbax = workdir / "checkpoints" / f"{step:08d}" / "state", ocp.PyTreeCheckpointer()
    as_numpy = jax.tree.map(
        lambda _: ocp.RestoreArgs(restore_type=np.ndarray), orbax.metadata(folder).item_metadata.tree
    )
    state = orbax.restore(folder, restore_args=as_numpy)
    assert int(state["step"]) == step and int(state["skipped"]) == 0
    return jax.tree.leaves(state["params"])


def assert_close(one, other):
    assert len(one) == len(other) > 5
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


def extra(workdir, step):
    return json.loads((workdir / "checkpoints" / f"{step:08d}" / "extra.json").read_text())


def test_two_processes_sample_learn_and_save_as_one_device_does(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    single = processes.start([sys.executable, "-c", SMALL, one, 1, 1, 1], 1, devices=1)
    double = processes.start([sys.executable, "-c", SMALL, two, 1, 2, 2], 2, devices=2)
    for code, out, err in processes.finish([*single, *double]):
        assert code == 0 and "done 2" in out, err[-3000:]
    assert extra(one, 2)["texts"] == extra(two, 2)["texts"] and len(extra(one, 2)["texts"]) == 16
    assert extra(one, 2)["loss"] == pytest.approx(extra(two, 2)["loss"], abs=1e-5)
    first, last = arrays(one, 1), arrays(one, 2)
    assert max(np.abs(a - b).max() for a, b in zip(first, last, strict=True)) > 1e-3  # the steps are no empty ones
    assert_close(last, arrays(two, 2))


# A nano model just warm enough to write valid tasks, so that rewards differ and the updates are real.
NANO = SPICE | {
    "iterations": "3", "spice.documents": "8", "spice.grounding": "none", "spice.reasoner_tasks_per_document": "0",
    "eval.every": "3", "show_every": "3", "nano.rows": "2",
}  # fmt: skip
# Layout -> processes, devices of each, words of the command.
LAYOUTS = {
    "1": (1, 1, []),
    "8": (1, 8, ["mesh.data=2", "mesh.fsdp=2", "mesh.tensor=2"]),
    "2x4": (2, 4, ["mesh.data=2", "mesh.fsdp=2", "mesh.tensor=2"]),
    "2x1": (2, 1, ["mesh.data=2"]),
    "copy": (2, 4, ["mesh.fsdp=4", "mesh.tensor=2", "sampler_mesh.data=4", "sampler_mesh.tensor=2"]),
}


def begin(layout, workdir, cache, *more, own=()):
    count, devices, words = LAYOUTS[layout]
    command = [sys.executable, processes.ROOT / "launch" / "tpu_run.py", "--config=spice_nano", f"--workdir={workdir}",
               f"nano.cache={cache}", *(f"{k}={v}" for k, v in NANO.items()), *words, *more]  # fmt: skip
    return processes.start(command, count, devices=devices, own=own)


def complete(layout, workdir, cache, *more):
    """Run to the end; return what process 0 printed."""
    done = processes.finish(begin(layout, workdir, cache, *more))
    for code, _, err in done:
        assert code == 0, err[-3000:]
    assert all("iteration" not in out for _, out, _ in done[1:])  # process 0 alone speaks
    return done[0][1]


def tasks(workdir):
    return jsonl.read(workdir / "tasks.jsonl")


@pytest.fixture(scope="module")
def runs(cache, tmp_path_factory):
    """The same run on four layouts. The first makes the nano model, which takes longest."""
    folders = {layout: tmp_path_factory.mktemp(f"run{layout}") for layout in ("1", "8", "2x4", "copy")}
    for layout, folder in folders.items():
        complete(layout, folder, cache)
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["8", "2x4", "copy"])
def test_every_layout_gives_the_same_run(runs, layout):
    assert any(task.get("pass_rate") for task in tasks(runs["1"]))  # there was something to learn
    first, last = arrays(runs["1"], 2), arrays(runs["1"], 3)
    assert max(np.abs(a - b).max() for a, b in zip(first, last, strict=True)) > 1e-4
    assert tasks(runs[layout]) == tasks(runs["1"])
    assert_close(last, arrays(runs[layout], 3))
    metrics = jsonl.read(runs[layout] / "metrics.jsonl")
    assert [m["iteration"] for m in metrics] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(("wrote", "reads"), [("8", "2x4"), ("2x4", "1"), ("1", "8")])
def test_a_layout_goes_on_where_another_stopped(runs, cache, tmp_path, wrote, reads):
    workdir = tmp_path / "run"
    shutil.copytree(runs[wrote], workdir)
    shutil.rmtree(workdir / "checkpoints" / "00000003")
    complete(reads, workdir, cache)
    assert tasks(workdir) == tasks(runs["1"])
    assert_close(arrays(runs["1"], 3), arrays(workdir, 3))


def wait_for(line, process):
    for said in process.stdout:
        if said.startswith(line):
            return
    raise AssertionError(process.stderr.read()[-3000:])


@pytest.mark.slow
def test_a_signal_to_one_process_ends_all_with_one_checkpoint(cache, tmp_path):
    started = begin("2x1", tmp_path, cache, "iterations=200", "checkpoint.every=0")
    wait_for("iteration 2/200", started[0])
    started[1].send_signal(signal.SIGTERM)
    (code, out, err), (other, _, told) = processes.finish(started)
    assert (code, other) == (75, 75), err[-3000:] + told[-3000:]  # stopped and saved
    assert "the same command goes on from here" in out and "SIGTERM" in told
    (saved,) = [p.name for p in (tmp_path / "checkpoints").glob("0*")]
    assert 2 <= int(saved) < 200 and json.loads((tmp_path / "summary.json").read_text())["iterations"] == int(saved)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_the_death_of_one_process_ends_the_other(cache, tmp_path, victim):
    started = begin("2x1", tmp_path, cache, "iterations=100000", "checkpoint.every=0", "eval.every=0")
    wait_for("iteration 2/100000", started[0])
    started[victim].kill()
    began = time.monotonic()
    done = processes.finish(started)
    code, _, err = done[1 - victim]
    assert code != 0 and time.monotonic() - began < 250
    assert "rror" in err, err[-3000:]  # Error or error: it says why it ended


@pytest.mark.slow
def test_processes_that_were_started_differently_are_told(cache, tmp_path):
    started = begin("2x1", tmp_path, cache, own=[["seed=0"], ["seed=1"]])
    told = [err for code, _, err in processes.finish(started) if code]
    assert len(told) == 2 and any("disagree on the configuration" in err for err in told), told

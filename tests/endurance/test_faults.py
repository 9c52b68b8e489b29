"""Faults: drawn from their seed, each at its moment, none accepted in silence; endings that were told."""

import json
import random
import subprocess
import sys

import pytest

from spicejax.endurance import damages, faults
from spicejax.endurance.faults import Fault
from spicejax.run.store.checkpoint import Checkpoints

LOOP = """
import sys
from spicejax.endurance import faults
from spicejax.run import train
train.update = lambda number: print("update", number, flush=True)
faults.arm(sys.argv[1])
for number in range(1, 4):
    train.update(number)
"""


def test_the_same_seed_draws_the_same_faults_at_moments_that_come():
    times = {moment: 3 for moment in faults.MOMENTS} | {"in an export": 0, "at the start": 1}

    def drawn():
        rng = random.Random("0/7")
        return [faults.draw(rng, times) for _ in range(600)]

    assert drawn() == drawn()
    assert {fault.moment for fault in drawn()} == {"", *faults.MOMENTS} - {"in an export"}
    assert {fault.call for fault in drawn() if fault.moment == "at the start"} == {1}
    assert {fault.call for fault in drawn() if fault.moment == "before a save"} == {1, 2, 3}
    assert {fault.action for fault in drawn()} == set(faults.ACTIONS)
    assert {fault.damage for fault in drawn()} == {"", *damages.DAMAGES}
    for asked in (("SIGKILL",), ("pause", "NaN")):
        assert {faults.draw(random.Random(seed), times, asked).action for seed in range(50)} == set(asked)


def test_moments_are_counted():
    done = subprocess.run([sys.executable, "-c", LOOP, ""], capture_output=True, text=True, timeout=3600)
    assert {moment: n for moment, n in faults.counted(done.stderr).items() if n} == {"before the logs": 3}


@pytest.mark.parametrize(("action", "code", "updates"), [("SIGKILL", -9, 2), ("pause", 0, 3), ("clock jumps", 0, 3)])
def test_a_fault_happens_at_its_moment(action, code, updates):
    fault = json.dumps(vars(Fault(action, "before the logs", 2)))
    done = subprocess.run([sys.executable, "-c", LOOP, fault], capture_output=True, text=True, timeout=3600)
    assert (done.returncode, done.stdout.count("update")) == (code, updates), done.stderr
    assert faults.came(Fault(action, "before the logs", 2), code, done.stderr)


def test_a_session_is_over_from_its_moment_on():
    code = LOOP.replace("train.update(number)", "train.update(number); print(train._has_time_for(train.Session()))")
    fault = json.dumps(vars(Fault("session over", "before the logs", 2)))
    done = subprocess.run([sys.executable, "-c", code, fault], capture_output=True, text=True, timeout=3600)
    assert done.stdout.split() == ["update", "1", "True", "update", "2", "False", "update", "3", "False"], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's count of the address space")
def test_there_is_no_memory_after_a_fault():
    fault, ends = Fault("no memory", "before the logs", 3), {}
    for text in ("", json.dumps(vars(fault))):
        code = f"{LOOP}\nbytearray(2**30)"
        ends[text] = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True, timeout=3600)
    usual, done = ends.values()
    assert usual.returncode == 0 and done.returncode == 1
    assert done.stderr.splitlines()[-1] == "MemoryError" and faults.came(fault, 1, done.stderr)


@pytest.mark.parametrize("action", ["full disk", "no descriptors"])
def test_a_save_without_disk_or_descriptors_is_refused_and_leaves_the_older_step(action, tmp_path):
    code = f"""
import sys, jax.numpy as jnp
from spicejax.endurance import faults
from spicejax.run.store.checkpoint import Checkpoints
faults.arm(sys.argv[1])
with Checkpoints({str(tmp_path)!r}, config={{}}) as checkpoints:
    for step in (1, 2):
        checkpoints.save(step, {{"a": jnp.arange(4096.0)}}, {{}})
"""
    fault = json.dumps(vars(Fault(action, "before the arrays", 2)))
    done = subprocess.run([sys.executable, "-c", code, fault], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].partition(":")[0].endswith("CheckpointError"), done.stderr
    assert "step 2 was not saved" in done.stderr.splitlines()[-1]
    with Checkpoints(tmp_path, config={}) as checkpoints:
        assert checkpoints.latest_good() == 1


def test_every_moment_names_a_function_of_the_loop():
    code = "import sys; from spicejax.endurance import faults; [faults.arm(a) for a in sys.argv[1:]]"
    armed = [json.dumps(vars(Fault("SIGKILL", moment))) for moment in faults.MOMENTS]
    subprocess.run([sys.executable, "-c", code, *armed], check=True, timeout=3600)


@pytest.mark.parametrize(
    ("action", "code", "output", "why"),
    [
        ("SIGTERM", 75, "saved", ""),
        ("SIGKILL", -9, "Traceback", ""),
        ("full disk", 2, "error: no room", ""),
        ("full disk", 0, "", "full disk ended it with 0"),
        ("", 0, "", ""),
        ("", 2, "error: a line", "no fault ended it with 2"),
        ("full disk", 2, "error: no room\nTraceback", "full disk made a traceback"),
        ("full disk", 2, "", "full disk ended it with 2 and 0 lines of errors"),
        ("SIGTERM", 0, "error: a line", "SIGTERM ended it with 0 and 1 lines of errors"),
        ("pause", -6, "", "pause ended it with -6"),
        ("no memory", -6, "terminate called\nTraceback", ""),
        ("no memory", 1, "Traceback", ""),
        ("no memory", 2, "error: full\nTraceback", "no memory made a traceback"),
        ("no descriptors", 1, "Traceback", "no descriptors ended it with 1"),
    ],
)
def test_an_ending_is_as_it_was_told(action, code, output, why):
    assert faults.told(action, code, output) == why

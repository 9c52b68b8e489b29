"""A process of a run is killed, stopped, cut off or slow: the others end with one line, and the command goes on."""

import contextlib
import re
import signal
import time

import jsonl
import networks
import numpy as np
import processes
import pytest
from nursery import Nursery, until
from tiny_runs import SEARCH

from spicejax import heartbeat
from spicejax.endurance import compare

LIMIT = 120  # seconds within which the others end
CHANGES = SEARCH | {
    "ssp.answers": "6", "ssp.verify": "false", "iterations": "6", "nano.rows": "6", "learner.rows": "6",
    "buckets.rows": "12",
}  # fmt: skip


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as made:
        yield made


def begin(nursery, folder, words, count, network=None, devices=1, **environment):
    """Fork `words` as one run of `count` processes, of one device each unless told."""
    meeting = f"--coordinator={'host0' if network else 'localhost'}:{processes.free_port()}"
    environment = {"XLA_FLAGS": processes.simulated(devices)} | environment
    return [
        nursery.fork(
            [*words, *([meeting, f"--num_processes={count}", f"--process_id={k}"] if count > 1 else [])],
            folder / str(k),
            environment=environment,
            **({"network": network.host(k)} if network else {}),
        )
        for k in range(count)
    ]


def strike(children, victim, fault, network):
    """Make the fault happen once two iterations are done; return the others, and how many seconds they lasted."""
    until(lambda: "iteration 2/" in children[0].said() or children[0].code is not None, "the second iteration")
    assert all(child.code is None for child in children), [child.said("err")[-2000:] for child in children]
    if network:
        network.cut(victim)
    else:
        children[victim].send({"kill": signal.SIGKILL}.get(fault, signal.SIGSTOP))
    if fault == "slow":
        time.sleep(30)
        children[victim].send(signal.SIGCONT)
        return children, 0.0
    others = [child for k, child in enumerate(children) if k != victim]
    return others, until(lambda: all(child.code is not None for child in others), "the others", 10 * LIMIT)


def assert_told(others, seconds, victim, fault):
    """Every other process ended in time, by one line; where it saw it itself, the line names the lost one."""
    told = [child.said("err") for child in others]
    print(f"{seconds:.1f} s", *told, sep="\n")
    assert seconds < LIMIT and [child.code for child in others] == [2] * len(others), told
    for text in told:
        assert text.count("error: ") == 1 and "Traceback" not in text, text
        assert not re.search(r"^F\d{4} ", text, re.MULTILINE), text  # a fatal line of JAX's own
        assert "goes on from what was saved" in text.splitlines()[-1], text
    if fault != "kill" or len(others) == 1:
        assert any(f"process {victim} of {len(others) + 1} " in text for text in told), told


@contextlib.contextmanager
def connected(fault, count, folder):
    """The network of hosts where a cable is to be cut, else None: all are on this machine."""
    if fault != "cut":
        yield None
        return
    if not networks.possible():
        pytest.skip("no network namespaces here: needs root and `ip`")
    folder.mkdir(exist_ok=True)
    with networks.Network(count, folder) as network:
        yield network


MATRIX = [(2, 0), (2, 1), (3, 0), (3, 2)]
FAULTS = ["kill", "stop", "cut"]


@pytest.mark.parametrize("victim", [0, 1])
def test_the_death_of_a_process_is_told_in_one_line(nursery, tmp_path, victim):
    children = begin(nursery, tmp_path, ["meet", 100000], 2)
    others, seconds = strike(children, victim, "kill", None)
    assert_told(others, seconds, victim, "kill")


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FAULTS, "slow"])
@pytest.mark.parametrize(("count", "victim"), MATRIX)
def test_processes_that_only_talk_end_together(nursery, tmp_path, count, victim, fault):
    rounds = 400 if fault == "slow" else 100000
    with connected(fault, count, tmp_path / f"{count}{victim}") as network:
        others, seconds = strike(begin(nursery, tmp_path, ["meet", rounds], count, network), victim, fault, network)
    if fault != "slow":
        assert_told(others, seconds, victim, fault)
        return
    until(lambda: all(child.code is not None for child in others), "the end")
    assert [(child.code, child.said("err")) for child in others] == [(0, "")] * count
    assert all(f"iteration {rounds - 1}/" in child.said() for child in others)


def words(count, workdir, cache):
    mesh = f"mesh.data={count}"
    changes = [f"{key}={value}" for key, value in CHANGES.items()]
    return ["train", "--config=ssp_nano", f"--workdir={workdir}", f"nano.cache={cache}", *changes, mesh]


def complete(children):
    until(lambda: all(child.code is not None for child in children), "the end")
    assert not any(child.code for child in children), [child.said("err")[-3000:] for child in children]


@pytest.fixture(scope="module")
def whole(nursery, cache, tmp_path_factory):
    """The work folder of an undisturbed run of so many processes."""
    made = {}

    def of(count):
        if count not in made:
            made[count] = tmp_path_factory.mktemp(f"whole{count}")
            said = tmp_path_factory.mktemp(f"said{count}")  # elsewhere: the folders are compared
            complete(begin(nursery, said, words(count, made[count], cache), count))
        return made[count]

    return of


def assert_same(workdir, other):
    """The same to the bit: parameters and state of the last step, and all logs."""
    assert compare.differences([workdir], [other]) == []


@pytest.mark.slow  # minutes each: three runs
@pytest.mark.parametrize(("count", "victim", "fault"), [(2, 1, "kill"), (2, 0, "stop"), (3, 2, "cut")])
def test_a_search_game_goes_on_after_it_to_the_same_end(nursery, whole, cache, tmp_path, count, victim, fault):
    workdir = tmp_path / "run"
    with connected(fault, count, tmp_path / f"{count}{victim}") as network:
        children = begin(nursery, tmp_path / "struck", words(count, workdir, cache), count, network)
        others, seconds = strike(children, victim, fault, network)
    assert_told(others, seconds, victim, fault)
    children[victim].send(signal.SIGKILL)
    complete(begin(nursery, tmp_path / "again", words(count, workdir, cache), count))
    assert_same(workdir, whole(count))


@pytest.mark.slow
def test_a_search_game_that_was_slow_is_the_same(nursery, whole, cache, tmp_path):
    workdir = tmp_path / "run"
    complete(strike(begin(nursery, tmp_path, words(2, workdir, cache), 2), 1, "slow", None)[0])
    assert_same(workdir, whole(2))


@pytest.mark.slow
def test_one_process_goes_on_where_one_of_two_was_killed(nursery, whole, cache, tmp_path):
    workdir = tmp_path / "run"
    children = begin(nursery, tmp_path / "struck", words(2, workdir, cache), 2)
    others, seconds = strike(children, 1, "kill", None)
    assert_told(others, seconds, 1, "kill")
    complete(begin(nursery, tmp_path / "again", words(2, workdir, cache), 1, devices=2))
    assert jsonl.read(workdir / "tasks.jsonl") == jsonl.read(whole(2) / "tasks.jsonl")
    mine, other = (compare.arrays(max((run / "checkpoints").glob("0*")) / "state") for run in (workdir, whole(2)))
    assert mine.keys() == other.keys()
    for name, array in mine.items():  # another layout may move the last bits
        np.testing.assert_allclose(array, other[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("word", ["soon", "1", "-5", "9999999"])
def test_a_patience_that_is_none_is_named(monkeypatch, word):
    monkeypatch.setenv(heartbeat.SETTING, word)
    with pytest.raises(ValueError, match=f"{heartbeat.SETTING}={word}: give whole seconds, 5 to 86400"):
        heartbeat.patience()

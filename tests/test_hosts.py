"""Several processes meet, agree and wait for each other."""

import sys
import textwrap

import jax
import numpy as np
import processes
import pytest

from spicejax import hosts, sharding

PROGRAM = textwrap.dedent(
    """
    import os, sys
    import numpy as np, jax
    from spicejax import hosts, interrupt, sharding
    coordinator, count, me = (word.partition("=")[2] for word in sys.argv[1:])
    hosts.start(coordinator, int(count), int(me))
    me = int(me)
    assert jax.process_count() == 2 and jax.device_count() == 4 and hosts.leads() == (me == 0)

    # Values of any JSON and length, one of them longer than the first message.
    values = hosts.exchange({"me": me, "text": "é" * (5000 * me)})
    assert values == [{"me": 0, "text": ""}, {"me": 1, "text": "é" * 5000}], values
    assert hosts.by_first(lambda: [os.getpid()]) == hosts.exchange([os.getpid()])[0]
    assert any(hosts.exchange(me == 1))
    hosts.require_same([1, "a"], "a thing")
    for act, words in (
        (lambda: hosts.require_same(me, "the number"), "process 1 and process 0 disagree on the number (1 and 0)"),
        (lambda: hosts.by_first(lambda: open("/nowhere/at/all")), "/nowhere/at/all"),
    ):
        try:
            act()
        except (hosts.HostError, OSError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)

    # A signal that reaches one process, or that process 0 sees while it acts for all, stops both.
    def act():
        raise interrupt.Stopped("while it waited")

    with interrupt.Interrupt() as asked:
        interrupt.check("nobody")
        asked.requested = me == 1
        for stop in (lambda: interrupt.check("one"), lambda: hosts.by_first(act)):
            try:
                stop()
            except interrupt.Stopped as error:
                assert str(error) in ("one", "while it waited"), error
            else:
                raise AssertionError("went on")

    # Every process holds the whole array, its devices their part, and it comes back whole.
    mesh = sharding.make_mesh(sharding.MeshConfig(data=2, fsdp=2))
    whole = np.arange(24, dtype=np.float32).reshape(8, 3)
    placed = sharding.put_global(whole, sharding.rows(mesh, 8))
    assert not placed.is_fully_addressable and placed.addressable_shards[0].data.shape == (2, 3)
    doubled = jax.jit(lambda x: {"a": x * 2, "b": x.sum()})(placed)
    back = sharding.fetch({**doubled, "c": np.int32(7), "d": jax.numpy.int32(8)})
    assert np.array_equal(back["a"], whole * 2) and back["b"] == whole.sum() and (back["c"], back["d"]) == (7, 8)
    count = sharding.on_mesh(jax.numpy.int32(3), mesh)
    assert len(count.sharding.device_set) == 4 and int(count) == 3
    hosts.wait()
    print("fine", me)
    """
)


def test_two_processes_agree():
    done = processes.finish(processes.start([sys.executable, "-c", PROGRAM], 2, devices=2))
    assert [out.strip().splitlines()[-1:] for _, out, _ in done] == [["fine 0"], ["fine 1"]], done


APART = textwrap.dedent(
    """
    import sys, time
    import numpy as np, jax
    from spicejax import hosts, sharding
    coordinator, count, me = (word.partition("=")[2] for word in sys.argv[1:])
    hosts.start(coordinator, int(count), int(me))
    mesh = sharding.make_mesh(sharding.MeshConfig(data=2, fsdp=2))
    hosts.wait()
    sharding.connect(mesh)
    rows = sharding.put_global(np.arange(8, dtype=np.float32), sharding.rows(mesh, 8))
    total = jax.jit(lambda x: x.sum()).lower(rows).compile()
    hosts.wait()
    time.sleep(40 * (me == "0"))  # longer than gloo's patience for a first meeting
    print("sum", float(total(rows)))
    """
)


@pytest.mark.slow
def test_connected_processes_wait_for_a_slow_one():
    done = processes.finish(processes.start([sys.executable, "-c", APART], 2, devices=2))
    assert all("sum 28.0" in out for _, out, _ in done), done


def test_alone_there_is_nothing_to_wait_for():
    assert hosts.exchange([1, 2]) == [[1, 2]] and hosts.by_first(lambda: "x") == "x" and hosts.leads()
    with pytest.raises(OSError):
        hosts.by_first(lambda: open("/nowhere/at/all"))
    hosts.require_same(3, "a number")
    hosts.leave(1)  # would end the tests if it did anything
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    placed = sharding.put_global(np.ones(4, np.float32), sharding.rows(mesh, 4))
    assert np.array_equal(sharding.fetch([placed])[0], np.ones(4))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("host:1", None, None), "--num_processes, --process_id missing"),
        ((None, 2, 0), "--coordinator missing"),
        (("host:1", 2, 2), r"--process_id=2 must be in 0\.\.1"),
        (("host", 2, 0), "--coordinator=host: give HOST:PORT"),
    ],
)
def test_arguments_that_do_not_fit(arguments, words):
    with pytest.raises(ValueError, match=words):
        hosts.start(*arguments)


@pytest.mark.parametrize(
    ("platforms", "environment", "expected"),
    [
        ("cpu", {"TPU_WORKER_HOSTNAMES": "a,b"}, False),
        (None, {"TPU_WORKER_HOSTNAMES": "a,b"}, False),
        ("tpu,cpu", {"TPU_WORKER_HOSTNAMES": "a,b"}, True),
        ("tpu,cpu", {"TPU_WORKER_HOSTNAMES": "localhost"}, False),  # a single host in a container
        ("tpu,cpu", {"TPU_SKIP_MDS_QUERY": "1"}, False),
        ("tpu,cpu", {}, True),  # a TPU VM: its metadata server tells
        ("tpu,cpu", {"TPU_WORKER_HOSTNAMES": "a", "MEGASCALE_COORDINATOR_ADDRESS": "b"}, True),  # several slices
    ],
)
def test_tpu_slices_are_recognised(monkeypatch, platforms, environment, expected):
    joined = []
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # put back afterwards
    monkeypatch.setattr(jax.distributed, "initialize", lambda *arguments, **_: joined.append(arguments))
    for name in ("WORKER_HOSTNAMES", "PROCESS_ADDRESSES", "SKIP_MDS_QUERY"):
        monkeypatch.delenv(f"TPU_{name}", raising=False)
    monkeypatch.delenv("MEGASCALE_COORDINATOR_ADDRESS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    before = jax.config.jax_platforms
    try:
        jax.config.update("jax_platforms", platforms)
        hosts.start()
    finally:
        jax.config.update("jax_platforms", before)
    assert joined == ([()] if expected else [])

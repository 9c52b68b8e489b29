"""Wall time by stage: compilation is counted apart, wherever it happens, and once."""

import time

import jax
import jax.monitoring
import jax.numpy as jnp
import pytest

from spicejax.run.host.clock import Clock


def test_compilation_is_not_counted_for_the_stage_it_happens_in():
    told = []
    clock = Clock(lambda what, seconds: told.append((what, seconds)))
    heard = []

    def listen(event, duration_secs, **_):
        if "/compile/" in event and "trace" not in event:  # a trace may hold others
            heard.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)

    @jax.jit
    def slow_to_compile(x):
        for _ in range(60):
            x = jnp.sin(x @ x) + x
        return x

    x = jax.block_until_ready(jnp.ones((4, 4)))
    heard.clear()
    began = time.perf_counter()
    with clock.stage("playing", "iteration 1: playing"):
        jax.block_until_ready(slow_to_compile(x))
    whole = time.perf_counter() - began
    jax.monitoring.unregister_event_duration_listener(listen)
    compiling = clock.seconds["compiling"]
    assert clock.seconds["playing"] + compiling == pytest.approx(whole, rel=0.05)
    assert 0 < sum(heard) <= compiling * (1 + 1e-6)
    assert ("iteration 1: playing", None) in told
    assert ("compiling slow_to_compile", None) in told
    assert any(what == "slow_to_compile" and seconds for what, seconds in told)
    assert told[-1] == ("iteration 1: playing", None)
    before = clock.wall
    clock.add({"playing": 100.0, "loading": 3.0}, 110.0)
    assert 100 < clock.working < 110
    parts = clock.parts()
    assert 110 + before <= sum(parts.values()) <= clock.wall and parts["other"] >= 7
    clock.close()
    count = len(told)
    jax.block_until_ready(jax.jit(lambda x: x * 3)(x))
    assert len(told) == count

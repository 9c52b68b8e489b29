"""The queue of samples: every sample is assigned once, prompts stay together, free lanes find work."""

import numpy as np
import pytest

from spicejax.generate.schedule import Schedule


def play(schedule: Schedule, rng: np.random.Generator) -> tuple[list[tuple[int, int]], int]:
    """End random busy lanes until nothing is left; return (prompt, sample) in the order assigned, and the loads."""
    free = np.ones(schedule.prompt.shape, bool)
    seen, loads = [], 0
    while True:
        loaded, fresh = schedule.refill(free)
        loads += len(loaded)
        assert not (fresh & ~free).any(), "a busy lane was given new work"
        assert (schedule.prompt[fresh] == np.broadcast_to(schedule.held[:, None], free.shape)[fresh]).all()
        seen += [(int(p), int(s)) for p, s in zip(schedule.prompt[fresh], schedule.sample[fresh], strict=True)]
        busy = fresh | ~free
        if not busy.any():
            assert schedule.left == 0
            return seen, loads
        free = ~busy | (busy & (rng.random(busy.shape) < 0.3))


@pytest.mark.parametrize(("prompts", "samples", "prefixes", "group"), [(5, 3, 2, 3), (7, 1, 4, 1), (3, 20, 2, 4)])
def test_every_sample_is_assigned_once(prompts, samples, prefixes, group):
    seen, loads = play(Schedule(prompts, samples, prefixes=prefixes, group=group), np.random.default_rng(0))
    assert sorted(seen) == [(p, s) for p in range(prompts) for s in range(samples)]
    if samples <= group:
        assert loads == prompts, "a prompt whose samples fit a prefix is prefilled once"


def test_a_free_lane_takes_the_next_sample_of_its_prompt_without_a_load():
    plan = Schedule(2, 4, prefixes=1, group=2)
    assert plan.refill(np.ones((1, 2), bool))[0] == [0] and plan.waiting().tolist() == [2] and plan.left == 6
    loads, fresh = plan.refill(np.array([[False, True]]))
    assert loads == [] and fresh.tolist() == [[False, True]] and plan.sample.tolist() == [[0, 2]]
    plan.refill(np.array([[True, False]]))
    loads, fresh = plan.refill(np.array([[True, False]]))
    assert loads == [] and not fresh.any(), "the other lane still reads the old prompt"
    loads, fresh = plan.refill(np.array([[True, True]]))
    assert loads == [0] and plan.held.tolist() == [1] and fresh.all()


def test_an_idle_prefix_takes_a_copy_of_the_longest_queue():
    plan = Schedule(1, 9, prefixes=2, group=2)
    loads, fresh = plan.refill(np.ones((2, 2), bool))
    assert loads == [0, 1] and plan.held.tolist() == [0, 0] and fresh.all()
    assert plan.sample.tolist() == [[0, 1], [2, 3]]

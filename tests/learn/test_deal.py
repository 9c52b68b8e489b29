"""Dealing: groups stay whole, roles come in their shares, advantages by role."""

import numpy as np

from spicejax.learn import deal


def test_groups_stay_together_in_the_steps_of_an_iteration():
    groups = np.repeat(np.arange(12), 4)[np.random.default_rng(0).permutation(48)]
    roles = np.where(groups < 6, "challenger", "reasoner")
    picks = deal.deal(groups, roles, 16, 2, np.random.default_rng(1))
    assert [len(p) for p in picks] == [16] * 6
    assert all(len(set(groups[p])) == 4 for p in picks), "four groups of four, none of them cut"
    assert all(np.sum(roles[p] == "reasoner") == 8 for p in picks), "half of each role, as in the iteration"
    first, second = np.concatenate(picks[:3]), np.concatenate(picks[3:])
    assert sorted(first) == sorted(second) == list(range(48)) and list(first) != list(second)
    (whole,) = deal.deal(groups, roles, 48, 1, np.random.default_rng(1))
    assert list(whole) == list(range(48))

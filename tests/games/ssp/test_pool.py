"""The questions that stand in for invalid ones."""

import json

import numpy as np

from spicejax.games.ssp.pool import Kept, Pool
from spicejax.types import Answer

A, B, C = (Kept(name, Answer(name.lower(), (name * 2,)), rate) for name, rate in (("A", 0.0), ("B", 0.5), ("C", 1.0)))


def test_state_is_plain_data():
    pool = Pool((A, B), 3)
    assert Pool.of(json.loads(json.dumps(pool.state))) == pool
    assert Pool.of(None) == Pool()


def test_drawn_with_repetition_below_the_threshold():
    pool, rng = Pool((A, B, C)), np.random.default_rng(0)
    assert set(pool.drawn(100, 1.0, rng)) == {0, 1, 2}
    assert set(pool.drawn(100, 0.5, rng)) == {0, 1}
    assert Pool((C,)).drawn(3, 0.5, rng) == [] == Pool().drawn(3, 1.0, rng)


def test_with_a_limit_none_is_drawn_twice():
    pool, rng = Pool((A, B, C)), np.random.default_rng(0)
    assert sorted(pool.drawn(100, 1.0, rng, 5)) == [0, 1, 2]
    assert {tuple(sorted(pool.drawn(9, 1.0, rng, 2))) for _ in range(50)} == {(0, 1), (0, 2), (1, 2)}
    assert len(pool.drawn(1, 1.0, rng, 2)) == 1
    assert Pool((C,)).drawn(3, 0.5, rng, 2) == []


def test_full_reuse_grows_and_a_reset_empties():
    pool = Pool((A,))
    grown = pool.after([C], {0: 0.75}, 0)
    assert [(k.question, k.success) for k in grown.kept] == [("A", 0.75), ("C", 1.0)]
    assert pool.after([B], {}, 2).kept == (A, B)
    sizes = []
    pool = Pool()
    for _ in range(7):
        pool = pool.after([A], {}, 3)
        sizes.append(len(pool.kept))
    assert sizes == [1, 2, 0, 1, 2, 0, 1], "empty after every third iteration"

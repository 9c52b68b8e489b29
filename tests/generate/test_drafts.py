"""Drafts against a plain search, written down from their definition."""

import jax.numpy as jnp
import numpy as np

from spicejax.generate import drafts


def plain(row, count):
    """The tokens after the latest place of the longest suffix that the row has had before; what repeats goes on."""
    for size in range(drafts.SUFFIX, 0, -1):
        suffix = row[len(row) - size :]
        for place in range(len(row) - 1, size - 1, -1):
            if row[place - size : place] == suffix and drafts.NONE not in suffix:
                return [row[place + i % (len(row) - place)] for i in range(count)]
    return None


def test_drafts_are_what_followed_the_longest_suffix():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        prompt, texts = rng.integers(0, 4, rng.integers(1, 7)), [rng.integers(0, 4, n) for n in rng.integers(1, 6, 2)]
        known = drafts.known(16, prompt, texts)
        assert known[-len(prompt) :].tolist() == prompt.tolist() and len(known) == 16
        text, length = rng.integers(0, 4, 9), rng.integers(0, 10)
        made = drafts.draft(jnp.asarray(known)[None], jnp.asarray(text)[None], jnp.asarray([length]), 3)[0]
        row = [*known.tolist(), *text[:length].tolist()]
        if (wanted := plain(row, 3)) is not None:
            found += 1
            assert made.tolist() == [max(0, token) for token in wanted]
    assert found > 30

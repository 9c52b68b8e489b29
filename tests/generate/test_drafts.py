"""Drafts against a plain search, written down from their definition."""

import jax
import jax.numpy as jnp
import jsonl
import numpy as np
import pytest

from spicejax import configs
from spicejax.generate import drafts
from spicejax.generate.layout import Layout
from spicejax.run import chain


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
        known = drafts.known(16, [prompt], texts)
        assert known[-len(prompt) :].tolist() == prompt.tolist() and len(known) == 16
        text, length = rng.integers(0, 4, 9), rng.integers(0, 10)
        made = drafts.draft(jnp.asarray(known)[None], jnp.asarray(text)[None], jnp.asarray([length]), 3)[0]
        row = [*known.tolist(), *text[:length].tolist()]
        if (wanted := plain(row, 3)) is not None:
            found += 1
            assert made.tolist() == [max(0, token) for token in wanted]
    assert found > 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", ["spice_nano", "ssp_nano", "acesearcher_nano"])
def test_a_run_with_drafts_is_the_run_without(cache, tmp_path, monkeypatch, name, seed):
    """Two iterations: every text, verdict and reward; log-probabilities, and so the update, to rounding."""
    monkeypatch.setattr(Layout, "long", 4)
    last = configs.stages(name)[-1:]
    told = {}
    for arm in ((), ("buckets.tails=0.5", "buckets.drafts=3")):
        jax.clear_caches()
        words = [f"nano.cache={cache}", f"seed={seed}", "iterations=2", "eval.every=0", *arm]
        chain.run(chain.override(last, words), tmp_path / str(len(told)))
        told[arm] = [jsonl.read(tmp_path / str(len(told)) / f"{part}.jsonl") for part in ("tasks", "metrics")]
    (tasks, metrics), (same, drafted) = told.values()
    assert same == tasks and len(tasks) > 10
    accepted = {key: value for row in drafted for key, value in row.items() if key.startswith("sampler/accepted")}
    assert max(accepted.values()) > 0, accepted
    for before, after in zip(metrics, drafted, strict=True):
        assert before.get("learner/loss") == pytest.approx(after.get("learner/loss"), rel=1e-4, abs=1e-7)
        plain = [
            {name: value for name, value in row.items() if not name.startswith(("time/", "sampler/", "learner/"))}
            for row in (before, after)
        ]
        assert plain[0] == plain[1]

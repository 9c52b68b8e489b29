"""Absolute Zero (arXiv:2505.03335) on the embedded coded world: a model of about a million parameters writes short
functions and works out what they return, what they were given, and which they are; an interpreter is the judge.

Command:   python launch/tpu_run.py --config=absolute_zero_nano --workdir=runs/absolute_zero
Hardware:  2 CPU cores, 2 GiB of memory, Linux with bubblewrap (docs/security.md)
Cost:      27 minutes beside other work, mostly of starting interpreters, the warm start included (kept in runs/cache)
Expect:    nearly every proposal runs; its own tasks are solved a little more often and get easier; held-out accuracy is
           not seen to change (docs/lab.md)
"""

import dataclasses

from spicejax.configs import spice_nano
from spicejax.games.absolute_zero.game import AbsoluteZeroConfig
from spicejax.generate.layout import Buckets
from spicejax.learn.learner import LearnerConfig
from spicejax.models.presets import NANO
from spicejax.run.config import CorpusConfig, EvalConfig
from spicejax.worlds.nano.maker import NanoConfig

CONFIG = dataclasses.replace(
    spice_nano.CONFIG,
    name="absolute_zero_nano",
    nano=NanoConfig(architecture=dataclasses.replace(NANO, vocab_size=304), world="coded"),
    corpus=CorpusConfig(source="", max_tokens=64),
    game=AbsoluteZeroConfig(
        batch=32,
        attempts=4,
        references=2,
        inputs=4,
        seeds=32,
        style="nano",
        proposer_max_new=20,
        solver_max_new=16,
    ),
    buckets=Buckets(prompt=(64,), rows=128),
    learner=LearnerConfig(
        learning_rate=1e-4,
        beta2=0.99,
        aggregation="token_mean",
        layout="packed",
        row_length=256,
        rows=4,
        min_micro_batches=4,
    ),
    eval=EvalConfig(every=24),
    iterations=96,
    show_every=24,
)

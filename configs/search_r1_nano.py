"""Search-R1 (arXiv:2503.09516) on the nano world of linked facts: a Solver learns to search from right answers alone.

Command:   python launch/tpu_run.py --config=search_r1_nano --workdir=runs/search_r1_nano
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      as r1_searcher_nano
Expect:    no recorded run of its own; r1_searcher_nano's second stage begins with a policy that searches, and has
           another reward, estimator and rule of form.
"""

import dataclasses

from spicejax.configs import spice_nano
from spicejax.games.r1_searcher.game import R1SearcherConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.search import Limits
from spicejax.models.presets import NANO
from spicejax.run.config import EvalConfig
from spicejax.worlds.nano.maker import NanoConfig

# A search takes 8 tokens, what it finds up to 17, the answer 4; a question of three facts 12.
LIMITS = Limits(turns=4, turn=12, observation=18, total=84, passages=1)

CONFIG = dataclasses.replace(
    spice_nano.CONFIG,
    name="search_r1_nano",
    nano=NanoConfig(architecture=dataclasses.replace(NANO, vocab_size=384), world="linked", held_out=150),
    game=R1SearcherConfig(
        questions=24, group_size=8, request="nano", reward="exact", estimator="mean_std", limits=LIMITS
    ),
    buckets=Buckets(prompt=(24, 108), rows=192),
    learner=dataclasses.replace(
        spice_nano.CONFIG.learner, layout="packed", row_length=192, rows=8, loss_norm_length=72, min_micro_batches=4
    ),
    eval=EvalConfig(every=16),
    iterations=48,
    show_every=16,
)

"""A chain of two runs: supervised fine-tuning on given replies of the nano world, then RLVR from what it made.

Command:   python launch/tpu_run.py --config=sft_rlvr_nano --workdir=runs/sft_rlvr_nano
           1/ holds the first run, 2/ the second; N.a.b=c changes a field of one of them, a.b=c of all that have it.
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      2.5 minutes, of which 1.6 are the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy from 0.545 to 0.760 in the first run (docs/log/2026-11-22.md)
"""

import dataclasses

from spicejax.configs import rlvr_nano
from spicejax.games.supervised.game import SupervisedConfig

SUPERVISED = dataclasses.replace(
    rlvr_nano.CONFIG,
    name="sft_nano",
    game=SupervisedConfig(examples=64, max_new=14, style="nano"),
    learner=dataclasses.replace(
        rlvr_nano.CONFIG.learner,
        loss="supervised",
        aggregation="token_mean",
        learning_rate=1e-3,
        warmup_steps=4,
        schedule="cosine",
        decay_steps=28,
    ),
    iterations=32,
)
CONFIG = (SUPERVISED, rlvr_nano.CONFIG)

"""Search Self-Play (arXiv:2510.18821) on the graded nano world: up to five facts, some hard to find, for ablations.

Command:   python launch/tpu_run.py --config=ssp_graded_nano --workdir=runs/ssp_graded
           With other opponents, pools and estimators, over seeds: spicejax lab ssp_opponents
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      9 minutes on one core, of which 5 are the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy from 0.40 to 0.58 (five seeds), the less the more facts a question needs; docs/lab.md
"""

import dataclasses

from spicejax.configs import ssp_nano
from spicejax.generate.layout import Buckets
from spicejax.generate.search import Limits
from spicejax.models.presets import NANO
from spicejax.worlds.nano.maker import NanoConfig

BASE = ssp_nano.CONFIG

CONFIG = dataclasses.replace(
    BASE,
    name="ssp_graded_nano",
    nano=NanoConfig(
        architecture=dataclasses.replace(NANO, vocab_size=344),
        world="graded",
        held_out=200,
        warm_tokens=1_400_000,
    ),
    game=dataclasses.replace(
        BASE.game,
        searches=(1, 5),
        verify_max_new=20,
        proposer_limits=Limits(turns=6, turn=12, observation=26, total=164, passages=2),
        solver_limits=Limits(turns=9, turn=12, observation=10, total=116, passages=1),
    ),
    buckets=Buckets(prompt=(16, 64, 168), rows=96),
    learner=dataclasses.replace(BASE.learner, row_length=192, loss_norm_length=96),
)

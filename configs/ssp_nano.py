"""Search Self-Play (arXiv:2510.18821) on the nano world of linked facts: one model proposes and solves, searching.

Command:   python launch/tpu_run.py --config=ssp_nano --workdir=runs/ssp_nano
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      5 minutes on one core, of which 4 are the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy from 0.44 to 0.95, mean of five seeds (seed 0: 0.153 to 0.933); LOG.md has the table.
"""

import dataclasses

from spicejax.configs import search_r1_nano
from spicejax.games.ssp.game import SspConfig
from spicejax.games.ssp.proposals import Rules
from spicejax.generate.layout import Buckets

BASE = search_r1_nano.CONFIG

CONFIG = dataclasses.replace(
    BASE,
    name="ssp_nano",
    game=SspConfig(
        answers=24,
        solver_samples=4,
        request="nano",
        searches=(1, 3),
        noise=1,
        rules=Rules(min_chars=4, min_words=2, min_searches=1),
        verify_max_new=8,
        proposer_limits=dataclasses.replace(search_r1_nano.LIMITS, turn=20, total=100),
        solver_limits=search_r1_nano.LIMITS,
    ),
    buckets=Buckets(prompt=(24, 64, 124), rows=96),
    learner=dataclasses.replace(BASE.learner, clip_low=0.2, clip_high=0.285, dual_clip=3.0),
    iterations=48,
)

"""RLVR on the nano world's questions: the Reasoner of the nano model learns from which of its answers are right.

Command:   python launch/tpu_run.py --config=rlvr_nano --workdir=runs/rlvr_nano
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      2 minutes, of which 1.6 are the warm start (kept in runs/cache afterwards); 0.4 s an iteration
Expect:    held-out accuracy from 0.545 to 0.680 (docs/log/2026-11-22.md)
"""

import dataclasses

from spicejax.configs import spice_nano
from spicejax.games.rlvr.game import RlvrConfig
from spicejax.run.config import EvalConfig

CONFIG = dataclasses.replace(
    spice_nano.CONFIG,
    name="rlvr_nano",
    game=RlvrConfig(questions=32, group_size=8, style="nano", max_new=14),
    learner=dataclasses.replace(spice_nano.CONFIG.learner, rows=8, min_micro_batches=4),
    eval=EvalConfig(every=12),
    iterations=48,
)

"""Absolute Zero on Qwen2.5-Coder-0.5B-Instruct, with adapters: a small model that knows Python writes and solves tasks.

Command:   python launch/tpu_run.py --config=absolute_zero_qwen0p5b --workdir=DIR \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
Hardware:  2 CPU cores, 12 GiB of memory, or one GPU; Linux with bubblewrap (docs/security.md)
Cost:      three minutes on one H200 (buckets.rows=144 learner.rows=4 learner.min_micro_batches=8); on two cores not
           measured
Expect:    valid proposals from 0.5 to 0.9, its own tasks solved from 0.09 to 0.31; half of them are about factorials
           at the end (one seed, docs/log/2026-11-27.md)
"""

import dataclasses

from spicejax.configs import spice_qwen0p5b
from spicejax.games.absolute_zero.game import AbsoluteZeroConfig
from spicejax.generate.layout import Buckets
from spicejax.run.config import EvalConfig

SPICE = spice_qwen0p5b.CONFIG

# Differs: worked examples in the prompts, since this model loses the form without; small batches and short replies
CONFIG = dataclasses.replace(
    SPICE,
    name="absolute_zero_qwen0p5b",
    corpus=dataclasses.replace(SPICE.corpus, source="", max_tokens=640),
    game=AbsoluteZeroConfig(
        batch=8,
        attempts=6,
        references=1,
        inputs=4,
        seeds=8,
        style="simple",
        proposer_max_new=192,
        solver_max_new=160,
    ),
    buckets=Buckets(prompt=(256, 640), rows=48),
    learner=dataclasses.replace(SPICE.learner, aggregation="token_mean", layout="packed", row_length=896, rows=1),
    eval=EvalConfig(tasks="none"),
    iterations=24,
)

"""Absolute Zero on Qwen3-4B-Base with the paper's numbers (arXiv:2505.03335), for a TPU slice.

Command:   python launch/tpu_run.py --config=absolute_zero_qwen4b --workdir=DIR model.path=FOLDER
           FOLDER: Qwen3-4B-Base as downloaded from Hugging Face. No data is read.
Prompts:   the paper's tasks in our words: absolutezero.prompts=FOLDER brings yours.
Hardware:  a TPU slice with 256 GiB of HBM or more, each host with Linux and bubblewrap (docs/security.md). Not run by
           us on such hardware yet.
Expect:    SPICE's table 1: average over 11 benchmarks from 35.8 to 40.7.
"""

import dataclasses

from spicejax.configs import spice_qwen4b
from spicejax.games.absolute_zero.game import AbsoluteZeroConfig
from spicejax.run.config import EvalConfig

SPICE = spice_qwen4b.CONFIG

CONFIG = dataclasses.replace(
    SPICE,
    name="absolute_zero_qwen4b",
    corpus=dataclasses.replace(SPICE.corpus, max_tokens=6144),
    game=AbsoluteZeroConfig(),
    buckets=dataclasses.replace(SPICE.buckets, prompt=(1024, 6144), rows=512),
    learner=dataclasses.replace(
        SPICE.learner,
        aggregation="token_mean",
        trajectories_per_update=128,
        layout="packed",
        row_length=14336,  # the longest prompt and response
        rows=16,
    ),
    eval=EvalConfig(every=100),
    iterations=640,
)

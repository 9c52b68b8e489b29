"""R-Zero on Qwen2.5-Coder-0.5B-Instruct, with adapters: word problems that two small models set each other.

Command:   python launch/tpu_run.py --config=r_zero_qwen0p5b --workdir=DIR \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf [4.eval.tasks=QUESTIONS]
           1/, 3/ are turns of the Challenger, 2/, 4/ of the Reasoner, whose last policy is the outcome.
Hardware:  2 CPU cores, 12 GiB of memory; or one GPU
Cost:      two and a quarter minutes on one H200 (buckets.rows=360 learner.rows=4 learner.min_micro_batches=4). On two
           slow cores without avx512_bf16, with model.dtype=float32 model.param_dtype=float32, 15 to 22 minutes an
           iteration of the Challenger's
Expect:    no lasting gain (one seed). GSM8K in 128 tokens 0.07, behind the first round 0.14, mostly since replies come
           to an end, behind the second 0.10; much of what the votes teach is false (docs/log/2026-11-27.md)
"""

import dataclasses

from spicejax.configs import r_zero_nano, spice_qwen0p5b
from spicejax.games.r_zero.game import RZeroConfig
from spicejax.run.config import CheckpointConfig, EvalConfig

SPICE = spice_qwen0p5b.CONFIG
# Differs: a short request with worked examples, for word problems of a step or two; the paper asks for competition
# problems, of which this model solves none
CHALLENGER = dataclasses.replace(
    SPICE,
    name="r_zero_qwen0p5b_challenger",
    corpus=dataclasses.replace(SPICE.corpus, source=""),
    game=RZeroConfig(groups=8, pool=96, style="simple", challenger_max_new=96, reasoner_max_new=128),
    buckets=dataclasses.replace(SPICE.buckets, prompt=(256, 384), rows=180),
    learner=dataclasses.replace(SPICE.learner, **r_zero_nano.GRPO, slot_length=128, slots=5),
    eval=EvalConfig(tasks="none"),
    checkpoint=CheckpointConfig(every=2, keep=1),
    iterations=5,
)
CONFIG = r_zero_nano.rounds(CHALLENGER, 2, iterations=12, eval=EvalConfig(every=0))

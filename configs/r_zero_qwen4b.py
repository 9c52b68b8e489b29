"""R-Zero on Qwen3-4B-Base with the numbers of its code (arXiv:2508.05004; rounds as in the paper), for a TPU slice.

Command:   python launch/tpu_run.py --config=r_zero_qwen4b --workdir=DIR model.path=FOLDER [6.eval.tasks=QUESTIONS]
           FOLDER: Qwen3-4B-Base as downloaded from Hugging Face. 1/, 3/, 5/ are turns of the Challenger, 2/, 4/, 6/ of
           the Reasoner, whose last policy is the outcome; --export=OUT writes it.
Hardware:  a TPU slice with 256 GiB of HBM or more (the paper: 8 GPUs of 80 GiB). Not run by us on such hardware yet.
Expect:    SPICE's table 1: average over 11 benchmarks from 35.8 to 39.5, less than with documents (44.9); after three
           rounds the votes are right less often (63 % from 79 %).
"""

import dataclasses

from spicejax.configs import r_zero_nano, spice_qwen4b
from spicejax.games.r_zero.game import RZeroConfig
from spicejax.run.config import CheckpointConfig, EvalConfig

SPICE = spice_qwen4b.CONFIG
# Differs: nothing is cut off while sampling; the code has top_p=0.99, and top_k=40 for the votes
LEARNER = dataclasses.replace(
    SPICE.learner,
    **r_zero_nano.GRPO,
    trajectories_per_update=64,  # 16 prompts
    prompt_areas=(1024,),
    slot_length=4096,
    slots=4,
)
CHALLENGER = dataclasses.replace(
    SPICE,
    name="r_zero_qwen4b_challenger",
    game=RZeroConfig(),
    buckets=dataclasses.replace(SPICE.buckets, prompt=(512, 1024), rows=900),
    learner=LEARNER,
    eval=EvalConfig(tasks="none"),
    checkpoint=CheckpointConfig(every=1, keep=2),
    iterations=5,
)
CONFIG = r_zero_nano.rounds(
    CHALLENGER,
    3,
    iterations=15,
    learner=dataclasses.replace(LEARNER, trajectories_per_update=640, slots=5),
    eval=EvalConfig(every=5),
)

"""RLVR on Qwen3-4B-Base and questions with known answers, on the layout of spice_qwen4b.

Command:   python launch/tpu_run.py --config=rlvr_qwen4b --workdir=DIR model.path=FOLDER --corpus=QUESTIONS
           FOLDER: Qwen3-4B-Base as downloaded from Hugging Face. QUESTIONS: jsonl of {"question", "answer"}.
Hardware:  a TPU slice with 256 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import spice_qwen4b
from spicejax.games.rlvr.game import RlvrConfig
from spicejax.run.config import EvalConfig

CONFIG = dataclasses.replace(
    spice_qwen4b.CONFIG,
    name="rlvr_qwen4b",
    game=RlvrConfig(),
    buckets=dataclasses.replace(spice_qwen4b.CONFIG.buckets, prompt=(512, 1024)),
    learner=dataclasses.replace(spice_qwen4b.CONFIG.learner, prompt_areas=(1024,), rows=16),
    eval=EvalConfig(every=20),
)

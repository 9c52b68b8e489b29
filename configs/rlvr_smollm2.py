"""RLVR on SmolLM2-135M-Instruct and short questions with known answers, small enough for two CPU cores.

Command:   python launch/tpu_run.py --config=rlvr_smollm2 [--corpus=QUESTIONS]
           QUESTIONS: jsonl of {"question", "answer"}; everyday questions ship with the package. For answers that
           need steps: rlvr.max_new=128, with learner.slot_length and the prompts to match. Weights: make weights.
Hardware:  2 CPU cores, 8 GiB of memory
"""

import dataclasses

from spicejax.configs import spice_smollm2
from spicejax.games.rlvr.game import RlvrConfig

SPICE = spice_smollm2.CONFIG

CONFIG = dataclasses.replace(
    SPICE,
    name="rlvr_smollm2",
    corpus=dataclasses.replace(SPICE.corpus, source="facts:everyday"),
    game=RlvrConfig(questions=10, group_size=6, style="simple", templates=spice_smollm2.REASONER, max_new=24),
)

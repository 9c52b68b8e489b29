"""RLVR on SmolLM2-135M-Instruct and the user's questions, small enough for two CPU cores.

Command:   python launch/tpu_run.py --config=rlvr_smollm2 --corpus=QUESTIONS
           QUESTIONS: jsonl of {"question", "answer"}, such as 200 of GSM8K. Weights as in spice_smollm2.
Hardware:  2 CPU cores, 8 GiB of memory
Expect:    the path on real text; SmolLM2-135M solves about 3 % of GSM8K, so that most groups teach nothing. LOG.md.
"""

import dataclasses

from spicejax.configs import spice_smollm2
from spicejax.games.rlvr.game import RlvrConfig

CONFIG = dataclasses.replace(
    spice_smollm2.CONFIG,
    name="rlvr_smollm2",
    corpus=dataclasses.replace(spice_smollm2.CONFIG.corpus, source=""),
    game=RlvrConfig(questions=8, group_size=8, style="simple", max_new=128),
    buckets=dataclasses.replace(spice_smollm2.CONFIG.buckets, prompt=(256, 448), rows=32),
    learner=dataclasses.replace(
        spice_smollm2.CONFIG.learner, prompt_areas=(256, 448), slot_length=128, slots=8, rows=1
    ),
)

"""RLVR on Qwen2.5-Coder-0.5B-Instruct, with adapters, and short questions with known answers, on two CPU cores.

Command:   the model of sft_spice_qwen0p5b, exported to MODEL; then
           python launch/tpu_run.py --config=rlvr_qwen0p5b --workdir=DIR model.path=MODEL [--corpus=QUESTIONS]
           QUESTIONS: jsonl of {"question", "answer"}; everyday questions ship with the package, and a third of them
           were in that model's warm start.
Hardware:  2 CPU cores, 12 GiB of memory
Cost:      not measured
Expect:    not known
"""

import dataclasses

from spicejax.configs import spice_qwen0p5b
from spicejax.games.rlvr.game import RlvrConfig

SPICE = spice_qwen0p5b.CONFIG

CONFIG = dataclasses.replace(
    SPICE,
    name="rlvr_qwen0p5b",
    corpus=dataclasses.replace(SPICE.corpus, source="facts:everyday"),
    game=RlvrConfig(questions=6, group_size=6, templates=spice_qwen0p5b.REASONER, max_new=80),
)

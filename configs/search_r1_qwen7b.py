"""Search-R1 on Qwen2.5-7B with the numbers of its public GRPO script (arXiv:2503.09516, version 0.2).

Command:   python launch/tpu_run.py --config=search_r1_qwen7b --workdir=DIR model.path=FOLDER --corpus=QUESTIONS.jsonl \
               retrieval.index=INDEX retrieval.encoder=FOLDER, or retrieval.engine=http retrieval.url=http://.../retrieve
           FOLDER: Qwen2.5-7B as downloaded from Hugging Face. QUESTIONS: NQ and HotpotQA, {"question", "answer"} each.
Others:    0.3 rewards the form as well: r1searcher.structure=0.2 r1searcher.tagged=0.1 learner.learning_rate=5e-7.
           Without the mask on what was found: r1searcher.mask=false. 3B: model.path=FOLDER of Qwen2.5-3B is all.
Hardware:  a TPU slice with 512 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import r1_searcher_qwen7b
from spicejax.games.r1_searcher.game import R1SearcherConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.search import Limits
from spicejax.run.config import EvalConfig

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
        # Differs: observations end with a whole passage; the code cuts them at 500 tokens, closing tag included. A row
        # ends at 4,096 tokens, which five turns and four observations may pass by 404; the code forgets its beginning.
        # A turn without a query or an answer ends the row; the code writes a sentence of correction behind it, and the
        # model goes on
        limits=Limits(turns=5, turn=500, observation=500, total=4096),
    ),
    buckets=Buckets(prompt=(512, 2048, 4608), rows=1280),
    # Differs: nothing is cut off while sampling (BASE); the code takes top_p 0.95, and its loss knows nothing of it
    # Differs: no bonus for entropy; the code's default has 0.001
    learner=dataclasses.replace(
        BASE.learner,
        learning_rate=1e-6,
        warmup_steps=2860,  # of 10 steps each, 0.285 of the 1,005 iterations
        beta2=0.999,
        weight_decay=0.01,
        aggregation="token_mean",
        kl_coef=0.001,
        trajectories_per_update=256,  # of 2,560
    ),
    eval=EvalConfig(every=50),
    iterations=1005,
)

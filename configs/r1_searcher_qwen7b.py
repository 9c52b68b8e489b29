"""R1-Searcher on Qwen2.5-7B with the numbers of paper and public script (arXiv:2503.05592): two stages, a chain.

Command:   python launch/tpu_run.py --config=r1_searcher_qwen7b --workdir=DIR model.path=FOLDER --corpus=STAGE1.jsonl \
               retrieval.index=INDEX retrieval.encoder=FOLDER, or retrieval.engine=http retrieval.url=http://.../queries
           FOLDER: Qwen2.5-7B as downloaded from Hugging Face. STAGE1.jsonl: 350 questions, {"question", "answer"} each;
           2.corpus.source=STAGE2.jsonl gives the second stage its own 8,148. INDEX: launch/build_index.py; the paper
           took BGE-large-en-v1.5 (style bge) on the abstracts that HotpotQA was made from.
Prompts:   the paper's numbers, our prompts: r1searcher.prompts=FOLDER brings yours.
Hardware:  a TPU slice with 512 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.games.r1_searcher.game import R1SearcherConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.presets import QWEN25_7B
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig
from spicejax.sharding import MeshConfig

RETRIEVE = RunConfig(
    name="r1_searcher_qwen7b_retrieve",
    model=ModelConfig(path="", architecture=QWEN25_7B, dtype="bfloat16", param_dtype="float32", remat="layer"),
    corpus=CorpusConfig(source=""),
    # Differs: a row ends at 4,096 tokens behind its prompt (r1searcher.limits.total); nine turns of 512 and eight
    # observations of 768 are 10,752, and the code bounds a row by its turns alone
    game=R1SearcherConfig(reward="retrieve"),
    retrieval=RetrievalConfig(),
    buckets=Buckets(prompt=(512, 2048, 4608), rows=1024),
    sampler_memory=0.9,
    # Differs: nothing is cut off while sampling; the code takes top_p 0.95, and its loss knows nothing of it
    sampler=SamplerConfig(temperature=1.0),
    learner=LearnerConfig(
        learning_rate=2e-6,
        # Differs: the rate stays; the code lets it fall to a tenth along a cosine
        aggregation="sequence_mean",
        trajectories_per_update=256,
        row_length=4736,  # the largest bucket and a token, in whole blocks of 128
        rows=16,
    ),
    mesh=MeshConfig(data=1, fsdp=-1, tensor=0),
    sampler_mesh=MeshConfig(data=-1, tensor=4),
    eval=EvalConfig(every=5),
    checkpoint=CheckpointConfig(every=5, keep=3, keep_period=50),
    iterations=6,  # 350 questions once, 64 at a time
    show_every=1,
)
ANSWER = dataclasses.replace(
    RETRIEVE,
    name="r1_searcher_qwen7b_answer",
    game=dataclasses.replace(RETRIEVE.game, reward="answer"),
    iterations=128,  # 8,148 questions once
)
CONFIG = (RETRIEVE, ANSWER)

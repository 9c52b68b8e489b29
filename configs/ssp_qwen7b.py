"""Search Self-Play on Qwen2.5-7B with the paper's numbers (arXiv:2510.18821, table 4, and its public script).

Command:   python launch/tpu_run.py --config=ssp_qwen7b --workdir=DIR model.path=FOLDER --corpus=ANSWERS \
               retrieval.index=INDEX retrieval.encoder=FOLDER, or retrieval.engine=http retrieval.url=http://.../retrieve
           FOLDER: Qwen2.5-7B(-Instruct) as downloaded from Hugging Face. ANSWERS: jsonl of {"answer"}, or the paper's
           file with ground_truth and search_turns. INDEX: launch/build_index.py; the paper took E5-base-v2 (style e5)
           on the Wikipedia of December 2018, 21 million passages: docs/retrieval.md.
Judge:     the paper's answers are judged by a model (section 3.2), its code's where they are not right by the letter:
           ssp.judged=judge with judge.url=http://.../v1 judge.model=NAME (its evaluations: Qwen2.5-32B-Instruct), or
           with seats.judge=FOLDER. Here exact match judges, which needs no other model.
Equations: both roles as in the public script, sequence means with the KL term. Equations 4 and 5 average the Solver's
           tokens, with KL and no standard deviation, and sum the Proposer's, without KL:
           learner.role_aggregation=sum,sequence_mean learner.role_kl_coef=0,0.01 ssp.solver_estimator=mean
           Algorithm 1 steps on the Solver first: learner.role_order=solver,proposer, and the two in that order.
Prompts:   the paper's numbers, our prompts: ssp.prompts=FOLDER brings yours.
Hardware:  a TPU slice with 512 GiB of HBM or more. Not run by us on such hardware yet.
Expect:    paper, table 1: from Qwen2.5-7B-Base an average over seven QA benchmarks 26.4 points higher.
"""

from spicejax.games.ssp.game import SspConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.presets import QWEN25_7B
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig
from spicejax.sharding import MeshConfig

CONFIG = RunConfig(
    name="ssp_qwen7b",
    model=ModelConfig(path="", architecture=QWEN25_7B, dtype="bfloat16", param_dtype="float32", remat="layer"),
    corpus=CorpusConfig(source=""),
    game=SspConfig(),
    retrieval=RetrievalConfig(),
    buckets=Buckets(prompt=(1024, 4096, 9216), rows=1280),  # a prompt of a thousand and what stands behind it
    sampler_memory=0.9,
    sampler=SamplerConfig(temperature=1.0),
    learner=LearnerConfig(
        warmup_steps=5,
        beta2=0.999,
        weight_decay=0.01,
        aggregation="sequence_mean",
        clip_high=0.285,
        dual_clip=3.0,
        kl_coef=0.01,
        trajectories_per_update=640,  # 128 questions of the paper's mini-batch, five answers each
        # Differs: the samples' own policy stays in the ratio of both roles; the code measures the Solver's against the
        # policy that the Proposer's step has left (learner.old_policy=role)
        role_order=("proposer", "solver"),
        row_length=9344,  # the largest bucket and a token, in whole blocks of 128
        rows=8,
    ),
    mesh=MeshConfig(data=1, fsdp=-1, tensor=0),
    sampler_mesh=MeshConfig(data=-1, tensor=4),
    eval=EvalConfig(every=5),
    checkpoint=CheckpointConfig(every=5, keep=3, keep_period=50),
    iterations=200,
    show_every=1,
)

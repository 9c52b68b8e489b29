"""AceSearcher on Llama-3.1-8B-Instruct with the paper's numbers (arXiv:2509.24193): fine-tuning, two rounds of DPO.

Command:   python launch/tpu_run.py --config=acesearcher_llama8b --workdir=DIR model.path=FOLDER \
               1.corpus.source=EXAMPLES 2.corpus.source=QUESTIONS.jsonl 3.corpus.source=QUESTIONS.jsonl \
               retrieval.index=INDEX retrieval.encoder=FOLDER
           EXAMPLES: launch/prepare_sft.py; QUESTIONS: launch/prepare_sft.py --rounds, 49,000 of six sets.
           INDEX: launch/build_index.py; the paper took E5.
Prompts:   the paper's numbers, our prompts: acesearcher.prompts=FOLDER brings yours.
Hardware:  a TPU slice with 512 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.games.acesearcher.game import AceSearcherConfig
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig, PairConfig
from spicejax.models.presets import LLAMA31_8B
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig
from spicejax.sharding import MeshConfig

TUNED = RunConfig(
    name="acesearcher_llama8b_sft",
    model=ModelConfig(path="", architecture=LLAMA31_8B, dtype="bfloat16", param_dtype="float32", remat="layer"),
    corpus=CorpusConfig(source=""),
    # 2,560 tokens, the paper's most: texts take more of them than replies do (of 200 of GSM8K the longest has 303)
    game=SupervisedConfig(examples=64, max_new=512),
    buckets=Buckets(prompt=(512, 2048), rows=768),
    sampler_memory=0.9,
    learner=LearnerConfig(
        loss="supervised",
        learning_rate=1e-6,
        warmup_steps=141,  # 5 % of 180,600 examples, 64 at a time
        schedule="cosine",
        decay_steps=2681,
        beta2=0.98,
        aggregation="token_mean",
        row_length=2560,
        rows=16,
    ),
    mesh=MeshConfig(data=1, fsdp=-1, tensor=0),
    sampler_mesh=MeshConfig(data=-1, tensor=4),
    eval=EvalConfig(every=0, tasks="none"),
    checkpoint=CheckpointConfig(every=100, keep=2),
    iterations=2822,
    show_every=0,
)
ROUND = dataclasses.replace(
    TUNED,
    name="acesearcher_llama8b_round",
    game=AceSearcherConfig(questions=128),
    retrieval=RetrievalConfig(),
    # 10 passages of 80 to 120 words, with a sub-question, make up to 1,800 tokens, 15 with all of them up to 2,750
    buckets=Buckets(prompt=(512, 2048, 3072), rows=768),
    sampler=SamplerConfig(temperature=1.0),
    learner=LearnerConfig(
        loss="dpo",
        pairs=PairConfig(beta=0.1),
        learning_rate=5e-7,
        # Differs: it stays after the warm-up, since nobody knows how many pairs there will be
        warmup_steps=100,
        beta2=0.98,
        trajectories_per_update=64,
        layout="shared_prompt",
        # Differs: the paper cuts pairs at 2048 tokens, which its own 15 passages do not fit; here they stay whole
        prompt_areas=(512, 2048, 3072),
        slot_length=512,
        slots=2,
        rows=16,
    ),
    eval=EvalConfig(every=20),
    checkpoint=CheckpointConfig(every=20, keep=3),
    iterations=383,  # 49,000 questions once
    show_every=10,
)
CONFIG = (TUNED, ROUND, ROUND)


def on(
    size: str, model: ModelConfig, tuned_rate: float, round_rate: float, sampler_mesh: MeshConfig
) -> tuple[RunConfig, ...]:
    """The same on another model, with the learning rates of tables 6 and 7."""
    rates = (tuned_rate, round_rate, round_rate)
    return tuple(
        dataclasses.replace(
            stage,
            name=stage.name.replace("llama8b", size),
            model=model,
            sampler_mesh=sampler_mesh,
            learner=dataclasses.replace(stage.learner, learning_rate=rate),
        )
        for stage, rate in zip(CONFIG, rates, strict=True)
    )

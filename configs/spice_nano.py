"""SPICE on the embedded nano world: a model of about a million parameters on generated documents, on a laptop.

Command:   python launch/tpu_run.py --config=spice_nano --workdir=runs/nano      (or: make demo)
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      3 minutes, of which 1.6 are the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy from 0.52 to 0.64 (mean of five seeds, each of which gains; seed 0: 0.545 to 0.680), as
           with a fixed Challenger (0.67) within what can be told, and without documents to 0.33. Tables: docs/lab.md
"""

from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.presets import NANO
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig
from spicejax.worlds.nano.maker import NanoConfig

CONFIG = RunConfig(
    name="spice_nano",
    nano=NanoConfig(architecture=NANO),
    model=ModelConfig(path="", unroll_layers=True),
    corpus=CorpusConfig(source="", max_tokens=56, min_chars=8),
    game=SpiceConfig(
        documents=16,
        group_size=8,
        max_attempts=16,
        task_type="random",
        answer_types=("Integer",),
        mcq_fraction=0.0,
        style="nano",
        grounding="cloze",
        answer_equal_tasks_once=True,
        challenger_max_new=24,
        reasoner_max_new=14,
    ),
    buckets=Buckets(prompt=(16, 64), rows=128),
    sampler=SamplerConfig(temperature=1.0),
    learner=LearnerConfig(
        learning_rate=5e-4,
        beta2=0.99,
        loss_norm_length=16,
        layout="shared_prompt",
        prompt_areas=(64,),
        slot_length=24,
        slots=8,
        rows=4,
        min_micro_batches=8,
    ),
    eval=EvalConfig(every=24, probe_documents=48, probe_group=8),
    checkpoint=CheckpointConfig(every=24, keep=2),
    iterations=96,
    show_every=24,
)

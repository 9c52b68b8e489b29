"""SPICE on Qwen3-0.6B-Base for one TPU v5e chip of 16 GiB, as Colab lends it: short documents, small iterations.

Command:   python launch/tpu_run.py --config=spice_qwen0p6b_colab --workdir=DIR model.path=Qwen/Qwen3-0.6B-Base
           --corpus=DOCUMENTS
           DIR: a folder of your Drive. A session ends when Colab likes, at the latest after twelve hours: it is saved
           every 5 iterations and after 11.25 hours, and the same command goes on in the next session.
           Disk: 7.15 GB a checkpoint, 14.3 GB while one is saved, which a free Drive of 15 GB does not hold for
           long; adapters take 0.121 GB: model.lora.rank=16 learner.learning_rate=1e-5 checkpoint.every=20
Hardware:  one v5e chip. Not run by us on such hardware yet; docs/scaling.md has what the compiler says of it.
Expect:    no result is known for this size; the paper's smallest model has 3 billion parameters.
"""

from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.layout import Buckets
from spicejax.learn.learner import LearnerConfig
from spicejax.models.presets import QWEN3_0_6B
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig
from spicejax.sharding import MeshConfig

CONFIG = RunConfig(
    name="spice_qwen0p6b_colab",
    model=ModelConfig(path="", architecture=QWEN3_0_6B, dtype="bfloat16", param_dtype="float32", remat="layer"),
    corpus=CorpusConfig(source="", max_tokens=1200, min_chars=200),
    # Differs: documents of 1,200 tokens and responses of 768 for the paper's 5,992 and (ours) 2,048: what 16 GiB hold
    game=SpiceConfig(documents=8, max_attempts=64, challenger_max_new=768, reasoner_max_new=768, task_type_max_new=256),
    buckets=Buckets(prompt=(512, 2048), rows=128),
    sampler_memory=0.85,
    learner=LearnerConfig(
        trajectories_per_update=128,
        layout="shared_prompt",
        prompt_areas=(512, 2048),
        slot_length=768,
        slots=8,
        rows=1,
    ),
    mesh=MeshConfig(data=1, fsdp=-1, tensor=0),
    eval=EvalConfig(every=50, probe_documents=16, probe_group=8),
    checkpoint=CheckpointConfig(every=5, keep=1, session_hours=11.25),
    iterations=300,
    show_every=1,
)

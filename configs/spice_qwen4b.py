"""SPICE on Qwen3-4B-Base with the paper's numbers (arXiv:2510.24684, section 3.1 and appendix 8).

Command:   python launch/tpu_run.py --config=spice_qwen4b --workdir=DIR model.path=FOLDER --corpus=DOCUMENTS
           FOLDER: Qwen3-4B-Base as downloaded from Hugging Face. DOCUMENTS: half
           mathematics, half general text; the paper took 10,000 each of Nemotron-CC-Math and NaturalReasoning.
Prompts:   the paper's numbers, our prompts: spice.prompts=FOLDER brings yours. What makes a task valid beyond the
           paper's rule is ours too: spice.validity, or validity.PAPER without it.
Hardware:  a TPU slice with 256 GiB of HBM or more (the paper: 8 H200 GPUs). Not run by us on such hardware yet.
Expect:    paper, table 1: average over 11 benchmarks from 35.8 to 44.9.
"""

from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.presets import QWEN3_4B
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig
from spicejax.sharding import MeshConfig

CONFIG = RunConfig(
    name="spice_qwen4b",
    model=ModelConfig(
        path="",
        architecture=QWEN3_4B,
        dtype="bfloat16",
        param_dtype="float32",
        remat="layer",
    ),
    corpus=CorpusConfig(source="", max_tokens=5992, min_chars=200),
    game=SpiceConfig(task_type_max_new=256),
    buckets=Buckets(prompt=(512, 2048, 8192), rows=1024),
    sampler_memory=0.9,
    sampler=SamplerConfig(temperature=1.0),
    learner=LearnerConfig(
        trajectories_per_update=128,
        layout="shared_prompt",
        prompt_areas=(1024, 8192),
        slot_length=2048,
        slots=8,
        rows=8,  # of each shape: a step has 16 groups of 8, half of them each role's
    ),
    mesh=MeshConfig(data=1, fsdp=-1, tensor=0),
    sampler_mesh=MeshConfig(data=-1, tensor=4),
    eval=EvalConfig(every=100, probe_documents=128, probe_group=8),
    checkpoint=CheckpointConfig(every=10, keep=3, keep_period=100),
    iterations=640,
    show_every=1,
)

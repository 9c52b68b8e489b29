"""SPICE on Qwen3-4B-Base with adapters of rank 16 for eight TPU v5e chips, as Kaggle lends them.

Command:   python launch/tpu_run.py --config=spice_qwen4b_lora_kaggle --workdir=/kaggle/working/run
           model.path=Qwen/Qwen3-4B-Base --corpus=DOCUMENTS
           A session has nine hours: it stops, saved, after 8.25. The output of a saved version is an input of the next
           session: copy the work folder from /kaggle/input back, once, and the same command goes on.
           Disk: a checkpoint holds the adapters alone, 0.396 GB with their moments.
Hardware:  v5e-8. Not run by us on such hardware yet; docs/scaling.md has what the compiler says of it.
Expect:    no result is known with adapters; the paper trains all parameters (35.8 to 44.9 over its 11 benchmarks).
"""

import dataclasses

from spicejax.configs import spice_qwen1p7b_kaggle
from spicejax.models.lora import LoraConfig
from spicejax.models.presets import QWEN3_4B
from spicejax.sharding import MeshConfig

_KAGGLE = spice_qwen1p7b_kaggle.CONFIG
CONFIG = dataclasses.replace(
    _KAGGLE,
    name="spice_qwen4b_lora_kaggle",
    # Differs: adapters in float32 on a base in bfloat16; the paper trains all parameters
    model=dataclasses.replace(
        _KAGGLE.model, architecture=QWEN3_4B, param_dtype="bfloat16", lora=LoraConfig(rank=16, alpha=32.0)
    ),
    learner=dataclasses.replace(_KAGGLE.learner, learning_rate=1e-5),
    sampler_mesh=MeshConfig(data=-1, tensor=4),
    checkpoint=dataclasses.replace(_KAGGLE.checkpoint, keep=2),
)

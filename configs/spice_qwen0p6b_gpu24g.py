"""SPICE on Qwen3-0.6B-Base for one GPU of 24 GB, such as an RTX 4090: short documents, small iterations.

Command:   python launch/tpu_run.py --config=spice_qwen0p6b_gpu24g --workdir=DIR model.path=Qwen/Qwen3-0.6B-Base
           --corpus=DOCUMENTS
           Disk: 7.15 GB a checkpoint, two are kept: 21.5 GB while one is saved.
Hardware:  one GPU of 24 GB. Not run by us on such hardware yet; docs/scaling.md has what the compiler says of it.
Expect:    no result is known for this size; the paper's smallest model has 3 billion parameters.
"""

import dataclasses

from spicejax.configs import spice_qwen0p6b_colab
from spicejax.run.config import CheckpointConfig

_BASE = spice_qwen0p6b_colab.CONFIG
CONFIG = dataclasses.replace(
    _BASE,
    name="spice_qwen0p6b_gpu24g",
    model=dataclasses.replace(_BASE.model, attention="flash"),
    checkpoint=CheckpointConfig(every=10, keep=2),
)

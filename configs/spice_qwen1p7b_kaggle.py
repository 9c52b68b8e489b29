"""SPICE on Qwen3-1.7B-Base for eight TPU v5e chips, as Kaggle lends them; all parameters are trained.

Command:   python launch/tpu_run.py --config=spice_qwen1p7b_kaggle --workdir=/tmp/run
           model.path=Qwen/Qwen3-1.7B-Base --corpus=DOCUMENTS
           A session has nine hours: it stops, saved, after 8.25.
           Disk: 20.6 GB a checkpoint, 41.3 GB while one is saved. /kaggle/working, whose 20 GB alone outlast a
           session, cannot hold one: the run stays within a session, and its policy is exported at the end
           (--out=/kaggle/working/policy --dtype=bfloat16, 3.4 GB; model.path of the next run).
           spice_qwen4b_lora_kaggle goes on over sessions.
Hardware:  v5e-8. Not run by us on such hardware yet; docs/scaling.md has what the compiler says of it.
Expect:    no result is known for this size; the paper's smallest model has 3 billion parameters.
"""

import dataclasses

from spicejax.configs import spice_qwen0p6b_colab
from spicejax.models.presets import QWEN3_1_7B
from spicejax.sharding import MeshConfig

_COLAB = spice_qwen0p6b_colab.CONFIG
CONFIG = dataclasses.replace(
    _COLAB,
    name="spice_qwen1p7b_kaggle",
    model=dataclasses.replace(_COLAB.model, architecture=QWEN3_1_7B),
    # 16 documents an iteration: a step has 16 groups of 8, a row of each shape on each chip
    game=dataclasses.replace(_COLAB.game, documents=16, challenger_max_new=1024, reasoner_max_new=1024),
    buckets=dataclasses.replace(_COLAB.buckets, rows=512),
    learner=dataclasses.replace(_COLAB.learner, trajectories_per_update=256, slot_length=1024, rows=8),
    sampler_mesh=MeshConfig(data=-1, tensor=1),
    checkpoint=dataclasses.replace(_COLAB.checkpoint, session_hours=8.25),
)

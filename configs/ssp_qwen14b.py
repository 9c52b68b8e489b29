"""Search Self-Play on Qwen2.5-14B-Instruct with the paper's numbers; all else as in ssp_qwen7b.

Command:   python launch/tpu_run.py --config=ssp_qwen14b --workdir=DIR model.path=FOLDER --corpus=ANSWERS \
               retrieval.index=INDEX retrieval.encoder=FOLDER
Hardware:  a TPU slice with 1 TiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import ssp_qwen7b
from spicejax.models.presets import QWEN25_14B

CONFIG = dataclasses.replace(
    ssp_qwen7b.CONFIG,
    name="ssp_qwen14b",
    model=dataclasses.replace(ssp_qwen7b.CONFIG.model, architecture=QWEN25_14B),
)

"""AceSearcher on Qwen2.5-14B-Instruct with the paper's numbers; all else as in acesearcher_llama8b.

Command:   as acesearcher_llama8b, with --config=acesearcher_qwen14b
Hardware:  a TPU slice with 1 TiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import acesearcher_llama8b
from spicejax.models.presets import QWEN25_14B
from spicejax.sharding import MeshConfig

MODEL = dataclasses.replace(acesearcher_llama8b.TUNED.model, architecture=QWEN25_14B)
CONFIG = acesearcher_llama8b.on("qwen14b", MODEL, 1e-6, 5e-7, MeshConfig(data=-1, tensor=4))

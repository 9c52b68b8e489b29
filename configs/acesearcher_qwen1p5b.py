"""AceSearcher on Qwen2.5-1.5B-Instruct with the paper's numbers; all else as in acesearcher_llama8b.

Command:   as acesearcher_llama8b, with --config=acesearcher_qwen1p5b
Hardware:  a TPU slice with 128 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import acesearcher_llama8b
from spicejax.models.presets import QWEN25_1_5B
from spicejax.sharding import MeshConfig

MODEL = dataclasses.replace(acesearcher_llama8b.TUNED.model, architecture=QWEN25_1_5B)
CONFIG = acesearcher_llama8b.on("qwen1p5b", MODEL, 5e-6, 1e-6, MeshConfig(data=-1, tensor=1))

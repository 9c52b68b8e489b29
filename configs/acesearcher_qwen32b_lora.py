"""AceSearcher on Qwen2.5-32B-Instruct with the paper's numbers; all else as in acesearcher_llama8b.

Command:   as acesearcher_llama8b, with --config=acesearcher_qwen32b_lora
Hardware:  a TPU slice with 512 GiB of HBM or more; adapters alone are trained (r = 8, alpha = 16). Not run by us on
           such hardware yet.
"""

import dataclasses

from spicejax.configs import acesearcher_llama8b
from spicejax.models.lora import LoraConfig
from spicejax.models.presets import QWEN25_32B
from spicejax.sharding import MeshConfig

MODEL = dataclasses.replace(
    acesearcher_llama8b.TUNED.model, architecture=QWEN25_32B, lora=LoraConfig(rank=8, alpha=16.0)
)
CONFIG = acesearcher_llama8b.on("qwen32b_lora", MODEL, 1e-5, 1e-6, MeshConfig(data=-1, tensor=4))

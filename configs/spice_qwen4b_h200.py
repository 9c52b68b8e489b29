"""SPICE on Qwen3-4B-Base with the paper's numbers on its machine, eight H200 (arXiv:2510.24684, appendix 8).

Command:   python launch/tpu_run.py --config=spice_qwen4b_h200 --workdir=DIR model.path=Qwen/Qwen3-4B-Base
           --corpus=DOCUMENTS; as spice_qwen4b otherwise. Eight H100 do too: the cache takes what is there.
Prompts:   as spice_qwen4b.
Hardware:  8 x H200 or 8 x H100, or two hosts of eight. Not run by us on such hardware yet; docs/scaling.md has what the
           compiler says of it.
Expect:    paper, table 1: average over 11 benchmarks from 35.8 to 44.9.
"""

import dataclasses

from spicejax.configs import spice_qwen4b
from spicejax.sharding import MeshConfig

_BASE = spice_qwen4b.CONFIG
CONFIG = dataclasses.replace(
    _BASE,
    name="spice_qwen4b_h200",
    model=dataclasses.replace(_BASE.model, attention="flash"),
    sampler_mesh=MeshConfig(data=-1, tensor=1),  # a card holds all weights: decoding needs no exchange
)

"""SPICE on OctoThinker-8B-Hybrid-Base with the paper's numbers (arXiv:2510.24684, section 3.1 and appendix 8).

Command:   python launch/tpu_run.py --config=spice_octothinker8b --workdir=DIR model.path=FOLDER --corpus=DOCUMENTS
           FOLDER: OctoThinker-8B-Hybrid-Base as downloaded from Hugging Face. DOCUMENTS: half
           mathematics, half general text; the paper took 10,000 each of Nemotron-CC-Math and NaturalReasoning.
Prompts:   the paper's numbers, our prompts: spice.prompts=FOLDER brings yours. What makes a task valid beyond the
           paper's rule is ours too: spice.validity, or validity.PAPER without it.
Hardware:  a TPU slice with 512 GiB of HBM or more (the paper: 8 H200 GPUs). Not run by us on such hardware yet.
Expect:    paper, table 1: average over 11 benchmarks from 20.5 to 32.4.
"""

import dataclasses

from spicejax.configs import spice_octothinker3b
from spicejax.models.presets import OCTOTHINKER_8B

CONFIG = dataclasses.replace(
    spice_octothinker3b.CONFIG,
    name="spice_octothinker8b",
    model=dataclasses.replace(spice_octothinker3b.CONFIG.model, architecture=OCTOTHINKER_8B),
)

"""SPICE on OctoThinker-3B-Hybrid-Base with the paper's numbers (arXiv:2510.24684, section 3.1 and appendix 8).

Command:   python launch/tpu_run.py --config=spice_octothinker3b --workdir=DIR model.path=FOLDER --corpus=DOCUMENTS
           FOLDER: OctoThinker-3B-Hybrid-Base as downloaded from Hugging Face. DOCUMENTS: half
           mathematics, half general text; the paper took 10,000 each of Nemotron-CC-Math and NaturalReasoning.
Prompts:   the paper's numbers, our prompts: spice.prompts=FOLDER brings yours. What makes a task valid beyond the
           paper's rule is ours too: spice.validity, or validity.PAPER without it.
Hardware:  a TPU slice with 256 GiB of HBM or more (the paper: 8 H200 GPUs). Not run by us on such hardware yet.
Expect:    paper, table 1: average over 11 benchmarks from 14.7 to 25.2.
"""

import dataclasses

from spicejax.configs import spice_qwen4b
from spicejax.models.presets import OCTOTHINKER_3B

# The Reasoner's turn in this family's conversation, as figure 8 has it: the box at once, the thinking stands before.
TEMPLATES = {"reasoner": "{question}\nWrite the answer inside \\boxed{}; nothing outside of it counts."}

CONFIG = dataclasses.replace(
    spice_qwen4b.CONFIG,
    name="spice_octothinker3b",
    model=dataclasses.replace(spice_qwen4b.CONFIG.model, architecture=OCTOTHINKER_3B, template="conversation"),
    game=dataclasses.replace(spice_qwen4b.CONFIG.game, templates=TEMPLATES),
)

"""R1-Searcher on Llama-3.1-8B-Instruct with the numbers of its public scripts; all else as in r1_searcher_qwen7b.

Command:   python launch/tpu_run.py --config=r1_searcher_llama8b --workdir=DIR model.path=FOLDER --corpus=STAGE1.jsonl \
               retrieval.index=INDEX retrieval.encoder=FOLDER
Hardware:  a TPU slice with 512 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import r1_searcher_qwen7b
from spicejax.models.presets import LLAMA31_8B

# The penalty is the script's; the paper's is 2.
# Differs: 64 questions of 16 answers an iteration, 256 rows a step, as for Qwen; the scripts take 15 rows and 60 in the
# first stage, 65 and 260 in the second
GAME = {"request": "instruct", "strict": False, "penalty": 1.0}


def _of(stage, **game):
    return dataclasses.replace(
        stage,
        name=stage.name.replace("qwen7b", "llama8b"),
        model=dataclasses.replace(stage.model, architecture=LLAMA31_8B),
        game=dataclasses.replace(stage.game, **GAME, **game),
        # Differs: k3 in the loss; the code takes k1 of each token off the reward, before the advantages are whitened
        learner=dataclasses.replace(stage.learner, kl_coef=1e-4),
    )


CONFIG = (
    _of(r1_searcher_qwen7b.RETRIEVE, estimator="mean_std", correctness=True),
    _of(r1_searcher_qwen7b.ANSWER),
)

"""R1-Searcher on Llama-3.1-8B-Instruct with the numbers of its public scripts; all else as in r1_searcher_qwen7b.

Command:   python launch/tpu_run.py --config=r1_searcher_llama8b --workdir=DIR model.path=FOLDER --corpus=STAGE1.jsonl \
               retrieval.index=INDEX retrieval.encoder=FOLDER
Hardware:  a TPU slice with 512 GiB of HBM or more. Not run by us on such hardware yet.
"""

import dataclasses

from spicejax.configs import r1_searcher_qwen7b
from spicejax.models.families import LLAMA31_8B

# The script samples 15 answers a group in the first stage and 16 in the second; its penalty is 1, the paper's 2.
GAME = {"request": "instruct", "strict": False, "penalty": 1.0}


def _of(stage, **game):
    return dataclasses.replace(
        stage,
        name=stage.name.replace("qwen7b", "llama8b"),
        model=dataclasses.replace(stage.model, architecture=LLAMA31_8B),
        game=dataclasses.replace(stage.game, **GAME, **game),
        learner=dataclasses.replace(stage.learner, kl_coef=1e-4),
    )


CONFIG = (
    _of(r1_searcher_qwen7b.RETRIEVE, estimator="mean_std", correctness=True),
    _of(r1_searcher_qwen7b.ANSWER),
)

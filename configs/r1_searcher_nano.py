"""R1-Searcher (arXiv:2503.05592) on the nano world of linked facts: first to search at all, then to be right.

Command:   python launch/tpu_run.py --config=r1_searcher_nano --workdir=runs/r1_searcher_nano
           1/ holds the first stage, 2/ the second, which starts from what the first one made.
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      6 minutes on one core, of which 4 are the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy from 0.41 to 0.98 (mean of five seeds; docs/log/2026-11-23.md)
"""

import dataclasses

from spicejax.configs import search_r1_nano

BASE = search_r1_nano.CONFIG
GAME = dataclasses.replace(BASE.game, estimator="mean_whiten", strict=False)

RETRIEVE = dataclasses.replace(
    BASE, name="r1_searcher_nano_retrieve", game=dataclasses.replace(GAME, reward="retrieve"), iterations=16
)
ANSWER = dataclasses.replace(
    BASE, name="r1_searcher_nano_answer", game=dataclasses.replace(GAME, reward="answer"), iterations=48
)
CONFIG = (RETRIEVE, ANSWER)

"""AceSearcher's offline DPO on the graded nano world: all pairs from the fine-tuned policy, in as many
iterations as two rounds have.

Command:   python launch/tpu_run.py --config=acesearcher_graded_nano_offline --workdir=runs/acesearcher_offline
           Beside other ways, over seeds: spicejax lab ace_algorithms
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      as acesearcher_graded_nano
Expect:    held-out accuracy from 0.18 to 0.31 (five seeds); docs/lab.md
"""

import dataclasses

from spicejax.configs import acesearcher_graded_nano as graded

OFFLINE = dataclasses.replace(
    graded.ROUND,
    name="acesearcher_graded_nano_offline",
    learner=dataclasses.replace(graded.ROUND.learner, decay_steps=48),
    iterations=48,
)
CONFIG = (graded.TUNED, OFFLINE)

"""AceSearcher (arXiv:2509.24193) on the graded nano world: up to five facts, some hard to find, for ablations.

Command:   python launch/tpu_run.py --config=acesearcher_graded_nano --workdir=runs/acesearcher_graded
           With other ways to learn from the same paths, over seeds: spicejax lab ace_algorithms
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      9 minutes on one core, of which 4 are the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy 0.18 after the fine-tuning, 0.26 and 0.33 after the rounds (five seeds, which differ much:
           0.24 to 0.44 at the end), the less the more facts a question needs; docs/lab.md
"""

import dataclasses

from spicejax.configs import acesearcher_nano
from spicejax.generate.layout import Buckets
from spicejax.models.presets import NANO
from spicejax.worlds.nano.maker import NanoConfig

_TUNED, _ROUND, _ = acesearcher_nano.CONFIG
_WORLD = NanoConfig(
    architecture=dataclasses.replace(NANO, vocab_size=339), world="graded_planned", held_out=200, warm_tokens=900_000
)

TUNED = dataclasses.replace(
    _TUNED,
    name="acesearcher_graded_nano_sft",
    game=dataclasses.replace(_TUNED.game, max_new=36),
    nano=_WORLD,
)
ROUND = dataclasses.replace(
    _ROUND,
    name="acesearcher_graded_nano_round",
    game=dataclasses.replace(_ROUND.game, most_questions=6, plan_max_new=36),
    buckets=Buckets(prompt=(24, 96), rows=96),
    # one step an iteration, whatever the loss: all methods end at the same rate
    learner=dataclasses.replace(
        _ROUND.learner, prompt_areas=(96,), slot_length=36, trajectories_per_update=0, decay_steps=24
    ),
    nano=_WORLD,
)
CONFIG = (TUNED, ROUND, ROUND)

"""AceSearcher's offline DPO on the nano world: all pairs from the fine-tuned policy, as many as in two rounds.

Command:   python launch/tpu_run.py --config=acesearcher_nano_offline --workdir=runs/acesearcher_nano_offline
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      as acesearcher_nano
Expect:    LOG.md has the table of acesearcher_nano's variants.
"""

import dataclasses

from spicejax.configs import acesearcher_nano

_LEARNER = dataclasses.replace(acesearcher_nano.ROUND.learner, decay_steps=96)
OFFLINE = dataclasses.replace(acesearcher_nano.ROUND, name="acesearcher_nano_offline", learner=_LEARNER, iterations=48)
CONFIG = (acesearcher_nano.TUNED, OFFLINE)

"""R-Zero (arXiv:2508.05004) on the embedded nano world: two models of about a million parameters teach each other,
without documents.

Command:   python launch/tpu_run.py --config=r_zero_nano --workdir=runs/r_zero
           1/, 3/ are turns of the Challenger, 2/, 4/ of the Reasoner, whose last policy is the outcome.
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      a minute a round, and 1.6 the warm start (kept in runs/cache afterwards)
Expect:    no gain in held-out accuracy (0.52 to 0.47, five seeds): half of what the votes teach is false
           (docs/lab.md)
"""

import dataclasses
from typing import Any

from spicejax.configs import spice_nano
from spicejax.games.r_zero.game import RZeroConfig
from spicejax.run.config import CheckpointConfig, EvalConfig, RunConfig

# As published: mean over tokens, wider above, k3 against where the turn began; mean_std is the game's default
GRPO: dict[str, Any] = {"aggregation": "token_mean", "kl_coef": 0.01, "clip_high": 0.3, "dual_clip": 3.0}
BASE = dataclasses.replace(
    spice_nano.CONFIG,
    name="r_zero_nano_challenger",
    game=RZeroConfig(groups=32, pool=512, style="nano", challenger_max_new=24, reasoner_max_new=14),
    buckets=dataclasses.replace(spice_nano.CONFIG.buckets, rows=180),
    learner=dataclasses.replace(spice_nano.CONFIG.learner, **GRPO, slots=5),
    eval=EvalConfig(tasks="none"),
    checkpoint=CheckpointConfig(every=5, keep=1),
    iterations=5,
    show_every=5,
)


def rounds(challenger: RunConfig, number: int, *, iterations: int, **of_reasoner: object) -> tuple[RunConfig, ...]:
    """A chain of turns, first the Challenger's: each starts where its own last one ended, beside the newest other.

    Args:
      iterations: of a Reasoner's turn.
      of_reasoner: what else differs in it from the Challenger's.
    """
    game = dataclasses.replace(challenger.game, trains="reasoner", group_size=5, votes=9)
    name = challenger.name.removesuffix("_challenger")
    reasoner = dataclasses.replace(challenger, name=f"{name}_reasoner", game=game, iterations=iterations, **of_reasoner)
    turns: list[RunConfig] = []
    for k in range(0, 2 * number, 2):  # turns before this round
        asks = {"reasoner": f"stage:{k}"} if k else {}  # in the first, the policy that the run starts from
        turns.append(dataclasses.replace(challenger, seats=asks, from_stage=max(0, k - 1)))
        turns.append(dataclasses.replace(reasoner, seats={"challenger": f"stage:{k + 1}"}, from_stage=k))
    return tuple(turns)


CONFIG = rounds(BASE, 2, iterations=15, eval=EvalConfig(every=0))

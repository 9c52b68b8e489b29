"""AceSearcher (arXiv:2509.24193) on the nano world: supervised fine-tuning, then two rounds of DPO on its own replies.

Command:   python launch/tpu_run.py --config=acesearcher_nano --workdir=runs/acesearcher_nano
           1/ holds the fine-tuning, 2/ and 3/ the rounds, each of which samples with the policy that it starts from.
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      about 5 minutes on one core, of which 3 are the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy 0.38 after the fine-tuning, 0.65 and 0.88 after the rounds (five seeds); LOG.md.
"""

import dataclasses

from spicejax.configs import spice_nano
from spicejax.games.acesearcher.game import AceSearcherConfig
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.generate.layout import Buckets
from spicejax.learn.learner import PairConfig
from spicejax.models.presets import NANO
from spicejax.run.config import EvalConfig
from spicejax.worlds.nano.maker import NanoConfig

_LEARNER = spice_nano.CONFIG.learner
ROUND = dataclasses.replace(
    spice_nano.CONFIG,
    name="acesearcher_nano_round",
    nano=NanoConfig(
        architecture=dataclasses.replace(NANO, vocab_size=336), world="planned", held_out=150, warm_tokens=700_000
    ),
    game=AceSearcherConfig(
        questions=24, plans=3, solutions=4, request="nano", found=2, total=3, most_questions=4,
        plan_max_new=24, answer_max_new=6, final_max_new=8,
    ),
    learner=dataclasses.replace(
        _LEARNER,
        loss="dpo",
        pairs=PairConfig(beta=0.1),
        learning_rate=1e-4,
        schedule="cosine",
        decay_steps=48,
        trajectories_per_update=64,
    ),
    buckets=Buckets(prompt=(24, 56), rows=96),
    eval=EvalConfig(every=12),
    iterations=24,
    show_every=12,
)  # fmt: skip
TUNED = dataclasses.replace(
    ROUND,
    name="acesearcher_nano_sft",
    game=SupervisedConfig(examples=128, max_new=24, style="nano"),
    learner=dataclasses.replace(
        _LEARNER,
        loss="supervised",
        aggregation="token_mean",
        layout="packed",
        row_length=192,
        rows=8,
        min_micro_batches=4,
        learning_rate=1e-3,
        warmup_steps=4,
        schedule="cosine",
        decay_steps=60,
    ),
    eval=EvalConfig(tasks="none"),
    iterations=64,
)
CONFIG = (TUNED, ROUND, ROUND)

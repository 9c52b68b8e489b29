"""SPICE on Qwen2.5-Coder-0.5B-Instruct, with adapters: a real model of the papers' family on two CPU cores.

Command:   the model of sft_spice_qwen0p5b, exported to MODEL; then
           python launch/tpu_run.py --config=spice_qwen0p5b --workdir=DIR model.path=MODEL [--corpus=facts,TEXTS]
Hardware:  2 CPU cores, 12 GiB of memory; 8 GiB with model.remat=layer, whose updates are slower. The 1.5B model (python
           launch/fetch_weights.py qwen2.5-coder-1.5b --out=weights) takes 14.4 GiB with model.remat=layer.
           --dry_run --topology=here says what other settings take.
Cost:      2.2 minutes an iteration, 4 an evaluation of 216 questions (docs/log/2026-11-26.md)
Expect:    half of the attempts are valid tasks after the warm start; in twelve iterations nothing was learnt, since
           four of five tasks are never solved: a model of this size knows little. Of the 1.5B model's answers half
           were right in its one iteration, with an earlier recipe.
"""

from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.lora import LoraConfig
from spicejax.models.presets import QWEN25_0_5B
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig

# Differs: short requests, since the replies of the warm start have shown the form; free form alone; answers that must
# stand in the document.
REASONER = {"reasoner": "{question}\n\nGive the answer, as short as it can be, inside \\boxed{}."}
_HARD = (
    "Write one hard question that it settles, for someone who does not see it: name what the question is about, and "
    "put into it what it needs. "
)
_FREE = "The answer is of the type {answer_type}. Reply in JSON: question, answer."
_MCQ = "Give four options, A to D, one of them right. Reply in JSON: multiple_choice_question, multiple_choice_correct."
_NONE = "Write one hard question on anything you know. "
TEMPLATES = REASONER | {
    "free_form": f"Document:\n{{document}}\n\n{_HARD}{_FREE}",
    "mcq": f"Document:\n{{document}}\n\n{_HARD}{_MCQ}",
    "free_form_no_corpus": f"{_NONE}{_FREE}",
    "mcq_no_corpus": f"{_NONE}{_MCQ}",
}

CONFIG = RunConfig(
    name="spice_qwen0p5b",
    # On processors without products in bfloat16 (lscpu: no avx512_bf16, no amx_bf16) float32 is faster.
    model=ModelConfig(
        path="",
        architecture=QWEN25_0_5B,
        dtype="bfloat16",
        param_dtype="bfloat16",
        lora=LoraConfig(rank=32, alpha=32.0),
    ),
    # A few sentences a document: of passages of 96 tokens, a model of this size asks what none of them says.
    corpus=CorpusConfig(source="facts,problems", max_tokens=64, min_chars=32),
    game=SpiceConfig(
        documents=6,
        group_size=6,
        max_attempts=6,
        task_type="free_form_only",  # random brings multiple choice too, which a model of this size hardly writes
        answer_types=("String", "Integer"),
        mcq_fraction=0.25,
        grounding="answer",
        novelty=8,
        answer_equal_tasks_once=True,
        reasoner_tasks_per_document=1,
        templates=TEMPLATES,
        challenger_max_new=96,
        reasoner_max_new=80,
    ),
    buckets=Buckets(prompt=(80, 176, 256), rows=24),
    sampler=SamplerConfig(temperature=0.7),
    learner=LearnerConfig(
        learning_rate=1e-4,
        warmup_steps=3,
        loss_norm_length=128,
        layout="shared_prompt",
        prompt_areas=(256,),
        slot_length=96,
        slots=6,
        rows=1,
        vocab_chunk=16384,
    ),
    eval=EvalConfig(every=0, tasks="facts:corpus,facts:unseen", max_tasks=96),
    checkpoint=CheckpointConfig(every=4, keep=1),
    iterations=24,
    show_every=1,
)

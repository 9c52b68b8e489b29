"""SPICE on Qwen2.5-Coder-0.5B-Instruct, with adapters: a real model of the papers' family on two CPU cores.

Command:   python launch/tpu_run.py --config=spice_qwen0p5b --workdir=DIR
           model.path=weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf [--corpus=facts,TEXTS]
           make weights-qwen fetches that file; with the Hub at hand: model.path=Qwen/Qwen2.5-0.5B-Instruct
Hardware:  2 CPU cores, 12 GiB of memory; 8 GiB with model.remat=layer, whose updates are slower. The 1.5B model (python
           launch/fetch_weights.py qwen2.5-coder-1.5b --out=weights) takes 14.4 GiB with model.remat=layer.
           --dry_run --topology=here says what other settings take.
Cost:      1.2 to 2.8 minutes an iteration beside other jobs, 4 at 1.5B (docs/log/2026-11-26.md)
Expect:    not known: no run has gone to its end. In trials of earlier versions up to 46 % of attempts were valid, half
           of them in one iteration of the 1.5B model. Models of this size know little.
"""

import json

from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.lora import LoraConfig
from spicejax.models.presets import QWEN25_0_5B
from spicejax.run.config import CheckpointConfig, CorpusConfig, EvalConfig, ModelConfig, RunConfig

# Differs: shorter requests, kinds drawn at random, answers that must stand in the document.
# Of the paper's fields those that the game reads, and the quotation that the question rests on; a worked example for
# each kind, since a model of this size does as it has seen done.
TEMPLATES = {
    "free_form": """Write ONE hard exam question that the document below settles. Whoever answers does not see the \
document: name what the question is about, put into it every number and condition that it needs, and never mention a \
text. Reply with one JSON \
object and nothing around it. Two examples, of a document on copper:

An answer of the type String is a name or a term of one to three words:
{"relevant_quotes": "Copper melts at 1,085 degrees Celsius and is used in cables.", "question": "Which metal melts at \
1,085 degrees Celsius and is used in electric cables?", "answer": "copper"}
An answer of the type Integer is a whole number in digits:
{"relevant_quotes": "Copper has the atomic number 29.", "question": "How many protons has an atom of copper?", \
"answer": "29"}

Document:
{document}

The answer must be of the type {answer_type}.""",
    "mcq": """Write ONE hard multiple-choice question that the document below settles, with four options of which one \
is right. Whoever answers does not see the document: name what the question is about, put into it every number and \
condition that it needs, and never mention a text. Each wrong option is what a likely mistake leads to. Reply with one \
JSON object and nothing around it. An example, of a document on copper:

{"answer_quote": "Copper melts at 1,085 degrees Celsius and is used in cables.", "multiple_choice_question": "Which \
metal melts at 1,085 degrees Celsius and is used in electric cables?\\nA) iron\\nB) copper\\nC) zinc\\nD) silver", \
"multiple_choice_correct": "B"}

Document:
{document}""",
    "reasoner": """{question}

Reason in one or two sentences, then give the answer, as short as it can be, inside \\boxed{}.""",
    "reasoner_examples": json.dumps(
        [
            {
                "question": "Which metal is used in electric cables and melts at 1,085 degrees Celsius?",
                "reply": "Cables are made of copper or aluminium, and of these copper melts at 1,085 degrees Celsius. "
                "\\boxed{copper}",
            },
            {
                "question": "A box holds 6 eggs. How many eggs do 3 boxes hold?",
                "reply": "One box holds 6 eggs, so 3 boxes hold 3 x 6 = 18 eggs. \\boxed{18}",
            },
        ]
    ),
}

CONFIG = RunConfig(
    name="spice_qwen0p5b",
    model=ModelConfig(path="", architecture=QWEN25_0_5B, lora=LoraConfig(rank=32, alpha=32.0)),
    corpus=CorpusConfig(source="facts,problems", max_tokens=96, min_chars=80),
    game=SpiceConfig(
        documents=4,
        group_size=6,
        max_attempts=6,
        task_type="random",
        answer_types=("String", "Integer"),
        mcq_fraction=0.33,
        grounding="answer",
        novelty=8,
        answer_equal_tasks_once=True,
        reasoner_tasks_per_document=2,
        templates=TEMPLATES,
        challenger_max_new=144,
        reasoner_max_new=128,
    ),
    buckets=Buckets(prompt=(256, 448), rows=24),
    sampler=SamplerConfig(temperature=0.8),
    learner=LearnerConfig(
        learning_rate=3e-4,
        loss_norm_length=128,
        layout="shared_prompt",
        prompt_areas=(640,),
        slot_length=144,
        slots=6,
        rows=1,
        vocab_chunk=16384,
    ),
    eval=EvalConfig(every=0, tasks="facts:corpus,facts:unseen", max_tasks=96),
    checkpoint=CheckpointConfig(every=4, keep=1),
    iterations=24,
    show_every=1,
)

"""Time supervised fine-tuning against peers: python benchmarks/supervised_step.py [--size=tiny] [--repeats=3]

The same random Qwen3-shaped model and the same 48 prompts with replies of uneven lengths (lognormal, as question sets
have them) for every backend, in float32, the loss on the replies alone; one optimizer step (AdamW) on all, a few
rows at a time: `ours` the jitted step on packed rows, `torch` the Hugging Face model on rows padded to the longest of
their batch, sorted by length, `trl` the training step of `SFTTrainer` with packing. What is not installed is left out,
with a note. Steps are interleaved and the medians compared; compiling is outside. `loss` of the second step, after an
equal first one, says that backends compute the same thing; TRL appends an end token to each reply, and without flash
attention its packed sequences see each other. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    from spicejax import memory

    memory.ask_for_huge_pages()  # for every backend, as the launcher does for ours

import jax
import jax.numpy as jnp
import numpy as np
from harness import SIZES, installed, interleaved, model_of, ratios, versions, word_tokenizer, words

from spicejax.learn import deal, learner
from spicejax.models import hf, transformer
from spicejax.types import Episode, Rollout

LEARNING_RATE = 1e-5
ROW, ROWS = 1024, 2  # tokens of a packed row; rows at a time
EXAMPLES, MEDIAN_PROMPT, MEDIAN_REPLY = 48, 96, 32  # tokens

Step = Callable[[], float]  # one optimizer step on all examples; returns its loss


def examples_of(vocab: int) -> list[Episode]:
    """Random prompts and replies, three of four shorter than twice the median, none longer than a row together."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(EXAMPLES):
        sizes = [int(median * rng.lognormal(0.0, 0.9)) for median in (MEDIAN_PROMPT, MEDIAN_REPLY)]
        prompt, reply = (rng.integers(3, vocab, np.clip(n, 4, ROW // 2 - 4)).astype(np.int32) for n in sizes)
        zeros = np.zeros(len(reply), np.float32)
        found.append(Episode("reasoner", k, Rollout(prompt, reply, zeros, zeros, zeros + 1, "", "stop"), 1.0))
    return found


def ours(model: transformer.TransformerConfig, params: Any) -> Step:
    """The jitted step on packed rows."""
    config = learner.LearnerConfig(
        loss="supervised", aggregation="token_mean", learning_rate=LEARNING_RATE, beta2=0.999, layout="packed",
        row_length=ROW, rows=ROWS, vocab_chunk=0,
    )  # fmt: skip
    examples = examples_of(model.vocab_size)
    (((batch, used),),) = deal.steps(examples, np.ones(len(examples), np.float32), config, np.random.default_rng(0))
    optimizer = learner.make_optimizer(config)
    doors = learner.make_learner(model, config, optimizer)
    state = learner.init_state(jax.tree.map(jnp.copy, params), optimizer)
    batch, micros = jax.device_put(batch), jnp.int32(used)

    def step() -> float:
        nonlocal state
        state, metrics = doors.step(state, batch, micros)
        return float(jax.block_until_ready(metrics["loss"]))

    return step


def torch_step(model: transformer.TransformerConfig, folder: Path, count: int) -> Step:
    """Plain PyTorch on `count` batches of rows padded to the longest of each, sorted by length."""
    import torch
    import transformers

    policy = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rule = torch.optim.AdamW(policy.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.999), weight_decay=0.0, fused=True)
    given = sorted(
        (e.rollout for e in examples_of(model.vocab_size)), key=lambda r: len(r.prompt_ids) + len(r.token_ids)
    )
    batches = []
    for own in np.array_split(np.arange(len(given)), count):
        rows = [np.concatenate([given[k].prompt_ids, given[k].token_ids]) for k in own]
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        labels, mask = np.full_like(ids, -100), np.zeros_like(ids)
        for i, (k, row) in enumerate(zip(own, rows, strict=True)):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
            labels[i, len(given[k].prompt_ids) : len(row)] = given[k].token_ids
        batches.append([torch.from_numpy(each) for each in (ids, mask, labels)])

    scored = sum(len(r.token_ids) for r in given)

    def step() -> float:
        total = 0.0
        rule.zero_grad(set_to_none=True)
        for ids, mask, labels in batches:
            loss = policy(input_ids=ids, attention_mask=mask, labels=labels, num_items_in_batch=scored).loss
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        rule.step()
        return total

    return step


def trl_step(model: transformer.TransformerConfig, folder: Path) -> Step:
    """`SFTTrainer` of TRL with packing: its batches, its training step, its optimizer."""
    import datasets
    import torch
    import transformers
    import trl

    rows = [
        {"prompt": words(e.rollout.prompt_ids), "completion": words(e.rollout.token_ids)}
        for e in examples_of(model.vocab_size)
    ]
    arguments = trl.SFTConfig(
        output_dir=str(folder / "trl"), learning_rate=LEARNING_RATE, per_device_train_batch_size=ROWS, max_length=ROW,
        packing=True, gradient_checkpointing=False, bf16=False, use_cpu=True, report_to=[], max_grad_norm=1.0,
    )  # fmt: skip
    trainer = trl.SFTTrainer(
        transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), args=arguments,
        train_dataset=datasets.Dataset.from_list(rows), processing_class=word_tokenizer(model.vocab_size),
    )  # fmt: skip
    trainer.create_optimizer()
    batches = list(trainer.get_train_dataloader())
    trainer.current_gradient_accumulation_steps = len(batches)  # which its loop sets
    scored = sum(int((batch["labels"] != -100).sum()) for batch in batches)

    def step() -> float:
        total = sum(float(trainer.training_step(trainer.model, dict(b), num_items_in_batch=scored)) for b in batches)
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)
        return total

    return step


def main(argv: list[str] | None = None) -> int:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", choices=tuple(SIZES))
    parser.add_argument("--repeats", type=int, default=3, help="timed steps of each backend")
    options = parser.parse_args(argv)
    model = model_of(options.size)
    params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
    lengths = [len(e.rollout.prompt_ids) + len(e.rollout.token_ids) for e in examples_of(model.vocab_size)]
    count = -(-sum(lengths) // (ROW * ROWS))  # batches of about as many tokens as packed ones
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "weights"
        hf.save(folder, model, params, dtype="float32")
        makers: dict[str, Callable[[], Step]] = {
            "ours": lambda: ours(model, params),
            "torch": lambda: torch_step(model, folder, count),
            "trl": lambda: trl_step(model, folder),
        }
        steps, notes = installed(makers)
        losses = {backend: [step(), step()][1] for backend, step in steps.items()}  # compiles
        taken = interleaved({b: lambda _, step=step: step() for b, step in steps.items()}, options.repeats)
    report = {
        "size": options.size,
        "parameters": transformer.num_params(model),
        "tokens": sum(lengths),
        "longest": max(lengths),
        "versions": versions(),
        "seconds": {backend: round(statistics.median(seconds), 4) for backend, seconds in taken.items()},
        "loss": losses,
        "times_ours": ratios(taken, "ours"),
        "notes": notes,
    }
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

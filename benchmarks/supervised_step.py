"""Time one supervised step against peers: python benchmarks/supervised_step.py [--size=tiny] [--repeats=3]

The same random Qwen3-shaped model and the same 48 prompts with replies of uneven lengths (lognormal, as question sets
have them) for every backend, in float32, the loss on the replies alone; one step of AdamW on all, a few rows at a time:
`ours` on packed rows, `torch` the Hugging Face model on rows padded to the longest of their batch, sorted by length,
`trl` the training step of `SFTTrainer` with packing. `loss` of the second step says that backends compute the same
thing; TRL appends an end token to each reply, and its packed texts see each other without a flash kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np

from spicejax import memory
from spicejax.learn import deal, learner
from spicejax.models import transformer
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Episode, Rollout

ROW, ROWS = 1024, 2  # tokens of a packed row; rows at a time
EXAMPLES, PROMPT, REPLY = 48, 96, 32  # medians, in tokens
Step = Callable[[int], dict[str, float]]  # one optimizer step; returns its loss


def examples(vocab: int) -> list[Rollout]:
    """Random prompts and replies, none longer than a row together."""
    rng, found = np.random.default_rng(0), []
    for _ in range(EXAMPLES):
        sizes = [int(np.clip(median * rng.lognormal(0.0, 0.9), 4, ROW // 2 - 4)) for median in (PROMPT, REPLY)]
        found.append(harness.rollout(*(rng.integers(3, vocab, n).astype(np.int32) for n in sizes)))
    return found


def tokens(rollout: Rollout) -> np.ndarray:
    """Prompt and reply."""
    return np.concatenate([rollout.prompt_ids, rollout.token_ids])


def ours(model: TransformerConfig, params: Any) -> Step:
    """The jitted step on packed rows."""
    config = learner.LearnerConfig(
        loss="supervised", aggregation="token_mean", learning_rate=harness.LEARNING_RATE, beta2=0.999, layout="packed",
        row_length=ROW, rows=ROWS, vocab_chunk=0,
    )  # fmt: skip
    lessons = [Episode("reasoner", k, rollout, 1.0) for k, rollout in enumerate(examples(model.vocab_size))]
    ((part,),) = deal.steps(lessons, np.ones(EXAMPLES, np.float32), config, np.random.default_rng(0))
    trained = harness.Trained(model, params, config, *part)
    return lambda _: trained.step()


def torch_step(vocab: int, folder: Path) -> Step:
    """Plain PyTorch on as many batches as ours has, each padded to its longest row."""
    policy = harness.Torch(folder)
    torch = policy.torch
    given = sorted(examples(vocab), key=lambda rollout: len(tokens(rollout)))
    count = math.ceil(sum(len(tokens(rollout)) for rollout in given) / (ROW * ROWS))
    scored, batches = sum(len(rollout.token_ids) for rollout in given), []
    for part in np.array_split(np.arange(EXAMPLES), count):
        own = [given[k] for k in part]
        ids = np.zeros((len(own), max(len(tokens(rollout)) for rollout in own)), np.int64)
        labels, mask = np.full_like(ids, -100), np.zeros_like(ids)
        for i, rollout in enumerate(own):
            end = len(tokens(rollout))
            ids[i, :end], mask[i, :end] = tokens(rollout), 1
            labels[i, len(rollout.prompt_ids) : end] = rollout.token_ids
        batches.append([torch.from_numpy(each) for each in (ids, mask, labels)])

    def step(_: int) -> dict[str, float]:
        total = 0.0
        policy.rule.zero_grad(set_to_none=True)
        for ids, mask, labels in batches:
            loss = policy.decoder(
                input_ids=ids, attention_mask=mask, labels=labels, num_items_in_batch=scored, use_cache=False
            ).loss
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(policy.decoder.parameters(), 1.0)
        policy.rule.step()
        return {"loss": total}

    return step


def trl_step(vocab: int, folder: Path) -> Step:
    """`SFTTrainer` of TRL with packing: its batches, its training step, its optimizer."""
    import datasets
    import torch
    import transformers
    import trl

    rows = [
        {"prompt": harness.words(rollout.prompt_ids), "completion": harness.words(rollout.token_ids)}
        for rollout in examples(vocab)
    ]
    arguments = trl.SFTConfig(
        output_dir=str(folder / "trl"), learning_rate=harness.LEARNING_RATE, per_device_train_batch_size=ROWS,
        max_length=ROW, packing=True, gradient_checkpointing=False, bf16=False, use_cpu=True, report_to=[],
        max_grad_norm=1.0,
    )  # fmt: skip
    trainer = trl.SFTTrainer(
        transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), args=arguments,
        train_dataset=datasets.Dataset.from_list(rows), processing_class=harness.word_tokenizer(vocab),
    )  # fmt: skip
    trainer.create_optimizer()
    batches = list(trainer.get_train_dataloader())
    trainer.current_gradient_accumulation_steps = len(batches)  # which its loop sets
    scored = sum(int((batch["labels"] != -100).sum()) for batch in batches)

    def step(_: int) -> dict[str, float]:
        total = sum(float(trainer.training_step(trainer.model, dict(b), num_items_in_batch=scored)) for b in batches)
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)
        return {"loss": total}

    return step


def main() -> None:
    given = harness.options(__doc__, size=tuple(harness.SIZES), repeats=3)
    model = harness.model_of(given.size)
    lengths = [len(tokens(rollout)) for rollout in examples(model.vocab_size)]
    with harness.saved(model) as (params, folder):
        makers: dict[str, Callable[[], Step]] = {
            "ours": lambda: ours(model, params),
            "torch": lambda: torch_step(model.vocab_size, folder),
            "trl": lambda: trl_step(model.vocab_size, folder),
        }
        found = harness.compare(makers, given.repeats, warm=2)
    report = {"parameters": transformer.num_params(model), "tokens": sum(lengths), "longest": max(lengths)}
    harness.report(size=given.size, **report, **found)


if __name__ == "__main__":
    memory.tune()  # for every backend, as the launcher does for ours
    main()

"""Time one DPO step against peers: python benchmarks/preference_step.py [--size=tiny] [--cases=...] [--repeats=3]

The same random Qwen3-shaped model and the same pairs for every backend, each step with the pass of the frozen reference
and AdamW, in float32: `ours` the reference pass and the jitted step on rows that share prompts, `torch` the Hugging
Face model with logits of the responses alone, prompt repeated for both of a pair, `trl` the training step of
`DPOTrainer`. `loss` of the second step, after an equal first one, says that backends compute the same thing.

  pairs   2 prompts of 1,024 tokens, a pair of responses of 256 tokens each
  several 1 prompt of 1,024 tokens, 4 such pairs
  short   8 prompts of 128 tokens, a pair of 128 tokens each
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np

from spicejax import memory
from spicejax.learn import deal, learner
from spicejax.models import transformer
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Preference, Rollout

BETA = 0.1
Step = Callable[[int], dict[str, float]]  # one optimizer step; returns its loss


@dataclasses.dataclass(frozen=True)
class Case:
    """Pairs of a step."""

    prompts: int
    pairs: int  # of a prompt
    prompt: int  # tokens
    response: int  # tokens

    def made(self, vocab: int) -> list[Preference]:
        """Random pairs."""
        rng = np.random.default_rng(0)

        def response(prompt: np.ndarray) -> Rollout:
            return harness.rollout(prompt, rng.integers(3, vocab, self.response).astype(np.int32))

        prompts = [rng.integers(3, vocab, self.prompt).astype(np.int32) for _ in range(self.prompts)]
        return [
            Preference("solver", k, response(prompt), response(prompt))
            for k, prompt in enumerate(prompts)
            for _ in range(self.pairs)
        ]


CASES = {"pairs": Case(2, 1, 1024, 256), "several": Case(1, 4, 1024, 256), "short": Case(8, 1, 128, 128)}


def ours(model: TransformerConfig, params: Any, case: Case) -> Step:
    """The reference pass and the jitted step."""
    config = learner.LearnerConfig(
        loss="dpo", pairs=learner.PairConfig(beta=BETA), learning_rate=harness.LEARNING_RATE, beta2=0.999,
        layout="shared_prompt", prompt_areas=(case.prompt,), slot_length=case.response, slots=2 * case.pairs,
        rows=case.prompts, vocab_chunk=0,
    )  # fmt: skip
    pairs = case.made(model.vocab_size)
    ((part,),) = deal.steps(pairs, np.ones(len(pairs), np.float32), config, np.random.default_rng(0))
    trained = harness.Trained(model, params, config, *part)
    return lambda _: trained.step()


def torch_step(vocab: int, folder: Path, case: Case) -> Step:
    """Plain PyTorch: reference without gradient, policy, DPO loss, clip, fused AdamW."""
    policy, reference = harness.Torch(folder), harness.Torch(folder)
    torch = policy.torch
    rows = [r for pair in case.made(vocab) for r in deal.responses(pair)]
    ids = torch.from_numpy(np.stack([np.concatenate([r.prompt_ids, r.token_ids]) for r in rows])).long()

    def totals(decoder: harness.Torch) -> Any:
        return decoder.logprobs(ids, case.response).sum(-1).view(-1, 2)

    def step(_: int) -> dict[str, float]:
        with torch.no_grad():
            frozen = totals(reference)
        margins = BETA * (totals(policy) - frozen) @ torch.tensor([1.0, -1.0])
        return policy.update(torch.nn.functional.softplus(-margins).mean())

    return step


def trl_step(vocab: int, folder: Path, case: Case) -> Step:
    """`DPOTrainer` of TRL: its batch, its training step, its optimizer."""
    import datasets
    import torch
    import transformers
    import trl

    pairs = [(p.chosen.prompt_ids, p.chosen.token_ids, p.rejected.token_ids) for p in case.made(vocab)]
    rows = [dict(zip(("prompt", "chosen", "rejected"), map(harness.words, pair), strict=True)) for pair in pairs]
    load = transformers.AutoModelForCausalLM.from_pretrained
    arguments = trl.DPOConfig(
        output_dir=str(folder / "trl"), beta=BETA, learning_rate=harness.LEARNING_RATE,
        per_device_train_batch_size=len(pairs), max_length=None, gradient_checkpointing=False, bf16=False, use_cpu=True,
        report_to=[], max_grad_norm=1.0,
    )  # fmt: skip
    trainer = trl.DPOTrainer(
        load(folder, dtype=torch.float32), load(folder, dtype=torch.float32), args=arguments,
        train_dataset=datasets.Dataset.from_list(rows), processing_class=harness.word_tokenizer(vocab),
    )  # fmt: skip
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = 1  # which its loop sets
    batch = next(iter(trainer.get_train_dataloader()))

    def step(_: int) -> dict[str, float]:
        loss = trainer.training_step(trainer.model, batch)
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)
        return {"loss": float(loss)}

    return step


def run_case(case: Case, model: TransformerConfig, repeats: int) -> dict[str, Any]:
    """Seconds of a step by backend, and ratios to ours."""
    with harness.saved(model) as (params, folder):
        makers: dict[str, Callable[[], Step]] = {
            "ours": lambda: ours(model, params, case),
            "torch": lambda: torch_step(model.vocab_size, folder, case),
            "trl": lambda: trl_step(model.vocab_size, folder, case),
        }
        return harness.compare(makers, repeats, warm=2)


def main() -> None:
    given = harness.options(__doc__, size=tuple(harness.SIZES), cases=",".join(CASES), repeats=3)
    model = harness.model_of(given.size)
    cases = {name: run_case(CASES[name], model, given.repeats) for name in harness.chosen(given.cases, list(CASES))}
    harness.report(size=given.size, parameters=transformer.num_params(model), cases=cases)


if __name__ == "__main__":
    memory.tune()  # for every backend, as the launcher does for ours
    main()

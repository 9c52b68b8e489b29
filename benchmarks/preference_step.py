"""Time one DPO step against peers: python benchmarks/preference_step.py [--size=tiny] [--cases=...] [--repeats=3]

The same random Qwen3-shaped model and the same pairs for every backend, each step with the pass of the frozen reference
and AdamW, in float32: `ours` the reference pass and the jitted step on rows that share prompts, `torch` the Hugging
Face model with logits of the responses alone, prompt repeated for both of a pair, `trl` the training step of
`DPOTrainer`. What is not installed is left out, with a note. Steps are interleaved and the medians compared; compiling
is outside. `loss` of the second step, after an equal first one, says that backends compute the same thing. Prints one
JSON object.

  pairs   2 prompts of 1,024 tokens, a pair of responses of 256 tokens each
  several 1 prompt of 1,024 tokens, 4 such pairs
  short   8 prompts of 128 tokens, a pair of 128 tokens each
"""

from __future__ import annotations

import argparse
import dataclasses
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
from spicejax.types import Preference, Rollout

LEARNING_RATE, BETA = 1e-5, 0.1


@dataclasses.dataclass(frozen=True)
class Case:
    """Pairs of a step."""

    prompts: int
    pairs: int  # of a prompt
    prompt: int  # tokens
    response: int  # tokens


CASES = {"pairs": Case(2, 1, 1024, 256), "several": Case(1, 4, 1024, 256), "short": Case(8, 1, 128, 128)}


def pairs_of(case: Case, vocab: int) -> list[Preference]:
    """Random pairs."""
    rng = np.random.default_rng(0)

    def response(prompt: np.ndarray) -> Rollout:
        tokens, zeros = rng.integers(3, vocab, case.response).astype(np.int32), np.zeros(case.response, np.float32)
        return Rollout(prompt, tokens, zeros, zeros, zeros + 1, "", "stop")

    prompts = [rng.integers(3, vocab, case.prompt).astype(np.int32) for _ in range(case.prompts)]
    return [
        Preference("solver", k, response(prompt), response(prompt))
        for k, prompt in enumerate(prompts)
        for _ in range(case.pairs)
    ]


Step = Callable[[], float]  # one optimizer step; returns its loss


def ours(model: transformer.TransformerConfig, params: Any, case: Case) -> Step:
    """The reference pass and the jitted step."""
    config = learner.LearnerConfig(
        loss="dpo", pairs=learner.PairConfig(beta=BETA), learning_rate=LEARNING_RATE, beta2=0.999,
        layout="shared_prompt", prompt_areas=(case.prompt,), slot_length=case.response, slots=2 * case.pairs,
        rows=case.prompts, vocab_chunk=0,
    )  # fmt: skip
    pairs = pairs_of(case, model.vocab_size)
    (((batch, used),),) = deal.steps(pairs, np.ones(len(pairs), np.float32), config, np.random.default_rng(0))
    optimizer = learner.make_optimizer(config)
    doors = learner.make_learner(model, config, optimizer)
    state = learner.init_state(jax.tree.map(jnp.copy, params), optimizer)
    batch, micros = jax.device_put(batch), jnp.int32(used)

    def step() -> float:
        nonlocal state
        scored = batch._replace(reference_logprobs=doors.score(params, batch, micros))
        state, metrics = doors.step(state, scored, micros)
        return float(jax.block_until_ready(metrics["loss"]))

    return step


def torch_step(model: transformer.TransformerConfig, folder: Path, case: Case) -> Step:
    """Plain PyTorch: reference without gradient, policy, DPO loss, clip, fused AdamW."""
    import torch
    import transformers

    load = transformers.AutoModelForCausalLM.from_pretrained
    policy, reference = (load(folder, dtype=torch.float32) for _ in range(2))
    rule = torch.optim.AdamW(policy.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.999), weight_decay=0.0, fused=True)
    rows = [r for pair in pairs_of(case, model.vocab_size) for r in deal.responses(pair)]
    ids = torch.from_numpy(np.stack([np.concatenate([r.prompt_ids, r.token_ids]) for r in rows])).long()

    def totals(decoder: Any) -> Any:
        logits = decoder(input_ids=ids, logits_to_keep=case.response + 1).logits[:, :-1]
        picked = logits.gather(-1, ids[:, -case.response :, None])[..., 0] - logits.logsumexp(-1)
        return picked.sum(-1).view(-1, 2)

    def step() -> float:
        with torch.no_grad():
            frozen = totals(reference)
        margins = BETA * (totals(policy) - frozen) @ torch.tensor([1.0, -1.0])
        loss = torch.nn.functional.softplus(-margins).mean()
        rule.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        rule.step()
        return float(loss.detach())

    return step


def trl_step(model: transformer.TransformerConfig, folder: Path, case: Case) -> Step:
    """`DPOTrainer` of TRL: its batch, its training step, its optimizer."""
    import datasets
    import torch
    import transformers
    import trl

    pairs = pairs_of(case, model.vocab_size)
    rows = [
        {
            "prompt": words(p.chosen.prompt_ids),
            "chosen": words(p.chosen.token_ids),
            "rejected": words(p.rejected.token_ids),
        }
        for p in pairs
    ]
    load = transformers.AutoModelForCausalLM.from_pretrained
    arguments = trl.DPOConfig(
        output_dir=str(folder / "trl"), beta=BETA, learning_rate=LEARNING_RATE, per_device_train_batch_size=len(pairs),
        max_length=None, gradient_checkpointing=False, bf16=False, use_cpu=True, report_to=[], max_grad_norm=1.0,
    )  # fmt: skip
    trainer = trl.DPOTrainer(
        load(folder, dtype=torch.float32), load(folder, dtype=torch.float32), args=arguments,
        train_dataset=datasets.Dataset.from_list(rows), processing_class=word_tokenizer(model.vocab_size),
    )  # fmt: skip
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = 1  # which its loop sets
    batch = next(iter(trainer.get_train_dataloader()))

    def step() -> float:
        loss = trainer.training_step(trainer.model, batch)
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)
        return float(loss)

    return step


def run_case(name: str, model: transformer.TransformerConfig, repeats: int) -> dict[str, Any]:
    """Seconds of a step by backend, and ratios to ours."""
    case = CASES[name]
    params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "weights"
        hf.save(folder, model, params, dtype="float32")
        makers: dict[str, Callable[[], Step]] = {
            "ours": lambda: ours(model, params, case),
            "torch": lambda: torch_step(model, folder, case),
            "trl": lambda: trl_step(model, folder, case),
        }
        steps, notes = installed(makers)
        losses = {backend: [step(), step()][1] for backend, step in steps.items()}  # compiles
        taken = interleaved({backend: lambda _, step=step: step() for backend, step in steps.items()}, repeats)
    return {
        "seconds": {backend: round(statistics.median(seconds), 4) for backend, seconds in taken.items()},
        "loss": losses,
        "times_ours": ratios(taken, "ours"),
        "notes": notes,
    }


def main(argv: list[str] | None = None) -> int:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", choices=tuple(SIZES))
    parser.add_argument("--cases", default=",".join(CASES), help="which cases, with commas")
    parser.add_argument("--repeats", type=int, default=3, help="timed steps of each backend")
    options = parser.parse_args(argv)
    model, names = model_of(options.size), options.cases.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown case {unknown[0]!r}; choose from {', '.join(CASES)}")
    report = {
        "size": options.size,
        "parameters": transformer.num_params(model),
        "versions": versions(),
        "cases": {name: run_case(name, model, options.repeats) for name in names},
    }
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Time one training step against peers: python benchmarks/train_step.py [--size=tiny] [--cases=...] [--backends=...]

The same random Qwen3-shaped model and the same episodes for every backend: a policy-gradient step (clipped ratio, no KL
term, constant length norm) with AdamW, in --dtype. `ours_packed` and `ours_shared` are our two layouts, `ours_padded`
one episode a row; `torch` is the Hugging Face model with logits of the responses only, `tunix` the jitted step of
google-tunix. `grad_norm` of the first step says that backends compute the same thing (tunix does not report it).

  plain   4 prompts of 64 tokens x 8 responses of 128
  shared  1 prompt of 1,024 tokens x 8 responses of 256
  skewed  32 questions of 16 tokens x 1 response of geometric length, mean a sixth of the longest (128)
  group   1 prompt of 512 tokens x 8 responses of 64: for --size=half_billion
  few     the same with 4 responses, which torch holds in 24 GiB, alone in its process; not 8

--lora=RANK trains adapters alone, ours and PEFT's: whole models of --size=half_billion take too much memory. They begin
with random matrices of their own, so `grad_norm` differs there. On a GPU torch runs there too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import jax
import jax.numpy as jnp
import numpy as np

from spicejax import memory
from spicejax.learn import learner, packing
from spicejax.models import transformer
from spicejax.models.lora import LoraConfig
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Rollout

BACKENDS = ("ours_padded", "ours_packed", "ours_shared", "torch", "tunix")
Step = Callable[[int], dict[str, float]]  # one optimizer step; returns what it reports


@dataclasses.dataclass(frozen=True)
class Case:
    """Episodes of a step, and the rows each of our layouts takes for them."""

    prompt: int  # tokens
    groups: int
    samples: int  # responses of a prompt
    response: int  # longest, in tokens
    skewed: bool = False
    packed: packing.RowShape | None = None  # None = left out
    slots: packing.RowShape | None = None

    def episodes(self, vocab: int) -> tuple[list[Rollout], np.ndarray]:
        """Random episodes and their advantages."""
        rng = np.random.default_rng(0)
        made = []
        for _ in range(self.groups):
            prompt = rng.integers(3, vocab, self.prompt).astype(np.int32)
            for _ in range(self.samples):
                n = min(int(rng.geometric(6 / self.response)), self.response) if self.skewed else self.response
                made.append(harness.rollout(prompt, rng.integers(3, vocab, n).astype(np.int32)))
        return made, rng.normal(size=len(made)).astype(np.float32)

    def padded(self, vocab: int) -> dict[str, np.ndarray]:
        """The episodes as peers take them: one a row, responses padded on the right with 0."""
        rollouts, advantages = self.episodes(vocab)
        completion = np.zeros((len(rollouts), self.response), np.int32)
        for row, r in zip(completion, rollouts, strict=True):
            row[: len(r.token_ids)] = r.token_ids
        return {
            "prompt": np.stack([r.prompt_ids for r in rollouts]),
            "completion": completion,
            "mask": np.stack([np.arange(self.response) < len(r.token_ids) for r in rollouts]),
            "advantages": advantages,
        }


CASES = {
    "plain": Case(64, 4, 8, 128, packed=packing.RowShape(192, 32), slots=packing.RowShape(128, 4, 64, 8)),
    "shared": Case(1024, 1, 8, 256, packed=packing.RowShape(1280, 8), slots=packing.RowShape(256, 1, 1024, 8)),
    "group": Case(512, 1, 8, 64, packed=packing.RowShape(576, 8), slots=packing.RowShape(64, 1, 512, 8)),
    "few": Case(512, 1, 4, 64, packed=packing.RowShape(576, 4), slots=packing.RowShape(64, 1, 512, 4)),
    "skewed": Case(16, 32, 1, 128, skewed=True, packed=packing.RowShape(144, 2)),
}


def ours(model: TransformerConfig, params: Any, case: Case, layout: str, chunk: int) -> Step:
    """Our jitted step in one of three layouts."""
    rollouts, advantages = case.episodes(model.vocab_size)
    weights = packing.token_weights(rollouts, aggregation="constant", norm_length=case.response)
    if layout == "padded":
        shape = packing.RowShape(case.prompt + case.response, 1)
        rows = [packing.pack([r], advantages[i : i + 1], [weights[i]], shape)[0] for i, r in enumerate(rollouts)]
        parts = [(jax.tree.map(lambda *x: np.concatenate(x, axis=1), *rows), 1)]
    elif (shape := case.packed if layout == "packed" else case.slots) is None:
        raise ModuleNotFoundError("no such layout in this case")
    else:
        parts = packing.lay_out(rollouts, advantages, weights, [shape])
    config = learner.LearnerConfig(
        learning_rate=harness.LEARNING_RATE, tis_cap=0.0, loss_norm_length=case.response,
        layout="shared_prompt" if layout == "shared" else "packed", slot_length=case.response, vocab_chunk=chunk,
    )  # fmt: skip
    trained, padding = harness.Trained(model, params, config, *parts[0]), packing.padding(parts)["padding"]
    return lambda _: trained.step() | {"padding": round(padding, 3)}


def torch_step(model: TransformerConfig, folder: Path, case: Case) -> Step:
    """Plain PyTorch: model, clipped loss, backward, clip, fused AdamW."""
    policy = harness.Torch(folder, rank=model.lora.rank if model.lora else 0, dtype=model.dtype)
    torch, device = policy.torch, harness.torch_device()
    arrays = {name: torch.from_numpy(x).to(device) for name, x in case.padded(model.vocab_size).items()}
    ids = torch.cat([arrays["prompt"], arrays["completion"]], 1).long()
    attention = torch.cat([torch.ones_like(arrays["prompt"], dtype=torch.bool), arrays["mask"]], 1)
    mask, advantages = arrays["mask"].float(), arrays["advantages"][:, None]

    def step(_: int) -> dict[str, float]:
        picked = policy.logprobs(ids, case.response, attention_mask=attention)
        ratio = (picked - picked.detach()).exp()
        loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2))
        done = policy.update((loss * mask).sum() / (case.response * len(ids)))
        return done | {"padding": round(1 - float(attention.float().mean()), 3)}

    return step


def tunix_trainer(model: TransformerConfig, folder: Path, samples: int) -> tuple[Any, Any]:
    """The Qwen3 of google-tunix, and its own jitted step with its GRPO loss, which changes that."""
    import optax
    from tunix.models.qwen3 import params as qwen3_params
    from tunix.rl import function_registry, trainer
    from tunix.rl.grpo import grpo_learner
    from tunix.sft import peft_trainer

    decoder = qwen3_params.create_model_from_safe_tensors(
        str(folder), harness.tunix_config(model), harness.tunix_mesh()
    )
    algorithm: Any = grpo_learner.GRPOConfig(num_generations=max(samples, 2), beta=0.0, epsilon=0.2)
    algorithm.temperature = 1.0
    loss = function_registry.get_policy_loss_fn("grpo")
    theirs = trainer.Trainer(
        decoder,
        optax.adamw(harness.LEARNING_RATE, weight_decay=0.0),
        peft_trainer.TrainingConfig(eval_every_n_steps=10**9),
        custom_checkpoint_metadata_fn=dict,
    )
    theirs.with_loss_fn(
        lambda decoder, train_example, algo_config: loss(
            decoder, train_example, algo_config=algorithm, pad_id=0, eos_id=2
        ),
        has_aux=True,
    )
    theirs.with_gen_model_input_fn(lambda x: {"train_example": x, "algo_config": algorithm})
    return decoder, theirs.jit_train_and_eval_step(cache_nnx_graph=True)[0]


def tunix_step(model: TransformerConfig, folder: Path, case: Case) -> Step:
    """One step of google-tunix, again and again."""
    from flax import nnx
    from tunix.rl.grpo import grpo_learner

    decoder, jitted = tunix_trainer(model, folder, case.samples)
    arrays = {name: jnp.asarray(x) for name, x in case.padded(model.vocab_size).items()}
    example = grpo_learner.TrainExample(
        prompt_ids=arrays["prompt"],
        prompt_mask=jnp.ones_like(arrays["prompt"], bool),
        completion_ids=arrays["completion"],
        completion_mask=arrays["mask"],
        advantages=arrays["advantages"],
        ref_per_token_logps=None,
        old_per_token_logps=None,
    )

    def step(_: int) -> dict[str, float]:
        jitted(example)
        jax.block_until_ready(nnx.state(decoder))
        return {}

    return step


def run_case(case: Case, model: TransformerConfig, repeats: int, chunk: int, backends: list[str]) -> dict[str, Any]:
    """Seconds of a step by backend, and ratios to ours."""
    with harness.saved(model) as (params, folder):
        makers: dict[str, Callable[[], Step]] = {
            f"ours_{layout}": lambda layout=layout: ours(model, params, case, layout, chunk)
            for layout in ("padded", "packed", "shared")
        }
        makers["torch"] = lambda: torch_step(model, folder, case)
        makers["tunix"] = lambda: tunix_step(model, folder, case)
        rollouts, _ = case.episodes(model.vocab_size)
        tokens = sum(len(r.prompt_ids) + len(r.token_ids) for r in rollouts)
        return harness.compare({name: makers[name] for name in backends}, repeats, work=tokens)


def main() -> None:
    given = harness.options(
        __doc__, size=tuple(harness.SIZES), cases="plain,shared,skewed", repeats=3, vocab_chunk=0, lora=0,
        backends=",".join(BACKENDS), dtype=("float32", "bfloat16"),
    )  # fmt: skip
    model, backends = harness.model_of(given.size, given.dtype), harness.chosen(given.backends, BACKENDS)
    if given.lora:
        model = dataclasses.replace(model, lora=LoraConfig(rank=given.lora, alpha=float(given.lora)))
    cases = {
        name: run_case(CASES[name], model, given.repeats, given.vocab_chunk, backends)
        for name in harness.chosen(given.cases, list(CASES))
    }
    harness.report(
        size=given.size, dtype=given.dtype, lora=given.lora, parameters=transformer.num_params(model), cases=cases
    )


if __name__ == "__main__":
    memory.tune()  # for every backend, as the launcher does for ours
    main()

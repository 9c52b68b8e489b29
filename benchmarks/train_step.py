"""Time one training step against peers: python benchmarks/train_step.py [--size=tiny] [--cases=...] [--backends=...]

The same random Qwen3-shaped model and the same episodes for every backend: a policy-gradient step (clipped ratio, no KL
term, constant length norm) with AdamW, in float32. `ours_packed` and `ours_shared` are our two layouts, `ours_padded`
one episode a row; `torch` is the Hugging Face model with logits of the responses only, `tunix` the jitted step of
google-tunix. What is not installed is left out, with a note. Steps are interleaved and the medians compared; compiling
is outside. `grad_norm` of the first step says that backends compute the same thing (tunix does not report it; its own
loss has another scale). Prints one JSON object.

  plain   4 prompts of 64 tokens x 8 responses of 128
  shared  1 prompt of 1,024 tokens x 8 responses of 256
  skewed  32 questions of 16 tokens x 1 response of geometric length, mean a sixth of the longest (128)
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    from spicejax import memory

    memory.ask_for_huge_pages()  # for every backend, as the launcher does for ours

import jax
import jax.numpy as jnp
import numpy as np
from harness import SIZES, installed, interleaved, model_of, ratios, tunix_config, tunix_mesh, versions

from spicejax.learn import learner, packing
from spicejax.models import hf, transformer
from spicejax.types import Rollout

BACKENDS = ("ours_padded", "ours_packed", "ours_shared", "torch", "tunix")
LEARNING_RATE = 1e-5


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


CASES = {
    "plain": Case(64, 4, 8, 128, packed=packing.RowShape(192, 32), slots=packing.RowShape(128, 4, 64, 8)),
    "shared": Case(1024, 1, 8, 256, packed=packing.RowShape(1280, 8), slots=packing.RowShape(256, 1, 1024, 8)),
    "skewed": Case(16, 32, 1, 128, skewed=True, packed=packing.RowShape(144, 2)),
}


def episodes_of(case: Case, vocab: int) -> tuple[list[Rollout], np.ndarray]:
    """Random episodes and their advantages."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(case.groups):
        prompt = rng.integers(3, vocab, case.prompt).astype(np.int32)
        for _ in range(case.samples):
            n = min(int(rng.geometric(6 / case.response)), case.response) if case.skewed else case.response
            zeros = np.zeros(n, np.float32)
            tokens = rng.integers(3, vocab, n).astype(np.int32)
            made.append(Rollout(prompt, tokens, zeros, zeros, zeros + 1, "", "stop"))
    return made, rng.normal(size=len(made)).astype(np.float32)


Step = Callable[[], dict[str, float]]  # one optimizer step; returns what it reports


def ours(model: transformer.TransformerConfig, params: Any, case: Case, layout: str, chunk: int) -> Step:
    """Our jitted step in one of three layouts."""
    rollouts, advantages = episodes_of(case, model.vocab_size)
    weights = packing.token_weights(rollouts, aggregation="constant", norm_length=case.response)
    shapes = {
        "padded": packing.RowShape(case.prompt + case.response, len(rollouts)),
        "packed": case.packed,
        "shared": case.slots,
    }
    shape = shapes[layout]
    if shape is None:
        raise ModuleNotFoundError("no such layout in this case")
    if layout == "padded":
        rows = [packing.pack([r], advantages[i : i + 1], [weights[i]], packing.RowShape(shape.row_length, 1))[0]
                for i, r in enumerate(rollouts)]  # fmt: skip
        parts = [(jax.tree.map(lambda *x: np.concatenate(x, axis=1), *rows), 1)]
    else:
        parts = packing.lay_out(rollouts, advantages, weights, [shape])
    config = learner.LearnerConfig(
        learning_rate=LEARNING_RATE,
        tis_cap=0.0,
        loss_norm_length=case.response,
        layout="shared_prompt" if layout == "shared" else "packed",
        slot_length=case.response,
        vocab_chunk=chunk,
    )
    optimizer = learner.make_optimizer(config)
    doors = learner.make_learner(model, config, optimizer)
    state = learner.init_state(jax.tree.map(jnp.copy, params), optimizer)
    batch, used = jax.device_put(parts[0][0]), jnp.int32(parts[0][1])

    def step() -> dict[str, float]:
        nonlocal state
        state, metrics = doors.step(state, batch, used)
        jax.block_until_ready(state)
        return {"grad_norm": float(metrics["grad_norm"]), "padding": round(packing.padding(parts)["padding"], 3)}

    return step


def padded_arrays(case: Case, vocab: int) -> dict[str, np.ndarray]:
    """The episodes as peers take them: one a row, responses padded on the right with 0."""
    rollouts, advantages = episodes_of(case, vocab)
    completion = np.zeros((len(rollouts), case.response), np.int32)
    for row, r in zip(completion, rollouts, strict=True):
        row[: len(r.token_ids)] = r.token_ids
    return {
        "prompt": np.stack([r.prompt_ids for r in rollouts]),
        "completion": completion,
        "mask": np.stack([np.arange(case.response) < len(r.token_ids) for r in rollouts]),
        "advantages": advantages,
    }


def torch_step(model: transformer.TransformerConfig, folder: Path, case: Case) -> Step:
    """Plain PyTorch: model, clipped loss, backward, clip, fused AdamW."""
    import torch
    import transformers

    decoder = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    decoder.train()
    rule = torch.optim.AdamW(decoder.parameters(), lr=LEARNING_RATE, weight_decay=0.0, fused=True)
    arrays = {name: torch.from_numpy(x) for name, x in padded_arrays(case, model.vocab_size).items()}
    ids = torch.cat([arrays["prompt"], arrays["completion"]], 1).long()
    attention = torch.cat([torch.ones_like(arrays["prompt"], dtype=torch.bool), arrays["mask"]], 1)
    mask, advantages = arrays["mask"].float(), arrays["advantages"][:, None]

    def step() -> dict[str, float]:
        logits = decoder(input_ids=ids, attention_mask=attention, logits_to_keep=case.response + 1).logits[:, :-1]
        picked = logits.gather(-1, ids[:, -case.response :, None])[..., 0] - logits.logsumexp(-1)
        ratio = (picked - picked.detach()).exp()
        loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2))
        rule.zero_grad(set_to_none=True)
        ((loss * mask).sum() / (case.response * len(ids))).backward()
        norm = torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        rule.step()
        return {"grad_norm": float(norm), "padding": round(1 - float(attention.float().mean()), 3)}

    return step


def tunix_step(model: transformer.TransformerConfig, folder: Path, case: Case) -> Step:
    """google-tunix: its Qwen3 and its GRPO loss in its own jitted step."""
    import optax
    from flax import nnx
    from tunix.models.qwen3 import params as qwen3_params
    from tunix.rl import function_registry, trainer
    from tunix.rl.grpo import grpo_learner
    from tunix.sft import peft_trainer

    decoder = qwen3_params.create_model_from_safe_tensors(str(folder), tunix_config(model), tunix_mesh())
    algorithm: Any = grpo_learner.GRPOConfig(num_generations=max(case.samples, 2), beta=0.0, epsilon=0.2)
    algorithm.temperature = 1.0
    loss = function_registry.get_policy_loss_fn("grpo")
    door = trainer.Trainer(
        decoder,
        optax.adamw(LEARNING_RATE, weight_decay=0.0),
        peft_trainer.TrainingConfig(eval_every_n_steps=10**9),
        custom_checkpoint_metadata_fn=dict,
    )
    door.with_loss_fn(
        lambda decoder, train_example, algo_config: loss(
            decoder, train_example, algo_config=algorithm, pad_id=0, eos_id=2
        ),
        has_aux=True,
    )
    door.with_gen_model_input_fn(lambda x: {"train_example": x, "algo_config": algorithm})
    jitted = door.jit_train_and_eval_step(cache_nnx_graph=True)[0]
    arrays = {name: jnp.asarray(x) for name, x in padded_arrays(case, model.vocab_size).items()}
    example = grpo_learner.TrainExample(
        prompt_ids=arrays["prompt"],
        prompt_mask=jnp.ones_like(arrays["prompt"], bool),
        completion_ids=arrays["completion"],
        completion_mask=arrays["mask"],
        advantages=arrays["advantages"],
        ref_per_token_logps=None,
        old_per_token_logps=None,
    )

    def step() -> dict[str, float]:
        jitted(example)
        jax.block_until_ready(nnx.state(decoder))
        return {}

    return step


def run_case(
    name: str, model: transformer.TransformerConfig, repeats: int, chunk: int, backends: Sequence[str]
) -> dict[str, Any]:
    """Seconds of a step by backend, and ratios to ours."""
    case = CASES[name]
    params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights"
        hf.save(weights, model, params, dtype="float32")
        makers: dict[str, Callable[[], Step]] = {
            f"ours_{layout}": lambda layout=layout: ours(model, params, case, layout, chunk)
            for layout in ("padded", "packed", "shared")
        }
        makers |= {
            "torch": lambda: torch_step(model, weights, case),
            "tunix": lambda: tunix_step(model, weights, case),
        }
        steps, notes = installed({backend: makers[backend] for backend in backends})
    reports = {backend: step() for backend, step in steps.items()}  # compiles
    taken = interleaved({backend: lambda _, step=step: step() for backend, step in steps.items()}, repeats)
    rollouts, _ = episodes_of(case, model.vocab_size)
    real = sum(len(r.prompt_ids) + len(r.token_ids) for r in rollouts)
    medians = {backend: statistics.median(seconds) for backend, seconds in taken.items()}
    best = min((b for b in steps if b.startswith("ours")), key=lambda b: medians[b])
    return {
        "backends": {
            backend: reports[backend] | {"seconds": round(median, 4), "tokens_per_second": round(real / median)}
            for backend, median in medians.items()
        },
        "notes": notes,
        "tokens": real,
        "ours": best,
        "ratio_to_ours": ratios(taken, best),
    }


def main(argv: list[str] | None = None) -> int:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", choices=tuple(SIZES))
    parser.add_argument("--cases", default=",".join(CASES), help="which cases, with commas")
    parser.add_argument("--repeats", type=int, default=3, help="timed steps of each backend (default 3)")
    parser.add_argument("--vocab_chunk", type=int, default=0, help="learner.vocab_chunk of ours (default 0 = all)")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="which backends, with commas")
    options = parser.parse_args(argv)
    model = model_of(options.size)
    names = options.cases.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; choose from {', '.join(CASES)}")
    backends = options.backends.split(",")
    unknown = [name for name in backends if name not in BACKENDS]
    if unknown or not any(name.startswith("ours") for name in backends):
        parser.error(f"--backends={options.backends}: choose from {', '.join(BACKENDS)}, at least one of ours")
    report = {
        "size": options.size,
        "parameters": transformer.num_params(model),
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
        "cases": {name: run_case(name, model, options.repeats, options.vocab_chunk, backends) for name in names},
    }
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

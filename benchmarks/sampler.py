"""Time rollouts against peers: python benchmarks/sampler.py [--size=small] [--workloads=w1,w2,...] [--dtype=bfloat16]

The same random Qwen3-shaped model for every backend (`ours`, Hugging Face `hf`, google-tunix `tunix`). Peers get their
best case: exact cache, no cut of the vocabulary, no stop token.

  w1     8 prompts x 8 samples that share a prompt of 1,024 tokens, 128 new tokens each
  w2     256 questions of 64 tokens, answers of geometric length, mean a sixth of the longest (128). Peers answer in
         batches of 64 rows; a row ends at its own limit, a batch with its longest row
  plain  4 prompts of 64 tokens x 8 samples, 128 new tokens each
  group  1 prompt of 512 tokens x 8 samples, 64 new tokens each: for --size=half_billion
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import harness
import jax
import numpy as np

from spicejax import memory
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.models.transformer import TransformerConfig


@dataclasses.dataclass(frozen=True)
class Workload:
    """Prompts, samples of each, and how long each answer is."""

    prompts: np.ndarray  # int32 [N, P]
    samples: int
    max_new: int
    limits: np.ndarray  # int32 [N], new tokens of the samples of each prompt
    rows: int  # rows written at the same time

    @property
    def new_tokens(self) -> int:
        """Tokens asked for."""
        return int(self.limits.sum()) * self.samples


def workloads(vocab: int) -> dict[str, Workload]:
    """The three workloads, the same for all backends."""
    rng = np.random.default_rng(0)

    def prompts(count: int, length: int) -> np.ndarray:
        return rng.integers(3, vocab, (count, length), dtype=np.int32)

    skewed = np.minimum(rng.geometric(6 / 128, 256), 128).astype(np.int32)
    return {
        "w1": Workload(prompts(8, 1024), 8, 128, np.full(8, 128, np.int32), 64),
        "w2": Workload(prompts(256, 64), 1, 128, skewed, 64),
        "plain": Workload(prompts(4, 64), 8, 128, np.full(4, 128, np.int32), 32),
        "group": Workload(prompts(1, 512), 8, 64, np.full(1, 64, np.int32), 8),
    }


Call = Callable[[Workload, int], int]  # (workload, seed) -> new tokens written


def ours(model: TransformerConfig) -> Call:
    """This library."""
    params = harness.random_of(model)

    def call(work: Workload, seed: int) -> int:
        player = harness.sampler_of(model, Buckets((work.prompts.shape[1],), work.rows), params)
        answers = player.respond(
            work.prompts.tolist(), samples=work.samples, first_row=range(0, 10**6, 1000)[: len(work.prompts)],
            key=jax.random.key(seed), settings=SamplerConfig(), max_new=work.max_new, limits=work.limits.tolist(),
        )  # fmt: skip
        return sum(len(r.token_ids) for rs in answers for r in rs)

    return call


def batches(work: Workload) -> list[tuple[np.ndarray, np.ndarray]]:
    """Prompts [rows, P] and limits [rows] of each batch of a backend without refills."""
    prompts, limits = np.repeat(work.prompts, work.samples, axis=0), np.repeat(work.limits, work.samples)
    return [(prompts[i : i + work.rows], limits[i : i + work.rows]) for i in range(0, len(prompts), work.rows)]


def hf_decoder(model: TransformerConfig) -> Any:
    """The same decoder in torch, with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    shape = Qwen3Config(
        vocab_size=model.vocab_size, hidden_size=model.d_model, intermediate_size=model.d_ff,
        num_hidden_layers=model.num_layers, num_attention_heads=model.num_heads,
        num_key_value_heads=model.num_kv_heads, head_dim=model.head_dim,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=True,
        max_position_embeddings=4096, pad_token_id=0, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    with torch.device(harness.torch_device()):
        decoder = Qwen3ForCausalLM._from_config(shape, dtype=getattr(torch, model.dtype), attn_implementation="sdpa")
    return decoder.eval()


def row_limits(start: int, limits: np.ndarray) -> Any:
    """Criteria of `generate` that end each row at its own length."""
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    class RowLimits(StoppingCriteria):
        ends = torch.from_numpy(limits + start).to(harness.torch_device())

        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            return input_ids.shape[1] >= self.ends

    return StoppingCriteriaList([RowLimits()])


def hf(model: TransformerConfig) -> Call:
    """Hugging Face `generate` on torch."""
    import torch

    decoder = hf_decoder(model)

    @torch.inference_mode()
    def call(work: Workload, seed: int) -> int:
        torch.manual_seed(seed)
        for prompts, limits in batches(work):
            ids = torch.from_numpy(prompts).long().to(decoder.device)
            out = decoder.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=work.max_new, do_sample=True, top_k=0,
                top_p=1.0, stopping_criteria=row_limits(ids.shape[1], limits),
            )  # fmt: skip
            if out.shape[1] != ids.shape[1] + limits.max():
                raise RuntimeError(f"hf wrote {out.shape[1] - ids.shape[1]} tokens, expected {limits.max()}")
        return work.new_tokens

    return call


def tunix(model: TransformerConfig) -> Call:
    """The sampler of google-tunix on its own Qwen3."""
    from flax import nnx
    from tunix.generate import sampler
    from tunix.models.qwen3 import model as qwen3

    decoder = qwen3.Qwen3(harness.tunix_config(model), rngs=nnx.Rngs(0))
    made: dict[int, Any] = {}

    def call(work: Workload, seed: int) -> int:
        for prompts, limits in batches(work):
            slots = prompts.shape[1] + int(limits.max())
            if slots not in made:
                config = sampler.CacheConfig(slots, model.num_layers, model.num_kv_heads, model.head_dim)
                made[slots] = sampler.Sampler(decoder, harness.Ids(), config)
            out = made[slots](
                [" ".join(map(str, row)) for row in prompts], max_generation_steps=int(limits.max()),
                max_prompt_length=prompts.shape[1], temperature=1.0, top_p=1.0, seed=seed,
                eos_tokens=[model.vocab_size + 1],
            )  # fmt: skip
            if any(len(t) != limits.max() for t in out.tokens):
                raise RuntimeError("tunix ended a row early")
        return work.new_tokens

    return call


BACKENDS: dict[str, Callable[[TransformerConfig], Call]] = {"ours": ours, "hf": hf, "tunix": tunix}


def measure(backends: list[str], model: TransformerConfig, work: Workload, repeats: int) -> dict[str, Any]:
    """Seconds of the calls of each backend, which must write all that was asked for."""

    def make(name: str) -> Callable[[int], None]:
        write = BACKENDS[name](model)

        def call(number: int) -> None:
            if (written := write(work, number)) != work.new_tokens:
                raise RuntimeError(f"{name} wrote {written} tokens, expected {work.new_tokens}")

        return call

    return harness.compare({name: lambda name=name: make(name) for name in backends}, repeats, work=work.new_tokens)


def main() -> None:
    given = harness.options(
        __doc__, size=("small", *harness.SIZES), workloads="w1,w2,plain", backends=",".join(BACKENDS), repeats=3,
        dtype=("float32", "bfloat16"),
    )  # fmt: skip
    model = harness.model_of(given.size, given.dtype)
    backends = harness.chosen(given.backends, list(BACKENDS))
    works = workloads(model.vocab_size)
    names = harness.chosen(given.workloads, list(works))
    harness.report(
        size=given.size,
        dtype=given.dtype,
        workloads={name: measure(backends, model, works[name], given.repeats) for name in names},
    )


if __name__ == "__main__":
    memory.tune()  # for every backend, as the launcher does for ours
    main()

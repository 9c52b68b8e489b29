"""Time whole iterations against peers: python benchmarks/iteration.py [--size=tiny] [--cases=step,spice]

  step   4 prompts of 64 tokens x 8 responses of 128, and an update on all of them
  spice  4 documents of 1,024 tokens x 8 questions of 64, each answered 8 times in 64 tokens without its document; an
         update on all questions and on the answers to one question of each document

The same random Qwen3-shaped float32 model for every backend, no stop token, advantages without deviations (Dr. GRPO),
AdamW, clipped gradients, no KL term, and each samples from what it has just learnt. An answer is right if the sum of
its ids is odd where its question's is; a question is rewarded for answers that are half right.

`ours`: player, packing and jitted step; `hf`: `generate` of transformers and a plain torch step, each role in a batch
of its own; `tunix`: the sampler and the jitted step of google-tunix, a step for each role; `trl`: `GRPOTrainer`, which
plays `spice` as its `rollout_func` and pads all rows of an iteration to the longest.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import harness
import jax
import numpy as np
import train_step

from spicejax import memory
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn import learner, packing
from spicejax.models import transformer
from spicejax.models.transformer import TransformerConfig

ROWS = 16  # of a micro-batch of TRL: more of them, padded to a document, take too much memory


@dataclasses.dataclass(frozen=True)
class Case:
    """Prompts of an iteration, and what is written to them."""

    prompts: int
    length: int  # tokens of a prompt
    response: int  # tokens of a response, and of an answer to it
    answers: int = 0  # to each response, by the same model without the prompt
    samples: int = 8  # responses to a prompt

    def given(self, vocab: int, number: int) -> np.ndarray:
        """Prompts int32 [N, P] of one iteration."""
        return np.random.default_rng(number).integers(3, vocab, (self.prompts, self.length), dtype=np.int32)

    @property
    def written(self) -> int:
        """Tokens that an iteration samples."""
        return self.prompts * self.samples * self.response * (1 + self.answers)


CASES = {"step": Case(4, 64, 128), "spice": Case(4, 1024, 64, answers=8)}


class Group(NamedTuple):
    """A prompt, its responses and their advantages."""

    prompt: np.ndarray  # int32 [P]
    responses: np.ndarray  # int32 [G, T]
    advantages: np.ndarray  # float32 [G]


Write = Callable[[np.ndarray, int, int, int], np.ndarray]  # (prompts [N, P], G, T, seed) -> responses [N, G, T]
Learn = Callable[[list[Group]], dict[str, float]]  # one update on all groups


def group(prompt: np.ndarray, responses: np.ndarray, rewards: np.ndarray) -> Group:
    """With advantages over the mean."""
    return Group(prompt, responses, (rewards - rewards.mean()).astype(np.float32))


def odd(responses: np.ndarray) -> np.ndarray:
    """Whether the ids of each response add up to an odd number."""
    return responses.sum(-1) % 2


def play(case: Case, prompts: np.ndarray, write: Write, number: int) -> list[Group]:
    """An iteration's texts and rewards."""
    written = write(prompts, case.samples, case.response, 2 * number)
    if not case.answers:
        return [group(p, w, odd(w)) for p, w in zip(prompts, written, strict=True)]
    questions = written.reshape(-1, case.response)
    answers = write(questions, case.answers, case.response, 2 * number + 1)
    right = (odd(answers) == odd(questions)[:, None]).astype(np.float32)
    share = right.mean(-1)
    learnable = np.exp(-((share * (1 - share) - 0.25) ** 2) / 0.02).reshape(case.prompts, -1)
    asked = [group(p, w, r) for p, w, r in zip(prompts, written, learnable, strict=True)]
    one = slice(0, None, case.samples)  # question of each document
    return asked + [group(*each) for each in zip(questions[one], answers[one], right[one], strict=True)]


def ours(model: TransformerConfig, folder: Path, case: Case) -> tuple[Write, Learn]:
    """Player, packing and learner as the loop joins them."""
    params = harness.random_of(model)
    lengths = tuple(sorted({case.length, case.response if case.answers else case.length}))
    player = harness.sampler_of(model, Buckets(lengths, case.prompts * case.samples * max(1, case.answers)), params)
    config = learner.LearnerConfig(
        learning_rate=harness.LEARNING_RATE, tis_cap=0.0, loss_norm_length=case.response, rows=case.prompts,
        layout="shared_prompt", prompt_areas=lengths, slot_length=case.response, slots=case.samples, vocab_chunk=0,
    )  # fmt: skip
    optimizer = learner.make_optimizer(config)
    learners = learner.make_learner(model, config, optimizer)
    state = [learner.init_state(params, optimizer)]

    def write(prompts: np.ndarray, samples: int, longest: int, seed: int) -> np.ndarray:
        rollouts = player.with_params(state[0].params).respond(
            prompts.tolist(), samples=samples, first_row=range(0, len(prompts) * samples, samples),
            key=jax.random.key(seed), settings=SamplerConfig(), max_new=longest,
        )  # fmt: skip
        return np.array([[r.token_ids for r in rs] for rs in rollouts])

    def learn(groups: list[Group]) -> dict[str, float]:
        rollouts = [harness.rollout(g.prompt, tokens) for g in groups for tokens in g.responses]
        weights = packing.token_weights(rollouts, aggregation="constant", norm_length=case.response)
        parts = packing.lay_out(rollouts, np.concatenate([g.advantages for g in groups]), weights, list(config.shapes))
        batches, micros = zip(*((jax.device_put(batch), np.int32(used)) for batch, used in parts), strict=True)
        state[0], metrics = learners.step(state[0], batches, micros)
        return {name: float(metrics[name]) for name in ("loss", "grad_norm")}

    return write, learn


def hf(model: TransformerConfig, folder: Path, case: Case) -> tuple[Write, Learn]:
    """Hugging Face on torch."""
    policy = harness.Torch(folder)
    torch, decoder = policy.torch, policy.decoder
    decoder.generation_config.eos_token_id = None

    def write(prompts: np.ndarray, samples: int, longest: int, seed: int) -> np.ndarray:
        torch.manual_seed(seed)
        decoder.eval()
        ids = torch.from_numpy(np.repeat(prompts, samples, axis=0)).long()
        with torch.inference_mode():
            out = decoder.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=longest, do_sample=True, top_k=0, top_p=1.0,
                pad_token_id=0,
            )  # fmt: skip
        return out[:, ids.shape[1] :].numpy().astype(np.int32).reshape(len(prompts), samples, longest)

    def learn(groups: list[Group]) -> dict[str, float]:
        decoder.train()
        total, rows = 0.0, sum(len(g.responses) for g in groups)
        policy.rule.zero_grad(set_to_none=True)
        for _, same in itertools.groupby(groups, key=lambda g: len(g.prompt)):  # those of one role
            ids, advantages = (torch.from_numpy(x) for x in padded(list(same)))
            picked = policy.logprobs(ids.long(), case.response)
            ratio = (picked - picked.detach()).exp()
            loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2)).sum() / rows / case.response
            loss.backward()
            total += float(loss.detach())
        norm = torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        policy.rule.step()
        return {"loss": total, "grad_norm": float(norm)}

    return write, learn


def padded(groups: list[Group]) -> tuple[np.ndarray, np.ndarray]:
    """Rows [N, P + T] of groups whose prompts are as long as each other, and advantages [N, 1]."""
    rows = [np.concatenate([np.tile(g.prompt, (len(g.responses), 1)), g.responses], axis=1) for g in groups]
    return np.concatenate(rows), np.concatenate([g.advantages for g in groups])[:, None]


def tunix(model: TransformerConfig, folder: Path, case: Case) -> tuple[Write, Learn]:
    """The sampler and the trainer of google-tunix on its own Qwen3."""
    import jax.numpy as jnp
    from flax import nnx
    from tunix.generate import sampler
    from tunix.rl.grpo import grpo_learner

    decoder, jitted = train_step.tunix_trainer(model, folder, case.samples)
    samplers: dict[int, Any] = {}

    def write(prompts: np.ndarray, samples: int, longest: int, seed: int) -> np.ndarray:
        length = prompts.shape[1]
        if length not in samplers:
            config = sampler.CacheConfig(length + longest, model.num_layers, model.num_kv_heads, model.head_dim)
            samplers[length] = sampler.Sampler(decoder, harness.Ids(), config)
        samplers[length].transformer_state = nnx.variables(decoder, nnx.Param)
        out = samplers[length](
            [" ".join(map(str, row)) for row in np.repeat(prompts, samples, axis=0)], max_generation_steps=longest,
            max_prompt_length=length, temperature=1.0, top_p=1.0, seed=seed, eos_tokens=[model.vocab_size + 1],
        )  # fmt: skip
        return np.array(out.tokens, np.int32).reshape(len(prompts), samples, longest)

    def learn(groups: list[Group]) -> dict[str, float]:
        for length, same in itertools.groupby(groups, key=lambda g: len(g.prompt)):  # a role each
            ids, advantages = map(jnp.asarray, padded(list(same)))
            prompts, responses = ids[:, :length], ids[:, length:]
            jitted(
                grpo_learner.TrainExample(
                    prompt_ids=prompts, prompt_mask=jnp.ones_like(prompts, bool), completion_ids=responses,
                    completion_mask=jnp.ones_like(responses, bool), advantages=advantages[:, 0],
                    ref_per_token_logps=None, old_per_token_logps=None,
                )
            )  # fmt: skip
        jax.block_until_ready(nnx.state(decoder))
        return {}

    return write, learn


def trl_iteration(model: TransformerConfig, folder: Path, case: Case) -> Callable[[int], dict[str, float]]:
    """`GRPOTrainer` of TRL: its rollouts, its rewards, its training step."""
    import datasets
    import torch
    import transformers
    import trl

    tokenizer = harness.word_tokenizer(model.vocab_size, eos="<eos>")  # outside the vocabulary: never drawn
    members = case.prompts * case.samples * (2 if case.answers else 1)
    rewards: list[float] = []

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        def write(given: np.ndarray, samples: int, longest: int, seed: int) -> np.ndarray:
            ids = np.repeat(given, samples, axis=0).tolist()
            out, _ = trainer._generate_single_turn(ids, None, {}, samples)
            return np.array(out, np.int32).reshape(len(given), samples, longest)

        documents = np.array([tokenizer(p)["input_ids"] for p in prompts[: case.prompts * case.samples : case.samples]])
        groups = play(case, documents, write, 0)
        rewards[:] = [float(a) for g in groups for a in g.advantages]
        rows = [(g.prompt.tolist(), tokens.tolist()) for g in groups for tokens in g.responses]
        return {"prompt_ids": [p for p, _ in rows], "completion_ids": [t for _, t in rows], "logprobs": None}

    config = trl.GRPOConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=ROWS, num_generations=case.samples,
        gradient_accumulation_steps=members // ROWS, max_completion_length=case.response,
        temperature=1.0, top_p=1.0, top_k=0, beta=0.0, loss_type="dr_grpo",
        scale_rewards="none", learning_rate=harness.LEARNING_RATE, max_grad_norm=1.0, gradient_checkpointing=False,
        bf16=False, use_cpu=True, report_to=[],
    )  # fmt: skip
    data = datasets.Dataset.from_list([{"prompt": harness.words(case.given(model.vocab_size, 0)[0])}] * members)
    trainer = trl.GRPOTrainer(
        transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), args=config,
        reward_funcs=lambda completions, **_: rewards, train_dataset=data, processing_class=tokenizer,
        rollout_func=rollout,
    )  # fmt: skip
    trainer.create_optimizer()
    trainer.current_gradient_accumulation_steps = members // ROWS  # which its loop sets

    def step(number: int) -> dict[str, float]:
        prompts = [harness.words(row) for row in case.given(model.vocab_size, number)]
        # Rows of answers stand behind those of questions; their prompts are written by the rollout.
        rows = [{"prompt": p} for p in (prompts * (2 if case.answers else 1)) for _ in range(case.samples)]
        parts = [trainer.training_step(trainer.model, rows, num_items_in_batch=None) for _ in range(members // ROWS)]
        norm = torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)
        trainer.state.global_step += 1
        return {"loss": float(sum(parts)), "grad_norm": float(norm)}

    return step


PARTS: dict[str, Callable[[TransformerConfig, Path, Case], tuple[Write, Learn]]] = {
    "ours": ours, "hf": hf, "tunix": tunix,
}  # fmt: skip


def run_case(case: Case, model: TransformerConfig, repeats: int, backends: list[str]) -> dict[str, Any]:
    """Seconds of an iteration by backend, and ratios to ours."""

    def make(name: str, folder: Path) -> Callable[[int], dict[str, float]]:
        if name == "trl":
            return trl_iteration(model, folder, case)
        write, learn = PARTS[name](model, folder, case)
        return lambda number: learn(play(case, case.given(model.vocab_size, number), write, number))

    with harness.saved(model) as (_, folder):
        makers = {name: lambda name=name: make(name, folder) for name in backends}
        return harness.compare(makers, repeats, work=case.written, warm=2)


def main() -> None:
    backends = [*PARTS, "trl"]
    given = harness.options(
        __doc__, size=tuple(harness.SIZES), cases=",".join(CASES), repeats=5, backends=",".join(backends)
    )
    model, names = harness.model_of(given.size), harness.chosen(given.backends, backends)
    cases = harness.chosen(given.cases, list(CASES))
    harness.report(
        size=given.size,
        parameters=transformer.num_params(model),
        cases={name: run_case(CASES[name], model, given.repeats, names) for name in cases},
    )


if __name__ == "__main__":
    memory.tune()  # for every backend, as the launcher does for ours
    main()

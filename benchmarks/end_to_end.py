"""Time whole iterations: python benchmarks/end_to_end.py [--case=step] [--backends=ours,tunix,trl] [--repeats=5]

  step  rollout, reward, advantages and one update, against the trainers of google-tunix and TRL
  nano  what the loop of spice_nano costs beside sampling and learning, and what it compiles after its first iterations

`step`: 4 prompts of 64 tokens x 8 samples of 128 new tokens, no stop token, the same random Qwen3-shaped float32 model,
AdamW, clipped gradients, no KL term. Every trainer is the library's own (`ours`: `Player.respond` and the `update` of
`run/train.py`; `tunix`: `GRPOLearner`; `trl`: `GRPOTrainer`), what is not installed is left out, with a note. A step
goes from one call of the reward function to the next: update, then rollout. The trainers take turns there, so that all
meet the same machine. The medians are compared; compiling is outside.

`nano`: the real loop, metrics and one checkpoint included, evaluations not. Its warm start is short (--warm_tokens),
kept in --cache; a.b=c changes the configuration.

Prints one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

if __name__ == "__main__":
    from spicejax import memory

    memory.ask_for_huge_pages()  # for every backend, as the launcher does for ours

import jax
import numpy as np
from harness import SIZES, Ids, installed, interleaved, model_of, ratios, tunix_config, tunix_mesh, versions

from spicejax import config as configuration
from spicejax import configs, sharding
from spicejax.games.rlvr.game import RlvrConfig
from spicejax.games.world import World
from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player
from spicejax.generate.stops import stop_machine
from spicejax.learn import learner
from spicejax.learn.update import Updater
from spicejax.models import hf, transformer
from spicejax.run import train
from spicejax.run.build import Run, build
from spicejax.run.config import CorpusConfig, ModelConfig, RunConfig
from spicejax.types import Episode

GROUPS, SAMPLES, PROMPT, RESPONSE = 4, 8, 64, 128
LEARNING_RATE = 1e-5
WARM_STEPS = 3  # the first ends before the first update; later ones may still compile
COMPILED = "/jax/core/compile/backend_compile_duration"


def prompts_of(step: int, vocab: int) -> np.ndarray:
    """Random prompts [GROUPS, PROMPT] of one step."""
    return np.random.default_rng(step).integers(3, vocab, (GROUPS, PROMPT), dtype=np.int32)


def reward_of(text: str) -> float:
    """Share of odd ids in a response."""
    ids = [int(word) for word in text.split()]
    return sum(i % 2 for i in ids) / max(len(ids), 1)


class Trainer(Protocol):
    """A library's training loop, one step at a time."""

    def step(self, number: int) -> dict[str, float]:
        """Go on to the next reward; returns what it reports."""
        ...

    def close(self) -> None:
        """End the loop."""
        ...


class Ours:
    """Player, advantages, packing and learner as the loop of `run/train.py` joins them, without a corpus."""

    def __init__(self, model: transformer.TransformerConfig, layout: str) -> None:
        cfg = RunConfig(
            name="end_to_end",
            model=ModelConfig(path=""),
            corpus=CorpusConfig(source=""),
            game=RlvrConfig(questions=GROUPS, group_size=SAMPLES, max_new=RESPONSE),
            buckets=Buckets((PROMPT,), GROUPS * SAMPLES),
            learner=learner.LearnerConfig(
                learning_rate=LEARNING_RATE,
                loss_norm_length=RESPONSE,
                layout="shared_prompt" if layout == "shared_prompt" else "packed",
                row_length=PROMPT + RESPONSE,
                rows=GROUPS * SAMPLES if layout == "packed" else GROUPS,
                prompt_areas=(PROMPT,),
                slot_length=RESPONSE,
                slots=SAMPLES,
            ),
        )
        mesh = sharding.make_mesh(cfg.mesh, jax.devices()[:1])
        params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
        optimizer = learner.make_optimizer(cfg.learner)
        absent: Any = None  # questions and their judges: the prompts are given
        self.run = Run(
            cfg=cfg,
            game=absent,
            workdir=Path(),
            player=Player(model, params, Ids(), stop_machine(model.vocab_size, []), cfg.buckets, mesh),
            others={},
            copy=lambda params: params,
            first=None,
            probe_buckets=cfg.buckets,
            state=sharding.on_mesh(learner.init_state(params, optimizer), mesh),
            updater=Updater(cfg.learner, model, mesh, learner.make_learner(model, cfg.learner, optimizer), {}, None),
            items=absent,
            source=absent,
            held_out=[],
            verifier=absent,
        )
        self.episodes: list[Episode] = []

    def step(self, number: int) -> dict[str, float]:
        """Update on the last rollouts, then sample the next."""
        run, began = self.run, time.perf_counter()
        learnt = train.update(run, self.episodes, number)
        jax.block_until_ready(run.state)
        updated = time.perf_counter()
        rollouts = run.player.respond(
            prompts_of(number, run.player.cfg.vocab_size).tolist(),
            samples=SAMPLES,
            first_row=range(0, GROUPS * SAMPLES, SAMPLES),
            key=jax.random.fold_in(jax.random.key(0), number),
            settings=run.cfg.sampler,
            max_new=RESPONSE,
        )
        self.episodes = [Episode("reasoner", g, r, reward_of(r.text)) for g, rs in enumerate(rollouts) for r in rs]
        if (written := sum(len(e.rollout.token_ids) for e in self.episodes)) != GROUPS * SAMPLES * RESPONSE:
            raise RuntimeError(f"ours wrote {written} tokens, expected {GROUPS * SAMPLES * RESPONSE}")
        return {
            "update_s": updated - began,
            "rollout_s": time.perf_counter() - updated,
            "padding": learnt.get("learner/padding", 0.0),
        }

    def close(self) -> None:
        """Nothing is left to end."""


Loop = Callable[[Callable[..., list[float]]], None]  # a whole training loop, given its reward function


class Paced:
    """A peer's training loop in a thread of its own, let go from one call of its reward function to the next."""

    def __init__(self, loop: Loop) -> None:
        self.go, self.arrived = threading.Semaphore(0), threading.Semaphore(0)
        self.over = self.closing = False
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=(loop,), daemon=True)
        self.thread.start()

    def _run(self, loop: Loop) -> None:
        self.go.acquire()
        try:
            if not self.closing:
                loop(self._reward)
        except Exception as error:
            self.error = error
        finally:
            self.over = True
            self.arrived.release()

    def _reward(self, completions: list[str], **_: Any) -> list[float]:
        if len(completions) != GROUPS * SAMPLES:
            raise RuntimeError(f"the trainer asked for {len(completions)} rewards, expected {GROUPS * SAMPLES}")
        rewards = [reward_of(text) for text in completions]
        if not self.closing:
            self.arrived.release()
            self.go.acquire()
        return rewards

    def step(self, number: int) -> dict[str, float]:
        """Go on to the next call of the reward function."""
        self.go.release()
        self.arrived.acquire()
        if self.over:
            raise RuntimeError(f"the training loop ended before step {number}") from self.error
        return {}

    def close(self) -> None:
        """Let the loop take what is left of its steps, as a rule the last update."""
        self.closing = True
        self.go.release()
        self.thread.join()


def tunix_trainer(model: transformer.TransformerConfig, weights: Path, steps: int) -> Trainer:
    """`GRPOLearner` of google-tunix with its own sampler."""
    import optax
    from tunix.models.qwen3 import params as qwen3_params
    from tunix.rl import rl_cluster
    from tunix.rl.grpo import grpo_learner
    from tunix.rl.rollout import base_rollout

    mesh = tunix_mesh()
    decoder = qwen3_params.create_model_from_safe_tensors(str(weights), tunix_config(model), mesh)
    roles = (rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT)
    config = rl_cluster.ClusterConfig(
        role_to_mesh=dict.fromkeys(roles, mesh),
        rollout_engine="vanilla",
        training_config=rl_cluster.RLTrainingConfig(
            actor_optimizer=optax.chain(
                optax.clip_by_global_norm(1.0), optax.adamw(LEARNING_RATE, b2=0.95, weight_decay=0.0)
            ),
            eval_every_n_steps=10**9,
            max_steps=steps,
            mini_batch_size=GROUPS,
            train_micro_batch_size=GROUPS,
        ),
        rollout_config=base_rollout.RolloutConfig(
            max_tokens_to_generate=RESPONSE,
            max_prompt_length=PROMPT,
            kv_cache_size=PROMPT + RESPONSE,
            temperature=1.0,
            top_p=1.0,
        ),
    )
    text = Ids(eos=model.vocab_size)  # never drawn
    cluster = rl_cluster.RLCluster(actor=decoder, tokenizer=text, cluster_config=config)
    data = [
        {"prompts": np.array([text.decode(row) for row in prompts_of(i, model.vocab_size).tolist()])}
        for i in range(steps)
    ]

    def loop(reward: Callable[..., list[float]]) -> None:
        def named(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
            return reward(completions)

        algorithm = grpo_learner.GRPOConfig(num_generations=SAMPLES, beta=0.0, epsilon=0.2)
        with mesh:
            grpo_learner.GRPOLearner(rl_cluster=cluster, reward_fns=named, algo_config=algorithm).train(data)

    return Paced(loop)


def trl_trainer(model: transformer.TransformerConfig, weights: Path, steps: int) -> Trainer:
    """`GRPOTrainer` of TRL with `generate` of transformers."""
    import datasets
    import tokenizers
    import torch
    import transformers
    import trl

    pieces = {"<pad>": 0} | {str(i): i for i in range(1, model.vocab_size)} | {"<eos>": model.vocab_size}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, unk_token="<pad>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        eos_token="<eos>",  # outside the model's vocabulary: never drawn
        padding_side="left",
    )
    decoder = transformers.AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
    rows = [row for i in range(steps) for row in prompts_of(i, model.vocab_size).tolist()]
    data = datasets.Dataset.from_list([{"prompt": Ids().decode(row)} for row in rows])

    def loop(reward: Callable[..., list[float]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            config = trl.GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=GROUPS * SAMPLES,
                num_generations=SAMPLES,
                max_completion_length=RESPONSE,
                max_steps=steps,
                temperature=1.0,
                top_p=1.0,
                top_k=0,
                beta=0.0,
                epsilon=0.2,
                loss_type="grpo",
                learning_rate=LEARNING_RATE,
                lr_scheduler_type="constant",
                adam_beta2=0.95,
                max_grad_norm=1.0,
                gradient_checkpointing=False,
                bf16=False,
                fp16=False,
                use_cpu=jax.default_backend() == "cpu",
                report_to=[],
                save_strategy="no",
                logging_steps=10**6,
                disable_tqdm=True,
                use_vllm=False,
            )
            trl.GRPOTrainer(
                model=decoder, reward_funcs=reward, args=config, train_dataset=data, processing_class=tokenizer
            ).train()

    return Paced(loop)


def step_case(size: str, backends: list[str], layout: str, repeats: int) -> dict[str, Any]:
    """Seconds of a whole step by backend, and ratios to ours."""
    model, steps = model_of(size), WARM_STEPS + repeats
    reports: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        weights = Path(folder)
        params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
        hf.save(weights, model, params, dtype="float32")
        makers: dict[str, Callable[[], Trainer]] = {
            "ours": lambda: Ours(model, layout),
            "tunix": lambda: tunix_trainer(model, weights, steps),
            "trl": lambda: trl_trainer(model, weights, steps),
        }
        trainers, notes = installed({name: makers[name] for name in backends})
        for trainer in trainers.values():
            stack.callback(trainer.close)
        calls: dict[str, Callable[[int], object]] = {name: t.step for name, t in trainers.items()}
        if "ours" in trainers:
            calls["ours"] = lambda number: reports.append(trainers["ours"].step(number))
        taken = interleaved(calls, steps)
    timed = {name: seconds[WARM_STEPS:] for name, seconds in taken.items()}
    result: dict[str, Any] = {
        "size": size,
        "parameters": transformer.num_params(model),
        "new_tokens": GROUPS * SAMPLES * RESPONSE,
        "notes": notes,
        "backends": {
            name: {
                "warm_up_s": [round(s, 3) for s in taken[name][:WARM_STEPS]],
                "seconds": [round(s, 3) for s in seconds],
                "median_s": round(statistics.median(seconds), 3),
            }
            for name, seconds in timed.items()
        },
    }
    if "ours" in timed:
        parts = {key: round(statistics.median(r[key] for r in reports[WARM_STEPS:]), 3) for key in reports[0]}
        result["backends"]["ours"] |= {"layout": layout, **parts}
        result["ratio_to_ours"] = ratios(timed, "ours")
    return result


class Clock:
    """Seconds and compilations of each iteration."""

    def __init__(self) -> None:
        self.compiled: list[float] = []
        self.began = time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **_: Any) -> None:
        if event == COMPILED:
            self.compiled.append(seconds)

    def mark(self) -> None:
        """An iteration ends and the next begins."""
        now = time.perf_counter()
        compiled = {"compilations": len(self.compiled), "compiling": sum(self.compiled)}
        self.rows.append({"seconds": now - self.began, **compiled})
        self.began, self.compiled = now, []


@contextlib.contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Of runs that are built inside, each world made for an iteration or an evaluation is a mark."""

    def watching(cfg: RunConfig, workdir: Path) -> Run:
        run = build(cfg, workdir)
        world = run.world

        def marked(iteration: int) -> World:
            clock.mark()
            return world(iteration)

        run.world = marked
        return run

    with mock.patch.object(train, "build", watching):
        yield


def nano_case(iterations: int, overrides: dict[str, str]) -> dict[str, Any]:
    """Where the time of an iteration goes, and what is compiled after the first two."""
    cfg = configuration.override(configs.load("spice_nano"), {
        # One more than is looked at, so that the checkpoint after the last one falls before the final evaluation.
        "iterations": str(iterations + 1), "checkpoint.every": str(iterations),
        "eval.every": "0", "eval.probe_documents": "0", "eval.max_tasks": "8", "show_every": "0",
    } | overrides)  # fmt: skip
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, watched(clock):
        summary = train.train(cfg, Path(folder))
        metrics = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()][2:iterations]
    # Marks: the first evaluation (before it: building), iteration 0, 1, ..., the last evaluation.
    rows = clock.rows[2 : 2 + iterations]
    later = rows[2:]
    parts = {"sampling": "time/sampling", "learning": "time/update", "checking": "time/checking"}
    total = sum(r["seconds"] for r in later)
    shares = {part: sum(m[name] for m in metrics) / total for part, name in parts.items()}
    rest = [1 - (m["time/sampling"] + m["time/update"]) / r["seconds"] for m, r in zip(metrics, later, strict=True)]
    return {
        "iterations": iterations,
        "valid_fraction": round(summary["tasks_valid"] / summary["tasks_generated"], 3),
        "compilations": [r["compilations"] for r in rows],
        "compilations_after_two": sum(r["compilations"] for r in later),
        "compiling_after_two_s": round(sum(r["compiling"] for r in later), 3),
        "median_iteration_s": round(statistics.median(r["seconds"] for r in later), 3),
        "share_of_time": {name: round(share, 4) for name, share in shares.items()},
        "neither_sampling_nor_learning": {
            "share": round(1 - shares["sampling"] - shares["learning"], 4),
            "median": round(statistics.median(rest), 4),
            "each": [round(x, 4) for x in rest],
        },
        "seconds": [round(r["seconds"], 3) for r in rows],
    }


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="step", choices=("step", "nano"))
    parser.add_argument("--size", default="tiny", choices=tuple(SIZES), help="step: the model")
    parser.add_argument("--backends", default="ours,tunix,trl", help="step: comma list")
    parser.add_argument("--layout", default="shared_prompt", choices=("shared_prompt", "packed"), help="step: of ours")
    parser.add_argument("--repeats", type=int, default=5, help="step: timed steps of each backend")
    parser.add_argument("--iterations", type=int, default=20, help="nano: iterations looked at")
    parser.add_argument("--warm_tokens", type=int, default=200_000, help="nano: tokens of the warm start")
    parser.add_argument("--cache", default="runs/cache", help="nano: folder that keeps warm-started models")
    options, overrides = parser.parse_known_args(argv)
    backends = options.backends.split(",")
    if unknown := [name for name in backends if name not in ("ours", "tunix", "trl")]:
        parser.error(f"unknown backend {unknown[0]!r}; choose from ours, tunix, trl")
    if options.case == "step" and overrides:
        parser.error(f"{overrides[0]!r} is for --case=nano")
    if any("=" not in word for word in overrides):
        parser.error(f"cannot read {overrides}: write section.field=value")
    with contextlib.redirect_stdout(sys.stderr):  # trainers print their progress
        if options.case == "step":
            result = step_case(options.size, backends, options.layout, options.repeats)
        else:
            changes = {"nano.warm_tokens": str(options.warm_tokens), "nano.cache": options.cache}
            changes |= dict(word.split("=", 1) for word in overrides)
            result = nano_case(options.iterations, changes)
    head = {"case": options.case, "device": jax.devices()[0].device_kind, "versions": versions()}
    print(json.dumps(head | result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

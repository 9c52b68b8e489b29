"""Recipes with a paper's numbers against a table of those numbers, each with where it is from."""

import inspect
import operator
from pathlib import Path

import pytest

from spicejax import configs

# recipe: {stage: {field: value}}; one stage is "". The numbers stand here as the sources have them.
SPICE = {  # arXiv:2510.24684: section 3.1, algorithm 1, table 5, appendix 8; AdamW as in Oat's script for mathematics
    "game.documents": 128, "game.group_size": 8, "game.max_attempts": 1024, "game.invalid_penalty": -0.1,
    "game.challenger_reward": "gaussian_variance", "game.challenger_estimator": "mean",
    "game.reasoner_estimator": "mean", "game.reasoner_tasks_per_document": 1, "sampler.temperature": 1.0,
    "corpus.max_tokens": 5992, "learner.learning_rate": 1e-6, "learner.schedule": "constant",
    "learner.trajectories_per_update": 128, "learner.aggregation": "constant", "learner.kl_coef": 0.0,
    "learner.beta1": 0.9, "learner.beta2": 0.95, "learner.weight_decay": 0.0, "learner.max_grad_norm": 1.0,
    "learner.tis_cap": 2.0, "iterations": 640,
}  # fmt: skip
SSP = {  # arXiv:2510.18821: table 4, sections 3.3 and 4; clips, weight decay, turns, order of the public script
    "game.answers": 256, "game.proposer_samples": 1, "game.solver_samples": 5, "game.proposer_estimator": "none",
    "game.solver_estimator": "mean_std", "game.strategy": "replay", "game.reset_every": 10,
    "game.replay_threshold": 1.0, "game.verify": True, "game.noise": 4, "game.invalid_reward": 0.0,
    "game.proposer_reward": "failures",
    "game.rules.min_words": 10, "game.rules.min_searches": 2, "game.rules.min_chars": 10, "game.rules.max_chars": 1000,
    "game.proposer_limits.turns": 10, "game.proposer_limits.total": 8192, "game.proposer_limits.passages": 3,
    "game.solver_limits.turns": 10, "game.solver_limits.total": 8192, "game.solver_limits.passages": 3,
    "sampler.temperature": 1.0, "sampler.top_p": 1.0, "learner.learning_rate": 1e-6, "learner.warmup_steps": 5,
    "learner.kl_coef": 0.01, "learner.clip_low": 0.2, "learner.clip_high": 0.285, "learner.dual_clip": 3.0,
    "learner.weight_decay": 0.01, "learner.beta2": 0.999, "learner.aggregation": "sequence_mean",
    "learner.trajectories_per_update": 128 * 5, "learner.role_order": ("proposer", "solver"), "eval.every": 5,
    "iterations": 200,
}  # fmt: skip
R1_SEARCHER = {  # arXiv:2503.05592 and its public scripts
    "game.questions": 64, "game.group_size": 16, "game.estimator": "mean_whiten", "game.request": "base",
    "game.penalty": 2.0, "game.strict": True, "game.limits.turns": 9, "game.limits.turn": 512,
    "game.limits.passages": 3, "learner.learning_rate": 2e-6, "learner.warmup_steps": 0, "learner.kl_coef": 0.0,
    "learner.beta1": 0.9, "learner.beta2": 0.95, "learner.clip_low": 0.2, "learner.clip_high": 0.2,
    "learner.max_grad_norm": 1.0, "learner.aggregation": "sequence_mean", "learner.trajectories_per_update": 256,
}  # fmt: skip
LLAMA = {"game.request": "instruct", "game.strict": False, "game.penalty": 1.0, "learner.kl_coef": 1e-4}
TUNED = {  # arXiv:2509.24193: tables 6 and 7, appendix F
    "game.examples": 64, "learner.row_length": 2560, "learner.beta1": 0.9, "learner.beta2": 0.98,
    "learner.schedule": "cosine", "learner.warmup_steps": 180_600 // 64 // 20, "iterations": 180_600 // 64 + 1,
}  # fmt: skip
ROUND = {
    "game.plans": 3, "game.solutions": 4, "game.found": 10, "game.total": 15, "game.reward": "exact",
    "sampler.temperature": 1.0, "learner.loss": "dpo", "learner.pairs.beta": 0.1, "learner.pairs.likelihood": 0.0,
    "learner.trajectories_per_update": 64, "learner.beta2": 0.98,
}  # fmt: skip


def acesearcher(tuned, round_):
    found = {"1": TUNED | {"learner.learning_rate": tuned}}
    return found | {stage: ROUND | {"learner.learning_rate": round_} for stage in "23"}


R_ZERO = {  # arXiv:2508.05004 and its public scripts
    "game.groups": 512, "game.reward": "code", "game.majority": "any", "game.repetition": 1.0,
    "game.repetition_distance": 0.5, "game.estimator": "mean_std", "game.challenger_max_new": 4096,
    "game.reasoner_max_new": 4096, "sampler.temperature": 1.0, "learner.learning_rate": 1e-6, "learner.kl_coef": 0.01,
    "learner.clip_low": 0.2, "learner.clip_high": 0.3, "learner.dual_clip": 3.0, "learner.aggregation": "token_mean",
}  # fmt: skip
ASKS = R_ZERO | {"game.trains": "challenger", "game.group_size": 4, "game.votes": 10, "iterations": 5}
ASKS |= {"learner.trajectories_per_update": 16 * 4}
SOLVES = R_ZERO | {"game.trains": "reasoner", "game.group_size": 5, "game.votes": 9, "iterations": 15}
SOLVES |= {"game.pool": 8 * 1000, "game.keep": (0.3, 0.8), "game.format_weight": 0.1}
SOLVES |= {"learner.trajectories_per_update": 128 * 5}
ABSOLUTE_ZERO = {  # arXiv:2505.03335, the branch `paper` of its code; iterations: SPICE, table 5
    "game.batch": 64, "game.attempts": 8, "game.references": 6, "game.inputs": 10, "game.seeds": 64 * 4,
    "game.capacity": 16384, "game.extreme_reward": 0.0, "game.invalid_reward": -0.5, "game.wrong_reward": -0.5,
    "game.form_reward": -1.0, "game.estimator": "whiten", "game.proposer_max_new": 8096, "game.solver_max_new": 8096,
    "corpus.max_tokens": 6144, "sampler.temperature": 1.0, "learner.learning_rate": 1e-6, "learner.kl_coef": 0.0,
    "learner.weight_decay": 0.0, "learner.clip_low": 0.2, "learner.clip_high": 0.2, "learner.aggregation": "token_mean",
    "learner.trajectories_per_update": 128, "iterations": 640,
}  # fmt: skip


NUMBERS = {
    "r_zero_qwen4b": {k: ASKS if k in "135" else SOLVES for k in "123456"},
    "absolute_zero_qwen4b": {"": ABSOLUTE_ZERO},
    **{name: {"": SPICE} for name in ("spice_qwen4b", "spice_qwen8b", "spice_octothinker3b", "spice_octothinker8b")},
    "spice_qwen4b_h200": {"": SPICE},
    "ssp_qwen7b": {"": SSP},
    "ssp_qwen14b": {"": SSP},
    "r1_searcher_qwen7b": {
        "1": R1_SEARCHER | {"game.reward": "retrieve", "iterations": 350 // 64 + 1},
        "2": R1_SEARCHER | {"game.reward": "answer", "iterations": 8148 // 64 + 1},
    },
    "r1_searcher_llama8b": {
        "1": R1_SEARCHER | LLAMA | {"game.reward": "retrieve", "game.estimator": "mean_std", "game.correctness": True},
        "2": R1_SEARCHER | LLAMA | {"game.reward": "answer", "game.correctness": False},
    },
    "search_r1_qwen7b": {  # arXiv:2503.09516: train_grpo.sh, and the defaults of its ppo_trainer.yaml and AdamW
        "": {
            "game.questions": 512, "game.group_size": 5, "game.estimator": "mean_std", "game.reward": "exact",
            "game.limits.turns": 5, "game.limits.turn": 500, "game.limits.observation": 500, "game.limits.passages": 3,
            "sampler.temperature": 1.0, "learner.learning_rate": 1e-6, "learner.kl_coef": 0.001,
            "learner.trajectories_per_update": 256, "learner.warmup_steps": int(0.285 * 1005) * (2560 // 256),
            "learner.beta1": 0.9, "learner.beta2": 0.999, "learner.weight_decay": 0.01, "learner.max_grad_norm": 1.0,
            "learner.clip_low": 0.2, "learner.clip_high": 0.2, "learner.aggregation": "token_mean", "eval.every": 50,
            "iterations": 1005,
        }
    },
    "acesearcher_qwen1p5b": acesearcher(5e-6, 1e-6),
    "acesearcher_llama8b": acesearcher(1e-6, 5e-7),
    "acesearcher_qwen14b": acesearcher(1e-6, 5e-7),
    "acesearcher_qwen32b_lora": acesearcher(1e-5, 1e-6),
}  # fmt: skip

# What a recipe does otherwise, each a line `# Differs:` of it that says these words.
DIFFERS = {
    "search_r1_qwen7b": ("top_p 0.95", "0.001", "500 tokens", "sentence of correction"),
    "r1_searcher_qwen7b": ("top_p 0.95", "cosine", "10,752"),
    "r1_searcher_llama8b": ("k1", "65 and 260"),
    "ssp_qwen7b": ("learner.old_policy=role",),
    "acesearcher_llama8b": ("warm-up",),
    "r_zero_qwen4b": ("top_p=0.99",),
}


def source(name):
    return (Path(inspect.getfile(configs)).parent / f"{name}.py").read_text()


@pytest.mark.parametrize("name", NUMBERS)
def test_a_recipe_has_the_numbers_of_its_paper(name):
    stages = configs.stages(name)
    assert len(stages) == len(NUMBERS[name])
    for cfg, (stage, numbers) in zip(stages, NUMBERS[name].items(), strict=True):
        ours = {field: operator.attrgetter(field)(cfg) for field in numbers}
        assert ours == numbers, f"stage {stage}"


def test_every_recipe_that_promises_numbers_is_compared():
    promising = {name for name in configs.names() if "numbers" in source(name).partition("\n")[0]}
    assert promising == set(NUMBERS)


@pytest.mark.parametrize("name", DIFFERS)
def test_what_a_recipe_does_otherwise_is_said(name):
    said = [" ".join(part.replace("#", "").split()) for part in source(name).split("# Differs:")[1:]]
    assert all(any(words in part for part in said) for words in DIFFERS[name]), said

"""What a configuration refuses, and what it warns of."""

import dataclasses

import pytest

from spicejax import config as configuration
from spicejax import configs
from spicejax.flight import plan
from spicejax.models.lora import LoraConfig


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("spice_nano", ["sampler.temperature=0"], ["sampler.temperature=0: the responses of a group are all the same"]),
        ("spice_nano", ["sampler.top_p=0.9"], ["sampler.top_k, top_p or min_p cuts tokens off"]),
        ("rlvr_nano", ["retrieval.index=INDEX"], ["retrieval.*: nothing in this game searches"]),
        ("sft_rlvr_nano", ["sampler.temperature=0", "sampler.top_p=0.9"], []),
    ],
)
def test_settings_that_teach_nothing_are_told(name, words, told, tmp_path):
    shipped = configs.stages(name)[0]
    assert shipped.warnings == []
    cfg = configuration.override(shipped, dict(word.split("=") for word in words))
    assert [w[: len(t)] for w, t in zip(cfg.warnings, told, strict=True)] == told
    assert all(f"  warning: {w}" in plan.describe(cfg, tmp_path) for w in cfg.warnings)


def test_groups_of_one_are_welcome_where_nothing_is_compared():
    ssp = configs.load("ssp_nano")
    for words in (["ssp.proposer_estimator=mean_std", "ssp.proposer_samples=4"], ["ssp.proposer_estimator=whiten"],
                  ["ssp.proposer_estimator=rae"], ["ssp.fixed=solver", "ssp.solver_samples=1"]):  # fmt: skip
        assert configuration.parse(ssp, words).warnings == []


@pytest.mark.parametrize(("name", "words", "told"), [
    ("spice_nano", ["spice.group_size=1"], "challenger: estimator mean with groups of one response"),
    ("spice_nano", ["spice.group_size=1", "spice.challenger_estimator=none"], "reasoner: estimator mean"),
    ("rlvr_nano", ["rlvr.group_size=1"], "reasoner: estimator mean with groups of one"),
    ("ssp_nano", ["ssp.solver_samples=1"], "solver: estimator mean_std with groups of one"),
    ("ssp_nano", ["ssp.proposer_estimator=mean_std"], "proposer: estimator mean_std with groups of one"),
    ("r1_searcher_nano", ["r1searcher.group_size=1"], "solver: estimator mean_whiten with groups of one"),
    ("spice_nano", ["learner.loss=dpo"], "learner.loss=dpo: this game's lessons are scored replies; take ppo_clip"),
    ("sft_rlvr_nano", ["learner.loss=drgrpo"], "lessons are replies to be imitated; take supervised"),
    ("acesearcher_nano", ["learner.loss=supervised"], "lessons are pairs of a better and a worse reply; take dpo"),
    ("acesearcher_nano", ["acesearcher.learn=best"], "learner.loss=dpo: .* to be imitated; take supervised"),
    ("acesearcher_nano", ["learner.slots=1"], "learner.slots=1: a preference takes two slots of one row"),
    ("acesearcher_smollm2", ["learner.row_length=1215"],
     "row_length=1215 cannot hold a preference, twice a prompt and a response, of 1216 tokens"),
    ("spice_nano", ["spice.group_size=6", "spice.max_attempts=6", "buckets.rows=6", "eval.probe_documents=8"],
     "buckets.rows=6 must be a multiple of eval.probe_group's 8 samples"),
])  # fmt: skip
def test_what_would_teach_nothing_or_does_not_fit_is_refused(name, words, told):
    stages = configs.stages(name)
    with pytest.raises(ValueError, match=told):
        configuration.parse(stages[0] if "sft" in name else stages[-1], words)


def test_a_step_that_bfloat16_rounds_away_is_refused():
    cfg = configs.load("spice_nano")
    stored = dataclasses.replace(cfg.model, param_dtype="bfloat16")
    with pytest.raises(ValueError, match="learner.learning_rate=1e-06: hardly.*param_dtype=float32.*lora.rank=16"):
        dataclasses.replace(cfg, model=stored, learner=dataclasses.replace(cfg.learner, learning_rate=1e-6))
    dataclasses.replace(cfg, model=stored)  # the nano world's 5e-4 moves most
    adapters = dataclasses.replace(stored, lora=LoraConfig(rank=4))
    dataclasses.replace(cfg, model=adapters, learner=dataclasses.replace(cfg.learner, learning_rate=1e-6))


def test_an_estimator_that_there_is_not_is_refused():
    cfg = configs.load("rlvr_nano")
    with pytest.raises(ValueError, match="reasoner: estimator grpo: one of mean, mean_std, .*rae, none"):
        dataclasses.replace(cfg, game=dataclasses.replace(cfg.game, estimator="grpo"))


def test_samples_of_probes_need_rows_only_where_there_are_probes():
    words = ["spice.group_size=6", "spice.max_attempts=6", "buckets.rows=6", "eval.probe_documents=0"]
    configuration.parse(configs.load("spice_nano"), words)


@pytest.mark.parametrize("name", ["spice_qwen4b", "spice_qwen8b", "spice_octothinker3b", "spice_octothinker8b"])
def test_the_papers_configurations_probe_and_keep_what_figure_3_needs(name):
    cfg = configs.load(name)
    assert (cfg.eval.every, cfg.eval.probe_documents, cfg.checkpoint.keep_period) == (100, 128, 100)
    asked = cfg.game.game.probe(cfg.game, cfg.eval.probe_documents, cfg.eval.probe_group)
    assert (asked.task_type, asked.documents, asked.group_size, asked.max_attempts) == ("model", 128, 8, 8)

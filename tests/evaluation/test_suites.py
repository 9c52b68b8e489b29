"""Benchmarks in one table: scores, intervals, what was reported, and two results beside each other."""

import pytest

from spicejax.evaluation import suites, versus


def record(suite, right, k=0, tokens=10.0):
    return {
        "suite": suite, "id": f"{suite}/{k}", "question": f"q{k}", "prediction": "x", "finish_reason": "stop",
        "tokens": tokens, "scores": {"verifier": right, "exact": right / 2, "near": 0.0},
    }  # fmt: skip


RECORDS = [record("gsm8k", float(k < 3), k, 8.0 + k) for k in range(4)] + [record("nq", 1.0, k) for k in range(2)]


def test_each_benchmark_has_its_own_score():
    found = suites.summary(RECORDS)
    assert [*found] == ["gsm8k", "nq"] and found["gsm8k"]["mean"] == 0.75 and found["gsm8k"]["tokens"] == 9.5
    assert found["nq"]["score"] == "exact" and found["nq"]["mean"] == 0.5 and found["gsm8k"]["questions"] == 4
    assert (found["gsm8k"]["low"], found["gsm8k"]["high"]) == (0.25, 1.0)


def test_the_table_and_what_was_reported():
    text = suites.markdown("mine", suites.summary(RECORDS))
    assert text.splitlines()[:4] == [
        "|  | GSM8K | NQ | average |", "|---|--:|--:|--:|", "| mine | 75.0 (25.0-100.0) | 50.0 (50.0-50.0) | 62.5 |",
        "| Qwen3-4B-Base (reported) | 72.6 |  |  |",
    ]  # fmt: skip
    assert "GSM8K: verifier, 4 questions, 10 tokens an answer; NQ: exact, 2 questions" in text
    alone = suites.markdown("m", suites.summary(RECORDS[:4]))
    assert "| Qwen3-4B-Base + SPICE (reported) | 92.7 | 92.7 |" in alone, "an average where all is known"
    tabular = suites.latex("runs/my_run & 50%", suites.summary(RECORDS))
    assert tabular.startswith("\\begin{tabular}{lrrr}") and tabular.endswith("\\end{tabular}")
    assert "runs/my\\_run \\& 50\\% & 75.0 (25.0-100.0) & 50.0 (50.0-50.0) & 62.5 \\\\" in tabular


def test_two_results_in_pairs():
    other = [record("gsm8k", 0.0, k) for k in range(4)] + [record("nq", 1.0, k) for k in range(2)]
    found = suites.compare(RECORDS, other)
    assert found["gsm8k"]["mean"] == 0.75 and (found["gsm8k"]["gained"], found["gsm8k"]["lost"]) == (3, 0)
    assert found["nq"]["mean"] == 0.0 and "| gsm8k | +0.750 |" in versus.table(found, 6)
    with pytest.raises(ValueError, match="share 4 of 6 and 4 questions"):
        suites.compare(RECORDS, other[:4])

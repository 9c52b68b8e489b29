"""Two results side by side: differences of pairs by hand, McNemar's test beside scipy's, what is no result."""

import jsonl
import numpy as np
import pytest
from scipy import stats

from spicejax.evaluation import scores, versus


def result(exact, f1=None, name="q"):
    f1 = exact if f1 is None else f1
    return [
        {"id": f"{k}", "question": f"{name}{k}", "scores": {"exact": float(e), "f1": float(f)}}
        for k, (e, f) in enumerate(zip(exact, f1, strict=True))
    ]


def test_differences_are_of_pairs_in_any_order():
    better, worse = [1, 1, 1, 1, 0, 0, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]
    found = versus.compare(result(better, [0.5] * 8), result(worse)[::-1])
    assert found["exact"] | {"low": 0, "high": 0} == {
        "mean": 3 / 8, "low": 0, "high": 0, "gained": 4, "lost": 1, "p": 2 * (1 + 5) / 32
    }  # fmt: skip
    assert found["f1"]["mean"] == pytest.approx(0.25) and "p" not in found["f1"]
    assert "| exact | +0.375 | " in versus.table(found, 8) and " | 4, 1 | 0.38 |" in versus.table(found, 8)


def test_the_interval_is_that_of_paired_differences():
    """Two results that agree on all but every tenth question: narrow, however wide each of them is."""
    base = np.arange(400) % 2
    changed = np.where(np.arange(400) % 10 == 0, 1 - base, base)
    found = versus.compare(result(changed), result(base))["exact"]
    assert found["mean"] == 0.1 and (found["gained"], found["lost"], found["p"]) == (40, 0, 2 / 2**40)
    wide = 1.96 * np.sqrt(0.1 * 0.9 / 400)
    np.testing.assert_allclose([found["low"], found["high"]], [0.1 - wide, 0.1 + wide], atol=0.004)
    alone = scores.interval(changed.astype(float))
    assert alone["high"] - alone["low"] > 1.5 * (found["high"] - found["low"])


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (8, 2), (5, 5), (6, 7), (0, 30)])
def test_mcnemar_is_the_exact_binomial_test(gained, lost):
    found = versus.compare(result([1] * gained + [0] * lost + [1]), result([0] * gained + [1] * lost + [1]))["exact"]
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert found["p"] == pytest.approx(expected, rel=1e-12)


def test_a_question_asked_twice_is_paired_in_its_order():
    twice = [record | {"id": "", "question": "q"} for record in result([1, 0])]
    other = [record | {"id": "", "question": "q"} for record in result([0, 1])]
    assert (versus.compare(twice, twice)["exact"]["gained"], versus.compare(twice, other)["exact"]["gained"]) == (0, 1)


def test_what_is_not_the_same_questions_or_no_result_is_refused(tmp_path):
    with pytest.raises(ValueError, match="share 2 of 2 and 3 questions; evaluate both on the same file"):
        versus.compare(result([1, 0]), result([1, 0, 0]))
    with pytest.raises(ValueError, match="share 0 of 2 and 2"):
        versus.compare(result([1, 0]), result([1, 0], name="p"))
    with pytest.raises(FileNotFoundError, match=r"holds no items.jsonl; give a folder that spicejax evaluate"):
        versus.load(tmp_path)
    for rows in ([{"question": "q"}], [{"question": "", "scores": {"exact": 1}}], []):
        jsonl.write(tmp_path / versus.ITEMS, rows)
        with pytest.raises(ValueError, match="is no result of spicejax evaluate"):
            versus.load(tmp_path)
    jsonl.write(tmp_path / versus.ITEMS, result([1, 0]))
    assert versus.load(tmp_path) == result([1, 0])
    newest = [row | {"iteration": 8} for row in result([1, 1])]  # a run's own file: its last evaluation, its first set
    others = [row | {"iteration": 8, "suite": "facts:unseen"} for row in result([0])]
    jsonl.write(tmp_path / versus.ITEMS, [*(row | {"iteration": 0} for row in result([1, 0])), *newest, *others])
    assert versus.load(tmp_path) == newest

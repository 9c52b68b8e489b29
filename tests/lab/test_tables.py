"""Means, intervals and verdicts by hand, and a page of a study."""

import pytest
from processes import ROOT

from spicejax.commands import lab
from spicejax.lab import tables
from spicejax.lab.studies import Arm, Claim, Place, Study

CLAIM = Claim("A above B", Place("A"), Place("B"), "2 > 1")
STUDY = Study(
    "What A is worth.", "A paper, table 1", {"A": Arm("spice_nano"), "B": Arm("rlvr_nano")}, (CLAIM,), "A note."
)


def rows(ends):
    """Two evaluations a run: every run begins at 0.5."""
    return [
        {"run": arm, "seed": seed, "iteration": at, "eval/accuracy": value}
        for arm, values in ends.items()
        for seed, end in enumerate(values)
        for at, value in ((0, 0.5), (10, end))
    ]


def test_interval_by_hand():
    # Values 1, 2, 3: standard deviation 1, standard error 1/sqrt 3, t of two degrees of freedom 4.3027.
    mean, half = tables.interval([1.0, 2.0, 3.0])
    assert mean == 2.0 and half == pytest.approx(4.3027 / 3**0.5, abs=1e-4)
    assert tables.interval([2.0]) == (2.0, None)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ((0.8, 0.82, 0.81), (0.6, 0.63, 0.6), "agree"),
        ((0.6, 0.63, 0.6), (0.8, 0.82, 0.81), "disagree"),
        ((0.8, 0.6, 0.7), (0.7, 0.68, 0.69), "cannot tell"),
        ((0.9,), (0.1,), "cannot tell"),
        ((0.7, 0.7), (0.7, 0.7), "cannot tell"),
    ],
)
def test_a_claim_is_told_by_the_whole_interval(a, b, said):
    """Seed by seed: what both arms of a seed share does not count."""
    found = tables.differences(CLAIM, rows({"A": a, "B": b}))
    assert found == [pytest.approx(x - y) for x, y in zip(a, b, strict=True)]
    assert tables.verdict(found) == said


def test_only_seeds_that_both_have_are_compared():
    assert tables.differences(CLAIM, rows({"A": (0.8, 0.9, 0.7), "B": (0.6,)})) == [pytest.approx(0.2)]
    assert tables.differences(CLAIM, rows({"A": (0.8,)})) == []


def test_a_claim_within_a_run():
    claim = Claim("later more", Place("A", "x"), Place("A", "x", "start"), "")
    run = [{"run": "A", "seed": 0, "iteration": 0, "x": 0.25}, {"run": "A", "seed": 0, "iteration": 9, "x": 1.0}]
    assert tables.differences(claim, run) == [0.75]


def test_a_section_says_all_of_it(tmp_path):
    found = rows({"A": (0.8, 0.82, 0.81), "B": (0.6, 0.63, 0.6)})
    text = tables.section("mine", STUDY, found, "mine.png")
    assert "| A above B | 2 > 1 | +0.200 ± 0.025 | 3 | agree |" in text
    assert "| held-out | 0.500 → 0.810 (+0.310 ± 0.025) | 0.500 → 0.610 (+0.110 ± 0.043) |" in text
    assert "A note." in text and "spicejax lab mine" in text and "(mine.png)" in text
    tables.draw(found, tmp_path / "mine.png")
    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_stages_of_a_chain_follow_one_another():
    values = [(0, 0, 0.1), (0, 5, 0.2), (5, 0, 0.2), (5, 4, 0.4)]
    own = [{"before": before, "iteration": at, "eval/accuracy": value} for before, at, value in values]
    assert tables.line(own) == ([0, 5, 5, 9], [0.1, 0.2, 0.2, 0.4])


def test_the_page_is_that_of_the_records(tmp_path):
    lab.main([f"--page={tmp_path / 'lab.md'}", f"--records={ROOT / 'docs' / 'runs' / 'lab'}"])
    assert (tmp_path / "lab.md").read_text() == (ROOT / "docs" / "lab.md").read_text()

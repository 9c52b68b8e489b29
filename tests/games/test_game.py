"""What the Config of every game refuses."""

import re

import pytest

from spicejax.games import catalogue


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("spice", {"group_size": 0}, "spice.group_size=0: must be at least 1"),
        ("spice", {"max_attempts": 2}, "spice.max_attempts=2"),
        ("spice", {"answer_types": ("MCQ",)}, "spice.answer_types"),
        ("spice", {"mcq_fraction": 2.0}, "spice.mcq_fraction=2.0"),
        ("rlvr", {"questions": 0}, "rlvr.questions=0"),
        ("rlvr", {"group_size": 0}, "rlvr.group_size=0"),
        ("rlvr", {"max_new": 0}, "rlvr.max_new=0"),
        ("rlvr", {"questions": 2, "candidates": 1}, "rlvr.candidates=1: give at least questions=2, or 0"),
        ("supervised", {"examples": 0}, "supervised.examples=0"),
        ("supervised", {"max_new": 0}, "supervised.max_new=0"),
        ("r1searcher", {"questions": 0}, "r1searcher.questions=0"),
        ("r1searcher", {"group_size": 0}, "r1searcher.group_size=0"),
        ("r1searcher", {"penalty": -1.0}, "r1searcher.penalty=-1.0: must be at least 0"),
        ("ssp", {"answers": 0}, "ssp.answers=0"),
        ("ssp", {"tries": 0}, "ssp.tries=0"),
        ("ssp", {"noise": -1}, "ssp.noise=-1"),
        ("ssp", {"searches": (3, 2)}, "ssp.searches=(3, 2)"),
        ("ssp", {"reset_every": -1}, "ssp.reset_every=-1"),
        ("acesearcher", {"plans": 0}, "acesearcher.plans=0: must be at least 1"),
        ("acesearcher", {"parts": -1}, "acesearcher.parts=-1: give how many"),
        ("acesearcher", {"templates": {"plan_qa": "no question"}}, "acesearcher.templates: plan_qa.txt"),
        ("acesearcher", {"kind": "program"}, "acesearcher.kind=program runs what the model writes"),
        ("acesearcher", {"steps": "programs"}, "acesearcher.steps=programs runs what the model writes"),
    ],
)
def test_settings_that_cannot_be_are_named(name, fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        catalogue.game(name)(**fields)

"""RLVR on a scripted player: what is asked, what it is worth, what is left out."""

import dataclasses

import pytest
from scripted import Scripted, world

from spicejax.games.rlvr import game as rlvr
from spicejax.games.rlvr.game import RlvrConfig
from spicejax.generate.layout import Buckets
from spicejax.score.verifiers import Verifier
from spicejax.types import Task

CFG = RlvrConfig(questions=3, group_size=4, style="nano", max_new=9)
QUESTIONS = [Task("7+5=?", "12", "Integer", "a"), Task("x" * 40, "1", "Integer", "long"), Task("2+2=?", "4", "Integer")]


def play(script, cfg=CFG, questions=QUESTIONS):
    player = Scripted(script, buckets=Buckets((30,), 8))
    with Verifier() as verifier:
        return rlvr.play(world({"reasoner": player}, verifier.check), questions, cfg), player


def test_rewards_groups_and_what_is_left_out():
    played, player = play(lambda prompt, row: "\\boxed{12}" if prompt == "7+5=?" and row % 4 == 1 else "\\boxed{5}")
    assert [text for text, _ in player.asked] == ["7+5=?", "2+2=?"], "the bare question; the long one does not fit"
    assert [(e.role, e.group, e.reward) for e in played.lessons] == [
        ("reasoner", k, float(k == 0 and j == 1)) for k in (0, 2) for j in range(4)
    ]
    assert played.metrics["reasoner/too_long"] == 1 and played.metrics["reasoner/pass_rate"] == 1 / 8
    assert (played.metrics["reasoner/never_solved"], played.metrics["reasoner/always_solved"]) == (0.5, 0.0)
    assert played.totals == {"questions_asked": 2, "answers_right": 1}
    assert [r["pass_rate"] for r in played.rows] == [0.25, 0.0] and played.rows[0]["id"] == "a"
    assert (played.rows[0]["said"], played.rows[0]["correct"]) == (
        ["5", "12", "5", "5"],
        [False, True, False, False],
    )
    assert "7+5" in played.example and played.progress["pass_rate"] == 1 / 8


def test_questions_whose_answers_are_all_alike_are_replaced():
    """Dynamic sampling: each round asks as many questions as are missing, until enough teach or none is left."""
    cfg = dataclasses.replace(CFG, questions=2, candidates=6)
    questions = [Task(f"{k}+0=?", str(k), "Integer", str(k)) for k in range(6)]

    def script(prompt, row):
        k = int(prompt[0])  # question 0 is never right, 2 always, the others once
        return f"\\boxed{{{k if k == 2 or (k and row % 4 == 0) else 99}}}"

    played, player = play(script, cfg, questions)
    assert [text for text, _ in player.asked] == ["0+0=?", "1+0=?", "2+0=?", "3+0=?"], "two, one instead of 0, of 2"
    assert [(e.group, e.reward) for e in played.lessons] == [(k, float(j == 0)) for k in (1, 3) for j in range(4)]
    assert (played.metrics["reasoner/asked"], played.metrics["reasoner/refused"]) == (4, 2) and len(played.records) == 4
    (ask,) = RlvrConfig.game.demand(cfg)
    assert (ask.prompts, ask.trained, cfg.items) == (6, 2, 6)
    played, player = play(lambda *_: "\\boxed{99}", cfg, questions)
    assert len(player.asked) == 6 and played.lessons == [] and played.metrics["reasoner/refused"] == 6
    with pytest.raises(ValueError, match="candidates=6: one answer is all right or all wrong; give group_size=2"):
        dataclasses.replace(cfg, group_size=1)


def test_an_iteration_without_a_question_that_fits_teaches_nothing():
    player = Scripted(lambda *_: "", buckets=Buckets((3,), 8))
    played = rlvr.play(world({"reasoner": player}), QUESTIONS, CFG)
    assert played.lessons == [] and played.metrics["reasoner/too_long"] == 3 and played.example == ""


def test_demand():
    (ask,) = RlvrConfig.game.demand(dataclasses.replace(CFG, estimator="mean_std"))
    assert (ask.role, ask.prompts, ask.samples, ask.trained, ask.estimator) == ("reasoner", 3, 4, 3, "mean_std")

"""Reading a Reasoner: an answer that the length limit cut off, in every game and in the evaluation."""

import dataclasses
import json

import pytest
from scripted import Scripted, world

from spicejax.data.questions import Item
from spicejax.evaluation.scores import held_out
from spicejax.games import reasoner
from spicejax.games.rlvr import game as rlvr
from spicejax.games.spice import game as spice
from spicejax.score.verifiers import Verifier
from spicejax.types import Document, Task

TASK = Task("2+2=?", "4", "Integer")
SPICE = spice.SpiceConfig(
    documents=1, group_size=2, max_attempts=2, task_type="free_form_only", answer_types=("Integer",), style="nano"
)
RLVR = rlvr.RlvrConfig(questions=1, group_size=2, style="nano")


def test_worked_examples_stand_in_turns_of_their_own():
    given = {"reasoner": "Q: {question}", "reasoner_examples": json.dumps([{"question": "1+1=?", "reply": "2"}])}
    for style in ("full", "simple"):
        _, *turns = reasoner.messages("2+2=?", style, given)
        assert [turn["content"] for turn in turns] == ["Q: 1+1=?", "2", "Q: 2+2=?"]
    assert [len(reasoner.messages("2+2=?", style)) for style in ("full", "simple", "nano")] == [2, 6, 1]
    assert len(reasoner.messages("2+2=?", "nano", given)) == 1


@pytest.mark.parametrize(("judged", "worth"), [(False, 0.0), (True, 1.0)])
def test_a_box_before_the_cut_counts_only_where_the_run_says_so(judged, worth):
    answering = Scripted(lambda *_: "\\boxed{4} because…")
    challenger = Scripted(lambda *_: "question: what is 2+2?\nanswer: 4")
    with Verifier() as verifier:
        seats = {"challenger": challenger, "reasoner": answering}
        one = world(seats, verifier.check)
        for cfg, play, items in ((SPICE, spice.play, [Document("a", "text")]), (RLVR, rlvr.play, [TASK])):
            cfg = dataclasses.replace(cfg, judge_truncated=judged)
            played = play(one, items, cfg)
            assert [e.reward for e in played.lessons if e.role == "reasoner"] == [worth] * 2
            exam = (spice if play is spice.play else rlvr).exam(cfg)
            found, _ = held_out(one, [Item(TASK)], exam)
            assert found["eval/accuracy"] == worth and found["eval/truncated"] == 1

"""Questions asked before: what counts as the same, how long it is remembered, what it is worth."""

import dataclasses

import pytest
from scripted import Scripted, world

from spicejax.games.spice import game as spice
from spicejax.games.spice import novelty
from spicejax.score.verifiers import Verifier
from spicejax.types import Document, Task

CFG = spice.SpiceConfig(
    documents=1, group_size=4, max_attempts=8, task_type="free_form_only", answer_types=("Integer",), style="nano"
)


def task(question):
    return Task(question, "7", "Integer")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("What is  3+4?", "what is 3 + 4?", True),
        ("Who has 1,000 ships?", "Who has 1000 ships?", True),
        ("What is 3+4?", "What is 3+5?", False),
        ("What is 3-4?", "What is 3+4?", False),
    ],
)
def test_the_same_question_in_another_dress(one, other, same):
    assert (novelty.key(task(one)) == novelty.key(task(other))) == same


def test_memory_is_as_long_as_asked_for():
    state = None
    for number in range(30):
        state = novelty.remember(state, [task(f"what is {number}?")] * 2, 15)
    assert len(state) == 15 and all(len(asked) == 1 for asked in state)
    assert [len(novelty.asked_in(state[:n], 10)) for n in (0, 1, 6, 9, 10, 15)] == [0, 1, 6, 9, 10, 10]
    assert novelty.asked_in(state, 2) == {novelty.key(task(f"what is {n}?")) for n in (28, 29)}
    assert novelty.asked_in(state, 0) == novelty.asked_in(None, 5) == set()
    assert len(novelty.remember(state, [], 0)) == novelty.REMEMBERED


def test_repeats_are_counted_and_invalid_where_asked_for():
    def challenger(prompt, row):
        return f"question: what is {row % 4 // 2}?\nanswer: 7"  # two questions, each twice

    def play(cfg, state):
        seats = {"challenger": Scripted(challenger), "reasoner": Scripted(lambda *_: "\\boxed{7}")}
        return spice.play(world(seats, verifier.check), [Document("a", "text")], cfg, state)

    with Verifier() as verifier:
        first = play(CFG, None)
        assert first.metrics["challenger/distinct_questions"] == 0.5
        assert first.metrics["challenger/repeated_questions"] == 0
        again = play(CFG, first.state)
        assert again.metrics["challenger/repeated_questions"] == 1 and again.metrics["challenger/valid_fraction"] == 1
        once = play(dataclasses.replace(CFG, novelty=3), None)
        assert once.metrics["rejected/repeated"] == 2 and once.metrics["challenger/distinct_questions"] == 1
        strict = play(dataclasses.replace(CFG, novelty=3), first.state)
        assert strict.metrics["rejected/repeated"] == 8 and {e.reward for e in strict.lessons} == {-0.1}
        later = play(dataclasses.replace(CFG, novelty=3), [*first.state, [], [], []])
        assert later.metrics["rejected/repeated"] == 2, "forgotten after three iterations, but not within one"

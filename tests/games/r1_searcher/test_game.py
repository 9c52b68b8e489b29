"""R1-Searcher on a scripted Solver: what is asked and searched, what it is worth, what is left out."""

import dataclasses

import pytest
import scripted
from scripted import typist

from spicejax.data.questions import Item
from spicejax.evaluation.scores import held_out
from spicejax.games.r1_searcher import game as r1_searcher
from spicejax.games.r1_searcher.game import R1SearcherConfig
from spicejax.games.solver import tags_of as solver_tags
from spicejax.generate.layout import Buckets
from spicejax.generate.search import Limits
from spicejax.score.verifiers import Verifier
from spicejax.types import Passage, Task

CFG = R1SearcherConfig(questions=3, group_size=2, request="nano", reward="exact", limits=Limits(3, 60, 200, 400))
QUESTIONS = [
    Task("home of Ada?", "Rome", "String", "a"),
    Task("x" * 4000, "1", "Integer", "long"),
    Task("home of Bob?", "Oslo", "String", "b"),
]


def find(queries, k):
    return [[Passage(q, q, {"home of Ada": "It is Rome.", "home of Bob": "It is Bonn."}[q])][:k] for q in queries]


def solver(text, row):
    """Searches in even rows, then says the last word that it was shown, and in odd ones says Rome."""
    if row % 2:
        return "<answer>Rome</answer>"
    if "</information>" in text:
        return f"<answer>{text.split('.')[-2].split()[-1]}</answer>"
    return f"<search>{text.split('?')[0]}</search>"


def world(player):
    return scripted.world({"solver": player}, Verifier().check, find=find)


def test_rewards_groups_records_and_what_is_left_out():
    player = typist(solver)
    played = r1_searcher.play(world(player), QUESTIONS, CFG)
    assert [(e.role, e.group, e.reward) for e in played.lessons] == [
        ("solver", 0, 1.0), ("solver", 0, 1.0), ("solver", 2, 0.0), ("solver", 2, 0.0)
    ]  # fmt: skip
    metrics = played.metrics
    assert metrics["solver/too_long"] == 1 and metrics["solver/pass_rate"] == 0.5
    assert (metrics["solver/searches"], metrics["solver/searched"], metrics["solver/well_formed"]) == (0.5, 0.5, 1.0)
    assert played.totals == {"questions_asked": 2, "searches": 2}
    record = played.rows[0]
    assert (record["id"], record["pass_rate"]) == ("a", 1.0)
    assert [(r["said"], r["correct"]) for r in played.rows] == [
        (["Rome"] * 2, [True] * 2),
        (["Bonn", "Rome"], [False] * 2),
    ]
    assert record["transcript"] == [
        {"wrote": "<search>home of Ada</search>", "query": "home of Ada", "shown": ["home of Ada"]},
        {"wrote": "<answer>Rome</answer>"},
    ]
    shown = played.lessons[0].rollout
    assert shown.loss_mask.sum() == len("<search>home of Ada</search><answer>Rome</answer>") < len(shown.token_ids)


def test_without_the_mask_what_was_found_is_learnt_too():
    masked, plain = (r1_searcher.play(world(typist(solver)), QUESTIONS, dataclasses.replace(CFG, mask=m))
                     for m in (True, False))  # fmt: skip
    assert plain.rows == masked.rows and plain.metrics == masked.metrics
    for one, other in zip(plain.lessons, masked.lessons, strict=True):
        mine = other.rollout.loss_mask > 0
        assert one.reward == other.reward and one.rollout.loss_mask.all()
        assert (one.rollout.sample_logprobs[~mine] == 1).all() and (other.rollout.sample_logprobs[~mine] == 0).all()
        assert (one.rollout.sample_logprobs[mine] == other.rollout.sample_logprobs[mine]).all()
    assert not masked.lessons[0].rollout.loss_mask.all()


def test_the_form_that_is_rewarded_is_what_is_counted():
    player = typist(lambda text, row: "<think>I know</think>" * (row % 2) + "<answer>Rome</answer>")
    cfg = dataclasses.replace(CFG, structure=0.2, tagged=0.1, request="tags")
    played = r1_searcher.play(world(player), QUESTIONS, cfg)
    assert [e.reward for e in played.lessons] == [0.8, 1.0, 0.1, 0.2]
    assert played.metrics["solver/well_formed"] == 0.5 and played.metrics["fault/order"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"structure": 1.5}, "structure=1.5"),
        ({"tagged": 0.1}, "the second needs the first"),
        ({"structure": 0.2, "request": "evidence"}, "r1searcher.request=tags asks for"),
        ({"structure": 0.2, "request": "tags", "reward": "answer"}, "not tags and answer"),
    ],
)
def test_a_reward_for_a_form_that_nobody_asks_for_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CFG, **change)


def test_stages_reward_the_same_rows_differently():
    for change, wanted in (
        ({"reward": "retrieve"}, [1.0, 0.5, 1.0, 0.5]),
        ({"reward": "answer"}, [1.0, 1.0, 0.0, 0.0]),
    ):
        played = r1_searcher.play(world(typist(solver)), QUESTIONS, dataclasses.replace(CFG, **change))
        assert [e.reward for e in played.lessons] == wanted, change
    rude = typist(lambda text, row: "I, an assistant, say Rome")
    played = r1_searcher.play(world(rude), QUESTIONS, dataclasses.replace(CFG, reward="answer"))
    assert {e.reward for e in played.lessons} == {-2.0} and played.metrics["fault/answer"] == 4


def test_the_exam_searches_as_training_does():
    player = typist(solver)
    items = [Item(task) for task in (QUESTIONS[0], QUESTIONS[2])]
    found, answered = held_out(world(player), items, R1SearcherConfig.game.exam(CFG))
    assert [item["searches"] for item in answered] == [1, 0]
    assert found["eval/accuracy"] == 0.5 and [text for text, _ in player.asked[:2]] == ["home of Ada?", "home of Bob?"]
    assert "</information>" in player.asked[2][0]


def test_no_question_that_fits_teaches_nothing():
    player = dataclasses.replace(typist(solver), buckets=Buckets((405,), 8))
    played = r1_searcher.play(world(player), QUESTIONS, CFG)
    assert played.lessons == [] and played.metrics["solver/too_long"] == 3 and played.example == ""


def test_demand_and_requests():
    (ask,) = R1SearcherConfig.game.demand(CFG)
    assert (ask.prompts, ask.samples, ask.max_new, ask.turn_limits.turn, ask.behind) == (3, 2, 400, 60, 399)
    for request in ("base", "instruct", "tags", "evidence"):
        cfg = dataclasses.replace(CFG, request=request)
        ((_, messages),) = R1SearcherConfig.game.prompts_of(cfg, QUESTIONS[0])
        said = messages[-1]["content"]
        assert "home of Ada?" in said and all(tag in said for tag in solver_tags(request).observation)

"""R-Zero on scripted players: who is asked what, what it is worth, what is taught."""

import dataclasses

import pytest
from scripted import Scripted, world, written

from spicejax.games.r_zero import game as r_zero
from spicejax.games.r_zero.game import Proposal, RZeroConfig
from spicejax.games.r_zero.votes import Vote
from spicejax.generate.layout import Buckets
from spicejax.score.verifiers import Verifier

CFG = RZeroConfig(groups=2, group_size=2, votes=4, pool=6, style="nano", challenger_max_new=30, reasoner_max_new=9)
SOLVE = dataclasses.replace(CFG, trains="reasoner", group_size=4)


def play(cfg, challenger, reasoner, state=None, iteration=0):
    players = {"challenger": Scripted(challenger), "reasoner": Scripted(reasoner, buckets=Buckets((30,), 8))}
    with Verifier() as verifier:
        seen = world(players, verifier.check, iteration=iteration)
        return r_zero.play(seen, range(cfg.groups), cfg, state), players


# questions by row: one that splits the votes, one that all answer alike, none, and one that is too long to be asked
LONG = f"question: {'x' * 40}\nanswer: 1"
WROTE = ["question: 7+5=?\nanswer: 12", "question: 2+2=?\nanswer: 5", "question: 2+2=?", LONG]


def answer(prompt, row):
    if prompt == "2+2=?":
        return "\\boxed{4}"
    return "no box" if row % 4 == 3 else f"\\boxed{{{12 if row % 4 < 2 else 13}}}"


def test_the_challenger_is_paid_for_split_votes():
    played, players = play(CFG, lambda prompt, row: WROTE[row], answer)
    assert players["challenger"].asked == [("ask Integer", 0), ("ask Integer", 2)], "always the same, in groups"
    assert players["reasoner"].asked == [("7+5=?", 0), ("2+2=?", 4)]
    assert [(e.role, e.group, e.reward) for e in played.lessons] == [
        ("challenger", 0, 0.5 - 1 / 4),  # two of four agree; each question is a quarter of the batch
        ("challenger", 0, 0.0 - 1 / 4),
        ("challenger", 1, -1.0 - 1 / 4),
        ("challenger", 1, -1.0 - 1 / 4),
    ]
    assert played.metrics["challenger/valid_fraction"] == 0.5 and played.metrics["challenger/share"] == 0.75
    assert played.metrics["challenger/own_answer"] == 0.5 and played.metrics["rejected/no_question"] == 1
    assert [row.get("rejected") for row in played.rows] == [None, None, "no_question", "question_too_long"]
    assert played.rows[0] | {"reward": 0} == {
        "question": "7+5=?", "answer": "12", "pass_rate": 0.5, "reward": 0, "said": ["12", "12", "13", None],
        "correct": [True, True, False, False], "own_answer": "12", "transcript": [{"wrote": WROTE[0]}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "agree, own, more, worth",
    [
        (5, "9", {}, 0.5 - 0.2),
        (7, "9", {}, 0.3 - 0.2),
        (2, "9", {}, 0.2 - 0.2),
        (7, "9", {"repetition": 0.5}, 0.3 - 0.1),
        (7, "9", {"reward": "paper"}, 0.6 - 0.2),
        (9, "9", {"reward": "paper"}, 0.0),  # never below 0
        (7, "9", {"majority": "own"}, 0.0 - 0.2),
        (7, "12", {"majority": "own"}, 0.3 - 0.2),
        (1, "12", {"majority": "own"}, 0.0 - 0.2),  # a share of 0.1 does not count
        (1, "12", {}, 0.1 - 0.2),
        (None, "9", {}, -1.2),
        (None, "9", {"reward": "paper"}, 0.0),
    ],
)
def test_rewards_by_hand(agree, own, more, worth):
    """Of ten votes so many say 12; a fifth of the batch asks the same."""
    vote = None if agree is None else Vote(["12"] * agree + ["?"] * (10 - agree), "12", [k < agree for k in range(10)])
    proposal = Proposal(written(""), "q", own, vote=vote)
    assert r_zero.challenger_reward(proposal, 0.2, dataclasses.replace(CFG, **more)) == pytest.approx(worth)


def test_the_reasoner_is_taught_what_its_votes_hold_to_be_right():
    """The pool is written once; what is agreed on, what is scattered and what cannot be asked does not stay."""
    wrote = [*WROTE, "question: 9+9=?\nanswer: 1", "question: a box?\nanswer: 1"]

    def votes(prompt, row):
        return f"\\boxed{{{row}}}" if prompt == "9+9=?" else answer(prompt, row)

    played, players = play(SOLVE, lambda prompt, row: wrote[row], votes)
    assert len(players["challenger"].asked) == 6 and played.state == [["7+5=?", "12"]]
    assert [(e.role, e.group, e.reward) for e in played.lessons] == [
        ("reasoner", 0, reward) for reward in (1.0, 1.0, pytest.approx(0.1), 0.0)
    ], "0.9 for the answer, 0.1 for a box"
    assert played.metrics["reasoner/pool"] == 1 and played.metrics["reasoner/pass_rate"] == 0.5
    assert played.metrics["reasoner/no_answer"] == 0.25 and len(played.records) == 7
    assert played.totals == {"questions_written": 6, "questions_asked": 1}
    again, players = play(SOLVE, lambda *_: "", votes, played.state, iteration=1)
    assert not players["challenger"].asked and again.state == played.state and len(again.records) == 1


@pytest.mark.parametrize("share, label, question, stays", [
    (0.3, "4", "q", True), (0.8, "4", "q", True), (0.29, "4", "q", False), (0.81, "4", "q", False),
    (0.5, "\\text{four}", "q", False), (0.5, "4", "write it in a box", False), (0.5, "4", "证明 q", False),
])  # fmt: skip
def test_what_stays_in_the_pool(share, label, question, stays):
    agree = [k < round(100 * share) for k in range(100)]
    proposal = Proposal(written(""), question, vote=Vote([label] * 100, label, agree))
    assert r_zero.taught(proposal, SOLVE) == (label if stays else None)


def test_an_empty_pool_is_an_error_that_names_the_fix():
    with pytest.raises(ValueError, match=r"rzero\.keep=\(0\.3, 0\.8\): none of 6 .* 6 could be asked; raise"):
        play(SOLVE, lambda prompt, row: WROTE[1], answer)


def test_batches_go_through_the_pool_in_epochs():
    def batches(size, iterations):
        return [r_zero._batch(world({}, iteration=k), size, 2) for k in range(iterations)]

    first, second, third, fourth = batches(5, 4)
    assert len({*first, *second}) == 4, "none twice in an epoch, the fifth waits"
    assert len({*third, *fourth}) == 4 and [first, second] != [third, fourth], "another order"
    assert batches(5, 4) == [first, second, third, fourth] and batches(1, 2) == [[0], [0]]


def test_what_is_read_off_a_reply():
    text = "plan <question> a? </question> better: <question>How many?</question>\n\\boxed{\\frac{1}{2}}"
    assert r_zero.read(text) == ("How many?", "\\frac{1}{2}")
    assert r_zero.read("<question>How many?</question> 4") == ("How many?", None)
    assert r_zero.read("<question> </question> \\boxed{4}") is None and r_zero.read("How many? \\boxed{4}") is None
    assert r_zero.read("question: 2+2=?\nanswer: 4", "nano") == ("2+2=?", "4") and r_zero.read("2+2", "nano") is None


def test_demand_and_prompts():
    by_role = {ask.role: ask for ask in CFG.game.demand(CFG)}
    assert (by_role["challenger"].trained, by_role["challenger"].estimator) == (2, "mean_std")
    assert (by_role["vote"].player, by_role["vote"].prompts, by_role["vote"].samples) == ("initial", 4, 4)
    by_role = {ask.role: ask for ask in CFG.game.demand(SOLVE)}
    first = by_role["challenger"]
    assert (first.player, first.trained, first.prompts, first.once) == ("initial", 0, 6, True)
    assert (by_role["vote"].player, by_role["vote"].seat, by_role["reasoner"].trained) == ("policy", "reasoner", 2)
    for style, turns in (("full", 2), ("simple", 6), ("nano", 1)):
        ((seat, messages),) = r_zero.prompts_of(dataclasses.replace(CFG, style=style), 0)
        assert seat == "challenger" and len(messages) == turns
    assert "<question>" in messages[0]["content"] or style == "nano"


@pytest.mark.parametrize("change, said", [
    ({"keep": (0.8, 0.3)}, "rzero.keep"), ({"format_weight": 1.5}, "rzero.format_weight"),
    ({"votes": 0}, "rzero.votes"), ({"repetition": -1}, "rzero.repetition"),
])  # fmt: skip
def test_errors_name_the_field(change, said):
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(CFG, **change)

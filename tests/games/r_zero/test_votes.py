"""What several answers agree on."""

from scripted import world

from spicejax.games.r_zero import votes
from spicejax.score.verifiers import Verifier


def count(*said):
    with Verifier() as verifier:
        return votes.count(world({}, verifier.check), [f"q{k}" for k in range(len(said))], said)


def test_the_commonest_answer_in_other_notation():
    half, none, tie = count(["0.5", None, "1/2", "3", "\\frac{1}{2}"], [None, None], ["7", "8", "8", "7"])
    assert (half.label, half.agree, half.share) == ("0.5", [True, False, True, False, True], 0.6)
    assert (none.label, none.agree, none.share) == (None, [False, False], 0.0), "a missing answer votes for nothing"
    assert (tie.label, tie.share) == ("7", 0.5), "of two the first given"
    (names,) = count(["paris", "Paris", "Rome"])
    assert names.label == "paris" and names.share == 2 / 3


def test_missing_answers_never_win():
    (vote,) = count([None, None, None, "4"])
    assert (vote.label, vote.share) == ("4", 0.25)


def test_type_of_a_label():
    assert [votes.task("q", label).answer_type for label in ("12", "0.5", "x^2+1", "Rome")] == [
        *("Integer", "Float", "Expression", "String"),
    ]

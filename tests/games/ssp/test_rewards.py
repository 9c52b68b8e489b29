"""What answers and questions are worth."""

import pytest
from scripted import searched

from spicejax.games import solver
from spicejax.games.ssp import rewards
from spicejax.types import Answer, Passage

ROME = Answer("the city of Rome", ("Roma",))


def row(text, shown=""):
    return searched(("<search>q</search>", "q"), text, shown=[Passage("p", "t", shown)])


def worth(found, judged="exact", *, limit_tags):
    return rewards.solved(found, rewards.right(solver.answer(found), ROME, judged), limit_tags=limit_tags)


@pytest.mark.parametrize(
    ("text", "exact", "f1"),
    [
        ("<answer>City of Rome!</answer>", 1.0, 1.0),
        ("<answer>roma</answer>", 1.0, 1.0),
        ("<answer>Rome</answer>", 0.0, 0.5),
        ("<answer></answer>", 0.0, 0.0),
        ("Roma", 0.0, 0.0),
    ],
)
def test_an_answer(text, exact, f1):
    assert worth(row(text), limit_tags=True) == exact
    assert worth(row(text), "f1", limit_tags=True) == pytest.approx(f1)


def test_shown_answers_are_not_given_ones():
    assert worth(row("no idea", "<answer>Roma</answer>"), limit_tags=False) == 0


def test_eleven_tags_cost_three_quarters_and_count_as_solved_for_the_proposer():
    ten, eleven = ("<answer>" * n + "Roma</answer>" for n in (10, 11))
    assert worth(row(ten), limit_tags=True) == 1.0
    assert worth(row(eleven), limit_tags=True) == 0.25
    assert worth(row(eleven), limit_tags=False) == 1.0
    right = [rewards.right(solver.answer(row(text)), ROME, "exact") for text in (eleven, "no")]
    assert rewards.proposed(right, "failures") == 0.5


def test_a_word_in_common_is_not_an_answer_for_the_proposer():
    right = [rewards.right(said, ROME, "f1") for said in ("Rome", "the city of Rome")]
    assert right == [0.5, 1.0] and rewards.proposed(right, "failures") == 0.25
    assert rewards.proposed([0.5, 0.5], "bounded") == 1.0


@pytest.mark.parametrize(
    ("solved", "failures", "bounded"), [(0, 1.0, 0.0), (1, 0.8, 0.64), (2, 0.6, 0.96), (5, 0.0, 0.0)]
)
def test_a_question(solved, failures, bounded):
    earned = [1.0] * solved + [0.0] * (5 - solved)
    assert rewards.proposed(earned, "failures") == pytest.approx(failures)
    assert rewards.proposed(earned, "bounded") == pytest.approx(bounded)


def test_questions_as_far_from_a_half_are_worth_the_same_to_the_last_bit():
    def bounded(solved, samples):
        return rewards.proposed([1.0] * solved + [0.0] * (samples - solved), "bounded")

    assert all(bounded(k, n) == bounded(n - k, n) for n in range(1, 33) for k in range(n))

"""How a Solver's answer is read out of its own words."""

import pytest

from spicejax.games import solver


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<answer>Oslo</answer> or <answer> Rome </answer>", "Rome"),
        ("<answer>Rome</answer> and so on</answer>", "Rome"),  # a stray closing tag
        ("<answer><answer>Rome</answer>", "Rome"),
        ("<answer>Rome</answer> <answer>Oslo", "Rome"),  # the last one is not closed
        ("</answer>Rome<answer>", None),
        ("<answer></answer>", ""),
        ("Rome</answer>", None),
    ],
)
def test_the_last_pair_of_tags_counts(text, said):
    assert solver.last_pair(text, solver.ANSWER) == said


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("It lies on the Tiber. <answer>Rome</answer>", "Rome"),
        ("It lies on the Tiber.\n\nAnswer: Rome\nThat is all.", "Rome"),  # SSP's prompt for a verification
        ("**Answer:** Rome", "Rome"),
        ("Answer: Oslo <answer>Rome</answer>", "Rome"),
        ("The answer: Rome", None),
        ("Answer:\n", None),
    ],
)
def test_an_answer_without_search_stands_between_tags_or_on_its_line(reply, said):
    assert solver.answer_in(reply) == said

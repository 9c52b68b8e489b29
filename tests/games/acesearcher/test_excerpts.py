"""What is shown of a long text: the paragraphs that have to do with what is asked."""

import pytest

from spicejax.games.acesearcher.excerpts import excerpt

pytest.importorskip("bm25s")
PARTS = [f"Note {n}. Nothing is said about this part of the business." for n in range(30)]
PARTS[7], PARTS[21] = "Net revenue of Ada was 30 in 2020.", "| costs of Ada | 2020 |\n| total | 12 |"
TEXT = "\n\n".join(PARTS)


def test_the_nearest_paragraphs_in_the_order_of_the_text():
    assert excerpt(TEXT, "What were Ada's costs and revenue in 2020?", 2) == f"{PARTS[7]}\n\n{PARTS[21]}"
    assert excerpt(TEXT, "costs of Ada", 1) == PARTS[21], "a table is one paragraph"
    assert excerpt("\n".join(PARTS[:9]), "Ada's revenue?", 1) == PARTS[7], "lines where there are no empty ones"


@pytest.mark.parametrize("question", ["Ada", "the", "", "nowhere"])
def test_as_many_as_are_asked_for_whatever_is_found(question):
    assert len(excerpt(TEXT, question, 4).split("\n\n")) == 4


@pytest.mark.parametrize("most", [0, 30, 99])
def test_a_text_that_is_no_longer_is_shown_as_it_is(most):
    assert excerpt(TEXT, "Ada?", most) == TEXT
    assert excerpt("", "Ada?", most) == ""

"""What a judge is asked, and how its word is read."""

import pytest

from spicejax.score import judge


def test_a_prompt_holds_what_it_is_about():
    (turn,) = judge.prompt(judge.Claim("Who {wrote} it?", ("Twain", "Clemens"), "Mark {Twain}"))
    assert turn["role"] == "user"
    assert all(text in turn["content"] for text in ("Who {wrote} it?", "Twain | Clemens", "Mark {Twain}", "yes or no"))


@pytest.mark.parametrize(("reply", "agrees"), [
    ("yes", True), ("Yes.", True), ("**No**", False), ("", False), ("It could be yes, but no", False), ("now", False),
    ("<think>yes or no?</think>Yes", True), ("<think>yes", False), ("<think>yes</think>", False),
    ("yes</think>no", False),
])  # fmt: skip
def test_the_last_word_counts(reply, agrees):
    assert judge.agrees(reply) is agrees

"""Tests of cutting: never over the limit, nothing lost, cuts at paragraphs and sentences where there are any."""

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from spicejax.data.segments import cut


def words(text: str) -> list[int]:
    return [len(w) for w in re.findall(r"\S+", text)]


def characters(text: str) -> list[int]:
    return list(map(ord, text))


def test_paragraphs_then_sentences_then_words() -> None:
    paragraphs = "\n\n".join(f"p{i} has four words" for i in range(6))
    assert cut(paragraphs, words, 8) == ["p0 has four words\n\np1 has four words", *cut(paragraphs, words, 8)[1:]]
    assert all(part.startswith("p") and part.endswith("words") for part in cut(paragraphs, words, 8))
    sentences = " ".join(f"S{i} is short." for i in range(9))
    assert all(part.endswith("short.") for part in cut(sentences, words, 7))
    assert all(len(words(part)) <= 2 for part in cut("a b c d e", words, 2))


@pytest.mark.parametrize("unit", ["w ", "One two. ", "One two.\n"])
def test_a_text_is_encoded_a_few_times_at_most(unit: str) -> None:
    """A level without a place to cut costs nothing: whole documents are megabytes."""
    seen = 0

    def encode(text: str) -> list[int]:
        nonlocal seen
        seen += len(text)
        return words(text)

    text = unit * 5000
    assert len(cut(text, encode, 1000)) > 4
    assert seen < 3.2 * len(text)


def test_a_character_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="'é'.*max_tokens"):
        cut("éé", lambda text: [0] * 3 * len(text), 2)


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.text(st.sampled_from(list("ab.!? \n\t”")), min_size=1, max_size=400), st.integers(1, 60))
def test_nothing_is_lost_but_whitespace_and_nothing_is_too_long(text: str, limit: int) -> None:
    for encode in (words, characters):
        parts = cut(text, encode, limit)
        assert all(len(encode(part)) <= limit for part in parts)
        assert "".join("".join(parts).split()) == "".join(text.split())


def test_parts_are_of_similar_length() -> None:
    text = "\n\n".join("w " * 9 + "w" for _ in range(101))  # 1010 words
    sizes = [len(words(part)) for part in cut(text, words, 1000)]
    assert len(sizes) == 2 and min(sizes) > 400

"""Documents made of tables of facts: short, plain, correct, the same for ever."""

import re
from collections import Counter

from spicejax.data import prepared
from spicejax.data.facts import tables
from spicejax.data.facts.documents import MIN_CHARS, documents
from spicejax.data.facts.relations import SUBJECTS
from spicejax.text import tokens

# Of all documents: a change of it is another corpus, whose runs do not compare with those before.
DIGEST = "c503c014b349411a"


def test_a_few_hundred_documents_of_entities_that_are_not_held_out():
    found = documents()
    assert 400 <= len(found) <= 600
    assert len({d.id for d in found}) == len({d.text for d in found}) == len(found)
    told = {row.id for name, subject in SUBJECTS.items() for row in subject.rows(name) if not row.held_out}
    assert {d.id for d in found} == told
    assert set(Counter(d.id.partition("/")[0] for d in found)) == {subject.kind for subject in SUBJECTS.values()}
    assert prepared.digest(found)[:16] == DIGEST


def test_plain_sentences(shared_data):
    tokenizer = tokens.load(shared_data / "tokenizers" / "smollm2")
    for document in documents():
        text = document.text
        sentences = re.split(r"(?<=[^A-Z.]{2}\.) ", text)
        assert MIN_CHARS <= len(text) and len(tokenizer.encode(text)) <= 110, text
        assert text[0].isupper() and text[-1] == "." and len(sentences) <= 5, text
        assert document.title.casefold() in text.casefold() and document.title[0].isupper()
        assert not re.search(r"[{}*#_|\t\n]|  | a [aeio]| an [^aeiou]|\bthe the\b|-, | \.|\bnone\b", text, re.I), text


def test_held_out_neighbours_are_not_named():
    texts = {d.title: d.text for d in documents(["countries"])}
    assert "borders Lithuania." in texts["Belarus"]  # its table names Poland and Ukraine too
    borders = " and ".join(re.findall(r"borders (?:with )?([^.]+)", " ".join(texts.values())))
    assert {tables.bare(name) for name in re.split(" and |, ", borders)} <= set(texts)


def test_single_facts_name_what_they_are_about():
    """A sentence each; what a whole document says of its entity by "it" is said with the name."""
    found = documents(single=True)
    assert len({d.id for d in found}) == len(found) > 3 * len(documents())
    for document in found:
        assert document.title.casefold() in document.text.casefold(), document
        assert document.text[0].isupper() and not re.search(r"[^A-Z.]{2}\. ", document.text.replace("St. ", "St "))
    whole = {d.id: d.text for d in documents(["countries"])}
    parts = documents(["countries"], single=True)
    assert {d.id.partition("#")[0] for d in parts} == set(whole)
    assert all(d.text in whole[d.id.partition("#")[0]] for d in parts)  # each sentence of a country names it

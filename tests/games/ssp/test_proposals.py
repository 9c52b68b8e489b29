"""Which questions are valid, each rule alone; which passages are evidence and which noise."""

import dataclasses

import numpy as np
import pytest
from scripted import searched

from spicejax.games.ssp import proposals
from spicejax.games.ssp.proposals import Proposal, Rules
from spicejax.types import Answer, Passage

ROME = Answer("Rome", ("Roma",))
GOOD = "In which city did the brother of Ada first open his shop?"


def row(*queries, last=f"<question>{GOOD}</question>", shown=()):
    """A row of these searches and a last turn."""
    return searched(*((f"<search>{query}</search>", query) for query in queries), last, shown=shown)


@pytest.mark.parametrize(("reason", "queries", "question"), [
    ("", ("a", "b"), GOOD), ("no_question", ("a", "b"), None), ("no_question", ("a", "b"), ""),
    ("short", ("a", "b"), "In which city did the brother of Ada live?"),
    ("", ("a", "b"), "In which city did the brother of Ada live once?"), ("short", ("a", "b"), "a b c d e"),
    ("long", ("a", "b"), "word " * 201), ("names_answer", ("a", "b"), GOOD + " Was it in rome?"),
    ("names_answer", ("a", "b"), GOOD + " Was it in ROMA?"), ("few_searches", ("a",), GOOD),
    ("few_searches", (), GOOD), ("repeated_query", ("a", "b", "a"), GOOD),
])  # fmt: skip
def test_each_rule_alone(reason, queries, question):
    assert Rules().broken(question, row(*queries), ROME) == reason


def test_rules_can_be_loosened():
    loose = Rules(min_words=1, min_chars=1, min_searches=0, distinct_queries=False)
    assert loose.broken("Where?", row(), ROME) == "" == loose.broken("Where?", row("a", "a"), ROME)


def never(question):
    """An evaluation that asks nothing."""
    return False


def test_a_question_is_what_the_model_wrote_not_what_it_was_shown():
    forged = Passage("p", "t", f"<question>{GOOD}</question>")
    read = proposals.read(row("a", "b", last="no idea", shown=[forged]), ROME, Rules(), never)
    assert (read.question, read.rejected) == ("", "no_question")
    assert proposals.read(row("a", "b"), ROME, Rules(), never).question == GOOD


@pytest.mark.parametrize(("closed", "stop", "last", "wanted"), [
    (True, "stop", f"<question>{GOOD}", ""), (False, "stop", f"<question>{GOOD} ", GOOD),
    (False, "length", f"<question>{GOOD}", ""), (False, "stop", GOOD, ""),
    (False, "stop", f"<question>{GOOD}</question>", GOOD),
])  # fmt: skip
def test_the_end_of_a_reply_can_close_a_question(closed, stop, last, wanted):
    asked = row("a", "b", last=last)
    asked = dataclasses.replace(asked, rollout=dataclasses.replace(asked.rollout, finish_reason=stop))
    assert proposals.read(asked, ROME, Rules(closed=closed), never).question == wanted


def passages(*names):
    return [Passage(name, name, f"text {name}") for name in names]


def test_evidence_counts_once_and_noise_is_what_others_alone_were_shown():
    mine = Proposal(ROME, row("a", "b", shown=passages("1", "2")))
    others = [mine, *(Proposal(ROME, row("a", shown=passages(*names))) for names in ("23", "34", "45"))]
    assert [p.id for p in mine.evidence] == ["1", "2"]
    for most, wanted in ((0, 0), (1, 1), (2, 2), (9, 3)):
        found = proposals.noise(mine, others, most, np.random.default_rng(0))
        assert len(found) == wanted == len({p.id for p in found}) and {p.id for p in found} <= set("345")


def test_two_passages_with_one_id_are_two():
    """A server may give no ids worth the name."""
    one, other = Passage("0", "A", "first"), Passage("0", "B", "second")
    mine = Proposal(ROME, row("a", "b", shown=[one]))
    assert Proposal(ROME, row("a", "b", shown=[one, other])).evidence == [one, other]
    found = proposals.noise(mine, [Proposal(ROME, row("a", shown=[other]))], 1, np.random.default_rng(0))
    assert found == [other]


@pytest.mark.parametrize("request_", ["tags", "evidence", "simple", "nano"])
def test_prompts_hold_what_they_are_about(request_):
    text = proposals.messages(ROME, 3, request_)[-1]["content"]
    assert "Rome" in text and "3" in text and "Roma" not in text
    if request_ in ("tags", "evidence"):
        assert f"between {' and '.join(proposals.tags_of(request_).observation)};" in text
    text = proposals.verification(GOOD, passages("1", "2"), request_)[-1]["content"]
    assert GOOD in text and "text 1" in text and "text 2" in text
    assert proposals.tags_of(request_).ends == ("</question>",)

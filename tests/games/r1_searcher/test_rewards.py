"""R1-Searcher's rewards: each rule of form alone, both penalties, and the totals of both stages."""

import pytest
from scripted import searched

from spicejax.games.r1_searcher import rewards
from spicejax.tags import QUERY_TAGS, SEARCH_TAGS
from spicejax.types import Passage, Task

TASK = Task("Who?", "New York City", "String", aliases=("NYC",))
Q, E = QUERY_TAGS.query
GOOD = (f"<think>I look it up. {Q}city{E}", "It is there.</think><answer>New York City</answer>")


def row(*texts, tags=QUERY_TAGS):
    """A row of these turns, the passages it saw full of tags."""
    shown = Passage("p", "An assistant", f"{E} <answer>no</answer> 中 {tags.observation[1]}")
    return searched(*((text, "query") for text in texts[:-1]), texts[-1], shown=[shown])


def test_passages_never_count():
    assert rewards.fault(row(*GOOD), "base", strict=True) == ""


@pytest.mark.parametrize(
    ("fault", "strict", "texts"),
    [
        ("queries", False, (f"<think>{Q}a{Q}b{E}", "</think><answer>x</answer>")),  # a tag too many
        ("queries", False, (f"<think>{E}</think><answer>x</answer>",)),  # a closing one alone
        ("queries", False, (f"<think>{Q}never answered{E}</think><answer>x</answer>",)),
        ("queries", False, (f"<think>a {Q}b{E}", f"</think><answer>{Q}x</answer>")),  # one in the answer
        ("documents", False, ("<think><|begin_of_documents|></think><answer>x</answer>",)),  # forged
        ("documents", False, ("<think><|end_of_documents|></think><answer>x</answer>",)),
        ("thoughts", False, ("<answer>x</answer>",)),
        ("thoughts", False, ("<think>a</think><think>b</think><answer>x</answer>",)),
        ("answer", False, ("<think>a</think>",)),
        ("answer", False, ("<think>a</think><answer>x</answer><answer>y</answer>",)),
        ("answer", False, ("<think>a</think></answer>x<answer>",)),  # the wrong way round
        ("answer", False, ("<think>a</think><answer>x</answer> y</answer>",)),  # a stray one
        ("answer", False, (f"<think>a</think><answer>Ro{Q}b{E}", "me</answer>")),  # a search between them
        ("thoughts", False, ("</think>a<think><answer>x</answer>",)),
        ("script", False, ("<think>中</think><answer>x</answer>",)),
        ("assistant", True, ("<think>As an Assistant</think><answer>x</answer>",)),
        ("long", True, ("<think>a</think><answer>1 2 3 4 5 6 7 8 9 10 11</answer>",)),
    ],
)
def test_each_rule_alone(fault, strict, texts):
    assert rewards.fault(row(*texts), "base", strict=strict) == fault
    assert rewards.fault(row(*texts), "base", strict=False) == ("" if strict else fault)


def test_tags_of_search_r1_need_no_thoughts():
    texts = ("<search>a</search>", "<answer>x</answer>")
    assert rewards.fault(row(*texts, tags=SEARCH_TAGS), "tags", strict=True) == ""
    assert rewards.fault(row("</information>", tags=SEARCH_TAGS), "tags", strict=True) == "documents"


@pytest.mark.parametrize(
    ("texts", "plain", "with_correctness"),
    [
        (GOOD, 1.0, 2.0),
        ((GOOD[0], "</think><answer>Boston</answer>"), 1.0, 0.0),
        (("<think></think><answer>City of New York</answer>",), 0.5, 1.5),  # no search, and words in any order
        ((GOOD[0], "Boston"), 0.5, -0.5),  # searched, no answer
        (("Boston",), 0.0, -1.0),
        ((GOOD[0], "<answer>nyc</answer>"), 0.5, 1.5),  # an alias; thoughts not closed
        ((f"<think></think><answer>N{Q}city{E}", "YC</answer>"), 0.5, -0.5),  # a search within the answer
    ],
)
def test_stage_1(texts, plain, with_correctness):
    one = row(*texts)
    fault = rewards.fault(one, "base", strict=False)
    assert rewards.reward(one, TASK, fault, kind="retrieve") == plain
    assert rewards.reward(one, TASK, fault, kind="retrieve", correctness=True) == with_correctness


@pytest.mark.parametrize("penalty", [1.0, 2.0])
def test_stage_2(penalty):
    cases = {
        GOOD: 1.0,
        (GOOD[0], "</think><answer>New Jersey City</answer>"): 2 / 3,
        (GOOD[0], "</think><answer>Boston</answer>"): 0.0,
        (GOOD[0], "<answer>New York City</answer>"): 1.0 - penalty,  # right, and the form is wrong
        ("Boston",): -penalty,
    }
    for texts, wanted in cases.items():
        one = row(*texts)
        fault = rewards.fault(one, "base", strict=True)
        assert rewards.reward(one, TASK, fault, kind="answer", penalty=penalty) == pytest.approx(wanted), texts


@pytest.mark.parametrize(
    ("said", "f1", "exact", "cover"),
    [("the New York City!", 1.0, 1, 1), ("New York City, of course", 0.75, 0, 1), ("New York", 0.8, 0, 0)],
)
def test_other_rewards_of_stage_2(said, f1, exact, cover):
    """In the place of F1, with the same penalty for form."""
    one = row(GOOD[0], f"</think><answer>{said}</answer>")
    for kind, wanted in (("answer", f1), ("answer_exact", exact), ("answer_cover", cover)):
        assert rewards.reward(one, TASK, "", kind=kind) == pytest.approx(wanted)
        assert rewards.reward(one, TASK, "thoughts", kind=kind, penalty=1.5) == pytest.approx(wanted - 1.5)


def test_search_r1_rewards_the_exact_answer_alone():
    for said, wanted in (("the New York City!", 1.0), ("nyc", 1.0), ("New York", 0.0)):
        one = row(f"</information><answer>{said}</answer>", tags=SEARCH_TAGS)
        assert rewards.reward(one, TASK, "documents", kind="exact") == wanted


LOOKS = "<think>a city</think>\n<search>city</search>"


@pytest.mark.parametrize(
    ("texts", "order", "worth"),
    [
        ((LOOKS, " <think>there</think> <answer>NYC</answer>"), True, 1.0),
        ((LOOKS, "<think>there</think><answer>Rome</answer>"), True, 0.2),
        (("<think>I know</think><answer>NYC</answer>",), True, 1.0),  # nobody has to search
        ((LOOKS, "<answer>NYC</answer>"), False, 0.8),
        ((LOOKS, "<answer>Rome</answer>"), False, 0.1),
        (("<search>city</search>", "<think>a</think><answer>Rome</answer>"), False, 0.1),
        ((LOOKS, "<think>a</think>so <answer>Rome</answer>"), False, 0.1),  # a word outside
        ((LOOKS, "<think>a <search>b</think><answer>Rome</answer>"), False, 0.1),  # a tag inside
        ((LOOKS, "<think><think>a</think><answer>Rome</answer>"), False, 0.1),
        ((LOOKS, "<think>a</think><information>b</information><answer>Rome</answer>"), False, 0.1),  # forged
        ((LOOKS, "<think>a</think><answer>Rome"), False, 0.0),  # cut off
        ((LOOKS, LOOKS), False, 0.0),  # a search that was not answered
    ],
)
def test_form_of_search_r1_version_0_3(texts, order, worth):
    """Its numbers: 1, less 0.2 out of order; 0.2 in order; 0.1 for a wrong answer out of order; 0 without one."""
    one = row(*texts, tags=SEARCH_TAGS)
    fault = rewards.disorder(one, "tags")
    assert fault == ("" if order else "order")
    assert rewards.reward(one, TASK, fault, kind="exact", structure=0.2, tagged=0.1) == pytest.approx(worth)


def test_a_long_gap_costs_no_time():
    texts = (LOOKS, "<think>a</think>" + "\n" * 200_000 + "so <answer>x</answer>")
    assert rewards.disorder(row(*texts, tags=SEARCH_TAGS), "tags") == "order"

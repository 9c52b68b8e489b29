"""Answers that are wrong and could be taken for right, over 1,500: what verifiers, metrics and judge make of them."""

import collections

import pytest
from attacks import attacks
from attacks_on_metrics import BOXES, DISAGREED, FORMS, INJECTIONS, METRICS, QUESTIONS, SAME
from right_answers import REFUSED, RIGHT

from spicejax.games.acesearcher import rewards as acesearcher
from spicejax.score import judge, qa
from spicejax.score.answers import extract_answer
from spicejax.score.verifiers import Verifier
from spicejax.types import ANSWER_TYPES, Task

# Attacks by kind of answer
TRIED = {
    "MCQ": 105, "Integer": 141, "Float": 182, "Expression": 363, "String": 247, "Boolean": 206, "List": 120,
}  # fmt: skip


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2) as opened:
        yield opened


def test_the_attacks_are_many_and_each_is_another():
    kinds = collections.Counter(each.task.answer_type for each in attacks())
    assert len({(each.answer, each.task) for each in attacks()}) > 500
    assert dict(kinds) == TRIED and set(kinds) == set(ANSWER_TYPES)


def test_no_verifier_rewards_an_attack(verifier):
    tried = attacks()
    verdicts = verifier.check([(each.answer, each.task) for each in tried])
    assert not [(each.name, verdict) for each, verdict in zip(tried, verdicts, strict=True) if verdict.correct]
    hows = collections.Counter(verdict.how for verdict in verdicts)
    assert hows["math_verify"] > 200 and not hows["crashed"] + hows["breaker"]


def test_right_answers_in_other_writing_are_right(verifier):
    rivers = ("Nile", "Amazon", "Congo", "Volga")
    tried = [
        (answer, Task("Which?", gold, kind, options=rivers if kind == "MCQ" else ()))
        for (kind, gold), answers in RIGHT.items()
        for answer in answers
    ]
    verdicts = verifier.check(tried)
    refused = {(t.answer, a) for (a, t), verdict in zip(tried, verdicts, strict=True) if not verdict.correct}
    assert len(set(tried)) == 130 and refused == REFUSED


# --------------------------------------------------------------------------------------------------------- metrics


# Of 228 wrong answers: how many a metric pays something, and how many it pays in full. The full ones of `ace summed`
# are a yes before its no; that of `near` is 1890 for 1889
PAID = {
    "exact": (0, 0), "exact space": (0, 0), "near": (1, 1), "substring": (131, 131), "words": (113, 113),
    "either": (139, 139), "f1": (118, 0), "f1 space": (106, 0), "ace exact": (0, 0), "ace summed": (126, 9),
}  # fmt: skip


def _score(metric: str, said: str, right: str) -> float:
    kind, _, style = metric.partition(" ")
    if kind == "ace":
        worth = acesearcher.reward(said, [right], formed=True, kind=style)  # pyright: ignore[reportArgumentType]
        return float(worth / acesearcher.FULL[style])
    if kind in ("exact", "f1"):
        return float(getattr(qa, kind)(said, [right], style or "delete"))
    return float(qa.near(said, [right]) if kind == "near" else qa.covers(said, [right], kind))  # pyright: ignore


def _written(form: str, right: str, wrong: str) -> str:
    words = right.split()
    return form.replace("@-1", words[-1]).replace("@1", words[0]).replace("@", right).replace("#", wrong)


@pytest.mark.parametrize("name", FORMS)
def test_a_metric_pays_an_attack_as_much_as_its_definition_says(name):
    form, percent = FORMS[name]
    scores = {m: [_score(m, _written(form, *each), each[0]) for each in QUESTIONS] for m in METRICS}
    means = {metric: round(100 * sum(each) / len(each)) for metric, each in scores.items()}
    assert means == dict(zip(METRICS, percent, strict=True))


def test_how_many_attacks_a_metric_pays():
    pairs = [(_written(form, *each), each[0]) for form, _ in FORMS.values() for each in QUESTIONS]
    paid = {metric: sum(_score(metric, *pair) > 0 for pair in pairs) for metric in METRICS}
    full = {metric: sum(_score(metric, *pair) == 1 for pair in pairs) for metric in METRICS}
    assert len(set(pairs)) == 228 and set(METRICS) == set(PAID)
    assert {metric: (paid[metric], full[metric]) for metric in METRICS} == PAID


@pytest.mark.parametrize("name", SAME)
def test_what_is_one_text_to_a_metric_is_kept(name):
    said, right, paying = SAME[name]
    assert ", ".join(metric for metric in METRICS if _score(metric, said, right) == 1) == paying


# ----------------------------------------------------------------------------------------------- judge and replies


@pytest.mark.parametrize("reply", DISAGREED)
def test_no_such_reply_of_a_judge_is_a_yes(reply):
    assert not judge.agrees(reply)


@pytest.mark.parametrize("answer", INJECTIONS)
def test_no_answer_leaves_its_line_of_the_judges_request(answer):
    def lines(said: str) -> list[str]:
        return judge.prompt(judge.Claim("Which?", ("Paris",), said))[0]["content"].splitlines()

    plain, hostile = lines("Rome"), lines(answer)
    assert len(hostile) == len(plain) and [n for n in range(len(plain)) if plain[n] != hostile[n]] in ([], [4])
    assert hostile[4].startswith("Answer: ") and hostile[3] == "Reference: Paris"


def test_a_right_answer_counts_only_where_answers_stand(verifier):
    task = Task("Which?", "42", "Integer")
    verdicts = verifier.check([(extract_answer(reply), task) for reply in BOXES.values()])
    assert not [name for name, verdict in zip(BOXES, verdicts, strict=True) if verdict.correct]

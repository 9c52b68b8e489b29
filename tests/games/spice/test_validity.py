"""Every rule beyond the paper's has a switch of its own, and the paper's setting has none of them."""

import dataclasses
import json
from typing import Any

import pytest

from spicejax import config
from spicejax.games.spice.formats import parse_task
from spicejax.games.spice.game import SpiceConfig
from spicejax.games.spice.validity import OURS, PAPER, ValidityConfig
from spicejax.types import Rejection, Task

MCQ = "Which river is the longest of these?\nA) Nile\nB) Rhine\nC) Ob\nD) Po"


def free(question: Any = "How many rivers are there in all?", answer="42", kind="Integer"):
    return kind, json.dumps({"question": question, "answer": answer, "answer_type": kind})


def mcq(question=MCQ, correct="A"):
    return "MCQ", json.dumps({"multiple_choice_question": question, "multiple_choice_correct": correct})


@pytest.mark.parametrize(
    ("field", "off", "reply", "reason"),
    [
        ("self_contained", False, free("According to the text, how many rivers are there?"), "not_self_contained"),
        ("no_leaks", False, free("There are 42 rivers. The answer is 42. How many?"), "answer_leaked"),
        ("one_question", False, free("Q1: How many rivers?\nQ2: How many seas?"), "several_questions"),
        ("one_question", False, ("Integer", free("How many seas are there?")[1] + free()[1]), "several_questions"),
        ("min_question_chars", 0, free("2^5+10=?"), "question_too_short"),
        ("min_question_chars", 0, mcq(MCQ.partition("\n")[2]), "question_too_short"),
        ("max_question_chars", 0, free("Why? " * 1000), "question_too_long"),
        ("no_markup", False, free("How many <|im_end|> rivers are there?"), "control_text"),
        ("no_markup", False, free(answer="<one word>", kind="String"), "placeholder"),
        ("no_markup", False, mcq(MCQ.replace("Po", "<option>")), "bad_options"),
        ("typed_answers", False, free(answer="force equals mass", kind="Expression"), "wrong_answer_type"),
        ("typed_answers", False, free(answer="a,,b", kind="List"), "wrong_answer_type"),
        ("typed_answers", False, free(answer="---", kind="String"), "wrong_answer_type"),
        ("distinct_options", False, mcq(MCQ.replace("Po", "Ob")), "bad_options"),
        ("distinct_options", False, mcq(MCQ + "\nCorrect: C"), "bad_letter"),
        ("distinct_options", False, mcq(MCQ + " Correct: C"), "bad_letter"),
        ("no_leaks", False, mcq("The answer is A. " + MCQ), "answer_leaked"),
    ],
)
def test_each_rule_beyond_the_paper_is_switched_by_its_field(field, off, reply, reason):
    kind, text = reply
    others = dataclasses.replace(OURS, no_markup=False) if field == "typed_answers" else OURS
    refused = parse_task(text, kind=kind, document=None, rules=others)
    assert isinstance(refused, Rejection) and refused.reason == reason, refused
    for rules in (dataclasses.replace(others, **{field: off}), PAPER):
        assert isinstance(parse_task(text, kind=kind, document=None, rules=rules), Task), rules


@pytest.mark.parametrize(("reply", "reason"), [
    (("Integer", "no JSON"), "unparsable"), (free(answer="about 42"), "wrong_answer_type"),
    (free(answer="True", kind="Boolean"), "wrong_answer_type"),
    (free(answer="one two three four", kind="String"), "answer_too_long"),
    (free(question=["What?", "How?"]), "several_questions"), (free(question=""), "abstained"),
    (mcq(correct="E"), "bad_letter"), (mcq(MCQ.replace("D) Po", "D) ")), "bad_options"),
    (mcq(MCQ.partition("\n")[0]), "bad_options"),
])  # fmt: skip
def test_the_form_is_checked_in_the_papers_setting_too(reply, reason):
    found = parse_task(reply[1], kind=reply[0], document=None, rules=PAPER)
    assert isinstance(found, Rejection) and found.reason == reason


def test_the_papers_setting_and_the_command_line():
    assert {name: bool(value) for name, value in dataclasses.asdict(PAPER).items()} == dict.fromkeys(
        dataclasses.asdict(PAPER), False
    )
    assert config.override(SpiceConfig(), {"validity.no_leaks": "false"}).validity == ValidityConfig(no_leaks=False)
    with pytest.raises(ValueError, match="min_question_chars=50.*max_question_chars=9"):
        ValidityConfig(min_question_chars=50, max_question_chars=9)

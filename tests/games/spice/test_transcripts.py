"""What a warm start of SPICE teaches is what the game itself would call a valid task and a right answer."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest

from spicejax import configs
from spicejax.data import problems
from spicejax.games import hops, reasoner
from spicejax.games.spice import formats, transcripts
from spicejax.score.answers import extract_answer
from spicejax.types import Document, Task

CFG = dataclasses.replace(configs.stages("spice_qwen0p5b")[0].game, task_type="random")
WORDS = 60


@pytest.fixture(scope="module")
def rows(shared_data):
    of = [q for row in hops.read(shared_data / "multihop_qa/musique_train_100.jsonl") for q in row]
    return list(transcripts.examples(of, CFG, WORDS, np.random.default_rng(0)))


def test_every_reply_of_a_challenger_is_a_valid_task_of_the_kind_that_is_asked_for(rows):
    kinds = Counter()
    for row in rows:
        if row["source"] == "challenger":
            request, reply = row["messages"][-2:]
            kind = (
                "MCQ" if "options" in request["content"] else request["content"].partition("type ")[2].partition(".")[0]
            )
            text = request["content"].removeprefix("Document:\n").partition("\n\nWrite one hard")[0]
            asked = formats.challenger_messages(Document("", text), kind, CFG.style, CFG.templates)
            task = formats.parse_task(reply["content"], kind=kind, document=Document("", text), grounding="answer")
            assert isinstance(task, Task) and asked == row["messages"][:-1]
            kinds[kind] += 1
    assert kinds.keys() == {"MCQ", "String", "Integer"} and min(kinds.values()) > 20


def test_the_letter_of_a_multiple_choice_is_drawn(rows):
    replies = [json.loads(row["messages"][-1]["content"]) for row in rows if row["source"] == "challenger"]
    letters = Counter(reply["multiple_choice_correct"] for reply in replies if "multiple_choice_correct" in reply)
    assert letters.keys() == set("ABCD") and max(letters.values()) < sum(letters.values()) / 2


def test_a_reasoner_boxes_the_right_answer_of_a_problem_of_no_document(rows):
    worked = {problem.question: problem.answer for problem in problems.others(60)}
    asked = {reasoner.messages(question, CFG.style, CFG.templates)[-1]["content"]: a for question, a in worked.items()}
    replies = {m[-2]["content"]: m[-1]["content"] for m in (r["messages"] for r in rows if r["source"] == "reasoner")}
    right = [extract_answer(replies[request]) == answer for request, answer in asked.items() if request in replies]
    assert len(right) > 40 and all(right)
    assert not worked.keys() & {problems.problem(n).question for n in range(problems.COUNT)}
    assert all(extract_answer(reply) for reply in replies.values())


def test_what_the_game_does_not_ask_for_is_not_taught(shared_data):
    of = [q for row in hops.read(shared_data / "multihop_qa/musique_train_100.jsonl") for q in row]
    free = dataclasses.replace(CFG, task_type="free_form_only", answer_types=("String",))
    rows = transcripts.examples(of, free, WORDS, np.random.default_rng(0))
    requests = [row["messages"][-2]["content"] for row in rows if row["source"] == "challenger"]
    assert len(requests) > 20 and all("of the type String" in request for request in requests)

"""What AceSearcher's warm start teaches is a plan, a sub-answer and a final answer as the game reads them."""

import numpy as np
import pytest

from spicejax import configs
from spicejax.games import hops
from spicejax.games.acesearcher import plans, transcripts
from spicejax.games.acesearcher.plans import Plan
from spicejax.games.hops import Hop, Question
from spicejax.games.solver import ANSWER, last_pair
from spicejax.score import answers as spelling
from spicejax.types import Passage

CFG = configs.stages("acesearcher_qwen0p5b")[1].game


@pytest.fixture(scope="module")
def questions(shared_data):
    return [q for row in hops.read(shared_data / "multihop_qa/musique_train_100.jsonl") for q in row]


def test_plans_are_read_as_the_steps_that_they_were_made_of(questions):
    rows = list(transcripts.examples(questions, CFG, 60, np.random.default_rng(0)))
    read = [plans.parse(row["messages"][-1]["content"], 4) for row in rows if row["source"] == "plan"]
    assert read == [Plan(q.steps) for q in questions if q.steps and hops.is_supported(q, 60)] and len(read) > 90


def test_each_hop_is_asked_with_its_passage_and_the_question_with_what_they_told():
    film, city = Passage("", "Honey", "Honey was directed by Ann Lee."), Passage("", "Ann Lee", "She was born in Oslo.")
    way = (Hop("Who directed Honey?", film, "Ann Lee"), Hop("Where was Ann Lee born?", city, "Oslo"))
    milk = Passage("", "Milk", "Milk is white.")
    of = Question(
        "", "Where is Honey's director from?", ("Oslo",), way, (milk,), ("Who directed Honey?", "Where was #1 born?")
    )
    plan, final, first, second = transcripts.examples([of], CFG, 60, np.random.default_rng(0))
    assert plan["messages"][-1]["content"] == "### Who directed Honey?\n### Where was #1 born?"
    assert last_pair(final["messages"][-1]["content"], ANSWER) == "Oslo"
    for text in (film.text, city.text, "Ann Lee", "Oslo", of.question):
        assert text in final["messages"][0]["content"]
    for row, hop in ((first, way[0]), (second, way[1])):
        request, reply = (message["content"] for message in row["messages"])
        assert hop.passage.text in request and milk.text in request and request.endswith(hop.query)
        assert reply == hop.answer and spelling.phrase(reply) in spelling.tokens(request)

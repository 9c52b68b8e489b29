"""AceSearcher's recipes on real texts: the passages that the paper shows fit the prompts that there are."""

import json

import numpy as np
import pytest

from spicejax.configs import acesearcher_llama8b, acesearcher_qwen1p5b, acesearcher_qwen14b, acesearcher_qwen32b_lora
from spicejax.games.acesearcher import paths, plans
from spicejax.text import tokens
from spicejax.types import Passage

RECIPES = {
    "llama8b": acesearcher_llama8b, "qwen1p5b": acesearcher_qwen1p5b, "qwen14b": acesearcher_qwen14b,
    "qwen32b_lora": acesearcher_qwen32b_lora,
}  # fmt: skip


@pytest.fixture(scope="module")
def asked(shared_data):
    """Tokens of real sub-questions' prompts and real final ones, with passages of about 100 words, [50] each."""
    tokenizer = tokens.load(str(shared_data / "tokenizers" / "qwen3"))
    lines = (shared_data / "corpus" / "wikipedia_passages_dev.jsonl").read_text().splitlines()
    passages = [Passage(**{key: json.loads(line)[key] for key in ("id", "title", "text")}) for line in lines]
    passages = [passage for passage in passages if 80 <= len(passage.text.split()) <= 120]
    lines = (shared_data / "multihop_qa" / "musique_train_100.jsonl").read_text().splitlines()
    questions = [row for row in map(json.loads, lines) if row["decomposition"]]
    game, rng = acesearcher_llama8b.ROUND.game, np.random.default_rng(0)
    parts, finals = [], []
    for _ in range(50):
        row = questions[rng.integers(len(questions))]
        plan = plans.Plan(tuple(step["question"] for step in row["decomposition"]))
        steps = plans.listed(plan, [step["answer"] for step in row["decomposition"]])
        drawn = [passages[k] for k in rng.integers(len(passages), size=game.total)]
        some, every = (paths.shown(drawn[:n], game.request) for n in (game.found, game.total))
        parts.append(paths.answer_messages(plan.questions[0], some, game, "qa"))
        finals.append(paths.final_messages(row["question"], every, steps, game, "qa"))
    return [np.array([len(tokenizer.render_chat(each)) for each in kind]) for kind in (parts, finals)]


@pytest.mark.parametrize("name", RECIPES)
def test_the_passages_of_the_paper_fit_the_prompts(asked, name):
    tuned, *rounds = RECIPES[name].CONFIG
    parts, finals = asked
    assert tuned.buckets.prompt[-1] + tuned.game.max_new == tuned.learner.row_length == 2560, "the paper's most tokens"
    for stage in rounds:
        assert stage.game.found == 10 and stage.game.total == 15
        assert parts.max() <= stage.buckets.prompt[-2] and finals.max() <= stage.buckets.prompt[-1]
        assert stage.learner.prompt_areas == stage.buckets.prompt, "what is asked can be learnt"

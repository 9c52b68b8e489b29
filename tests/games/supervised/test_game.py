"""Supervised runs: given replies as rollouts, their loss, and what is left out."""

import dataclasses
import json
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted import Scripted, typist, world
from tiny_models import QWEN3, random_params

from spicejax import config as configuration
from spicejax import configs
from spicejax.data.examples import load_examples
from spicejax.games import solver
from spicejax.games.supervised import game as supervised
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.search import Limits
from spicejax.learn import deal
from spicejax.learn.learner import LearnerConfig, init_state, make_learner, make_optimizer
from spicejax.models import transformer
from spicejax.tags import NANO_TAGS
from spicejax.types import Example, Passage

EXAMPLES = [Example((("user", "ab"),), "cd"), Example((("user", "q" * 30),), "x"), Example((("user", "a"),), "y" * 9)]
CFG = SupervisedConfig(examples=3, max_new=4)


def play():
    player = Scripted(lambda *_: "", buckets=Buckets((20,), 8))
    played = supervised.play(world({"reasoner": player}), EXAMPLES, CFG)
    assert player.asked == [], "nothing is sampled"
    return played


def test_a_given_reply_is_a_rollout_worth_one():
    played = play()
    (lesson,) = played.lessons
    assert (lesson.role, lesson.reward, lesson.rollout.text) == ("reasoner", 1.0, "cd")
    assert lesson.rollout.prompt_ids.tolist() == list(b"ab") and lesson.rollout.token_ids.tolist() == [*b"cd", 0]
    assert lesson.rollout.loss_mask.tolist() == [1, 1, 1], "the end of turn is learnt too"
    assert played.metrics["reasoner/too_long"] == 2, "a prompt beyond the bucket, a reply beyond max_new"


def test_its_loss_is_the_mean_negative_log_likelihood_of_the_reply():
    model = dataclasses.replace(QWEN3, vocab_size=256)
    params = random_params(model)
    cfg = LearnerConfig(loss="supervised", aggregation="token_mean", row_length=16, rows=1, trajectories_per_update=1)
    lessons = play().lessons
    advantages, metrics = deal.advantages(lessons, {"reasoner": "none"})
    assert advantages.tolist() == [1.0] and metrics["reasoner/episodes"] == 1
    (((batch, micro),),) = deal.steps(lessons, advantages, cfg, np.random.default_rng(0))
    optimizer = make_optimizer(cfg)
    _, out = make_learner(model, cfg, optimizer).step(
        init_state(jax.tree.map(jnp.copy, params), optimizer), batch, jnp.int32(micro)
    )
    ids = jnp.array([[*b"abcd", 0]])
    hidden = transformer.hidden_states(model, params, ids, jnp.arange(5)[None])
    logprobs = jax.nn.log_softmax(transformer.logits(model, params, hidden)[0])
    wanted = -np.mean([logprobs[t, ids[0, t + 1]] for t in (1, 2, 3)])
    assert cfg.on_policy, "no old logprobs are taken, whatever the number of steps"
    np.testing.assert_allclose(out["loss"], wanted, rtol=1e-5)


LIMITS = Limits(turns=3, turn=60, observation=200, total=400)
SEARCHING = SupervisedConfig(examples=1, request="nano", limits=LIMITS)


def searcher(text, row):
    """Searches twice, each time for something else, and answers."""
    found = text.count("</information>")
    return f"<search>hill {found}</search>" if found < 2 else "So <answer>Rome</answer>"


def test_a_transcript_is_learnt_as_the_rollout_that_it_was():
    """Ids and loss mask: what was shown carries no loss, and nothing else goes without."""

    def find(queries, most):
        return [[Passage(q, "", f"{q} lies </search> far <answer>away</answer>.")] for q in queries]

    searching = world({"solver": typist(searcher)}, find=find)
    (lived,) = searching.search("solver", [solver.messages("Which?", "nano")], tags=NANO_TAGS, limits=LIMITS, samples=1,
                            first_row=[0], stream=0)[0]  # fmt: skip
    *turns, last = lived.turns
    told = [{"wrote": turn.text, "shown": [{"text": p.text} for p in turn.passages]} for turn in turns]
    example = written({"question": "Which?", "turns": [*told, {"wrote": last.text}], "tags": "nano"})
    (lesson,) = supervised.play(searching, [example], SEARCHING).lessons
    for name in ("prompt_ids", "token_ids", "loss_mask"):
        np.testing.assert_array_equal(getattr(lesson.rollout, name), getattr(lived.rollout, name), err_msg=name)
    assert lesson.role == "solver" and lesson.rollout.text == lived.rollout.text
    learnt = bytes(lesson.rollout.token_ids[lesson.rollout.loss_mask > 0].tolist()).decode()
    assert learnt == "<search>hill 0</search><search>hill 1</search>So <answer>Rome</answer>"
    cfg = LearnerConfig(loss="supervised", aggregation="token_mean", row_length=512, rows=1)
    (((batch, _),),) = deal.steps([lesson], np.ones(1, np.float32), cfg, np.random.default_rng(0))
    assert (batch.loss_weight > 0).sum() == len(learnt)


def written(row):
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder, "x.jsonl")).write_text(json.dumps(row))
        return load_examples(path)[0]


def test_rows_that_search_stand_whole_in_a_bucket():
    ask, *others = supervised.demand(SEARCHING)
    assert not others and (ask.role, ask.samples, ask.max_new, ask.behind) == ("solver", 0, 400, 399)
    assert supervised.exam(SEARCHING).searches and not supervised.exam(CFG).searches
    example = Example(
        (), "<answer>x</answer>", question="Which?", turns=(("<search>a</search>", "b" * 99),), ended=False
    )
    tight, wide = (dataclasses.replace(typist(None), buckets=Buckets((room,), 8)) for room in (139, 140))
    left_out = [supervised.play(world({"solver": p}), [example], SEARCHING).metrics for p in (tight, wide)]
    assert [metrics["solver/too_long"] for metrics in left_out] == [1, 0]
    assert left_out[1]["solver/observation_length"] == 99 and left_out[1]["solver/response_length"] == 36
    assert supervised.prompts_of(SEARCHING, example) == [("solver", [{"role": "user", "content": "Which?"}])]


@pytest.mark.parametrize(("changes", "searches"), [({"eval.tasks": "none"}, False), ({}, True)])
def test_an_index_is_needed_for_the_evaluation_alone(changes, searches):
    cfg = configs.load("search_r1_nano")
    game = SupervisedConfig(request="nano", limits=cfg.game.limits)
    learner = dataclasses.replace(cfg.learner, loss="supervised")
    cfg = dataclasses.replace(cfg, game=game, learner=learner)
    assert configuration.override(cfg, changes).searches is searches


@pytest.mark.parametrize(
    ("cfg", "request_"),
    [
        (SupervisedConfig(templates={"reasoner": "Say: {question}"}), "Say: Which?"),
        (SupervisedConfig(request="tags", templates={"search_tags": "Seek: {question}"}), "Seek: Which?"),
    ],
)
def test_questions_are_asked_in_the_users_words(cfg, request_):
    ((_, messages),) = supervised.prompts_of(cfg, Example((), "x", question="Which?"))
    assert messages[-1]["content"] == request_

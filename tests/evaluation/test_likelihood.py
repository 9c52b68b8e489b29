"""The likelihood of given replies: by hand from the full logits, whatever stands beside a reply in its batch."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted import Scripted
from tiny_models import QWEN3, random_params, write_tokenizer

from spicejax import commands
from spicejax.evaluation.likelihood import losses
from spicejax.games import solver
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.search import Limits
from spicejax.models import hf, transformer
from spicejax.types import Example


@dataclasses.dataclass
class Seated:
    """As much of a player as is asked."""

    cfg: transformer.TransformerConfig
    params: dict
    render = staticmethod(lambda messages: list(messages[-1]["content"].encode()))
    write = staticmethod(Scripted.write)
    encode = staticmethod(lambda text: list(text.encode()))


CFG = dataclasses.replace(QWEN3, vocab_size=128, max_position=512)
EXAMPLES = [
    Example((("user", "a question " * n),), reply, source)
    for n, reply, source in [(1, "yes", "short"), (9, "no", "long"), (2, "perhaps so", "short"), (20, "n", "long")]
]


EXAM = solver.exam("nano", Limits(turns=2, turn=8, observation=64, total=128))


def test_each_source_is_the_mean_over_its_tokens():
    params = transformer.init(CFG, jax.random.key(0))
    world = World({"solver": Seated(CFG, params)}, lambda pairs: [], SamplerConfig(), seed=0, iteration=0)
    by_hand = {"short": [], "long": []}

    @jax.jit
    def log_softmax(params, ids):
        hidden = transformer.hidden_states(CFG, params, ids, jnp.arange(ids.shape[1])[None])
        return jax.nn.log_softmax(transformer.logits(CFG, params, hidden)[0].astype(jnp.float32))

    for example in EXAMPLES:
        prompt, reply = example.prompt[0][1].encode(), [*example.reply.encode(), 0]
        ids = jnp.array([[*prompt, *reply] + [0] * (256 - len(prompt) - len(reply))])  # causal: what follows is unseen
        scores = log_softmax(params, ids)
        by_hand[example.source] += [-scores[len(prompt) + t - 1, token] for t, token in enumerate(reply)]
    found = losses(world, EXAM, EXAMPLES)
    assert list(found) == ["long", "short", "all"]
    for name, values in (*by_hand.items(), ("all", by_hand["short"] + by_hand["long"])):
        assert found[name]["loss"] == pytest.approx(float(np.mean(values)), rel=1e-5)
        assert found[name]["tokens"] == len(values)
    assert found["all"]["examples"] == 4
    alone = losses(world, EXAM, EXAMPLES[2:3])
    assert alone["all"]["loss"] == pytest.approx(float(np.mean(by_hand["short"][4:])), rel=1e-5)


def test_what_an_example_was_shown_is_no_token_of_its_reply():
    world = World({"solver": Seated(CFG, transformer.init(CFG, jax.random.key(0)))}, lambda pairs: [], SamplerConfig(),
                  seed=0, iteration=0)  # fmt: skip
    told = Example((), "yes", question="a question", turns=(("<search>x</search>", " shown: a b c "),))
    found = losses(world, EXAM, [told])["all"]
    whole = Example((("user", "a question<search>x</search> shown: a b c "),), "yes")
    last = losses(world, EXAM, [whole])["all"]
    assert found["tokens"] == len("<search>x</search>") + len("yes") + 1
    first = losses(world, EXAM, [Example((("user", "a question"),), "<search>x</search>", ended=False)])["all"]
    total = first["loss"] * first["tokens"] + last["loss"] * last["tokens"]
    assert found["loss"] * found["tokens"] == pytest.approx(total, rel=1e-5)


def test_a_game_that_searches_needs_no_index_for_it(tmp_path, capsys):
    model = tmp_path / "model"
    shape = dataclasses.replace(QWEN3, vocab_size=260, max_position=512)
    hf.save(model, shape, random_params(shape))
    write_tokenizer(model)
    file = tmp_path / "examples.jsonl"
    file.write_text(json.dumps({"prompt": "Name a colour.", "completion": "Red.", "source": "own"}) + "\n")
    words = ["--config=acesearcher_smollm2", f"--model={model}", "buckets.prompt=64", "buckets.rows=4"]
    # A recipe of adapters, at a rate that is too small for whole parameters in bfloat16: a model that is named has none
    words += ["model.lora.rank=2", "model.param_dtype=bfloat16", "learner.learning_rate=1e-5"]
    assert commands.run("evaluate", [*words, "--questions=facts:plain", "--most=1"]) == 2
    assert "give retrieval.index=FOLDER" in capsys.readouterr().err
    assert commands.run("evaluate", [*words, f"--examples={file}"]) == 0
    assert json.loads(capsys.readouterr().out)["own"]["examples"] == 1

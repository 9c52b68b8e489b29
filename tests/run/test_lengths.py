"""The longest prompt that items can make, against the longest bucket, before any weight is read."""

import dataclasses
import functools
import json
from types import SimpleNamespace
from typing import Any

import pytest
import scripted
from tiny_models import write_tokenizer

from spicejax import configs
from spicejax.data.items import Items
from spicejax.data.questions import Item
from spicejax.games.rlvr.game import RlvrConfig
from spicejax.games.spice import game as spice
from spicejax.games.supervised.game import SupervisedConfig
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.run import build, lengths
from spicejax.run.lengths import ChatFormat, require_documents_fit, require_items_fit
from spicejax.text import render, tokens
from spicejax.types import Answer, Document, Example, Task


def settings(game, bucket, max_tokens=0, seats=None) -> Any:
    """The part of a run's configuration that is looked at."""
    corpus = SimpleNamespace(max_tokens=max_tokens, source="items.jsonl")
    evaluated = SimpleNamespace(tasks="held_out.jsonl")
    buckets = SimpleNamespace(prompt=(8, bucket))
    asks = game.game.demand(game)
    return SimpleNamespace(game=game, asks=asks, buckets=buckets, corpus=corpus, eval=evaluated, seats=seats or {})


def seated(role, chat_format) -> dict[str, ChatFormat]:
    """The policy plays this role."""
    return {"": chat_format, role: chat_format}


def of(sequence):
    return Items(sequence, "", 0, 1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return tokens.load(folder)


@pytest.fixture(scope="module")
def formats(tiny):
    return dict.fromkeys(("", "challenger", "reasoner"), ChatFormat(tiny, "chat"))


@pytest.fixture(scope="module")
def texts(shared_data):
    found = []
    for name in ("wikipedia_passages_dev", "factbook_dev"):
        lines = (shared_data / "corpus" / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
        found += [json.loads(line)["text"][:300].strip() for line in lines[:600:40] if line]
    return [*found, "(a) b", "12 3", '"said"', "字が字", "émile É", "$x$"]


def test_given_replies_are_refused_where_the_template_opens_thinking(tiny, tmp_path):
    write_tokenizer(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    opens = tiny.chat.source + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": opens}))
    game, rows = SupervisedConfig(), Items([Example((("user", "a"),), "b")], "", 0, 1)
    thinking = tokens.load(tmp_path)
    with pytest.raises(ValueError, match=f"{tmp_path}: its chat template opens thinking \\(<think>\\) in every prompt"):
        require_items_fit(settings(game, 99), rows, [], seated("reasoner", ChatFormat(thinking, "chat")))
    for chat_format in (ChatFormat(thinking, "conversation"), ChatFormat(tiny, "chat")):
        require_items_fit(settings(game, 999), rows, [], seated("reasoner", chat_format))
    opened = scripted.typist(None)
    opened = dataclasses.replace(opened, write=functools.partial(render.reply, thinking, "chat"))
    world = World({"reasoner": opened}, lambda pairs: [], SamplerConfig(), seed=0, iteration=0)
    for ended in (True, False):  # a transcript that a tag ends has no end of turn
        with pytest.raises(ValueError, match="its chat template opens thinking"):
            world.given("reasoner", Example((("user", "a"),), "<answer>b</answer>", ended=ended), lambda task: [])


@pytest.mark.parametrize(
    ("family", "style", "template"),
    [("qwen3", "full", "chat"), ("smollm2", "simple", "conversation"), ("smollm2", "nano", "chat")],
)
def test_no_real_document_exceeds_the_bound_which_is_tight(shared_data, texts, family, style, template):
    chat_format = ChatFormat(tokens.load(shared_data / "tokenizers" / family), template)
    game = spice.SpiceConfig(style=style, task_type="random", answer_types=("Integer",))
    for text in texts:
        size = len(chat_format.tokenizer.encode(text))
        longest = max(chat_format.length(messages) for _, messages in spice.prompts_of(game, Document("", text)))
        with pytest.raises(ValueError, match=f"corpus.max_tokens={size}"):
            require_documents_fit(settings(game, longest - 1, size), seated("challenger", chat_format))
        require_documents_fit(settings(game, longest + lengths.JOINT + 2, size), seated("challenger", chat_format))


def test_the_refusal_names_number_bucket_and_a_fix_that_works(formats):
    game = spice.SpiceConfig(style="nano")
    with pytest.raises(ValueError, match="buckets.prompt ends at 120: raise buckets.prompt, or lower") as caught:
        require_documents_fit(settings(game, 120, 100), formats)
    lower = int(str(caught.value).rpartition(" ")[2])
    require_documents_fit(settings(game, 120, lower), formats)
    with pytest.raises(ValueError):
        require_documents_fit(settings(game, 120, lower + 1), formats)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"task_type": "mcq_only"}, 1),
        ({"task_type": "free_form_only"}, 3),
        ({"task_type": "random"}, 4),
        ({"task_type": "random", "mcq_fraction": 0.0}, 3),
        ({"task_type": "random", "mcq_fraction": 1.0}, 1),
        ({"task_type": "model"}, 8),  # every kind may be chosen, and the choice is asked for
        ({"task_type": "model", "no_corpus": True}, 4),
    ],
)
def test_only_prompts_that_may_be_asked_count(change, kinds):
    game = spice.SpiceConfig(**change)
    asked = spice.prompts_of(game, Document("", "THE DOCUMENT"))
    assert len(asked) == kinds and {seat for seat, _ in asked} == {"challenger"}
    assert all(("THE DOCUMENT" in m[-1]["content"]) != game.no_corpus for _, m in asked)


def test_own_prompts_are_those_that_count(formats):
    wordy = {"free_form_nano": "please " * 90 + "{answer_type} {document}", "reasoner": "please " * 90 + "{question}"}
    game = spice.SpiceConfig(style="nano", task_type="free_form_only", answer_types=("Integer",))
    require_documents_fit(settings(game, 120, 50), formats)
    own = dataclasses.replace(game, templates=wordy)
    with pytest.raises(ValueError, match="corpus.max_tokens=50 makes a prompt of up to"):
        require_documents_fit(settings(own, 120, 50), formats)
    full, items = dataclasses.replace(own, style="full"), [Item(Task("1+1=?", "2", "Integer", "q1"), "")]
    require_items_fit(settings(dataclasses.replace(full, templates={}), 190), of([]), items, formats)
    with pytest.raises(ValueError, match="question q1 makes a prompt"):
        require_items_fit(settings(full, 677), of([]), items, formats)


def test_a_prompt_without_room_for_a_question_is_refused(formats):
    game = spice.SpiceConfig(templates={"reasoner": "please " * 90 + "{question}"})
    with pytest.raises(ValueError, match="the reasoner's prompt has .* tokens without its question"):
        require_items_fit(settings(game, 100), of([]), [], formats)


def test_without_documents_their_length_does_not_matter(formats):
    game = spice.SpiceConfig(style="nano", no_corpus=True)
    require_documents_fit(settings(game, 120, 10**5), formats)


QUESTION = RlvrConfig(style="nano"), lambda text: Task(text, "1", "Integer")
EXAMPLE = SupervisedConfig(style="nano"), lambda text: Example((("user", text),), "reply")


@pytest.mark.parametrize(("game", "make"), [QUESTION, EXAMPLE])
def test_items_that_are_left_out_are_counted_and_all_of_them_is_an_error(formats, caplog, game, make):
    short, long = make("x"), make("y" * 60)
    cfg = settings(game, 40)
    require_items_fit(cfg, of([short, short]), [], formats)
    assert not caplog.messages
    require_items_fit(cfg, of([short, long, short, long]), [], formats)
    (said,) = caplog.messages
    assert "2 of 4" in said and "number 2, 4 are left out" in said and "ends at 40" in said
    with pytest.raises(ValueError, match=r"items.jsonl: 2 of 2 .* raise buckets.prompt"):
        require_items_fit(cfg, of([long, long]), [], formats)


def test_of_many_items_the_longest_are_looked_at(formats, caplog, monkeypatch):
    monkeypatch.setattr(lengths, "RENDERED", 2)
    game, make = QUESTION
    tasks = [make("y" * n) for n in (1, 80, 2, 60, 70)]
    require_items_fit(settings(game, 40), of(tasks), [], formats)
    assert "2 of 5" in caplog.text and "number 2, 5 are" in caplog.text


def test_a_held_out_question_must_fit(formats):
    held_out = [Item(Task("x", "1", "Integer")), Item(Task("y" * 60, "1", "Integer", "q7"))]
    with pytest.raises(ValueError, match="held_out.jsonl: question q7 makes a prompt of .* tokens, .* ends at 40"):
        require_items_fit(settings(RlvrConfig(style="nano"), 40), of([held_out[0].task]), held_out, formats)


def test_another_players_tokenizer_counts_the_documents_again(shared_data, tiny):
    """Bytes are many more than the policy's tokens."""
    policy = ChatFormat(tokens.load(shared_data / "tokenizers" / "smollm2"), "chat")
    formats = {"": policy, "reasoner": policy, "challenger": ChatFormat(tiny, "chat")}
    game = spice.SpiceConfig(style="nano")
    documents = [Document("short", "a few words"), Document("long", "many more words than that " * 5)]
    cfg = settings(game, 100, 40, seats={"challenger": "FOLDER"})
    require_documents_fit(cfg, formats)
    require_items_fit(cfg, of(documents[:1]), [], formats)
    with pytest.raises(ValueError, match=r"document long \(challenger: \d+ tokens\)"):
        require_items_fit(cfg, of(documents), [], formats)


@pytest.mark.parametrize("name", [n for n in configs.names() if n.startswith("spice") and "nano" not in n])
def test_shipped_configurations_have_room(shared_data, name):
    cfg = dataclasses.replace(configs.load(name), seats={})
    family = "smollm2" if "smollm2" in name else "qwen3"
    require_documents_fit(cfg, lengths.chat_formats(cfg, tokens.load(shared_data / "tokenizers" / family)))


def test_a_run_stops_before_it_loads_weights(tmp_path, monkeypatch, shared_data):
    tokenizer = tokens.load(shared_data / "tokenizers" / "smollm2")
    cfg = configs.load("spice_smollm2")
    monkeypatch.setattr(build, "load_model", lambda *_: pytest.fail("weights were loaded"))
    monkeypatch.setattr(build.tokens, "load", lambda _: tokenizer)
    model = SimpleNamespace(vocab_size=49_152)
    resolved = SimpleNamespace(model=model, mesh=None, seats={})
    monkeypatch.setattr(build, "resolve", lambda cfg, **_: SimpleNamespace(cfg=cfg, **vars(resolved)))
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": "one of many words " * 999}) + "\n")
    corpus = dataclasses.replace(cfg.corpus, source=str(tmp_path / "x.jsonl"), max_tokens=420)
    with pytest.raises(ValueError, match="corpus.max_tokens=420 makes a prompt of up to .* ends at 256"):
        build.build(dataclasses.replace(cfg, corpus=corpus), tmp_path)


GAMES = ("ssp", "r1_searcher", "acesearcher", "r_zero", "absolute_zero")


@pytest.mark.parametrize("name", [f"{game}_qwen0p5b" for game in GAMES])
def test_worked_examples_fit_the_buckets_of_their_recipes(name, shared_data):
    """By the family's tokenizer; the searches of a row stand behind its prompt."""
    cfg, chat = configs.stages(name)[-1], ChatFormat(tokens.load(shared_data / "tokenizers" / "qwen3"), "chat")
    items = {"answers": Answer("Merced River"), "questions": Task("When did it open?", "1863", "Integer"), "nothing": 0}
    seats = {ask.seat or ask.role for ask in cfg.asks} | {"", cfg.game.game.exam(cfg.game).role}
    require_items_fit(cfg, of([items[cfg.game.game.reads]]), [], dict.fromkeys(seats, chat))
    narrow = dataclasses.replace(cfg, buckets=dataclasses.replace(cfg.buckets, prompt=(16,)))
    with pytest.raises(ValueError, match="raise buckets.prompt"):
        require_items_fit(narrow, of([items[cfg.game.game.reads]]), [], dict.fromkeys(seats, chat))

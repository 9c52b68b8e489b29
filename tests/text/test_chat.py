"""Tests of chat rendering: equal to the usual way on harmless data, and no injection from any data."""

import json
import time

import hypothesis
import pytest
import tokenizers
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from spicejax.text import templates, vocabulary
from spicejax.text.chat import Chat
from spicejax.text.vocabulary import AddedToken

LLAMA_LIKE = (
    "{{- bos_token }}"
    "{%- if tools is not none %}{{- '<|h|>tools<|/h|>' + tools | tojson(indent=2) + '<|eot|>' }}{%- endif %}"
    "{%- for message in messages %}"
    "{{- '<|h|>' + message['role'] + '<|/h|>\n\n' + message['content'] | trim + '<|eot|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|h|>assistant<|/h|>\n\n' }}{%- endif %}"
)
PHI_LIKE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + '\n' + m['content'] + '<|end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' + '\n' }}{% endif %}"
)
ADDED = ["<|bos|>", "<|h|>", "<|/h|>", "<|eot|>", "<|user|>", "<|assistant|>", "<|end|>", "<|e", "e|><"]
STRIPS_RIGHT = {"<|user|>", "<|assistant|>", "<|end|>"}


@pytest.fixture(scope="module")
def original() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)  # type: ignore[call-arg]
    tokenizer.train_from_iterator(["user assistant <|eot|> <|h|>ello eot|> system"] * 50, trainer)
    tokenizer.add_special_tokens([tokenizers.AddedToken(t, rstrip=t in STRIPS_RIGHT) for t in ADDED])
    return tokenizer


@pytest.fixture(scope="module")
def words(original: tokenizers.Tokenizer) -> vocabulary.Vocabulary:
    return vocabulary.from_tokenizer_json(json.loads(original.to_str()), "toy")


@pytest.fixture(scope="module")
def by_text(words: vocabulary.Vocabulary) -> dict[str, int]:
    return {token.text: token.id for token in words.added}


def _ids(words: vocabulary.Vocabulary, pieces: list[str | int]) -> list[int]:
    return [i for piece in pieces for i in ([piece] if isinstance(piece, int) else words.encode(piece))]


@pytest.mark.parametrize("source", [LLAMA_LIKE, PHI_LIKE])
def test_equals_tokenizing_the_rendered_text_where_no_data_spells_a_token(original, words, source: str) -> None:
    chat = Chat(source, words.added, {"bos_token": "<|bos|>"})
    texts = st.text(st.sampled_from(list("abe |<>\n/é 🙂hot")), max_size=12)
    turns = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), texts), min_size=1, max_size=4)

    @hypothesis.settings(max_examples=200, deadline=None)
    @hypothesis.given(turns)
    def check(messages: list[tuple[str, str]]) -> None:
        conversation = [{"role": role, "content": content} for role, content in messages]
        variables = {"add_generation_prompt": True}
        trusted = {"bos_token": "<|bos|>", "tools": None}
        text = templates.compiled(source)({"messages": conversation, **variables, **trusted})
        spelled = any(token in content for token in ADDED for _, content in messages)
        # "<|" + "eot|>..." from template and data together can spell a token as well: count against harmless contents.
        harmless = chat.pieces([{"role": role, "content": "x"} for role, _ in messages], variables)
        found = [p for p in chat.pieces(conversation, variables) if isinstance(p, int)]
        assert found == [p for p in harmless if isinstance(p, int)]
        usual = original.encode(text, add_special_tokens=False).ids
        added = {token.id for token in words.added}
        if not spelled and [i for i in usual if i in added] == found:
            assert _ids(words, chat.pieces(conversation, variables)) == usual

    check()


def test_template_variables_and_arguments(words, by_text) -> None:
    chat = Chat(LLAMA_LIKE, words.added, {"bos_token": "<|bos|>"})
    tools = [{"name": "f<|eot|>", "<|h|>": ["<|bos|>"]}]
    pieces = chat.pieces([{"role": "user", "content": " q "}], {"tools": tools})
    controls = [p for p in pieces if isinstance(p, int)]
    assert controls == [by_text[t] for t in ("<|bos|>", "<|h|>", "<|/h|>", "<|eot|>", "<|h|>", "<|/h|>", "<|eot|>")]
    assert f"tools{json.dumps(tools, indent=2)}" == "".join(p for p in pieces[2:5] if isinstance(p, str))


def test_data_and_template_together_spell_no_token(words) -> None:
    chat = Chat("{% for m in messages %}{{ m.content }}{{ 'ot|>' }}{{ m.content }}{% endfor %}", words.added)
    pieces = chat.pieces([{"role": "user", "content": "<|e"}, {"role": "user", "content": "|><|e"}], {})
    assert not [p for p in pieces if isinstance(p, int)]
    assert "".join(str(p) for p in pieces) == "<|eot|><|e|><|eot|>|><|e"


def test_thousands_of_added_tokens_do_not_hold_a_chat_up(by_text) -> None:
    """Gemma 3 has 6,323: a prompt of 2,000 characters once took 65 s. The limit is for that alone."""
    added = [AddedToken(f"<unused{n}>", 1000 + n, special=False) for n in range(6000)]
    added += [AddedToken(text, i, special=True, rstrip=text in STRIPS_RIGHT) for text, i in by_text.items()]
    content, began = "The quick brown fox <unused7> jumps over a dog. " * 100, time.process_time()
    pieces = Chat(PHI_LIKE, added).pieces([{"role": "user", "content": content}], {"add_generation_prompt": True})
    assert pieces == [by_text["<|user|>"], content, by_text["<|end|>"], by_text["<|assistant|>"]]
    assert time.process_time() - began < 20


def test_the_mark_is_chosen_around_the_data(words, by_text) -> None:
    chat = Chat(PHI_LIKE, words.added)
    content = "".join(map(chr, range(0xE000, 0xF900))) + "<|end|>"
    pieces = chat.pieces([{"role": "user", "content": content}], {})
    assert pieces == [by_text["<|user|>"], content, by_text["<|end|>"]]


def test_end_token(words, by_text) -> None:
    assert Chat(LLAMA_LIKE, words.added, {"bos_token": "<|bos|>"}).end_token() == by_text["<|eot|>"]
    assert Chat(PHI_LIKE, words.added).end_token() == by_text["<|end|>"]
    assert Chat("{{ messages[0].content }}", words.added).end_token() is None


@pytest.mark.parametrize("added", [[], ["<think>", "</think>"]])
@pytest.mark.parametrize(("end", "opening"), [
    ("{{ '<think>\n' }}", "<think>\n"), ("{{ '<think>\nOkay,' }}", "<think>\nOkay,"),
    ("{{ '<think>\n\n</think>\n\n' }}", ""), ("{% if enable_thinking is defined %}{{ '<think>\n' }}{% endif %}", ""),
    ("{{ raise_exception('no') }}", ""), ("", ""),
])  # fmt: skip
def test_thinking_that_the_template_opens(added, end, opening) -> None:
    """Whether its tags are tokens or spelled; what a text says of thinking is none of the template's."""
    tokens = [vocabulary.AddedToken(t, i, special=False) for i, t in enumerate(["<|user|>", "<|assistant|>", *added])]
    body = "{% for m in messages %}{{ '<|user|>' + m['content'] }}{% endfor %}<|assistant|>"
    assert Chat(body + end, tokens).opening() == opening
    assert Chat("{{ 'Write <think> first.' }}" + body + end, tokens).opening() == opening


@pytest.mark.parametrize(
    "messages",
    [[], [{"content": "x"}], [{"role": "<|h|>", "content": "x"}], [{"role": "user", "content": object()}], ["user"]],
)
def test_malformed_messages_are_refused(words, messages) -> None:
    with pytest.raises(ValueError, match="message|chat value"):
        Chat(PHI_LIKE, words.added).pieces(messages, {})


def test_a_template_without_a_system_role_gets_its_text_before_the_question() -> None:
    """As Gemma 3's own template has it; what is refused for another reason, or stands elsewhere, stays refused."""
    refusal = "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    source = "{% for m in messages %}" + refusal + "[{{ m.role }}]{{ m.content }}{% endfor %}"
    chat = Chat(source, [])
    system, user = ({"role": role, "content": text} for role, text in (("system", "Be brief."), ("user", "Why?")))
    assert chat.pieces([system, user], {}) == ["[user]Be brief.\n\nWhy?"]
    for messages in ([system], [user, system], [system, user, system]):
        with pytest.raises(ValueError, match="System role not supported"):
            chat.pieces(messages, {})

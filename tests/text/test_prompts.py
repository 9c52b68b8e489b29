"""A folder of one's own prompts: what it may hold, and the one line that says what is wrong with it."""

import json
import re

import pytest

from spicejax.tags import SEARCH_TAGS
from spicejax.text import prompts
from spicejax.types import Passage

OURS = {
    "ask": "Read {document} and ask {answer_type}.",
    "bare": "Ask.",
    "shown_examples": '[{"question": "q", "reply": "r"}]',
}


@pytest.mark.parametrize(("name", "text", "message"), [
    ("aks", "x", "aks.txt: no template; did you mean ask.txt?"),
    ("other.md", "x", "other.md: no template; there are .*ask.txt.*bare.txt.*shown_examples.json"),
    ("ask", "Ask {answer_type}.", "ask.txt: expected {answer_type} {document}, .* found {answer_type}"),
    ("ask", "{document} {answer_type} {text}", "ask.txt: expected .* found {answer_type} {document} {text}"),
    ("ask", "{document} {document} {answer_type}", "ask.txt: expected .* each exactly once"),
    ("ask", "Ask.", "ask.txt: expected .* found none"),
    ("bare", "Ask {document}.", "bare.txt: expected some text and no placeholder, .* found {document}"),
    ("bare", "\n", "bare.txt: expected some text .* found no text"),
    ("shown_examples", "[{", "shown_examples.json: is no JSON"),
    ("shown_examples", "[" * 100_000, "shown_examples.json: is no JSON"),
    ("shown_examples", "[]", "shown_examples.json: the whole: expected a list"),
    ("shown_examples", '[{"question": "q"}]',
     r"shown_examples.json: \[0\]: expected an object with the keys question, reply"),
    ("shown_examples", '[{"question": "q", "reply": 1}]', r"shown_examples.json: \[0\].reply: expected a text"),
])  # fmt: skip
def test_a_template_that_cannot_stand_for_ours_is_named(name, text, message):
    with pytest.raises(ValueError, match=message) as error:
        prompts.check({name: text}, OURS)
    assert "\n" not in str(error.value)


def test_templates_that_can():
    two = '[{"question": "a", "reply": "b"}, {"question": "c", "reply": "d"}]'
    prompts.check({"ask": "{answer_type}? {document}", "bare": "Do.", "shown_examples": two}, OURS)
    prompts.check({}, OURS)


def test_a_folder_is_read_by_file_name(tmp_path):
    (tmp_path / "ask.txt").write_bytes(b"\xef\xbb\xbfAsk {document}\r\nnow.\r\n")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "ask.md").write_text("x")
    assert prompts.read_folder(str(tmp_path)) == {"ask": "Ask {document}\nnow.", "ask.md": "x"}
    (tmp_path / "ask.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="ask.txt: is no UTF-8 text"):
        prompts.read_folder(str(tmp_path))


@pytest.mark.parametrize(("make", "message"), [(True, "holds no file"), (False, "is no folder")])
def test_a_folder_without_prompts(tmp_path, make, message):
    folder = tmp_path / "prompts"
    if make:
        folder.mkdir()
    with pytest.raises(ValueError, match=message):
        prompts.read_folder(str(folder))


def test_worked_examples_are_earlier_turns_that_fill_the_same_request():
    examples = '[{"answer": "Oslo", "reply": "Where?"}]'
    found = prompts.turns("{n} searches: {answer}", examples, {"answer": "Rome", "n": "2"})
    assert [m["role"] for m in found] == ["user", "assistant", "user"]
    assert [m["content"] for m in found] == ["2 searches: Oslo", "Where?", "2 searches: Rome"]


def test_examples_of_searching_are_written_as_rows_are():
    """A model shown other tags, or passages in another form, would copy them."""
    for package, name in (("spicejax.games", "search_simple"), ("spicejax.games.ssp", "propose_simple")):
        for example in json.loads(prompts.read(package, f"{name}_examples")):
            first, last = example["reply"].split("\n\n", 1)[0], example["reply"].rsplit("\n\n", 1)[1]
            assert first.startswith(SEARCH_TAGS.query[0]) and first.endswith(SEARCH_TAGS.query[1])
            shown = re.findall(r"Doc 1 \(Title: (.*)\)\n(.*)\n", example["reply"])
            for title, text in shown:
                assert SEARCH_TAGS.show([Passage("", title, text)]) in example["reply"]
            assert len(shown) == example["reply"].count(SEARCH_TAGS.query[1]) and last.endswith(">")

"""A folder of one's own prompts: what it may hold, and the one line that says what is wrong with it."""

import pytest

from spicejax.text import prompts

OURS = {
    "ask.txt": "Read {document} and ask {answer_type}.",
    "bare.txt": "Ask.",
    "shown.json": '[{"question": "q", "reply": "r"}]',
}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("aks.txt", "x", "aks.txt: no template has this name; did you mean ask.txt?"),
        ("other.md", "x", "other.md: no template has this name; there are ask.txt, bare.txt, shown.json"),
        ("ask.txt", "Ask {answer_type}.", "ask.txt: expected {answer_type} {document}, .* found {answer_type}"),
        ("ask.txt", "{document} {answer_type} {text}", "ask.txt: expected .* found {answer_type} {document} {text}"),
        ("ask.txt", "{document} {document} {answer_type}", "ask.txt: expected .* each exactly once"),
        ("ask.txt", "Ask.", "ask.txt: expected .* found none"),
        ("bare.txt", "Ask {document}.", "bare.txt: expected some text and no placeholder, .* found {document}"),
        ("bare.txt", "\n", "bare.txt: expected some text .* found no text"),
        ("shown.json", "[{", "shown.json: is no JSON"),
        ("shown.json", "[]", "shown.json: the whole: expected a list"),
        ("shown.json", '[{"question": "q"}]', r"shown.json: \[0\]: expected an object with the keys question, reply"),
        ("shown.json", '[{"question": "q", "reply": 1}]', r"shown.json: \[0\].reply: expected a text"),
    ],
)
def test_a_template_that_cannot_stand_for_ours_is_named(name, text, message):
    with pytest.raises(ValueError, match=message) as error:
        prompts.check({name: text}, OURS)
    assert "\n" not in str(error.value)


def test_templates_that_can():
    two = '[{"question": "a", "reply": "b"}, {"question": "c", "reply": "d"}]'
    prompts.check({"ask.txt": "{answer_type}? {document}", "bare.txt": "Do.", "shown.json": two}, OURS)
    prompts.check({}, OURS)


def test_a_folder_is_read_by_file_name(tmp_path):
    (tmp_path / "ask.txt").write_bytes(b"\xef\xbb\xbfAsk {document}\r\nnow.\r\n")
    (tmp_path / ".hidden").write_text("x")
    assert prompts.read_folder(str(tmp_path)) == {"ask.txt": "Ask {document}\nnow."}
    (tmp_path / "ask.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="ask.txt: is no UTF-8 text"):
        prompts.read_folder(str(tmp_path))


@pytest.mark.parametrize(("make", "message"), [(True, "holds no file"), (False, "is no folder")])
def test_a_folder_without_prompts(tmp_path, make, message):
    folder = tmp_path / "prompts"
    if make:
        folder.mkdir()
    with pytest.raises(ValueError, match=f"prompts: {message}"):
        prompts.read_folder(str(folder))

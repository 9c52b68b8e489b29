"""A small whole file or folder of every kind that users bring, and what reads it: for tests that damage it."""

import dataclasses
import gzip
import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jsonl

SOCRATIC = {"question": "Ann has 3 pears. She eats 1. How many?", "answer": "Many? ** 3-1=<<3-1=2>>2 left.\n#### 2"}
QUESTIONS = [
    {"id": "1", "question": "Which river?", "answer": "Danube", "aliases": ["the Danube"], "category": "c"},
    {"question": "2+2?", "answer": 4, "answer_type": "Integer", "boxed": False},
    {"question": "Which?", "answer": "B", "choices": ["x", "y"], "context": "A text.", "kind": "qa"},
    {"question": "Which are even?", "answer": ["2", "4"], "answer_type": "List"},
    {"question": "Capital?", "golden_answers": ["Oslo", "Kristiania"]},
    {"question": "Where?", "answers": {"text": ["Oslo", "Norway"], "answer_start": [1, 2]}},
    {"_id": "5a", "question": "Is it?", "answer": "yes", "supporting_facts": [["T", 0]], "context": [["T", ["a."]]]},
    {"question": "Hall?", "answer": "Hall", "answer_aliases": ["G. Hall"], "paragraphs": [{"idx": 0}]},
    {"question_id": "d", "question": "Sum?", "ground_truth": 2.5, "paragraphs": ["One.", "Two."]},
    SOCRATIC,
]
TURNS = [{"wrote": "<search>river</search>", "shown": [{"title": "T", "text": "It."}]}, {"wrote": "<answer>x</answer>"}]
EXAMPLES = [
    {"prompt": "p", "completion": "c", "source": "own"},
    {"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]},
    {"question": "Which?", "turns": TURNS, "tags": "search"},
    {"question": "Which?", "completion": "That."},
]
ANSWERS = [
    {"answer": "Oslo", "aliases": ["Kristiania"], "searches": 2, "id": "a"},
    {"ground_truth": 7, "search_turns": 1},
    {"title": "A sonnet", "text": "It was written by Anna Maria Lenngren on 3 May 1901 in the north."},
]
DOCUMENTS = [
    {"id": f"d{k}", "title": f"Title {k}", "text": f"Document {k} tells of {k * k} things. " * 3} for k in range(6)
]
MATHS = {"source": "data/CoT/gsm_rft.json", "instruction": "1+1?", "output": "Add.\nThe answer is 2"}
FINANCE = {"id": "f", "pre_text": ["Before."], "table": [["a", "1"]], "post_text": ["After."]}
FINANCE |= {"qa": {"question": "Rise?", "answer": "3%"}}
FINANCE |= {"annotation": {"dialogue_break": ["what was a?", "and b?"], "qa_split": [0, 0]}}
_PARAGRAPH = {"context": "Oslo.", "qas": [{"id": "5a", "question": "Where?", "answers": [{"text": "Norway"}]}]}
_SPANS = {"number": "", "date": {"day": "3", "month": "May", "year": "1901"}, "spans": ["Al"]}
_PASSAGE = {"title": "T", "text": "Al.", "passage_id": "9"}
# By the name of its source in mixtures.ACESEARCHER or ROUNDS
PUBLISHED: dict[str, Any] = {
    "narrativeqa": [{"document": {"id": "d", "summary": {"text": "A tale."}}, "question": {"text": "Who?"},
                     "answers": [{"text": "Al"}, {"text": "Al B"}]}],
    "squad2": {"data": [{"paragraphs": [_PARAGRAPH]}]},
    "tatqa": [{"table": {"table": [["", "2019"], ["Sales", "$ 3"]]}, "paragraphs": [{"order": 1, "text": "First."}],
               "questions": [{"uid": "q", "question": "Sum?", "answer": 172, "scale": "million", "derivation": "1"}]}],
    "fever": [{"id": 1, "claim": "Oslo is large.", "label": "SUPPORTS", "evidence": [[[1, 2, "Oslo", 0]]]}],
    "drop": {"nfl": {"passage": "Two.", "qa_pairs": [{"query_id": "b", "question": "When?", "answer": _SPANS}]}},
    "quoref": {"data": [{"paragraphs": [_PARAGRAPH]}]},
    "nq": [{"question": "who", "answers": ["Al"], "positive_ctxs": [_PASSAGE]}],
    "gsm8k_plan": [SOCRATIC],
    "convfinqa": [FINANCE],
    "strategyqa": [{"qid": "s", "question": "Can it?", "answer": True, "facts": ["It."], "decomposition": ["What?"]}],
    "ifqa": [{"idx": 0, "question": "If?", "answers": ["2"], "context": ["One.", "Two."]}],
    "tabmwp": {"12": {"question": "Cost?", "choices": ["$1"], "answer": "$2", "unit": None, "table_title": "Shop",
                      "table": "a | $2", "solution": "See a."}},
    "mathinstruct_reason": [MATHS],
    "hotpotqa": [{"_id": "5a", "question": "Who?", "answer": "Al", "context": [["T", ["A."]]]}],
    "hover": [{"uid": "u", "claim": "C", "label": "NOT_SUPPORTED"}],
}  # fmt: skip
PAGE = {"id": "Oslo", "text": "Oslo has people.", "lines": "0\tOslo has people.\tOslo"}
LEAKS = {"squad2": [{"id": "5b", "question": "Who?"}], "natural_questions": ["who was it"]}
BENCHMARKS: dict[str, Any] = {
    "math500": [{"problem": "1+1?", "answer": "$2$", "subject": "algebra", "unique_id": "u"}],
    "mmlu_pro": [{"question": "Q?", "options": ["a", "N/A"], "answer": "A", "category": "c", "question_id": 3}],
    "hotpotqa": [{"_id": "5a", "question": "Who?", "answer": "Al", "supporting_facts": [], "context": []}],
    "popqa": [{"question": "Who?", "possible_answers": '["Al", "Bo"]', "obj": "Al"}],
    "strategyqa": [{"qid": "s", "question": "Can it?", "answer": True}],
}


class Kind(NamedTuple):
    """What users bring."""

    write: Callable[[Path], Any]  # into an empty folder
    read: Callable[[Path], Any]  # that folder


def words(text: str) -> list[int]:
    """Stands for a tokenizer, which no corpus file is about."""
    return [len(word) for word in text.split()]


def _lines(name: str, rows: Iterable[Any]) -> Callable[[Path], None]:
    return lambda folder: jsonl.write(folder / name, rows)


def _call(name: str, *at: str, **options: Any) -> Callable[[Path], Any]:
    """Call a function of the package on a file of the folder; its module is imported then."""
    module, _, function = name.rpartition(".")
    return lambda folder: getattr(importlib.import_module(f"spicejax.{module}"), function)(
        str(folder.joinpath(*at)), **options
    )


_CUT: dict[str, Any] = {"encode": words, "max_tokens": 20, "min_chars": 8}


def _write_published(folder: Path) -> None:
    from spicejax.data import mixtures

    sources = {source.name: source for source in (*mixtures.ACESEARCHER, *mixtures.ROUNDS)}
    for name, content in PUBLISHED.items():
        file = folder / name / sources[name].file
        file.parent.mkdir()
        lined = file.suffix == ".jsonl"
        text = "\n".join(map(json.dumps, content)) if lined else json.dumps(content)
        file.write_bytes(gzip.compress(text.encode(), mtime=0) if file.suffix == ".gz" else text.encode())
    (folder / "fever" / "wiki-pages").mkdir()
    jsonl.write(folder / "fever" / "wiki-pages" / "wiki-001.jsonl", [PAGE])
    (folder / "leaks.json").write_text(json.dumps(LEAKS))


def _read_published(folder: Path) -> None:
    """As `spicejax mix` does, but that every broken entry is an error at once."""
    from spicejax.data import mixtures
    from spicejax.games.acesearcher import examples

    leaks = mixtures.read_leaks(folder / "leaks.json")
    sources = {source.name: source for source in (*mixtures.ACESEARCHER, *mixtures.ROUNDS)}
    for name in PUBLISHED:
        source = dataclasses.replace(sources[name], own_folder=name)
        located = mixtures.locate(folder, [source], tfds=False)
        render = mixtures.question if source in mixtures.ROUNDS else examples.render
        mixtures.select_examples([source], located, render, leaks=leaks)


def _write_benchmarks(folder: Path) -> None:
    from spicejax.data.benchmarks import BENCHMARKS as known

    for name, rows in BENCHMARKS.items():
        file = folder / known[name].files[0]
        file.write_text("\n".join(map(json.dumps, rows)) if file.suffix == ".jsonl" else json.dumps(rows))


def _read_benchmarks(folder: Path) -> None:
    from spicejax.data import benchmarks

    for name, file in benchmarks.find(list(BENCHMARKS), folder).items():
        benchmarks.load(name, file)


def _write_prompts(folder: Path) -> None:
    (folder / "reasoner.txt").write_text("Reason about {question} at length.\n")
    (folder / "task_type.txt").write_text("What can be asked about {document}?\n")
    package = importlib.resources.files("spicejax.games.spice") / "prompts"
    (folder / "simple_examples.json").write_text((package / "simple_examples.json").read_text())


def _read_prompts(folder: Path) -> None:
    from spicejax.games.spice import game
    from spicejax.types import Document

    cfg = game.SpiceConfig(prompts=str(folder), style="simple")
    game.prompts_of(cfg, Document("a", "A text."))


def _write_corpus(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    from spicejax.data import records

    jsonl.write(folder / "x.jsonl", DOCUMENTS)
    table = {name: [each[name] for each in DOCUMENTS] for name in ("id", "title", "text")}
    (folder / "x.tsv").write_text(
        "\n".join("\t".join(line) for line in [list(table), *zip(*table.values(), strict=True)])
    )
    pyarrow.parquet.write_table(pyarrow.table(table), folder / "x.parquet")
    records.write(folder / "x.array_record", DOCUMENTS)


def _read_corpus(folder: Path) -> None:
    from spicejax.data import corpus

    for file in sorted(folder.iterdir()):
        corpus.open_corpus(str(file), **_CUT)


def _write_prepared(folder: Path) -> None:
    from spicejax.data import prepared
    from spicejax.types import Document

    documents = [Document(each["id"], each["text"], each["title"]) for each in DOCUMENTS]
    made = {"tokenizer": "words", "probe": prepared.probe(words), "max_tokens": 20, "counts": {"kept": 6}}
    prepared.write_corpus(folder / "corpus", documents, made)
    rows = [{"source": "s", "prompt": "p", "completion": f"c{k}"} for k in range(4)]
    prepared.write_examples(folder / "examples", rows, {"seed": 0})


def _read_prepared(folder: Path) -> None:
    from spicejax.data import corpus, items

    opened = corpus.open_corpus(str(folder / "corpus"), **_CUT)
    for k in range(len(opened.documents)):
        opened.documents[k]
    items.open_items("examples", str(folder / "examples"), seed=0, batch_size=1, **_CUT)


DATA = {
    "questions": Kind(_lines("x.jsonl", QUESTIONS), _call("data.questions.load_items", "x.jsonl")),
    "questions of one array": Kind(
        lambda folder: (folder / "x.json").write_text(json.dumps(QUESTIONS)),
        _call("data.questions.load_items", "x.json"),
    ),
    "examples": Kind(_lines("x.jsonl", EXAMPLES), _call("data.examples.load_examples", "x.jsonl")),
    "answers": Kind(_lines("x.jsonl", ANSWERS), _call("data.answers.load_answers", "x.jsonl")),
    "published sets": Kind(_write_published, _read_published),
    "benchmarks": Kind(_write_benchmarks, _read_benchmarks),
    "prompts of a game": Kind(_write_prompts, _read_prompts),
    "prompts to respond to": Kind(
        _lines("x.jsonl", [{"prompt": "p"}, EXAMPLES[1]]), _call("commands.generate._read", "x.jsonl")
    ),
    "lines to respond to": Kind(
        lambda folder: (folder / "x.txt").write_text("One.\nTwo.\n"), _call("commands.generate._read", "x.txt")
    ),
    "corpus": Kind(_write_corpus, _read_corpus),
    "prepared": Kind(_write_prepared, _read_prepared),
}


def _write_model(folder: Path, **options: Any) -> None:
    from tiny_models import QWEN3, random_params, write_tokenizer

    from spicejax.models import hf

    cfg = dataclasses.replace(QWEN3, vocab_size=260)
    hf.save(folder / "model", cfg, random_params(cfg), **options)
    write_tokenizer(folder / "model")


def _write_gguf(folder: Path) -> None:
    from tiny_models import QWEN3, random_params, write_gguf, write_tokenizer

    cfg = dataclasses.replace(QWEN3, vocab_size=260)
    beside = folder.with_name("tokenizer")
    beside.mkdir(exist_ok=True)
    write_tokenizer(beside)
    write_gguf(folder / "m.gguf", cfg, random_params(cfg), tokenizer=beside)
    for file in (folder / "m.hf").iterdir():
        file.unlink()
    (folder / "m.hf").rmdir()


def _read_model(path: Path) -> None:
    """As a run does: config, tokenizer with a first chat, weights."""
    from spicejax.models import files, hf
    from spicejax.text import tokens

    try:
        cfg = hf.read_config(path)
        tokenizer = tokens.load(path)
        tokenizer.require_rows(cfg.vocab_size)
        tokenizer.encode("a text")
        if tokenizer.chat:
            tokenizer.render_chat([{"role": "user", "content": "a text"}])
        hf.load(path)
    finally:
        files.forget_gguf()


def _write_sentencepiece(folder: Path) -> None:
    from spicejax.text.sentencepieces import train_sentencepiece

    texts = [f"The year {n} had {n * 7} days of rain, {n % 13} storms.\n\nEnd." for n in range(200)]
    template = "{% for m in messages %}{{ '<|im_start|>' + m['content'] + '<|im_end|>' }}{% endfor %}"
    train_sentencepiece(texts, 320, folder / "model", chat_template=template, text_pieces=["year"])


def _read_tokenizer(folder: Path) -> None:
    from spicejax.text import tokens

    tokenizer = tokens.load(folder / "model")
    tokenizer.encode("a text")
    if tokenizer.chat:
        tokenizer.render_chat([{"role": "user", "content": "a text"}])


def _write_encoder(folder: Path) -> None:
    from tiny_models import write_encoder

    write_encoder(folder / "model")


MODELS = {
    "model": Kind(_write_model, lambda folder: _read_model(folder / "model")),
    "model in shards": Kind(
        lambda folder: _write_model(folder, max_shard_bytes=40_000), lambda folder: _read_model(folder / "model")
    ),
    "gguf": Kind(_write_gguf, lambda folder: _read_model(folder / "m.gguf")),
    "sentencepiece": Kind(_write_sentencepiece, _read_tokenizer),
    "encoder": Kind(_write_encoder, _call("models.encoder.load", "model")),
}
KINDS = DATA | MODELS

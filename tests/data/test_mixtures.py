"""The mixture: the table's counts, what is left out, and one epoch of it by seqio, every example once."""

import collections
import json

import numpy as np
import pytest

from spicejax.data import mixtures, published
from spicejax.data.mixtures import ACESEARCHER, ROUNDS, Source
from spicejax.data.published import Row

TABLE = {
    "narrativeqa": 20_000, "squad1": 10_000, "squad2": 10_000, "tatqa": 12_000, "fever": 10_000, "drop": 20_000,
    "quoref": 20_000, "ropes": 10_000, "nq": 20_000, "gsm8k_plan": 7_000, "convfinqa": 1_000, "strategyqa": 1_600,
    "ifqa": 2_000, "tabmwp": 10_000, "gsm8k_reason": 7_000, "mathinstruct_reason": 10_000,
    "mathinstruct_program": 10_000,
}  # fmt: skip


def render(row: Row, use):
    return (f"{use}: {row.question}", row.answers[0]) if row.answers else "no_target"


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


def numbered(name, count):
    return [{"id": f"{name}{k}", "question": f"{name} {k}?", "answer": str(k)} for k in range(count)]


def select(data, *names, leaks=None, table=ACESEARCHER, render=render, **options):
    sources = mixtures.select_sources(names, table) if isinstance(names[0], str) else names
    located = mixtures.locate(data, sources, tfds=False)
    return mixtures.select_examples(sources, located, render, leaks=leaks or {}, **options)


def test_the_table_is_the_papers():
    assert {source.name: source.count for source in ACESEARCHER} == TABLE
    assert sum(TABLE.values()) == 180_600
    assert [source.name for source in ACESEARCHER if source.seed_of] == ["squad1", "squad2", "nq"]


def test_files_are_found_as_published_or_as_your_own_and_missing_ones_are_all_named(tmp_path):
    sources = mixtures.select_sources(["squad1", "gsm8k_plan", "gsm8k_reason", "ifqa"])
    write(tmp_path / "squad1" / "train-v1.1.json", [])
    write(tmp_path / "gsm8k.jsonl", numbered("g", 1))
    with pytest.raises(FileNotFoundError) as caught:
        mixtures.locate(tmp_path, sources, tfds=False)
    assert str(caught.value).splitlines() == [
        f"ifqa: {tmp_path}/ifqa/train.json is missing; it is published at "
        "https://github.com/wyu97/IfQA/tree/main/dataset/full_split",
        "or go without: --sources=squad1,gsm8k_plan,gsm8k_reason",
    ]
    located = mixtures.locate(tmp_path, sources[:3], tfds=False)
    assert located["squad1"] == (tmp_path / "squad1" / "train-v1.1.json", published.squad)
    assert located["gsm8k_plan"] == located["gsm8k_reason"] == (tmp_path / "gsm8k.jsonl", published.plain)
    assert mixtures.locate(tmp_path, mixtures.select_sources(["squad2"]), tfds=True) == {"squad2": None}
    for names, table, uses in (
        (["squad1", "squad3"], ACESEARCHER, "answer, claim"), (["convfinqa:plan"], ROUNDS, "qa, claim, document, prog"),
        (["convfinqa:"], ROUNDS, "qa"), (["poems"], ROUNDS, "qa"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"--sources={names[-1]}: unknown; choose from .*, where USE is {uses}"):
            mixtures.select_sources(names, table)
    assert [s.name for s in mixtures.select_sources(["squad1", "fever", "squad1"])] == ["squad1", "fever"]
    own = mixtures.select_sources(["wiki:plan"])
    with pytest.raises(FileNotFoundError, match=r"wiki: \S+/wiki.jsonl is missing; write rows of your own there$"):
        mixtures.locate(tmp_path, own, tfds=False)
    steps = ["Who made the wheel?", {"question": "Where was #1 born?", "answer": "Ur"}]
    write(tmp_path / "wiki.jsonl", [{"question": "Where was its maker born?", "answer": "Ur", "decomposition": steps}])
    (row,) = mixtures.rows(own[0], mixtures.locate(tmp_path, own, tfds=False)["wiki"])
    assert (own[0].use, row.steps) == ("plan", ("Who made the wheel?", "Where was #1 born?"))


def test_a_row_of_the_table_serves_another_use(tmp_path):
    """Questions about a text may be answered by programs; those that the row itself has taken are not asked twice."""
    write(tmp_path / "convfinqa.jsonl", [row | {"context": "t"} for row in numbered("q", 2_000)])
    names = ["convfinqa", "convfinqa:program"]
    uses = [(s.name, s.use) for s in mixtures.select_sources([*names, "own:program"], ROUNDS)]
    assert uses[1:] == [("convfinqa_program", "program"), ("own", "program")]
    selection = select(tmp_path, *names, table=ROUNDS, render=mixtures.question, scale=0.3)
    kinds = {name: {json.loads(line)["kind"] for _, line in pairs} for name, pairs in selection.examples.items()}
    assert kinds == {"convfinqa": {"document"}, "convfinqa_program": {"program"}}
    assert selection.counts["convfinqa_program"] == {"read": 2_000, "twice": 600, "taken": 600}
    assert mixtures.select_sources(["fever:answer"])[0].folder == "fever"


def test_no_prompt_twice_none_of_musique_none_without_what_is_taught(tmp_path):
    """Leaks by id or by question, of the set they were made of alone."""
    more = [{"id": "x", "question": "Q 3?", "answer": "again"}, {"id": "y", "question": "z?", "answers": [""]}]
    write(tmp_path / "squad1.jsonl", [*numbered("q", 6), *more])
    write(tmp_path / "fever.jsonl", numbered("q", 3))
    listed = {"squad": [{"id": "q1", "question": "?"}, {"id": "-", "question": "q 2"}], "T-REx": ["q 0?"]}
    (tmp_path / "leaks.json").write_text(json.dumps(listed))
    selection = select(tmp_path, "squad1", "fever", leaks=mixtures.read_leaks(tmp_path / "leaks.json"))
    assert sorted(selection.examples["squad1"]) == [(f"answer: q {k}?", str(k)) for k in (0, 3, 4, 5)]
    assert selection.counts["squad1"] == {"read": 8, "in_musique": 2, "twice": 1, "no_target": 1, "taken": 4}
    assert len(selection.examples["fever"]) == 3, "another use of the same questions, and no seed of MuSiQue"
    assert select(tmp_path, "squad1").counts["squad1"]["taken"] == 6
    for text in ("[]", "{}"):
        (tmp_path / "leaks.json").write_text(text)
        with pytest.raises(ValueError, match="give MuSiQue's dev_test_singlehop_questions"):
            mixtures.read_leaks(tmp_path / "leaks.json")
    for data in (b"", b"\xff", b'{"squad": [', b"[" * 100_000):
        (tmp_path / "leaks.json").write_bytes(data)
        with pytest.raises(ValueError, match=r"leaks.json is not JSON \(.*\); fetch it again"):
            mixtures.read_leaks(tmp_path / "leaks.json")


@pytest.mark.parametrize("key", ["squad2", "squad", "SQuAD"])
def test_musiques_list_by_the_keys_that_it_is_published_with(tmp_path, key):
    """One that is not known is named: it would remove nothing."""
    write(tmp_path / "squad1.jsonl", numbered("q", 4))
    asked = [{"id": "q1", "question": "?"}, {"id": "-", "question": "Q 2"}]
    others = {name: [] for name in ("natural_questions", "zerore", "mlqaen", "trex")}
    (tmp_path / "leaks.json").write_text(json.dumps({key: asked} | others))
    leaks = mixtures.read_leaks(tmp_path / "leaks.json")
    if key == "SQuAD":
        with pytest.raises(ValueError, match="squad1: the list .* has SQuAD, natural_questions, .* but no squad2; giv"):
            select(tmp_path, "squad1", leaks=leaks)
    else:
        pairs = select(tmp_path, "squad1", leaks=leaks).examples["squad1"]
        assert {int(answer) for _, answer in pairs} == {0, 3}


def test_as_many_as_the_table_says_by_lot(tmp_path):
    few = Source("squad1", "answer", 40, "f.json", "", published.squad)
    write(tmp_path / "squad1.jsonl", numbered("q", 100))
    whole, half, other = (
        select(tmp_path, few, scale=scale, seed=seed).examples["squad1"]
        for scale, seed in ((1.0, 0), (0.5, 0), (1.0, 1))
    )
    assert (len(whole), len(half), len(other)) == (40, 20, 40)
    assert half == whole[:20] and set(other) != set(whole) != {(f"answer: q {k}?", str(k)) for k in range(40)}


def test_what_one_source_leaves_another_may_take(tmp_path):
    """Every question of SQuAD 2.0 that has an answer stands in 1.1 too, of which a part is taken."""
    one, two = (Source(name, "answer", 40, "f.json", "", published.plain) for name in ("squad1", "squad2"))
    answerable = numbered("q", 100)
    write(tmp_path / "squad1.jsonl", answerable)
    write(tmp_path / "squad2.jsonl", [*answerable, *({"question": f"u {k}?", "answer": "none"} for k in range(50))])
    selection = select(tmp_path, one, two)
    first, second = map(set, selection.examples.values())
    assert len(first) == len(second) == 40 and not first & second
    assert selection.counts["squad2"] == {"read": 150, "twice": 40, "taken": 40}
    unanswerable = sum(answer == "none" for _, answer in second)
    assert 8 <= unanswerable <= 30, "of 110 that are left 50 have no answer"
    assert selection == select(tmp_path, one, two), "the lot depends on the seed alone"


def test_prompts_that_differ_in_a_sign_are_two(tmp_path):
    write(tmp_path / "own.jsonl", [{"question": f"3 {sign} 5?", "answer": "x"} for sign in "+-*"])
    assert select(tmp_path, "own:answer").counts["own"] == {"read": 3, "taken": 3}


def test_a_broken_row_is_counted_and_named_and_many_are_another_file(tmp_path, caplog):
    path = tmp_path / "own.jsonl"
    write(path, [*numbered("q", 19), {"answer": "without a question"}])
    assert select(tmp_path, "own:answer").counts["own"] == {"read": 19, "broken": 1, "taken": 19}
    assert f"own: 1 entries are left out as broken, the first: {path}:20: not as published (KeyError" in caplog.text
    write(path, [*numbered("q", 18), {"answer": "without"}, {"answer": "a question"}])
    with pytest.raises(ValueError, match=r"own.jsonl:19: not as .*; 2 entries are broken beside 18 whole rows"):
        select(tmp_path, "own:answer")


def test_rows_of_tfds_are_those_of_the_published_file(tfds_set, caplog):
    """The library reads a data set with SQuAD's features; a broken row of it is named by its number."""
    tfds_features = pytest.importorskip("tensorflow_datasets").features
    spans = tfds_features.Sequence({"text": np.object_, "answer_start": np.int32})
    features = dict.fromkeys(("id", "title", "context", "question"), np.object_) | {"answers": spans}
    whole = {"title": "Oslo", "context": "Its café.", "answers": {"text": ["café", "café"], "answer_start": [4, 4]}}
    entries = [whole | {"id": str(k), "question": f" q {k}? "} for k in range(19)]
    tfds_set("quiz", features, [*entries, whole | {"id": "19", "question": b"\xff"}], "tfrecord")
    source = Source("squad1", "answer", 99, "", "", published.squad, tfds="quiz")
    assert list(mixtures.rows(source, None, []))[3] == Row("3", "q 3?", ("café",), "Its café.")
    selection = mixtures.select_examples([source], {"squad1": None}, render, leaks={})
    assert selection.counts["squad1"] == {"read": 19, "broken": 1, "taken": 19}
    assert "left out as broken, the first: tfds:quiz: entry 20: not as published (Unicode" in caplog.text


def test_an_epoch_of_the_mixture_has_every_example_once_at_the_rates_of_the_table(seqio):
    examples = {name: [(f"{name} {k}", "y") for k in range(count // 100)] for name, count in TABLE.items()}
    rows = list(mixtures.epoch(examples, seed=3))
    assert collections.Counter(row["source"] for row in rows) == {name: count // 100 for name, count in TABLE.items()}
    assert {row["prompt"] for row in rows} == {prompt for pairs in examples.values() for prompt, _ in pairs}
    head = collections.Counter(row["source"] for row in rows[:600])
    for name, count in TABLE.items():
        share = count / 180_600
        assert abs(head[name] - 600 * share) < 5 * (600 * share * (1 - share)) ** 0.5, "mixed, not one after another"
    assert rows == list(mixtures.epoch(examples, seed=3)) != list(mixtures.epoch(examples, seed=4))

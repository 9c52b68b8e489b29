"""The mixture: the table's counts, what is left out, and one epoch of it by seqio, every example once."""

import collections
import json
import sys
import types

import numpy as np
import pytest

from spicejax.data import mixtures, published
from spicejax.data.mixtures import ACESEARCHER, Source
from spicejax.data.published import Row

TABLE = {
    "narrativeqa": 20_000, "squad1": 10_000, "squad2": 10_000, "tatqa": 12_000, "fever": 10_000, "drop": 20_000,
    "quoref": 20_000, "ropes": 10_000, "nq": 20_000, "gsm8k_plan": 7_000, "convfinqa": 1_000, "strategyqa": 1_600,
    "ifqa": 2_000, "tabmwp": 10_000, "gsm8k_reason": 7_000, "mathinstruct_reason": 10_000,
    "mathinstruct_program": 10_000,
}  # fmt: skip


def render(row: Row, use):
    return (f"{use}: {row.question}", row.answers[0]) if row.answers else "not_told"


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


def numbered(name, count):
    return [{"id": f"{name}{k}", "question": f"{name} {k}?", "answer": str(k)} for k in range(count)]


def test_the_table_is_the_papers():
    assert {source.name: source.count for source in ACESEARCHER} == TABLE
    assert sum(TABLE.values()) == 180_600
    assert [source.name for source in ACESEARCHER if source.seed_of] == ["squad1", "squad2", "nq"]


def test_files_are_found_as_published_or_as_your_own_and_missing_ones_are_all_named(tmp_path):
    sources = mixtures.chosen(["squad1", "gsm8k_plan", "gsm8k_reason", "ifqa"])
    write(tmp_path / "squad1" / "train-v1.1.json", [])
    write(tmp_path / "gsm8k.jsonl", numbered("g", 1))
    with pytest.raises(FileNotFoundError) as caught:
        mixtures.files(tmp_path, sources, tfds=False)
    assert str(caught.value).splitlines() == [
        f"ifqa: {tmp_path}/ifqa/train.json is missing; it is published at "
        "https://github.com/wyu97/IfQA/tree/main/dataset/full_split",
        "or go without: --sources=squad1,gsm8k_plan,gsm8k_reason",
    ]
    found = mixtures.files(tmp_path, sources[:3], tfds=False)
    assert found["squad1"] == (tmp_path / "squad1" / "train-v1.1.json", published.squad)
    assert found["gsm8k_plan"] == found["gsm8k_reason"] == (tmp_path / "gsm8k.jsonl", published.plain)
    assert mixtures.files(tmp_path, mixtures.chosen(["drop"]), tfds=True) == {"drop": None}
    with pytest.raises(ValueError, match="--sources=squad3: unknown; choose from narrativeqa, squad1"):
        mixtures.chosen(["squad1", "squad3"])
    assert [source.name for source in mixtures.chosen(["squad1", "fever", "squad1"])] == ["squad1", "fever"]
    own = mixtures.chosen(["wiki:plan"])
    with pytest.raises(FileNotFoundError, match=r"wiki: \S+/wiki.jsonl is missing; write rows of your own there$"):
        mixtures.files(tmp_path, own, tfds=False)
    asked = {"question": "Where was the maker of the wheel born?", "answer": "Ur"}
    steps = ["Who made the wheel?", {"question": "Where was #1 born?", "answer": "Ur"}]
    (tmp_path / "wiki.jsonl").write_text(json.dumps(asked | {"decomposition": steps}))
    (row,) = mixtures.rows(own[0], mixtures.files(tmp_path, own, tfds=False)["wiki"])
    assert (own[0].use, row.steps) == ("plan", ("Who made the wheel?", "Where was #1 born?"))


def test_a_line_of_the_table_serves_another_use(tmp_path):
    """Questions about a text may be answered by programs; those that the line itself has taken are not asked twice."""
    write(tmp_path / "convfinqa.jsonl", [row | {"context": "t"} for row in numbered("q", 2_000)])
    sources = mixtures.chosen(["convfinqa", "convfinqa:program", "own:program"], mixtures.ROUNDS)
    assert [(source.name, source.use) for source in sources[1:]] == [
        ("convfinqa_program", "program"),
        ("own", "program"),
    ]
    found = mixtures.files(tmp_path, sources[:2], tfds=False)
    taken = mixtures.take(sources[:2], found, mixtures.question, leaked={}, scale=0.3)
    kinds = {name: {json.loads(line)["kind"] for _, line in pairs} for name, pairs in taken.items()}
    assert kinds == {"convfinqa": {"document"}, "convfinqa_program": {"program"}}
    assert taken.counts["convfinqa_program"] == {"read": 2_000, "twice": 600, "taken": 600}
    assert mixtures.chosen(["fever:answer"])[0].folder == "fever"
    for wrong in ("convfinqa:plan", "convfinqa:", "poems"):
        with pytest.raises(
            ValueError, match=f"--sources={wrong}: unknown; .*, where USE is qa, claim, document, program"
        ):
            mixtures.chosen([wrong], mixtures.ROUNDS)


def test_no_prompt_twice_none_of_musique_none_without_what_is_taught(tmp_path):
    """Leaks by id or by question, of the set they were made of alone."""
    squad = [
        *numbered("q", 6),
        {"id": "x", "question": "Q 3?", "answer": "again"},
        {"id": "y", "question": "Z?", "answers": []},
    ]
    squad[-1] = {"id": "y", "question": "z?", "answers": [""]}
    write(tmp_path / "squad1.jsonl", squad)
    write(tmp_path / "fever.jsonl", numbered("q", 3))
    (tmp_path / "leaks.json").write_text(
        json.dumps({"squad": [{"id": "q1", "question": "?"}, {"id": "-", "question": "q 2"}], "T-REx": ["q 0?"]})
    )
    sources = mixtures.chosen(["squad1", "fever"])
    found = mixtures.files(tmp_path, sources, tfds=False)
    taken = mixtures.take(sources, found, render, leaked=mixtures.leaks(tmp_path / "leaks.json"))
    assert sorted(taken["squad1"]) == [
        ("answer: q 0?", "0"),
        ("answer: q 3?", "3"),
        ("answer: q 4?", "4"),
        ("answer: q 5?", "5"),
    ]
    assert taken.counts["squad1"] == {"read": 8, "in_musique": 2, "twice": 1, "not_told": 1, "taken": 4}
    assert len(taken["fever"]) == 3, "another use of the same questions, and no seed of MuSiQue"
    again = mixtures.take(sources, found, render, leaked={})
    assert again.counts["squad1"]["taken"] == 6
    for text in ("[]", "{}"):
        (tmp_path / "leaks.json").write_text(text)
        with pytest.raises(ValueError, match="give MuSiQue's dev_test_singlehop_questions"):
            mixtures.leaks(tmp_path / "leaks.json")


@pytest.mark.parametrize("key, left", [("squad2", {0, 3}), ("squad", {0, 3}), ("SQuAD", None)])
def test_musiques_list_by_the_keys_that_it_is_published_with(tmp_path, key, left):
    """One that is not known is named: it would remove nothing."""
    write(tmp_path / "squad1.jsonl", numbered("q", 4))
    asked = [{"id": "q1", "question": "?"}, {"id": "-", "question": "Q 2"}]
    others = {name: [] for name in ("natural_questions", "zerore", "mlqaen", "trex")}
    (tmp_path / "leaks.json").write_text(json.dumps({key: asked} | others))
    sources, leaked = mixtures.chosen(["squad1"]), mixtures.leaks(tmp_path / "leaks.json")
    found = mixtures.files(tmp_path, sources, tfds=False)
    if left is None:
        with pytest.raises(
            ValueError, match="squad1: the list .* has SQuAD, natural_questions, .* but no squad2; give"
        ):
            mixtures.take(sources, found, render, leaked=leaked)
        return
    taken = mixtures.take(sources, found, render, leaked=leaked)
    assert {int(answer) for _, answer in taken["squad1"]} == left


def test_as_many_as_the_table_says_by_lot(tmp_path, monkeypatch):
    few = Source("squad1", "answer", 40, "f.json", "", published.squad)
    write(tmp_path / "squad1.jsonl", numbered("q", 100))
    found = mixtures.files(tmp_path, [few], tfds=False)
    whole, half, other = (
        mixtures.take([few], found, render, leaked={}, scale=scale, seed=seed)["squad1"]
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
    found = mixtures.files(tmp_path, [one, two], tfds=False)
    taken = mixtures.take([one, two], found, render, leaked={})
    first, second = set(taken["squad1"]), set(taken["squad2"])
    assert len(first) == len(second) == 40 and not first & second
    assert taken.counts["squad2"] == {"read": 150, "twice": 40, "taken": 40}
    unanswerable = sum(answer == "none" for _, answer in second)
    assert 8 <= unanswerable <= 30, "of 110 that are left 50 have no answer"
    assert taken == mixtures.take([one, two], found, render, leaked={}), "the lot depends on the seed alone"


def test_prompts_that_differ_in_a_sign_are_two(tmp_path):
    write(tmp_path / "own.jsonl", [{"question": f"3 {sign} 5?", "answer": "x"} for sign in "+-*"])
    sources = mixtures.chosen(["own:answer"])
    taken = mixtures.take(sources, mixtures.files(tmp_path, sources, tfds=False), render, leaked={})
    assert taken.counts["own"] == {"read": 3, "taken": 3}


def test_a_broken_row_is_counted_and_named_and_many_are_another_file(tmp_path, caplog):
    path = tmp_path / "own.jsonl"
    write(path, [*numbered("q", 19), {"answer": "without a question"}])
    sources = mixtures.chosen(["own:answer"])
    found = mixtures.files(tmp_path, sources, tfds=False)
    taken = mixtures.take(sources, found, render, leaked={})
    assert taken.counts["own"] == {"read": 19, "broken": 1, "taken": 19}
    assert f"own: 1 entries are left out as broken, the first: {path}:20: not as published (KeyError" in caplog.text
    write(path, [*numbered("q", 18), {"answer": "without"}, {"answer": "a question"}])
    with pytest.raises(
        ValueError, match=r"own.jsonl:19: not as published .*; 2 entries are broken beside 18 whole rows"
    ):
        mixtures.take(sources, found, render, leaked={})


def test_a_broken_row_of_tfds_is_counted_and_named_too(monkeypatch, caplog):
    answers = {"text": np.array([b"x"], object)}
    rows = [{"id": b"%d" % k, "question": b"q %d?" % k, "context": b"c", "answers": answers} for k in range(19)]
    entries = [*rows, {"id": b"19", "question": b"\xff"}]
    library = types.SimpleNamespace(load=lambda name, split: entries, as_numpy=lambda found: found)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", library)
    source = Source("squad1", "answer", 99, "", "", published.squad, tfds="squad")
    taken = mixtures.take([source], {"squad1": None}, render, leaked={})
    assert taken.counts["squad1"] == {"read": 19, "broken": 1, "taken": 19}
    assert "1 entries are left out as broken, the first: tfds:squad: entry 20: not as published (Unicode" in caplog.text
    entries[0] = {"id": b"0"}
    with pytest.raises(ValueError, match="tfds:squad: entry 1: not as .*; 2 entries are broken beside 18 whole rows"):
        mixtures.take([source], {"squad1": None}, render, leaked={})


def test_an_epoch_of_the_mixture_has_every_example_once_at_the_rates_of_the_table(seqio):
    taken = {name: [(f"{name} {k}", "y") for k in range(count // 100)] for name, count in TABLE.items()}
    rows = list(mixtures.mixed(taken, seed=3))
    assert collections.Counter(row["source"] for row in rows) == {name: count // 100 for name, count in TABLE.items()}
    assert {row["prompt"] for row in rows} == {prompt for pairs in taken.values() for prompt, _ in pairs}
    head = collections.Counter(row["source"] for row in rows[:600])
    for name, count in TABLE.items():
        share = count / 180_600
        assert abs(head[name] - 600 * share) < 5 * (600 * share * (1 - share)) ** 0.5, "mixed, not one after another"
    assert rows == list(mixtures.mixed(taken, seed=3)) != list(mixtures.mixed(taken, seed=4))

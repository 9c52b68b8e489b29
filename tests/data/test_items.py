"""Items of every kind: an iterator that resumes exactly, files that are read or refused by line."""

import itertools
import json
from pathlib import Path

import jsonl
import pytest

from spicejax.data import prepared
from spicejax.data.examples import load_examples
from spicejax.data.items import Items, check_items, open_items


def questions(path: Path, n: int) -> Path:
    jsonl.write(path, ({"id": f"d{i}", "question": f"{i}+1?", "answer": str(i + 1)} for i in range(n)))
    return path


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return questions(tmp_path / "c.jsonl", 23)


def open_questions(spec: Path, **options) -> Items:
    settings = {"seed": 0, "batch_size": 4, "encode": str.split, "max_tokens": 9, "min_chars": 1, **options}
    return open_items("questions", str(spec), **settings)


def _ids(iterator, batches: int) -> list[list[str]]:
    return [[task.id for task in next(iterator)] for _ in range(batches)]


def test_every_epoch_is_a_new_permutation(spec: Path) -> None:
    items = open_questions(spec, batch_size=4)  # 23 questions: 5 batches an epoch, 3 wait
    batches = _ids(items.iterator(), 40)
    epochs = [list(itertools.chain(*batches[i : i + 5])) for i in range(0, 40, 5)]
    assert all(len(set(epoch)) == 20 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 8
    assert set(itertools.chain(*epochs)) == {f"d{i}" for i in range(23)}
    assert _ids(open_questions(spec, seed=1).iterator(), 5) != batches[:5]


def test_resuming_anywhere_equals_going_on(spec: Path) -> None:
    items = open_questions(spec)
    whole = _ids(items.iterator(), 17)
    for stop in (0, 1, 4, 5, 6, 11):
        first = items.iterator()
        _ids(first, stop)
        state = json.loads(json.dumps(first.get_state()))
        second = open_questions(spec).iterator()
        _ids(second, 3)  # a used iterator can be set as well
        second.set_state(state)
        assert _ids(second, 17 - stop) == whole[stop:]
        assert second.get_state()["next_batch"] == 17


def test_a_game_may_read_nothing() -> None:
    items = open_items("nothing", "", seed=0, batch_size=3, encode=str.split, max_tokens=9, min_chars=1)
    assert sorted(next(items.iterator())) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"corpus\.source=facts: this game reads nothing"):
        check_items("nothing", "facts")


def test_a_digest_stays_what_older_runs_saved(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "7", "question": "1+1?", "answer": "2"}\n')
    assert open_questions(tmp_path / "q.jsonl").digest.startswith("aced8d490876500b")


def test_state_of_another_items_is_refused(spec: Path, tmp_path: Path) -> None:
    state = open_questions(spec).iterator().get_state()
    other = questions(tmp_path / "other.jsonl", 22)
    with pytest.raises(ValueError, match="digest"):
        open_questions(other).iterator().set_state(state)
    with pytest.raises(ValueError, match="seed"):
        open_questions(spec, seed=5).iterator().set_state(state)
    with pytest.raises(ValueError, match="global_batch_size"):
        open_questions(spec, batch_size=5).iterator().set_state(state)
    with pytest.raises(ValueError, match="saved position"):
        open_questions(spec).iterator().set_state({**state, "version": 0})


def test_fewer_items_than_a_batch_repeat(tmp_path: Path) -> None:
    items = open_questions(questions(tmp_path / "x.jsonl", 3), batch_size=5)
    batches = _ids(items.iterator(), 6)
    assert all(len(batch) == 5 and set(batch) == {"d0", "d1", "d2"} for batch in batches)


def test_documents_questions_and_examples_are_read_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = {"prompt": "7+5=?", "completion": "12"}
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    path.write_text(json.dumps(row) + "\n" + json.dumps({"messages": [*chat, {"role": "assistant", "content": "Yes"}]}))
    first, second = load_examples(path)
    assert (first.prompt, first.reply) == ((("user", "7+5=?"),), "12")
    assert (second.prompt, second.reply) == ((("system", "Be brief."), ("user", "Hi")), "Yes")
    options = {"seed": 0, "batch_size": 1, "encode": str.split, "max_tokens": 9, "min_chars": 1}
    assert open_items("examples", str(path), **options).fixed(2) != []
    path.write_text(json.dumps({"text": "a document of nine words or so, no more."}))
    (document,) = open_items("documents", str(path), **options).fixed(5)
    assert document.text.startswith("a document")


def test_a_manifest_of_examples_without_its_digest_is_named(tmp_path: Path) -> None:
    prepared.write_examples(tmp_path / "x", [{"source": "s", "prompt": "p", "completion": "c"}], {"seed": 0})
    file = tmp_path / "x" / prepared.MANIFEST
    file.write_text(json.dumps({k: v for k, v in json.loads(file.read_text()).items() if k != "digest"}))
    with pytest.raises(ValueError, match=r"manifest.json: digest=None: .*run launch/prepare_sft.py again"):
        prepared.open_examples(tmp_path / "x")


@pytest.mark.parametrize(
    "row", [{"prompt": "x"}, {"prompt": "x", "completion": ""}, {"messages": [{"role": "user", "content": "x"}]},
            {"messages": [{"role": "assistant", "content": "x"}]}, {"prompt": 3, "completion": "x"}, [1],
            {"prompt": "x", "completion": "y", "source": ["z"]}, {"prompt": "x", "completion": " "},
            {"messages": [{"role": None, "content": "x"}, {"role": "assistant", "content": "x"}]}],
)  # fmt: skip
def test_a_bad_example_is_named_by_its_line(tmp_path: Path, row) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"prompt": "x", "completion": "y"}) + "\n\n" + json.dumps(row))
    with pytest.raises(ValueError, match=r"x\.jsonl:3: "):
        load_examples(path)

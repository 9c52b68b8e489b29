"""The benchmarks' rows in the forms they are published in, and what is told of files that are not there."""

import json
from pathlib import Path

import jsonl
import pytest

from spicejax.data import benchmarks
from spicejax.data.benchmarks import BENCHMARKS
from spicejax.evaluation import scores

GPQA = {
    "Record ID": "rec1", "Question": "Which?", "Correct Answer": "right\n", "Incorrect Answer 1": "a",
    "Incorrect Answer 2": "b", "Incorrect Answer 3": "c", "High-level domain": "Physics",
}  # fmt: skip
# benchmark, a row as published, its question (a part of it), answer, answer type, aliases
PUBLISHED = [
    ("amc23", {"id": 0, "question": "How many?", "answer": 27.0}, "How many?", "27", "Integer", ()),
    ("aime24", {"id": 60, "problem": "Every morning", "answer": "204"}, "Every morning", "204", "Integer", ()),
    ("math500", {"problem": "Convert", "solution": "so", "answer": "\\left( 3, \\frac{\\pi}{2} \\right)", "level": 2,
                 "subject": "Precalculus", "unique_id": "test/1.json"},
     "Convert", "\\left( 3, \\frac{\\pi}{2} \\right)", "Expression", ()),
    ("minerva", {"problem": "What is the radius?", "answer": "$4e33$"}, "What is the radius?", "4e33", "Float", ()),
    ("olympiadbench", {"question": "Find all", "final_answer": ["$2$", "$-1$"]}, "Find all", "2, -1", "Expression", ()),
    ("olympiadbench", {"question": "Find", "final_answer": ["$x^2$"]}, "Find", "x^2", "Expression", ()),
    ("gsm8k", {"question": "Natalia sold", "answer": "so <<48/2=24>>\n#### 1,072"}, "Natalia", "1072", "Integer", ()),
    ("mmlu_pro", {"question_id": 70, "question": "Q", "options": ["x", "N/A", "y"], "answer": "B", "category": "law"},
     "Q\nA) x\nB) y", "B", "MCQ", ()),
    ("supergpqa", {"uuid": "u", "question": "Q", "options": ["x", "y"], "answer": "y", "answer_letter": "B"},
     "Q\nA) x\nB) y", "B", "MCQ", ()),
    ("mmlu", {"question": "Q", "choices": ["x", "y"], "answer": "A"}, "Q\nA) x\nB) y", "A", "MCQ", ()),
    ("bbeh", {"input": "Which box?", "target": "(A)", "task": "boxes"}, "Which box?", "(A)", None, ()),
    ("nq", {"question": "who", "answer": ["14 December 1972 UTC", "December 1972"]},
     "who", "14 December 1972 UTC", "String", ("December 1972",)),
    ("popqa", {"id": 4222362, "question": "What is", "obj": "politician", "possible_answers": '["politician", "pol"]'},
     "What is", "politician", "String", ("pol",)),
    ("triviaqa", {"id": "test_0", "question": "Who", "golden_answers": ["David", "Dave"]},
     "Who", "David", "String", ("Dave",)),
    ("hotpotqa", {"_id": "5a8b", "question": "Were", "answer": "yes", "supporting_facts": [["A", 0]],
                  "context": [["A", ["x"]]]}, "Were", "yes", "String", ()),
    ("musique", {"id": "2hop", "question": "When", "answer": "1985", "answer_aliases": ["in 1985"], "answerable": True},
     "When", "1985", "String", ("in 1985",)),
    ("hover", {"uid": "u", "claim": "It is so.", "label": "NOT_SUPPORTED", "supporting_facts": []},
     "It is so.", "No", "String", ()),
    ("exfever", {"id": 1, "claim": "It is so.", "label": "REFUTE"}, "It is so.", "No", "String", ()),
    ("strategyqa", {"qid": "q", "question": "Is it?", "answer": True}, "Is it?", "Yes", "String", ()),
    ("docmath_simpshort", {"question_id": "t-0", "question": "How much?", "paragraphs": ["a"], "ground_truth": 12.5},
     "How much?", "12.5", "Float", ()),
]  # fmt: skip


@pytest.mark.parametrize("name, row, question, answer, kind, aliases", PUBLISHED)
def test_rows_as_published(tmp_path, name, row, question, answer, kind, aliases):
    jsonl.write(tmp_path / "x.jsonl", [row])
    (item,) = benchmarks.load(name, tmp_path / "x.jsonl")
    assert question in item.task.question and item.task.answer == answer and item.suite == name
    assert item.task.aliases == aliases and item.task.answer_type == (kind or item.task.answer_type)


def test_options_of_gpqa_are_in_one_order_which_is_not_the_file_s(tmp_path):
    jsonl.write(tmp_path / "x.jsonl", [GPQA | {"Question": f"Which {k}?"} for k in range(40)])
    items = benchmarks.load("gpqa", tmp_path / "x.jsonl")
    assert items == benchmarks.load("gpqa", tmp_path / "x.jsonl")
    for item in items:
        assert item.task.options["ABCD".index(item.task.answer)] == "right" and item.category == "Physics"
    assert len({item.task.answer for item in items}) == 4


def test_files_of_other_layouts(tmp_path):
    """One JSON object with its examples, as BBEH; one with a canary beside them; an array."""
    rows = [{"input": f"q{k}", "target": str(k), "task": "t"} for k in range(3)]
    (tmp_path / "a.json").write_text(json.dumps({"canary": "x", "examples": rows}))
    (tmp_path / "b.json").write_text(json.dumps(rows))
    found = [benchmarks.load("bbeh", tmp_path / name, most=2) for name in ("a.json", "b.json")]
    assert found[0] == found[1] and [item.task.answer for item in found[0]] == ["0", "1"]
    (tmp_path / "c.jsonl").write_text('{"question": "x"}\n')
    with pytest.raises(ValueError, match=r"c\.jsonl:1: not as published"):
        benchmarks.load("bbeh", tmp_path / "c.jsonl")
    (tmp_path / "d.json").write_text("[]")
    with pytest.raises(ValueError, match="holds no questions"):
        benchmarks.load("bbeh", tmp_path / "d.json")


def test_claims_without_enough_information_are_left_out(tmp_path):
    labels = ("SUPPORT", "NOT ENOUGH INFO", "REFUTE")
    jsonl.write(tmp_path / "x.jsonl", [{"claim": f"c{k}", "label": label} for k, label in enumerate(labels)])
    assert [item.task.answer for item in benchmarks.load("exfever", tmp_path / "x.jsonl")] == ["Yes", "No"]


def test_what_is_missing_is_told_with_its_source_and_place(tmp_path):
    (tmp_path / "gsm8k.jsonl").touch()
    (tmp_path / "hotpotqa_500.jsonl").touch()
    assert benchmarks.find(["hotpotqa", "gsm8k"], tmp_path) == {
        "hotpotqa": tmp_path / "hotpotqa_500.jsonl", "gsm8k": tmp_path / "gsm8k.jsonl",
    }  # fmt: skip
    with pytest.raises(FileNotFoundError, match=r"aime25, nq: no file yet; put .* as .*aime25\.jsonl; .*nq\.jsonl"):
        benchmarks.find(["gsm8k", "aime25", "nq"], tmp_path)
    with pytest.raises(ValueError, match=r"--benchmarks=gsm9k: there is no such benchmark; choose from amc23, "):
        benchmarks.find(["gsm8k", "gsm9k"], tmp_path)
    with pytest.raises(FileNotFoundError, match=r"--data_dir=nowhere"):
        benchmarks.find(["gsm8k"], Path("nowhere"))


def test_every_row_of_the_list_can_be_scored_and_found():
    names = {name for each in BENCHMARKS.values() for name in each.files}
    assert len(names) == sum(len(each.files) for each in BENCHMARKS.values()), "or one file would be two benchmarks"
    known = {*scores._scores("a", ["a"]), "verifier"}
    for name, each in BENCHMARKS.items():
        assert each.score in known and each.source and each.licence and name == name.lower()
        assert all(0 < value <= 100 for value in each.reported.values())
    assert {n for n, each in BENCHMARKS.items() if each.samples > 1} == {"aime24", "aime25"}

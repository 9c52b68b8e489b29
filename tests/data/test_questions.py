"""Question sets from jsonl."""

import json

import pytest

from spicejax.data import questions
from spicejax.data.facts.questions import load_rows
from spicejax.data.questions import load_items


def write(path, *rows):
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return path


def test_types_are_read_off_the_answer(tmp_path):
    answers = {"42": "Integer", "-1,000": "Integer", "3.5": "Float", "true": "Boolean", "Paris": "String"}
    path = write(tmp_path / "a.jsonl", *({"question": "q?", "answer": a} for a in answers))
    assert [i.task.answer_type for i in load_items(path)] == list(answers.values())


@pytest.mark.parametrize(
    "answer",
    ["7\\frac{2}{3}", "7 \\frac{2}{3}", "x^2 - 1", "a_3", "3:4", "50\\%", "\\$4.50", "2, -3",
     "x = 1 \\text{ or } x = 2", "(2, 5)",
     "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "12 \\text{ square feet}", "a + b", "3i",
     "\\sin x", "sin(2x)", "(a, b)", "n!", "PV = nRT", "-x", "x-y", "f'(x)", "A'"],
)  # fmt: skip
def test_mathematics_is_an_expression(answer):
    assert questions.infer_type(answer) == "Expression"


@pytest.mark.parametrize(
    "answer",
    ["\\text{Ann}", "\\text{(C)}", "x", "B", "Apollo 11", "World War 2", "3 apples", "May 5, 1990", "the 7th", "C++",
     "well-known", "TCP/IP", "$5 per hour", "O'Brien", "T-cell", "nan", "Infinity", "-inf"],
)  # fmt: skip
def test_words_stay_words(answer):
    assert questions.infer_type(answer) == "String"


def test_docmath_is_read_as_it_is_published(tmp_path):
    rows = [
        {"question_id": "simpshort-testmini-0", "question": "How much?", "paragraphs": ["Sales rose.", "| a | b |"],
         "python_solution": "def solution(): return 1.5", "ground_truth": 1.5, "table_evidence": [1]},
        {"question_id": "2", "question": "More?", "paragraphs": [], "ground_truth": True},
    ]  # fmt: skip
    path = tmp_path / "testmini.json"
    path.write_text(json.dumps(rows, indent=1))
    first, second = (item.task for item in load_items(path))
    assert (first.question, first.answer, first.context) == ("How much?", "1.5", "Sales rose.\n\n| a | b |")
    assert (first.id, first.answer_type) == ("simpshort-testmini-0", "Float") and second.answer == "True"
    path.write_text(json.dumps([rows[0] | {"ground_truth": None}]))
    with pytest.raises(ValueError, match="testmini.json:1: answer=null: give a text"):
        load_items(path)
    path.write_text("[1]")
    with pytest.raises(ValueError, match="testmini.json:1: a int, not a JSON object"):
        load_items(path)
    path.write_text('[{"question"')
    with pytest.raises(ValueError, match="testmini.json: not JSON"):
        load_items(path)


def test_sets_of_one_name_are_refused(tmp_path):
    assert questions.suites("math/test.jsonl, none,facts:plain") == [("", "math/test.jsonl"), ("plain", "facts:plain")]
    with pytest.raises(ValueError, match="^math/test.jsonl,code/test.jsonl: two sets .* 'test'; rename one"):
        questions.load_suites("a.jsonl,math/test.jsonl,code/test.jsonl")
    apart = [("", "math/test.jsonl"), ("test", "code/test.jsonl")]
    assert questions.suites("math/test.jsonl,code/test.jsonl") == apart, "the first has no name"
    assert questions.suites("a.jsonl,math/test.jsonl,code/test.jsonl", alike=True)[2] == apart[1]


def test_choices_and_aliases(tmp_path):
    lettered = {"id": "1", "question": "q?", "answer": "B", "choices": ["x", "y"], "category": "c"}
    rows = lettered, {"id": "2", "question": "q?", "answer": "Czechia", "aliases": ["the Czech Republic"]}
    items = load_items(write(tmp_path / "a.jsonl", *rows))
    assert items[0].task.question == "q?\nA) x\nB) y"
    assert (items[0].task.answer_type, items[0].task.options, items[0].category) == ("MCQ", ("x", "y"), "c")
    assert items[1].task.aliases == ("the Czech Republic",)


def test_sets_of_the_package_are_read_like_a_file(tmp_path):
    items = load_items("facts:corpus")
    path = write(tmp_path / "a.jsonl", *load_rows("corpus"))
    assert len(items) > 100 and items == load_items(path)


@pytest.mark.parametrize(("row", "words"), [
    ({"question": "q", "answer": "x", "aliases": "y"}, r'a.jsonl:1: aliases="y": give a list'),
    ({"question": "q", "answer": "7", "aliases": ["seven"]}, r"a.jsonl:1: aliases=\['seven'\]: only a String"),
    ("{", r"a.jsonl:1: not JSON"),
    ({"question": "q"}, r"a.jsonl:1: field 'answer'"),
    ({"question": None, "answer": "1"}, r"a.jsonl:1: question=null: give a text"),
    ({"question": "q", "answer": None}, r"a.jsonl:1: answer=null: give a text or a finite number"),
    ('{"question": "q", "answer": NaN}', r"answer=NaN: give a text"),
    ('{"question": "q", "answer": "\\ud800"}', r"answer=.*lone surrogate"),
    ({"question": "q", "golden_answers": ["Paris", None]}, r"golden_answers=null: give a text"),
    ({"question": "q", "answer": "x", "aliases": ["y", ""]}, r'aliases="": give a text'),
    ({"question": "q", "answer": "x", "id": ["y"]}, r'id=\["y"\]: give a text'),
    ({"question": "q", "answer": "x", "boxed": "false"}, r"boxed='false': give true or false"),
    ({"question": "q", "answer": ["x", "y"]}, r"a.jsonl:1: answer=\['x', 'y'\]: add answer_type=List"),
    ({"question": "q", "answer": "C", "choices": ["x", "y"]}, r"answer 'C' is not a letter of its 2 choices"),
    ({"question": "q", "answer": "1", "answer_type": "Number"}, r"answer_type 'Number'"),
    ({"question": "q", "answer": "A", "choices": 5}, r"a.jsonl:1: choices=5: give a list"),
    ("[" * 100_000, r"a.jsonl:1: not JSON"),
    ("", "holds no question"),
])  # fmt: skip
def test_bad_rows_are_named(tmp_path, row, words):
    with pytest.raises(ValueError, match=words):
        load_items(write(tmp_path / "a.jsonl", row))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_items(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("name", ["gsm8k_train_200/gsm8k_train_200", "multiple_choice/mmlu_val_200"])
def test_real_question_sets_load(shared_data, name):
    items = questions.load_items(shared_data / f"{name}.jsonl")
    assert len(items) == 200
    assert {i.task.answer_type for i in items} <= {"MCQ", "Integer", "Float"}


def test_null_in_a_row_is_as_if_the_field_were_missing(tmp_path):
    row = {"question": "q?", "answer": True, "id": None, "category": None, "context": None, "kind": None, "boxed": None}
    (item,) = load_items(write(tmp_path / "a.jsonl", row | {"aliases": None, "choices": None, "answer_type": None}))
    assert item == questions.Item(questions.Task("q?", "True", "Boolean"), "all")


@pytest.mark.parametrize(("row", "answer", "aliases"), [
    ({"answer": "3*24=<<3*24=72>>72 in all.\n#### 1,072"}, "1072", ()),
    ({"answers": {"text": ["Oslo", "Kristiania"], "answer_start": [1, 2]}}, "Oslo", ("Kristiania",)),
    ({"answer": "Hall", "answer_aliases": ["G. Hall"], "paragraphs": [{"idx": 0}]}, "Hall", ("G. Hall",)),
    ({"_id": "5a", "answer": "yes", "supporting_facts": [["T", 0]], "context": [["T", ["a."]]]}, "yes", ()),
    ({"answer": ["a", "b"], "answer_type": "String"}, "a", ("b",)),
    ({"answer": ["a", "b"], "answer_type": "List"}, "a, b", ()),
    ({"answer": 0, "answers": [0]}, "0", ()),
])  # fmt: skip
def test_rows_of_published_sets(tmp_path, row, answer, aliases):
    (item,) = load_items(write(tmp_path / "a.jsonl", {"question": "q?"} | row))
    assert (item.task.answer, item.task.aliases, item.task.context) == (answer, aliases, "")


def test_a_text_beside_supporting_facts_is_kept_and_a_byte_order_mark_is_not(tmp_path):
    row = {"question": "q?", "answer": "a", "context": "the text", "supporting_facts": [["T", 0]]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row), encoding="utf-8-sig")
    assert load_items(tmp_path / "a.jsonl")[0].task.context == "the text"

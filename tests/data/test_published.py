"""Question sets in the formats that they are published in: one small file of each, as its authors lay it out."""

import gzip
import json

import pytest

from spicejax.data import published
from spicejax.data.published import Row

SQUAD = {
    "version": "1.1",
    "data": [{"title": "Oslo", "paragraphs": [{"context": "Oslo lies in Norway.",
     "qas": [{"id": "5a", "question": " Where is Oslo? ", "answers": [{"text": "Norway", "answer_start": 13}] * 2},
     {"id": "5b", "question": "Who?", "answers": [], "is_impossible": True}]}]}],
}  # fmt: skip
ROPES = {
    "data": [{"paragraphs": [{"background": "Heat melts ice.", "situation": "A is hot, B is cold.",
     "qas": [{"id": "7", "question": "Where does ice melt?", "answers": [{"text": "A"}]}]}]}],
}  # fmt: skip
QUOREF = {
    "data": [{"title": "Oslo", "paragraphs": [{"context": "Al met Bo.",
     "qas": [{"id": "8", "question": "Who met?", "answers": [{"text": "Al", "answer_start": 0},
     {"text": "Bo", "answer_start": 7}]}]}]}],
}  # fmt: skip
DROP = {
    "nfl_1": {"passage": "Two teams.", "qa_pairs": [{"query_id": "a", "question": "How many?",
     "answer": {"number": "2", "date": {}, "spans": []}}, {"query_id": "b", "question": "When?",
     "answer": {"number": "", "date": {"day": "3", "month": "May", "year": "1901"}, "spans": []}},
     {"query_id": "c", "question": "Who?", "answer": {"number": "", "date": {"day": "", "month": "", "year": ""},
     "spans": ["Al", "Bo"]}}]},
}  # fmt: skip
TATQA = [
    {"table": {"uid": "t", "table": [["", "2019"], ["Sales", "$ 3"]]},
     "paragraphs": [{"order": 2, "text": "Second."}, {"order": 1, "text": "First."}],
     "questions": [{"uid": "q1", "question": "Sum?", "answer": 172, "scale": "million", "derivation": "(166+178)/2"},
     {"uid": "q2", "question": "Which?", "answer": ["a", "b"], "scale": ""}]},
]  # fmt: skip
SOCRATIC = {
    "question": "Ann has 3 pears. She eats 1. How many are left?",
    "answer": "How many does she eat? ** She eats 1*1=<<1*1=1>>1.\n"
    "How many are left? ** 3-1=<<3-1=2>>2 are left.\n#### 2",
}
PROBLEM = "Ann has 3 pears. She eats 1. How many are left?"


@pytest.mark.parametrize(
    "name, value, reader, rows", [
        ("train-v2.0.json", SQUAD, published.squad, [Row("5a", "Where is Oslo?", ("Norway",), "Oslo lies in Norway."),
         Row("5b", "Who?", (), "Oslo lies in Norway.")]),
        ("train-v1.0.json", ROPES, published.squad, [Row("7", "Where does ice melt?", ("A",),
         "Heat melts ice.\n\nA is hot, B is cold.")]),
        ("quoref-train-v0.1.json", QUOREF, published.quoref, [Row("8", "Who met?", ("Al, Bo",), "Al met Bo.")]),
        ("drop.json", DROP, published.drop, [Row("a", "How many?", ("2",), "Two teams."),
         Row("b", "When?", ("3 May 1901",), "Two teams."), Row("c", "Who?", ("Al, Bo",), "Two teams.")]),
        ("tatqa.json", TATQA, published.tatqa, [Row("q1", "Sum?", ("172 million",),
         "First.\nSecond.\n | 2019\nSales | $ 3", solution="(166+178)/2"),
         Row("q2", "Which?", ("a, b",), "First.\nSecond.\n | 2019\nSales | $ 3")]),
        ("train.jsonl", [{"id": 1, "claim": "Oslo is large.", "label": "SUPPORTS", "context": "Oslo has many people."},
         {"id": 2, "claim": "x", "label": "NOT ENOUGH INFO"}, {"id": 3, "claim": "y", "label": "REFUTES",
         "evidence": [[[1, 2, "Oslo", 0]]]}], published.fever, [Row("1", "Oslo is large.", ("Yes",),
         "Oslo has many people."), Row("2", "x"), Row("3", "y")]),
        ("nq.json.gz", [{"question": "who", "answers": ["Al"], "positive_ctxs": [{"title": "T", "text": "Al.",
         "passage_id": "9"}], "hard_negative_ctxs": []}, {"question": "none", "answers": ["x"], "positive_ctxs": []}],
         published.natural_questions, [Row("9", "who", ("Al",), "T\nAl."), Row("", "none")]),
        ("narrativeqa.jsonl", [{"document": {"id": "d", "summary": {"text": "A tale."}}, "question": {"text": "Who?"},
         "answers": [{"text": "Al"}, {"text": "Al B"}]}], published.narrativeqa,
         [Row("d/Who?", "Who?", ("Al", "Al B"), "A tale.")]),
        ("train_socratic.jsonl", [SOCRATIC], published.gsm8k, [Row(PROBLEM, "How many are left?", ("2",), PROBLEM,
         ("How many does she eat?", "How many are left?"), "She eats 1*1=1.\n3-1=2 are left.")]),
        ("convfinqa.json", [{"id": "f", "pre_text": ["Before."], "table": [["a", "1"]], "post_text": ["After."],
         "qa": {"question": "Rise?", "answer": "3%"}, "annotation": {"dialogue_break": ["what was a?", "and b?"],
         "qa_split": [0, 0]}}, {"id": "g", "pre_text": [], "table": [["a", "1"]], "post_text": [],
         "qa_0": {"question": "Rise?", "answer": "3%"}, "qa_1": {"question": "Fall?", "answer": "4"},
         "annotation": {"dialogue_break": ["what was a?", "and b?", "and c?"], "qa_split": [0, 1, 1]}}],
         published.convfinqa, [Row("f/qa", "Rise?", ("3%",), "Before.\na | 1\nAfter.", ("what was a?", "and b?")),
         Row("g/qa_0", "Rise?", ("3%",), "a | 1", ("what was a?",)),
         Row("g/qa_1", "Fall?", ("4",), "a | 1", ("and b?", "and c?"))]),
        ("strategyqa.json", [{"qid": "s", "question": "Can it?", "answer": True, "facts": ["It flies."],
         "decomposition": ["What is it?", "Does #1 fly?"]}, {"qid": "t", "term": "It", "question": "Does it?",
         "answer": False, "facts": "It sits. It is old."}], published.strategyqa,
         [Row("s", "Can it?", ("Yes",), steps=("What is it?", "Does #1 fly?"), solution="It flies."),
         Row("t", "Does it?", ("No",), solution="It sits. It is old.")]),
        ("ifqa.json", [{"idx": 0, "question": "If?", "answers": ["2"], "context": ["One.", "Two."]}], published.ifqa,
         [Row("0", "If?", ("2",), "One.\nTwo.")]),
        ("tabmwp.json", {"12": {"question": "Cost?", "choices": ["$1", "$2"], "answer": "$2", "unit": None,
         "table_title": "Shop", "table": "a | $2", "solution": "See a."},
         "13": {"question": "Cost of both?", "choices": None, "answer": "3.50", "unit": "$", "table_title": None,
         "table": "a | $2", "solution": "Add."}}, published.tabmwp,
         [Row("12", "Cost? ($1, $2)", ("$2",), "Shop\na | $2", solution="See a."),
         Row("13", "Cost of both? (Unit: $)", ("3.50",), "a | $2", solution="Add.")]),
        ("hotpot_train_v1.1.json", [{"_id": "5a", "question": "Who?", "answer": "Al", "type": "bridge",
         "context": [["T", ["A."]]]}], published.multihop, [Row("5a", "Who?", ("Al",))]),
        ("hover_train_release_v1.1.json", [{"uid": "u", "claim": "C", "label": "NOT_SUPPORTED", "num_hops": 2}],
         published.hover, [Row("u", "C", ("No",))]),
        ("MathInstruct.json", [{"source": "data/CoT/gsm_rft.json", "instruction": "1+1?",
         "output": "Add.\nThe answer is 2"}, {"source": "data/CoT/aqua_rat.json", "instruction": "2 or 3?",
         "output": "So.\nThe answer is B."}, {"source": "data/CoT/MATH_train.json", "instruction": "Area?",
         "output": "If the answer is 3.2 it is large, so $\\boxed{1.5\\pi}$. The answer is 1.5\\pi"},
         {"source": "data/CoT/math50k_camel.json", "instruction": "Why?", "output": "The answer is\nlong."},
         {"source": "data/PoT/y.json", "instruction": "2+2?", "output": "x = 4\nprint(x)"}], published.math_instruct,
         [Row("1+1?", "1+1?", ("2",), solution="Add.\nThe answer is 2"),
         Row("2 or 3?", "2 or 3?", ("B",), solution="So.\nThe answer is B."),
         Row("Area?", "Area?", ("1.5\\pi",),
         solution="If the answer is 3.2 it is large, so $\\boxed{1.5\\pi}$. The answer is 1.5\\pi"),
         Row("Why?", "Why?", solution="The answer is\nlong."), Row("2+2?", "2+2?", program="x = 4\nprint(x)")]),
        ("own.jsonl", [{"id": "a", "question": "Q", "answers": [["x", "y"]], "passages": [{"title": "T", "text": "P"}],
         "decomposition": ["s"]}, {"claim": "C", "question": "Label C", "answer": "REFUTES"},
         {"question": PROBLEM, "answer": "2", "solution": "3-1=<<3-1=2>>2\n#### 2"},
         {"question": "D", "answer": "5", "scale": "percent", "document": "Text", "derivation": "10/2"}],
         published.plain, [Row("a", "Q", ("x, y",), "T\nP", ("s",)), Row("", "C", ("No",)),
         Row(PROBLEM, "How many are left?", ("2",), PROBLEM, (), "3-1=2"),
         Row("", "D", ("5 percent",), "Text", (), "10/2")]),
    ]
)  # fmt: skip
def test_each_format_as_published(tmp_path, name, value, reader, rows):
    path = tmp_path / name
    text = "\n".join(map(json.dumps, value)) if name.endswith(".jsonl") else json.dumps(value, indent=1)
    path.write_bytes(gzip.compress(text.encode())) if name.endswith(".gz") else path.write_text(text)
    assert list(published.read(path, reader)) == rows


@pytest.mark.parametrize("folder", ["wiki-pages", "wiki-pages/wiki-pages"])
def test_passages_of_fever_come_from_its_wikipedia(tmp_path, folder):
    """The first set of sentences that is there as a whole, each below its page's title; no other page is kept."""
    claims = [
        {
            "id": 1,
            "claim": "a",
            "label": "SUPPORTS",
            "evidence": [[[5, 6, "Zoë_-LRB-film-RRB-", 2], [5, 6, "Oslo", 0]]],
        },
        {"id": 2, "claim": "b", "label": "REFUTES", "evidence": [[[5, 7, "Gone", 0]], [[5, 8, "Oslo", 0]]]},
        {"id": 3, "claim": "c", "label": "REFUTES", "evidence": [[[5, 7, "Oslo", 0], [5, 7, "Oslo", 1]]]},
        {"id": 4, "claim": "d", "label": "NOT ENOUGH INFO", "evidence": [[[5, None, None, None]]]},
    ]
    pages = [
        {"id": "", "text": "", "lines": ""},
        {
            "id": "Zoe\u0308_-LRB-film-RRB-",
            "text": "",
            "lines": "0\tA film .\n1\t\n2\tIt is -LRB- old -RRB- .\tOld\tOld",
        },
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, claims)))
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "wiki-001.jsonl").write_text("\n".join(map(json.dumps, pages)))
    more = [{"id": "Oslo", "lines": "0\tA city .\tCity\tcity\n1\t"}, {"id": "Bergen", "lines": "0\tA city ."}]
    (tmp_path / folder / "wiki-002.jsonl").write_text("\n".join(map(json.dumps, more)))
    assert list(published.read(tmp_path / "train.jsonl", published.fever)) == [
        Row("1", "a", ("Yes",), "Zoë (film)\nIt is ( old ) .\n\nOslo\nA city ."),
        Row("2", "b", ("No",), "Oslo\nA city ."),
        Row("3", "c"),
        Row("4", "d"),
    ]
    assert len(published._sentences(tmp_path / "train.jsonl", None)) == 2
    odd = {"id": 0, "claim": "e", "label": "REFUTES", "evidence": [[[5, 7, "Oslo", {"number": 0}]]]}
    (tmp_path / "odd.jsonl").write_text("\n".join(map(json.dumps, [odd, *claims])))
    broken: list[str] = []
    assert [row.id for row in published.read(tmp_path / "odd.jsonl", published.fever, broken)] == ["1", "2", "3", "4"]
    assert len(broken) == 1 and "odd.jsonl:1: not as published (TypeError" in broken[0]
    (tmp_path / folder / "wiki-003.jsonl").write_text('{"id": "Oslo"}')
    with pytest.raises(ValueError, match="wiki-003.jsonl:1: not as published .KeyError: 'lines'"):
        list(published.read(tmp_path / "train.jsonl", published.fever))


def test_a_packed_file_that_is_cut_is_named(tmp_path):
    path = tmp_path / "nq.json.gz"
    path.write_bytes(gzip.compress(json.dumps([{"question": "q" * 999}]).encode())[:-12])
    with pytest.raises(ValueError, match="nq.json.gz cannot be read .*; fetch it again"):
        list(published.read(path, published.natural_questions))


@pytest.mark.parametrize("text", ["[%s]", '{"a": %s}', '[{"question": "q"}, %s'])
def test_json_that_is_nested_too_deeply_is_named(tmp_path, text):
    path = tmp_path / "nq.json"
    path.write_text(text % ("[" * 100_000))
    with pytest.raises(ValueError, match="nq.json: not JSON: "):
        list(published.read(path, lambda entry: []))


def test_a_fault_that_quotes_a_long_value_is_cut(tmp_path):
    path = tmp_path / "strategyqa.json"
    path.write_text(json.dumps([{"question": "q", "answer": "A" * 100_000}]))
    with pytest.raises(ValueError, match="strategyqa.json: entry 1: not as published") as told:
        list(published.read(path, published.strategyqa))
    assert len(str(told.value)) < 500


def test_flat_rows_of_tfds_are_read_too():
    flat = {"id": "5a", "context": "C", "question": "Q", "answers": {"text": ["A", "A"], "answer_start": [1, 1]}}
    assert list(published.squad(flat)) == [Row("5a", "Q", ("A",), "C")]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_an_array_is_read_in_pieces_of_any_size(tmp_path, monkeypatch, chunk):
    """DPR's file is of several GB: it is never held as a whole."""
    monkeypatch.setattr(published, "_CHUNK", chunk)
    members = [{"a": '[{\\"}], '}, 12, -3.5e2, "x" * 50, [], {}, [[1], "ü"]]
    path = tmp_path / "a.json"
    path.write_text(" \n" + json.dumps(members, indent=2) + "\n")
    assert [entry for _, entry in published.entries(path)] == members


@pytest.mark.parametrize("name, text, wanted", [
    ("a.json", '[{"id": 1, "claim": "x"}]', "a.json: entry 1: not as published (KeyError: 'label')"),
    ("a.json", '[{"id": 1', "a.json: cut short, or not JSON"),
    ("a.json", "<html>", "a.json looks like a web page: download the file itself"),
    ("a.json", "<", "a.json: not JSON"),
    ("a.json", '"x"', "a.json: a str, not a JSON object or array"),
    ("a.jsonl", '{"id": 1, "claim": "x", "label": "REFUTES"}\n[]', "a.jsonl:2: a list, not a JSON object"),
])  # fmt: skip
def test_what_is_not_as_published_is_named(tmp_path, name, text, wanted):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError) as caught:
        list(published.read(tmp_path / name, published.fever))
    assert wanted in str(caught.value)


def test_broken_entries_are_told_and_left_out(tmp_path):
    """Each line of its own: what comes behind it is read."""
    whole = b'{"question": "a?", "answer": "b"}'
    lines = [whole, b'{"question": "a?"', b"[1]", b'{"answer": "b"}', b'{"question": "\xff", "answer": "b"}', whole]
    (tmp_path / "own.jsonl").write_bytes(b"\n".join(lines))
    broken: list[str] = []
    assert len(list(published.read(tmp_path / "own.jsonl", published.plain, broken))) == 2
    assert [told.partition(": ")[0].rpartition(":")[2] for told in broken] == ["2", "3", "4", "5"]
    (tmp_path / "own.json").write_text('[{"question": "a?", "answer": "b"}, 7, {"question": "a?", "answer": "b"}]')
    broken.clear()
    assert len(list(published.read(tmp_path / "own.json", published.plain, broken))) == 2
    assert broken == [
        f"{tmp_path / 'own.json'}: entry 2: not as published (AttributeError: 'int' object has no attribute 'get')"
    ]
    (tmp_path / "train.jsonl").write_text('{"id": 1, "claim": "x"}\n{"id": 2, "claim": "y", "label": "REFUTES"}')
    assert [row.id for row in published.read(tmp_path / "train.jsonl", published.fever, [])] == ["2"]


@pytest.mark.parametrize("row", [
    {"question": None, "answer": "x"}, {"question": "q", "answer": None}, {"question": "q", "answers": ["x", None]},
    {"question": "q", "answer": None, "scale": "million"}, {"question": "q", "answer": float("nan")},
])  # fmt: skip
def test_null_in_a_row_is_no_text(row):
    with pytest.raises(ValueError, match="(null|NaN): give a text"):
        list(published.plain(row))


def test_one_and_zero_are_no_verdicts():
    rows = [{"question": "q", "answer": answer} for answer in (1, 0, 1.0, True)]
    assert [next(iter(published.plain(row))).answers for row in rows] == [("1",), ("0",), ("1.0",), ("Yes",)]
    assert published.table([[None, 1]]) == " | 1"


_DATE = {"date": {}, "number": "3", "spans": []}


@pytest.mark.parametrize(
    ("reader", "entry", "questions"),
    [
        (published.squad, lambda qas: {"data": [{"paragraphs": [{"context": "c", "qas": qas}]}]},
         [{"id": str(k), "question": "q?", "answers": [{"text": "x"}]} for k in range(3)]),
        (published.quoref, lambda qas: {"data": [{"paragraphs": [{"context": "c", "qas": qas}]}]},
         [{"id": str(k), "question": "q?", "answers": [{"text": "x"}]} for k in range(3)]),
        (published.drop, lambda qas: {"nfl": {"passage": "p", "qa_pairs": qas}},
         [{"query_id": str(k), "question": "q?", "answer": _DATE} for k in range(3)]),
        (published.tatqa, lambda qas: [{"paragraphs": [], "table": {"table": [["1"]]}, "questions": qas}],
         [{"uid": str(k), "question": "q?", "answer": "x"} for k in range(3)]),
    ],
)  # fmt: skip
def test_a_broken_question_leaves_the_others_of_its_article(tmp_path, reader, entry, questions):
    del questions[1]["question"]
    path, broken = tmp_path / "set.json", []
    path.write_text(json.dumps(entry(questions)))
    assert [row.id for row in published.read(path, reader, broken)] == ["0", "2"]
    why = f"{path}: entry 1: question 2: not as published (KeyError: 'question')"
    assert broken == [why]
    with pytest.raises(ValueError, match="set.json: entry 1: question 2: not as published"):
        list(published.read(path, reader))
